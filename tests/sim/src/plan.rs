//! What is to happen in a run, all of it as data: drawn from a seed, and made smaller when it fails.
//!
//! Times are virtual milliseconds. Not here: how it happens (`world`, `work`).

mod aimed;
mod under_way;

use std::fmt;

use crate::rng::Rng;

/// Two plans of so many are aimed at what chance hardly ever meets.
const AIMED: u64 = 8;

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where everything comes from that the plan does not say: delays of messages, order of tasks, names.
    pub seed: u64,
    /// How many servers there are.
    pub servers: u32,
    /// The servers' tick.
    pub tick_ms: u64,
    /// How often empty containers are deleted.
    pub reap_ms: u64,
    /// Whether followers tell their leader of sessions only every half tick.
    pub relay: bool,
    /// How long it takes at most until a server learns of what its leader has written; 0 for not at all.
    pub commit_ms: u64,
    /// Whether sockets often take only a part of what a client writes.
    pub short_writes: bool,
    /// How slow messages are at most, as a rule.
    pub delay_ms: u64,
    /// Of a thousand polls of a task, how many come later than they need.
    pub yield_per_mille: u64,
    /// The clients.
    pub clients: Vec<ClientPlan>,
    /// The faults, in order of time.
    pub faults: Vec<Fault>,
}

/// A client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// Its number; it keeps it when others are left out.
    pub id: u32,
    /// By how much its clock is too fast, in parts per million.
    pub drift_ppm: i64,
    /// What its clock shows at the start.
    pub offset_ms: u64,
    /// The session timeout that it asks for.
    pub timeout_ms: u64,
    /// What its tasks do, one after the other.
    pub tasks: Vec<Vec<Step>>,
}

/// One thing that a task does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Nothing, for so long.
    Sleep(u64),
    /// Takes a lock, holds it, lets it go.
    Lock(LockStep),
    /// Something about plain nodes.
    Raw(RawStep),
}

/// Taking a lock.
#[derive(Clone, Copy, Debug)]
pub struct LockStep {
    /// Which.
    pub target: Target,
    /// How.
    pub entry: Entry,
    /// When it is given up.
    pub cancel: Cancel,
    /// How long it is held.
    pub hold_ms: u64,
    /// After how long the lock gives itself up by force.
    pub limit_ms: Option<u64>,
    /// Whether the holder listens to who asks it to let go, and does so then.
    pub obeys_revoke: bool,
    /// How often something is done meanwhile.
    pub looks: u64,
    /// How it is let go.
    pub leave: Leave,
}

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A mutex.
    Mutex(u32),
    /// The read side of a read/write lock, in one line with the mutex of that number.
    Read(u32),
    /// The write side.
    Write(u32),
    /// A lease of a semaphore.
    Lease,
    /// So many leases.
    Leases,
    /// A reentrant mutex, on the path of the mutex of that number.
    Reentrant(u32),
    /// The mutexes 0 and 1, and a lease.
    All,
    /// The lead of an election.
    Lead,
    /// The same, by standing in the background for as long as the lock would be held.
    Latch,
    /// A lock without a line.
    Plain,
}

/// How a lock is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `lock`.
    Lock,
    /// `lock_timeout`.
    Timeout(u64),
    /// `try_lock`.
    Try,
    /// `enqueue`, and so long until `wait`.
    Enqueue(u64),
}

/// When an attempt is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Never.
    Never,
    /// After so many polls of its future.
    Polls(u64),
    /// After so long.
    After(u64),
}

/// How a lock is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// `release`.
    Release,
    /// `drop`.
    Drop,
    /// `release`, given up after so many polls.
    GiveUp(u64),
    /// `release_with` a write; as `Release` where that cannot be.
    With,
    /// `downgrade` and then `release`; as `Release` where that cannot be.
    Downgrade,
}

/// Something about plain nodes.
#[derive(Clone, Copy, Debug)]
pub enum RawStep {
    /// Reads a node and watches it.
    Watch(u32),
    /// Reads a node.
    Read(u32),
    /// Sets a node's data.
    Set(u32),
    /// Deletes it.
    Delete(u32),
    /// Creates it.
    Create(u32),
    /// Creates a node that nobody else touches.
    Write,
    /// As `Write`, twice in one transaction.
    WriteTwo,
    /// Sets the data of somebody's lock node.
    Poke,
    /// Asks somebody to let go.
    Revoke,
}

/// Something bad.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// When.
    pub at_ms: u64,
    /// What.
    pub kind: FaultKind,
}

/// Which write a fault waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Any, but for pings.
    Any,
    /// A ping.
    Ping,
    /// One with a create in it.
    Create,
    /// One with a delete in it.
    Delete,
    /// One with a transaction in it.
    Multi,
}

/// How a client vanishes: one write of it arrives, and nothing after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vanish {
    /// How late it hears of that write.
    pub late_ms: u64,
    /// How long nothing else comes from it or to it.
    pub ms: u64,
    /// How much later its server fails before it has told the leader; `None` if it does not.
    pub fails_after_ms: Option<u64>,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug)]
pub enum FaultKind {
    /// A client's connection is cut, with all that is under way.
    Cut(u32),
    /// A write of a client arrives only in part, and then the connection is cut.
    CutWrite(u32, Trigger),
    /// A write of a client is applied, and the reply is lost with the connection.
    LoseReply(u32, Trigger),
    /// A client gets only a part of what a server sends, and then the connection is cut.
    CutReply(u32),
    /// Nothing comes from or to a client for so long.
    Silence(u32, u64),
    /// What a client sends and gets is slower by so much, for so long.
    Slow(u32, u64, u64),
    /// A server fails and is away for so long.
    Fail(u32, u64),
    /// All servers restart, which takes so long.
    Restart(u64),
    /// The leader is deposed with what no other server knows of, and the next one is there so much later.
    Depose(u64),
    /// A server lags behind for so long.
    Lag(u32, u64),
    /// A client's session ends by force.
    Expire(u32),
    /// A contender's node is deleted by hand.
    Delete(u64),
    /// The node of the one behind a client is deleted by hand, just before the client lets go of what it holds next.
    DeleteBehind(u32),
    /// A client vanishes with a write that fits.
    Vanish(u32, Trigger, Vanish),
    /// A client is not scheduled for so long.
    Pause(u32, u64),
    /// A client's process dies, and another one begins so much later.
    Crash(u32, u64),
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        match seed % AIMED {
            0 => return aimed::plan(seed),
            4 => return under_way::plan(seed),
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

    /// What only some plans have.
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

    /// How long it may take until a client knows what happened at the servers: for as long as a session lives without a word,
    /// and all that keeps words away.
    #[must_use]
    pub fn detection_ms(&self) -> u64 {
        let faults: u64 = self.faults.iter().map(|fault| fault.kind.lasts_ms()).sum();
        let sessions = self.clients.iter().map(|client| client.timeout_ms).max();
        faults + 2 * sessions.unwrap_or(0) + 20 * (self.delay_ms + self.commit_ms)
    }

    /// How long everything may take in calm: all holds one after the other, and all sessions ended twice.
    #[must_use]
    pub fn max_wait_ms(&self) -> u64 {
        let steps = self.clients.iter().flat_map(|client| &client.tasks);
        let work: u64 = steps.flatten().map(Step::length_ms).sum();
        let sessions = self.clients.iter().map(|client| client.timeout_ms).max();
        work + 60 * (self.delay_ms + self.commit_ms) + 8 * sessions.unwrap_or(0) + 20_000
    }
}

impl FaultKind {
    /// For how long; 0 for what happens at once.
    fn lasts_ms(self) -> u64 {
        match self {
            Self::Slow(_, by, ms) => by + ms,
            Self::Vanish(_, _, vanish) => vanish.late_ms + vanish.ms,
            Self::Silence(_, ms)
            | Self::Fail(_, ms)
            | Self::Restart(ms)
            | Self::Depose(ms)
            | Self::Lag(_, ms)
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
            "seed {}, {} servers, tick {} ms, reaped every {} ms, relay {}, commits within {} ms, short writes {}, delay {} ms, yield {}/1000",
            self.seed,
            self.servers,
            self.tick_ms,
            self.reap_ms,
            self.relay,
            self.commit_ms,
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
    /// How long it may take, without waiting for others.
    fn length_ms(&self) -> u64 {
        match self {
            Self::Sleep(ms) => *ms,
            Self::Lock(step) => {
                let thinks = match step.entry {
                    Entry::Enqueue(ms) | Entry::Timeout(ms) => ms,
                    _ => 0,
                };
                step.hold_ms + thinks
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

/// By how much a client's clock may run too fast or too slow: 5 %.
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
        (2, FaultKind::Delete(rng.next())),
        (3, FaultKind::Pause(client, long)),
        (1, FaultKind::Crash(client, short)),
    ];
    rng.weighted(FaultKind::Cut(client), &kinds, 3)
}
