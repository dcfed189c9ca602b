//! The plan of a run, as data: clients, their steps, and the faults. A plan is drawn from a seed.
//!
//! Times are virtual milliseconds. Not here: carrying out a plan (`world`, `work`), reducing one that fails (`shrink`).

mod aimed;
mod crowd;
mod partitions;
mod under_way;

use std::fmt;

use lockkeeper_session::LeasePolicy;

use crate::rng::Rng;

/// Of this many plans, four are aimed at situations that random plans hardly ever reach.
pub const AIMED: u64 = 8;

/// Of the seeds modulo [`AIMED`], those with a plan about links between servers that are cut.
pub const PARTITIONS: u64 = 6;

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything else: delays of messages, order of tasks, names.
    pub seed: u64,
    /// How many servers there are.
    pub servers: u32,
    /// The servers' tick time.
    pub tick_ms: u64,
    /// How often the servers delete empty container nodes.
    pub reap_ms: u64,
    /// Whether followers tell their leader of sessions only every half tick.
    pub relay: bool,
    /// How long a transaction takes at most from the leader to a follower; 0 for a plan without followers.
    pub commit_ms: u64,
    /// After how many ticks in silence a server and its leader give each other up; 0 for a plan that cuts no links between them.
    pub sync_limit: u64,
    /// How clients know until when their sessions live.
    pub lease: LeasePolicy,
    /// Whether sockets often take only a part of what a client writes.
    pub short_writes: bool,
    /// How long a message usually takes at most; a few take up to five times as long.
    pub delay_ms: u64,
    /// Of a thousand polls of a task, how many the scheduler delays.
    pub yield_per_mille: u64,
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
    /// An operation on single nodes.
    Raw(RawStep),
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

/// The lock of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A mutex.
    Mutex(u32),
    /// The read side of a read/write lock. It shares the queue of the mutex of that number.
    Read(u32),
    /// The write side of the same lock.
    Write(u32),
    /// One lease of the semaphore.
    Lease,
    /// All leases of the semaphore.
    Leases,
    /// A reentrant mutex, on the path of the mutex of that number.
    Reentrant(u32),
    /// The mutexes 0 and 1 and one lease of the semaphore, together.
    All,
    /// Leadership in an election.
    Lead,
    /// Leadership in the same election, through a latch that is kept for as long as a lock would be held.
    Latch,
    /// The plain lock.
    Plain,
}

/// How a task asks for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `lock`.
    Lock,
    /// `lock_timeout`.
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

/// Which direction of the link between a server and its leader is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Both.
    Both,
    /// From the server to its leader.
    ToLeader,
    /// From the leader to the server.
    FromLeader,
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
    /// The leader is deposed, and the transactions that no follower has are lost. The next leader is there this much later.
    Depose(u64),
    /// A server lags behind for this long.
    Lag(u32, u64),
    /// The link between this client's server and its leader is cut for this long.
    CutOff(u32, Side, u64),
    /// This client's server is the leader, and all links to it are cut. The first time is that until the others have a new
    /// leader, the second one how long the links stay cut.
    Isolate(u32, u64, u64),
    /// A third party ends a client's session by force.
    Expire(u32),
    /// A third party deletes a contender's node by hand.
    Delete(u64),
    /// A third party deletes the node of the next waiter by hand, just before this client next releases a lock.
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
        match seed % AIMED {
            0 => return aimed::plan(seed),
            2 => return crowd::plan(seed),
            4 => return under_way::plan(seed),
            PARTITIONS => return partitions::plan(seed),
            _ => {}
        }
        let rng = &mut Rng::of(seed, "plan");
        let tick_ms = rng.within(2, 5) * 100;
        let servers = rng.small(1, 3);
        let clients = rng.small(2, 5);
        let storm_ms = rng.within(2, 20) * 1000;
        let focus = rng.pick(&[None, None, Some(Target::Mutex(0)), Some(Target::Write(0))]);
        let focus = focus.flatten();
        let clients: Vec<_> = (1..=clients)
            .map(|id| client(rng, id, tick_ms, focus))
            .collect();
        let faults = (0..rng.within(0, 14))
            .map(|_| Fault {
                at_ms: rng.within(0, storm_ms),
                kind: fault(rng, u32::try_from(clients.len()).unwrap_or(1), servers),
            })
            .collect();
        let mut plan = Self {
            seed,
            servers,
            tick_ms,
            reap_ms: rng.within(2, 40) * 100,
            relay: rng.chance(700),
            commit_ms: 0,
            sync_limit: 0,
            lease: LeasePolicy::Proved,
            short_writes: false,
            delay_ms: rng.pick(&[1, 5, 5, 30, 200]).unwrap_or(5),
            yield_per_mille: rng.pick(&[0, 50, 300]).unwrap_or(0),
            clients,
            faults,
        };
        if plan.servers > 1 && rng.chance(300) {
            plan.commit_ms = rng.pick(&[5, 50, 400]).unwrap_or(5);
            for _ in 0..rng.small(0, 2) {
                let kind = FaultKind::Depose(rng.within(0, 2000));
                let at_ms = rng.within(0, storm_ms);
                plan.faults.push(Fault { at_ms, kind });
            }
        }
        plan.faults.sort_by_key(|fault| fault.at_ms);
        plan.vary(&mut Rng::of(seed, "variety"));
        plan
    }

    /// Adds what only some plans have: short writes, plain locks, latches, hold limits, requests to release.
    fn vary(&mut self, rng: &mut Rng) {
        self.short_writes = rng.chance(200);
        let (plain, latch) = (rng.chance(250), rng.chance(250));
        let (limits, listens) = (rng.chance(200), rng.chance(200));
        let tasks = self.clients.iter_mut().flat_map(|client| {
            let timeout_ms = client.timeout_ms;
            let steps = client.tasks.iter_mut().flatten();
            steps.map(move |step| (timeout_ms, step))
        });
        for (timeout_ms, step) in tasks {
            match step {
                Step::Lock(step) => {
                    step.target = match step.target {
                        Target::Mutex(1) | Target::Reentrant(1) if plain => Target::Plain,
                        Target::Lead if latch => Target::Latch,
                        target => target,
                    };
                    let limit_ms = rng.within(0, timeout_ms);
                    let may_end = limits && step.leave != Leave::Downgrade;
                    step.limit_ms = (may_end && rng.chance(300)).then_some(limit_ms);
                    step.obeys_revoke = listens && rng.chance(500);
                }
                Step::Raw(RawStep::Poke) if listens => *step = Step::Raw(RawStep::Revoke),
                _ => {}
            }
        }
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
    /// That is the time that a session lives in silence, and the length of everything that can delay messages.
    #[must_use]
    pub fn detection_ms(&self) -> u64 {
        let faults: u64 = self.faults.iter().map(|fault| fault.kind.lasts_ms()).sum();
        let sessions = self.clients.iter().map(|client| client.timeout_ms).max();
        faults + 2 * sessions.unwrap_or(0) + 20 * (self.delay_ms + self.commit_ms)
    }

    /// How long an attempt may take after the last fault: all holds one after the other, and sessions that expire.
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
            | Self::Depose(ms)
            | Self::Lag(_, ms)
            | Self::CutOff(_, _, ms)
            | Self::Isolate(_, _, ms)
            | Self::Pause(_, ms)
            | Self::Crash(_, ms) => ms,
            _ => 0,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}, {} servers, tick {} ms, containers deleted every {} ms, relay {}, commits within {} ms, sync limit {}, {:?}, short writes {}, delay {} ms, yield {}/1000",
            self.seed,
            self.servers,
            self.tick_ms,
            self.reap_ms,
            self.relay,
            self.commit_ms,
            self.sync_limit,
            self.lease,
            self.short_writes,
            self.delay_ms,
            self.yield_per_mille
        )?;
        for client in &self.clients {
            writeln!(
                f,
                "client {}: timeout {} ms, drift {} ppm, offset {} ms",
                client.id, client.timeout_ms, client.drift_ppm, client.offset_ms
            )?;
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
            Self::Raw(_) => 0,
        }
    }
}

fn client(rng: &mut Rng, id: u32, tick_ms: u64, focus: Option<Target>) -> ClientPlan {
    let drift = rng.within(0, 2 * DRIFT_PPM);
    let timeout_ms = rng.within(2, 9) * tick_ms;
    let tasks = (0..rng.pick(&[1, 1, 2, 3]).unwrap_or(1))
        .map(|_| {
            let raw = focus.is_none() && rng.chance(200);
            (0..rng.within(1, 7))
                .map(|_| step(rng, raw, timeout_ms, focus))
                .collect()
        })
        .collect();
    ClientPlan {
        id,
        drift_ppm: i64::try_from(drift).unwrap_or(0) - i64::try_from(DRIFT_PPM).unwrap_or(0),
        offset_ms: rng.within(0, 3_600_000),
        timeout_ms,
        tasks,
    }
}

/// How much a client's clock may run too fast or too slow, in parts per million: 5 %.
pub const DRIFT_PPM: u64 = 50_000;

fn step(rng: &mut Rng, raw: bool, timeout_ms: u64, focus: Option<Target>) -> Step {
    if raw {
        let node = rng.small(0, 1);
        let common = RawStep::Read(node);
        let others = [
            (3, RawStep::Watch(node)),
            (2, RawStep::Set(node)),
            (1, RawStep::Delete(node)),
            (1, RawStep::Create(node)),
            (3, RawStep::Write),
            (2, RawStep::WriteTwo),
            (1, RawStep::Poke),
        ];
        return if rng.chance(200) {
            Step::Sleep(rng.within(0, 500))
        } else {
            Step::Raw(rng.weighted(common, &others, 5))
        };
    }
    if rng.chance(150) {
        return Step::Sleep(rng.within(0, 2 * timeout_ms));
    }
    let number = u32::from(rng.chance(250));
    let any = [
        (3, Target::Read(number)),
        (3, Target::Write(number)),
        (3, Target::Lease),
        (1, Target::Leases),
        (2, Target::Reentrant(number)),
        (1, Target::All),
        (1, Target::Lead),
    ];
    let target = match focus {
        None => rng.weighted(Target::Mutex(number), &any, 6),
        Some(Target::Write(_)) => rng.weighted(
            Target::Write(0),
            &[(1, Target::Read(0)), (1, Target::Mutex(0))],
            2,
        ),
        Some(focus) => focus,
    };
    let wait = rng.within(0, 3 * timeout_ms);
    let entries = [
        (2, Entry::Timeout(wait)),
        (1, Entry::Try),
        (4, Entry::Enqueue(rng.within(0, 200))),
    ];
    let cancels = [
        (1, Cancel::Polls(rng.within(1, 12))),
        (1, Cancel::After(rng.within(0, timeout_ms))),
    ];
    let leaves = [
        (3, Leave::Drop),
        (1, Leave::GiveUp(rng.within(1, 4))),
        (2, Leave::With),
        (2, Leave::Downgrade),
    ];
    let hold_ms = match rng.within(0, 9) {
        0 => rng.within(timeout_ms, 3 * timeout_ms),
        1..5 => rng.within(0, 300),
        _ => rng.within(0, 20),
    };
    Step::Lock(LockStep {
        target,
        entry: rng.weighted(Entry::Lock, &entries, 5),
        cancel: rng.weighted(Cancel::Never, &cancels, 6),
        hold_ms,
        limit_ms: None,
        obeys_revoke: false,
        looks: rng.within(0, 4),
        leave: rng.weighted(Leave::Release, &leaves, 4),
    })
}

fn fault(rng: &mut Rng, clients: u32, servers: u32) -> FaultKind {
    let client = rng.small(1, clients);
    let server = rng.small(0, servers - 1);
    let trigger = rng.pick(&[
        Trigger::Any,
        Trigger::Create,
        Trigger::Create,
        Trigger::Delete,
        Trigger::Multi,
    ]);
    let trigger = trigger.unwrap_or(Trigger::Any);
    let long = rng.within(0, 6000);
    let short = rng.within(0, 1000);
    let kinds = [
        (2, FaultKind::CutWrite(client, trigger)),
        (6, FaultKind::LoseReply(client, trigger)),
        (2, FaultKind::CutReply(client)),
        (2, FaultKind::Silence(client, long)),
        (2, FaultKind::Slow(client, short, long)),
        (2, FaultKind::Fail(server, long)),
        (1, FaultKind::Restart(long)),
        (6, FaultKind::Lag(server, long)),
        (2, FaultKind::Expire(client)),
        (2, FaultKind::Delete(rng.draw())),
        (3, FaultKind::Pause(client, long)),
        (1, FaultKind::Crash(client, short)),
    ];
    rng.weighted(FaultKind::Cut(client), &kinds, 3)
}
