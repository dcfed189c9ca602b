//! Do real servers keep sessions as `docs/safety.md` assumes (facts F1 to F8)?
//!
//! Relays between three real servers record what followers and leaders say to each other, and
//! clients record what they send and hear. `accept` states the facts as rules about such a record:
//! a run that the rules do not allow fails. `planted` shows that each rule can fail.
//!
//! One run is the history of one session: at random times it is touched, writes, is silent, is
//! closed, or moves to another server. Many runs share three servers. Meanwhile a follower's
//! answers to pings are lost, a follower and a leader are stopped, a link is cut, and a leader is
//! killed. `LOCKKEEPER_TEST_ROUNDS=N` makes N times 20 runs instead of 20.
//!
//! Not here: locks (`tests/partitions`, `tests/failures`); every order of messages (`tests/model`).

mod accept;
mod client;
mod planted;
mod record;
mod wire;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper_test_support::{
    proxy::Proxy,
    real_server::free_ports,
    servers::{COUNT, Members, Servers, TICK_MS},
};
use tokio::{task::JoinSet, time::sleep};

use accept::{Broken, Checked, Settings, accept};
use client::{Client, Session};
use record::{Event, Link, Recorder, Sent};

const TICK: Duration = Duration::from_millis(TICK_MS as u64);

/// `syncLimit` of the servers, in ticks.
const SYNC_TICKS: u32 = 5;

/// How long the servers, and the test, may be late.
const SLACK: Duration = Duration::from_secs(1);

const FACTS: [&str; 8] = ["F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8"];

/// From a leader's decision to end a session to its proposal: another thread makes the proposal.
const TO_PROPOSAL: Duration = Duration::from_millis(150);

/// Runs that share an ensemble at the same time.
const AT_ONCE: usize = 100;

/// In which time runs begin: while servers fail.
const FAULTS: Duration = Duration::from_secs(12);

/// A sequence of numbers that look random (`SplitMix64`).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn within(&mut self, time: Duration) -> Duration {
        Duration::from_millis(self.below(u64::try_from(time.as_millis()).expect("short")))
    }
}

struct Ensemble {
    recorder: Arc<Recorder>,
    servers: Servers,
    /// From each to each other.
    proxies: Vec<Vec<Proxy>>,
}

impl Ensemble {
    async fn start() -> Self {
        let recorder = Recorder::new();
        let ports = free_ports(3 * COUNT);
        let mut proxies = Vec::new();
        let mut relays = [[[0; 2]; COUNT]; COUNT];
        for (from, relays) in relays.iter_mut().enumerate() {
            let mut row = Vec::new();
            for (to, relay) in relays.iter_mut().enumerate() {
                let targets = [ports[3 * to + 1], ports[3 * to + 2]];
                let targets = targets.map(|port| ([127, 0, 0, 1], port).into());
                let noted = recorder.clone();
                // Votes are not read.
                let taps = Arc::new(move |port| match port {
                    0 => Box::new(Link::new(&noted, from, to)) as Box<_>,
                    _ => Box::new(()) as Box<_>,
                });
                let proxy = Proxy::tapped(&targets, taps).await;
                relay.copy_from_slice(proxy.ports());
                row.push(proxy);
            }
            proxies.push(row);
        }
        let mut servers = Servers::at(&ports, Members::Relayed(relays));
        (0..COUNT).for_each(|number| servers.start(number));
        Self {
            recorder,
            servers,
            proxies,
        }
    }

    /// What fails while the runs go on.
    async fn fail(&mut self) {
        let note = |event| self.recorder.note(event);
        sleep(TICK * 5).await;
        let followers = self.servers.followers();
        self.recorder.withhold(followers[0], true);
        let steady = |server, what| {
            let server = (server, self.servers.address(server));
            tokio::spawn(steady(self.recorder.clone(), server, what))
        };
        // It writes all the time, and ends all the same.
        let written = steady(followers[0], Sent::Write);
        sleep(TICK * 10).await;
        written.await.expect("it ends");
        self.recorder.withhold(followers[0], false);
        for server in [followers[1], self.servers.leader()] {
            sleep(TICK * 4).await;
            note(Event::Stopped { server });
            self.servers.stop(server);
            sleep(TICK * 3).await;
            self.servers.go_on(server);
            note(Event::GoesOn { server });
        }
        sleep(TICK * 4).await;
        let server = self.servers.followers()[0];
        note(Event::Cut { server });
        self.links(server).for_each(Proxy::swallow);
        sleep(TICK * SYNC_TICKS + 2 * SLACK).await;
        self.links(server).for_each(Proxy::mend);
        self.servers.wait_until_all_serve();
        let server = self.servers.leader();
        // The next leader ends it.
        let quiet = steady(self.servers.followers()[0], Sent::Touch);
        sleep(TICK * 4).await;
        note(Event::Killed { server });
        self.servers.kill(server);
        self.servers.wait_until_serving(COUNT - 1);
        quiet.await.expect("it ends");
        sleep(TICK * 10).await;
    }

    fn links(&self, server: usize) -> impl Iterator<Item = &Proxy> {
        let others = (0..COUNT).filter(move |other| *other != server);
        others.flat_map(move |it| [&self.proxies[server][it], &self.proxies[it][server]])
    }

    /// So many runs, side by side. Returns what is wrong with them.
    async fn runs(&mut self, count: usize, seed: u64) -> (Vec<Broken>, Checked) {
        self.servers.wait_until_all_serve();
        let addresses: Vec<_> = (0..COUNT)
            .map(|it| (it, self.servers.address(it)))
            .collect();
        let mut witnesses = JoinSet::new();
        for server in addresses.iter().copied() {
            for writes in [false, true] {
                witnesses.spawn(witness(self.recorder.clone(), server, writes));
            }
        }
        let late = Arc::new(AtomicU64::new(0));
        witnesses.spawn(watch_lateness(late.clone()));
        let mut runs = JoinSet::new();
        for number in 0..count {
            let random = Random(seed + u64::try_from(number).expect("few"));
            runs.spawn(run(self.recorder.clone(), addresses.clone(), random));
        }
        self.fail().await;
        while let Some(run) = runs.join_next().await {
            run.expect("a run ends");
        }
        sleep(TICK * 4).await;
        witnesses.shutdown().await;
        let late = Duration::from_millis(late.load(Ordering::Relaxed));
        let settings = Settings {
            tick: TICK,
            sync_ticks: SYNC_TICKS,
            slack: SLACK + 2 * late,
            to_proposal: TO_PROPOSAL + 2 * late,
        };
        let record = self.recorder.record();
        println!("{} events", record.len());
        let (broken, checked) = accept(&record, settings);
        for fact in FACTS.iter().filter(|_| late < TICK / 2) {
            assert!(checked.contains_key(fact), "{fact} was not looked at");
        }
        (broken, checked)
    }
}

/// By how much this machine is late, in milliseconds: servers may be as late.
async fn watch_lateness(late: Arc<AtomicU64>) {
    const STEP: Duration = Duration::from_millis(10);
    loop {
        let due = Instant::now() + STEP;
        sleep(STEP).await;
        let by = due.elapsed().as_millis().try_into().expect("short");
        late.fetch_max(by, Ordering::Relaxed);
    }
}

/// A client that is always there, and makes another session when its own ends. Of two one only
/// reads, because a read behind a write waits for it.
async fn witness(recorder: Arc<Recorder>, server: (usize, SocketAddr), writes: bool) {
    loop {
        let mut session = Session::new(TICK * 100);
        if let Some(mut client) = Client::open(&recorder, server, &mut session).await {
            let mut number = 0_u64;
            while !client.is_lost() {
                let what = [Sent::Touch, Sent::Write][usize::from(writes)];
                client.send(&mut session, what, number).await;
                number += 1;
                sleep(TICK / 6).await;
            }
        }
        sleep(TICK / 4).await;
    }
}

/// Sends one kind of request for ten ticks, or until it is cut off.
async fn steady(recorder: Arc<Recorder>, server: (usize, SocketAddr), what: Sent) {
    let mut session = Session::new(TICK * 4);
    let Some(mut client) = Client::open(&recorder, server, &mut session).await else {
        return;
    };
    for number in 0..40 {
        if client.is_lost() {
            break;
        }
        client.send(&mut session, what, number).await;
        sleep(TICK / 4).await;
    }
}

/// The history of one session.
async fn run(recorder: Arc<Recorder>, servers: Vec<(usize, SocketAddr)>, mut random: Random) {
    sleep(random.within(FAULTS)).await;
    let any = |random: &mut Random| servers[usize::try_from(random.below(3)).expect("small")];
    let ticks = 2 + random.below(5);
    let mut session = Session::new(TICK * u32::try_from(ticks).expect("small"));
    let Some(mut client) = Client::open(&recorder, any(&mut random), &mut session).await else {
        return;
    };
    let end = Instant::now() + TICK * 2 + random.within(TICK * 10);
    // Some write only, some read only.
    let writes = random.below(11);
    while Instant::now() < end {
        let what = [Sent::Touch, Sent::Write][usize::from(random.below(10) < writes)];
        client.send(&mut session, what, random.below(3)).await;
        sleep(random.within(session.timeout / 2)).await;
        if client.is_lost() || random.below(15) == 0 {
            drop(client);
            match Client::open(&recorder, any(&mut random), &mut session).await {
                Some(other) => client = other,
                None => return,
            }
        }
    }
    match random.below(5) {
        0 => client.send(&mut session, Sent::Close, 0).await,
        1 => drop(client),
        _ => sleep(session.timeout + 4 * TICK).await,
    }
}

#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_real_servers_keep_sessions_as_is_assumed() {
    let rounds =
        std::env::var("LOCKKEEPER_TEST_ROUNDS").map_or(1, |it| it.parse().expect("a number"));
    let mut left = 20 * rounds;
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build();
    runtime.expect("threads").block_on(async {
        let mut seed = 1;
        while left > 0 {
            let count = left.min(AT_ONCE);
            let begin = Instant::now();
            let (broken, checked) = Ensemble::start().await.runs(count, seed).await;
            println!(
                "| {count} runs from seed {seed} | {:?} | {checked:?} |",
                begin.elapsed()
            );
            assert!(
                broken.is_empty(),
                "{} rules are broken: {:#?}",
                broken.len(),
                &broken[..broken.len().min(20)]
            );
            left -= count;
            seed += u64::try_from(count).expect("few");
        }
    });
}
