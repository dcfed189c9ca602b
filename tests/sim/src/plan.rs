//! The plan of a run, as data: clients, their steps, and the faults. A plan is drawn from a seed.
//!
//! Times are virtual milliseconds. Not here: carrying out a plan (`world`, `work`), reducing one
//! that fails (`shrink`).

mod aimed;
mod burdens;
mod crowd;
mod draft;
mod giving_up;
mod handing_over;
mod late_writes;
mod long_waits;
mod partitions;
mod random;
mod servers;
mod under_way;

use std::fmt;

use lockkeeper_session::LeasePolicy;

/// Of this many plans, four are aimed at situations that random plans hardly ever reach.
pub const AIMED: u64 = 8;

/// Of the seeds modulo [`AIMED`], those with a plan about links between servers that are cut.
pub const PARTITIONS: u64 = 6;

/// Of this many plans, one is about servers that refuse requests, and about clients whose queues of
/// requests are full.
pub const REFUSALS: u64 = 16;

/// Of the seeds modulo [`REFUSALS`], those with such a plan.
const REFUSING: u64 = 9;

/// Of the seeds modulo 32, those with a latch in each process: some cut links between servers, some
/// are random.
const LATCHES: [u64; 2] = [1, 14];

/// Of the seeds modulo 64, the one with a plan about clients that give their locks up.
const GIVING_UP: u64 = 60;

/// Of the seeds modulo 64, the one with a plan about waits that no event ends.
const LONG_WAITS: u64 = 36;

/// Of the seeds modulo 64, the one with a plan about locks that are handed over.
const HANDING_OVER: u64 = 35;

/// Of the seeds modulo 64, the one with a plan about writes that reach the leader late.
const LATE_WRITES: u64 = 43;

/// The plan of a run.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a property of the run on its own"
)]
pub struct Plan {
    /// Decides everything else: delays of messages, order of tasks, names.
    pub seed: u64,
    /// How many servers there are.
    pub servers: u32,
    /// The servers' tick time.
    pub tick_ms: u64,
    /// How often the servers delete empty container nodes.
    pub reap_ms: u64,
    /// How long a transaction takes at most from the leader to a server.
    pub commit_ms: u64,
    /// After how many ticks in silence a server and its leader give each other up.
    pub sync_limit: u64,
    /// How clients know until when their sessions live.
    pub lease: LeasePolicy,
    /// How many requests of a client may wait to be sent or answered; 0 for the client's default.
    pub max_outstanding: usize,
    /// How long each request on a connection takes a server; 0 for no time. The requests behind it
    /// wait, pings too.
    pub service_us: u64,
    /// How many bytes of replies may be on their way from a server; 0 for any number. A real server
    /// has them in memory.
    pub most_bytes: usize,
    /// Of a thousand replies to creates of lock nodes, how many name another node or another
    /// transaction.
    pub lies_per_mille: u64,
    /// Whether sockets often take only a part of what a client writes.
    pub short_writes: bool,
    /// Whether each process stands in one more election, with a latch, for as long as it lives.
    pub latches: bool,
    /// Whether holders know neither the limits of their holds nor that their client is closed: they
    /// believe that they hold until they are told.
    pub told: bool,
    /// How long a message usually takes at most; a few take up to five times as long.
    pub delay_ms: u64,
    /// Of a thousand polls of a task, how many the scheduler delays.
    pub yield_per_mille: u64,
    /// Of a thousand times that a task wakes another one of its process, how often that one runs at
    /// once, as in a second thread.
    pub prompt_per_mille: u64,
    /// The clients.
    pub clients: Vec<ClientPlan>,
    /// The faults, in order of time.
    pub faults: Vec<Fault>,
}

/// The plan of a client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// Its number. It stays the same when other clients are removed.
    pub id: u32,
    /// How much its clock runs too fast, in parts per million; negative if it runs too slow.
    pub drift_ppm: i64,
    /// What its clock shows at the start of the run.
    pub offset_ms: u64,
    /// The session timeout that it asks for.
    pub timeout_ms: u64,
    /// Whether nobody else may read its lock nodes: their events reach it alone.
    pub hides: bool,
    /// For each task: its steps, in order.
    pub tasks: Vec<Vec<Step>>,
}

/// One step of a task.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Sleeps this long.
    Sleep(u64),
    /// Takes a lock, holds it, and releases it.
    Lock(LockStep),
    /// Takes a mutex with a client of its own, holds it, and hands it over.
    HandOver(HandStep),
    /// An operation on single nodes.
    Raw(RawStep),
    /// Closes the client of all tasks of the process.
    Close,
}

/// How a task takes, holds and releases a lock.
#[derive(Clone, Copy, Debug)]
pub struct LockStep {
    /// The lock.
    pub target: Target,
    /// How the task asks for it.
    pub entry: Entry,
    /// When the task cancels the attempt.
    pub cancel: Cancel,
    /// How long the task holds the lock.
    pub hold_ms: u64,
    /// After how long the guard releases the lock by force.
    pub limit_ms: Option<u64>,
    /// Whether the holder listens for requests to release, and then releases.
    pub obeys_revoke: bool,
    /// How often the holder uses the lock while it holds it.
    pub looks: u64,
    /// How the task releases the lock.
    pub leave: Leave,
}

/// How a task hands a mutex over.
#[derive(Clone, Copy, Debug)]
pub struct HandStep {
    /// For how long each process holds the mutex.
    pub hold_ms: u64,
    /// How long after the hand-over the next process begins.
    pub away_ms: u64,
    /// How many processes there are, one after the other.
    pub processes: u64,
    /// How much later a second process uses each ticket; `None` for none.
    pub rival_ms: Option<u64>,
}

/// The lock of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A mutex.
    Mutex(u32),
    /// The read side of a read/write lock. It shares the queue of the mutex of that number.
    Read(u32),
    /// The write side of the same lock.
    Write(u32),
    /// One permit of the semaphore.
    Permit,
    /// All permits of the semaphore.
    Permits,
    /// A reentrant mutex, on the path of the mutex of that number.
    Reentrant(u32),
    /// The mutexes 0 and 1 and one permit of the semaphore, together.
    All,
    /// Leadership in an election.
    Lead,
    /// Leadership in the same election, through a latch that is kept for as long as a lock would be
    /// held.
    Latch,
    /// The plain lock.
    Plain,
}

/// How a task asks for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `lock`.
    Lock,
    /// `try_lock_for`.
    Timeout(u64),
    /// `try_lock`.
    Try,
    /// `enqueue`, then this many milliseconds until `wait`.
    Enqueue(u64),
}

/// When a task cancels its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Never.
    Never,
    /// After this many polls of its future.
    Polls(u64),
    /// After this many milliseconds.
    After(u64),
}

/// How a task releases a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// `release`.
    Release,
    /// `drop`.
    Drop,
    /// `release`, cancelled after this many polls.
    GiveUp(u64),
    /// `release_with` and a write; `release` for locks where the step cannot do that.
    With,
    /// `downgrade` and then `release`; only `release` for locks that have no downgrade.
    Downgrade,
}

/// An operation on single nodes.
#[derive(Clone, Copy, Debug)]
pub enum RawStep {
    /// Reads a node and watches it.
    Watch(u32),
    /// Reads a node.
    Read(u32),
    /// Waits until the client's server has caught up with the leader.
    Sync,
    /// Sets a node's data.
    Set(u32),
    /// Deletes a node.
    Delete(u32),
    /// Creates a node.
    Create(u32),
    /// Creates a node that no other step touches.
    Write,
    /// Two creates as in `Write`, in one transaction.
    WriteTwo,
    /// Sets the data of a contender's lock node.
    Poke,
    /// Asks a contender to release.
    Revoke,
}

/// A fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// When it begins, counted from the end of the set-up.
    pub at_ms: u64,
    /// What happens.
    pub kind: FaultKind,
}

/// Which write a fault waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Any write except pings.
    Any,
    /// A ping.
    Ping,
    /// A write that contains a create.
    Create,
    /// A write that contains a delete.
    Delete,
    /// A write that contains a transaction.
    Multi,
}

/// Which direction of the links between a server and the others is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Both.
    Both,
    /// From the server to the others.
    Out,
    /// From the others to the server.
    In,
}

/// How a client vanishes: one of its writes arrives, and nothing after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vanish {
    /// How much later the reply to that write arrives.
    pub late_ms: u64,
    /// How long nothing else arrives from the client or at the client.
    pub ms: u64,
    /// How long after that write its server fails; `None` if it does not fail.
    pub fails_after_ms: Option<u64>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug)]
pub enum FaultKind {
    /// A client's connection is cut, and all bytes in transit are lost.
    Cut(u32),
    /// A write of a client arrives only in part, and then the connection is cut.
    CutWrite(u32, Trigger),
    /// A server applies a write of a client, and the reply is lost with the connection.
    LoseReply(u32, Trigger),
    /// A client gets only a part of what a server sends; then the connection is cut.
    CutReply(u32),
    /// Nothing arrives from a client or at a client for this long.
    Silence(u32, u64),
    /// Messages of a client, in both directions, are slower: first by how much, then for how long.
    Slow(u32, u64, u64),
    /// A server fails and stays down for this long.
    Fail(u32, u64),
    /// All servers restart, which takes this long.
    Restart(u64),
    /// The leader is deposed, and the transactions that no server has learned are lost.
    Depose,
    /// A server lags behind for this long.
    Lag(u32, u64),
    /// The links between this client's server and the others are cut for this long.
    CutOff(u32, Side, u64),
    /// The links between the leader and the others are cut. The first time is that until the others
    /// have a new leader, the second one how long the links stay cut.
    Isolate(u64, u64),
    /// The links between this server and the others are cut for this long.
    Alone(u32, u64),
    /// The links between all servers are cut for this long.
    AllAlone(u64),
    /// The servers refuse so many requests as throttled: one in how many. The rest of them is over
    /// after this long.
    Throttle(u32, u32, u64),
    /// The next event is lost on its way to a client.
    LoseEvent,
    /// From now on, a server keeps the nodes of sessions that end.
    KeepEnded(u32),
    /// A third party ends a client's session by force.
    Expire(u32),
    /// A third party deletes a contender's node by hand.
    Delete(u64),
    /// A third party deletes the node of the next waiter by hand, just before this client next
    /// releases a lock.
    DeleteBehind(u32),
    /// A client vanishes with a matching write.
    Vanish(u32, Trigger, Vanish),
    /// A client's process does not run for this long.
    Pause(u32, u64),
    /// A client's process dies, and a new one begins this much later.
    Crash(u32, u64),
}

impl Plan {
    /// Draws the plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let plan = match seed % AIMED {
            _ if seed % 64 == GIVING_UP => giving_up::plan(seed),
            _ if seed % 64 == LONG_WAITS => long_waits::plan(seed),
            _ if seed % 64 == HANDING_OVER => handing_over::plan(seed),
            _ if seed % 64 == LATE_WRITES => late_writes::plan(seed),
            0 => aimed::plan(seed),
            2 => crowd::plan(seed),
            4 => under_way::plan(seed),
            PARTITIONS => partitions::plan(seed),
            _ if seed % REFUSALS == REFUSING => servers::plan(seed),
            _ => random::plan(seed),
        };
        let mut plan = Self {
            latches: LATCHES.contains(&(seed % 32)),
            ..plan
        };
        plan.faults.sort_by_key(|fault| fault.at_ms);
        plan
    }

    /// Draws a plan in which a healthy server is slow, and has many requests to do. No seed of
    /// [`of`](Self::of) has it: it takes as long as many others.
    #[must_use]
    pub fn of_slow_server(seed: u64) -> Self {
        burdens::slow_server(seed)
    }

    /// Draws a plan in which many creates are under way when their connection is lost, and the
    /// servers have little memory.
    #[must_use]
    pub fn of_small_server(seed: u64) -> Self {
        burdens::small_server(seed)
    }

    /// Draws a plan with servers that lie.
    #[must_use]
    pub fn of_liar(seed: u64) -> Self {
        burdens::liar(seed)
    }

    /// When the last fault is over.
    #[must_use]
    pub fn calm_ms(&self) -> u64 {
        let ends = self
            .faults
            .iter()
            .map(|fault| fault.at_ms + fault.kind.lasts_ms());
        ends.max().unwrap_or(0)
    }

    /// How long it may take until a client knows what happened at the servers.
    ///
    /// That is the time that a session lives in silence, and the length of everything that can
    /// delay messages.
    #[must_use]
    pub fn detection_ms(&self) -> u64 {
        let faults: u64 = self.faults.iter().map(|fault| fault.kind.lasts_ms()).sum();
        let sessions = self.clients.iter().map(|client| client.timeout_ms).max();
        faults + 2 * sessions.unwrap_or(0) + 20 * (self.delay_ms + self.commit_ms)
    }

    /// How long it may take from a release to the next grant when nothing goes wrong: the delete, the
    /// event, two questions and a proof of the lease. Where events may not come, it may take two session timeouts more,
    /// on a clock that may be slow.
    ///
    /// Each message takes as long as the slowest one. `None` if a commit may take longer than a
    /// quarter of a session timeout, or an answer longer than an eighth. Then a lease may end before
    /// it is proved, or confirmed, and a grant waits for quick answers.
    #[must_use]
    pub fn hand_over_ms(&self) -> Option<u64> {
        let sessions = self.clients.iter().map(|client| client.timeout_ms).min();
        let pieces = if self.short_writes { 1000 } else { 0 };
        let within = HAND_OVER * (5 * self.delay_ms + 1) + 6 * self.commit_ms + pieces;
        let is_missed =
            |fault: &Fault| matches!(fault.kind, FaultKind::LoseEvent | FaultKind::KeepEnded(_));
        let hides = self.clients.iter().any(|client| client.hides);
        let within = if hides || self.faults.iter().any(is_missed) {
            let longest = self.clients.iter().map(|client| client.timeout_ms).max()?;
            within + 2 * longest * (1_000_000 + DRIFT_PPM) / 1_000_000
        } else {
            within
        };
        let mut steps = self.clients.iter().flat_map(|it| it.tasks.iter().flatten());
        // Waiters behind it have waited for long, and prove their lease again.
        let hands_over = steps.any(|step| matches!(step, Step::HandOver(_)));
        let is_quick = self.service_us == 0 && self.lies_per_mille == 0 && !hands_over;
        let longest = (4 * self.commit_ms).max(8 * (2 * self.delay_ms + pieces));
        (is_quick && longest <= sessions?).then_some(within)
    }

    /// Whether sessions live on when nothing goes wrong. A client gives a server a quarter of the
    /// session timeout to answer a handshake.
    #[must_use]
    pub fn keeps_sessions(&self) -> bool {
        let shortest = self.clients.iter().map(|client| client.timeout_ms).min();
        shortest.is_none_or(|shortest| 4 * (2 * self.delay_ms + self.commit_ms) <= shortest)
    }

    /// Whether servers answer quickly enough to prove leases: three answers, a twelfth and a third of a
    /// session timeout fit into a lease, which lasts for seven eighths.
    #[must_use]
    pub fn keeps_leases(&self) -> bool {
        let shortest = self.clients.iter().map(|client| client.timeout_ms).min();
        shortest.is_none_or(|shortest| 72 * (2 * self.delay_ms + self.commit_ms) <= 11 * shortest)
    }

    /// How long an attempt may take after the last fault: all holds one after the other, and
    /// sessions that expire.
    #[must_use]
    pub fn max_wait_ms(&self) -> u64 {
        let steps = self.clients.iter().flat_map(|client| &client.tasks);
        let work: u64 = steps.flatten().map(Step::length_ms).sum();
        let sessions = self.clients.iter().map(|client| client.timeout_ms).max();
        work + 60 * (self.delay_ms + self.commit_ms) + 8 * sessions.unwrap_or(0) + 20_000
    }
}

impl FaultKind {
    /// How long the fault lasts; 0 if it happens at once.
    fn lasts_ms(self) -> u64 {
        match self {
            Self::Slow(_, by, ms) => by + ms,
            Self::Vanish(_, _, vanish) => vanish.late_ms + vanish.ms,
            Self::Silence(_, ms)
            | Self::Fail(_, ms)
            | Self::Restart(ms)
            | Self::Lag(_, ms)
            | Self::CutOff(_, _, ms)
            | Self::Isolate(_, ms)
            | Self::Alone(_, ms)
            | Self::AllAlone(ms)
            | Self::Throttle(_, _, ms)
            | Self::Pause(_, ms)
            | Self::Crash(_, ms) => ms,
            _ => 0,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = Self {
            clients: Vec::new(),
            faults: Vec::new(),
            ..self.clone()
        };
        writeln!(f, "{settings:?}")?;
        for client in &self.clients {
            let tasks = Vec::new();
            writeln!(f, "{:?}", ClientPlan { tasks, ..*client })?;
            for (task, steps) in client.tasks.iter().enumerate() {
                for step in steps {
                    writeln!(f, "  task {task}: {step:?}")?;
                }
            }
        }
        for fault in &self.faults {
            writeln!(f, "after {} ms: {:?}", fault.at_ms, fault.kind)?;
        }
        Ok(())
    }
}

impl Step {
    /// How long the step may take, apart from waiting for other clients.
    fn length_ms(&self) -> u64 {
        match self {
            Self::Sleep(ms) => *ms,
            Self::Lock(step) => {
                let waits = match step.entry {
                    Entry::Enqueue(ms) | Entry::Timeout(ms) => ms,
                    _ => 0,
                };
                step.hold_ms + waits
            }
            Self::HandOver(step) => step.processes * (OWED_MS + step.hold_ms + step.away_ms),
            Self::Raw(_) | Self::Close => 0,
        }
    }
}

/// How long a server may owe the outcome of a write, so that a session is not handed over.
const OWED_MS: u64 = 60_000;

/// How many messages one after the other a hand-over may take.
const HAND_OVER: u64 = 16;

/// How much a client's clock may run too fast or too slow, in parts per million: 5 %.
pub const DRIFT_PPM: u64 = 50_000;
