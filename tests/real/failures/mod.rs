//! Locks while real servers fail: an ensemble of three servers, and a dozen clients that contend
//! for one lock.
//!
//! The checker of the simulation reads the history of each run. It accepts a history only if:
//! - no two clients hold the lock at once unless both read, and the fencing tokens are in the order
//!   of the grants;
//! - no store has accepted a stale write;
//! - every attempt has an answer, and no node is left behind;
//! - the result of each write is the one that its client was given.
//!
//! Each test prints its row of the table in docs/failures.md.
//!
//! Not here: failures that a test cannot cause on a real server at an exact moment (`tests/sim/`,
//! `recipes/tests/locks/`).

mod following;

use lockkeeper_test_support as support;
use lockkeeper_test_support::{contention, recorder, servers};
use std::time::{Duration, Instant};

use contention::{Contention, Kind, SESSION_TIMEOUT};
use recorder::Figures;
use servers::{COUNT, Members, Servers, on_ensemble};
use support::waiting::until;

/// What is contended for, in a test that is this row of the table.
struct Row {
    name: &'static str,
    kind: Kind,
    has_proxies: bool,
    session_timeout: Duration,
}

impl Row {
    fn of(kind: Kind, name: &'static str) -> Self {
        Self {
            name,
            kind,
            has_proxies: false,
            session_timeout: SESSION_TIMEOUT,
        }
    }

    /// Each client has a proxy.
    fn behind_proxies(kind: Kind, name: &'static str) -> Self {
        Self {
            has_proxies: true,
            ..Self::of(kind, name)
        }
    }

    /// Starts the contention, runs `fail` meanwhile, then checks the history and prints the
    /// figures.
    fn under(self, fail: impl AsyncFnOnce(&mut Servers, &mut Contention)) -> Figures {
        let mut figures = None;
        on_ensemble(Members::Fixed, async |servers: &mut Servers| {
            let (start, name) = (Instant::now(), self.name);
            let contention =
                Contention::start(servers, self.kind, self.has_proxies, self.session_timeout);
            let mut contention = contention.await;
            fail(servers, &mut contention).await;
            servers.wait_until_all_serve();
            contention.recorder.disturbed();
            contention.until_more_grants(100).await;
            let found = contention.finish(servers, &name.replace(' ', "-")).await;
            println!(
                "| {name} | {found} | {:.1} |",
                start.elapsed().as_secs_f64()
            );
            figures = Some(found);
        });
        figures.expect("the test has run")
    }
}

#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_the_leader_is_killed() {
    let row = Row::of(
        Kind::ReadWrite,
        "the leader is killed, twice; readers and writers",
    );
    row.under(async |servers, contention| {
        for _ in 0..2 {
            let leader = servers.leader();
            contention.recorder.disturbed();
            servers.kill(leader);
            servers.wait_until_serving(COUNT - 1);
            contention.recorder.served();
            contention.until_more_grants(50).await;
            servers.start(leader);
            servers.wait_until_all_serve();
        }
    });
}

#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_a_follower_is_killed() {
    let row = Row::of(Kind::Mutex, "each follower is killed in turn");
    row.under(async |servers, contention| {
        // Each follower only once: a server that is killed again soon after a restart may lose
        // transactions that it had missed (ZOOKEEPER-4785). It then shows for ever nodes that
        // its leader does not have.
        for follower in servers.followers() {
            contention.recorder.disturbed();
            servers.kill(follower);
            contention.until_more_grants(50).await;
            servers.start(follower);
            servers.wait_until_all_serve();
        }
    });
}

/// The ensemble does not drop a follower that stops so briefly. Its clients hear nothing, then late
/// what others heard.
#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_a_follower_lags() {
    let row = Row::of(
        Kind::ReadWrite,
        "a follower is stopped for half a second, five times",
    );
    row.under(async |servers, contention| {
        for _ in 0..5 {
            let follower = servers.followers()[0];
            contention.recorder.disturbed();
            servers.stop(follower);
            tokio::time::sleep(Duration::from_millis(500)).await;
            servers.go_on(follower);
            contention.until_more_grants(20).await;
        }
    });
}

/// The leader stops for longer than a session lives. The second time, a holder is connected to it.
/// When the leader goes on, it still takes itself for the leader.
#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_the_leader_is_stopped_and_goes_on() {
    let row = Row::behind_proxies(Kind::Mutex, "the leader is stopped, and goes on, twice");
    row.under(async |servers, contention| {
        for has_holder in [false, true] {
            let leader = servers.leader();
            if has_holder {
                contention
                    .hold_on_at(servers, |server| server == leader)
                    .await;
            }
            contention.recorder.disturbed();
            servers.stop(leader);
            servers.wait_until_serving(COUNT - 1);
            contention.recorder.served();
            tokio::time::sleep(SESSION_TIMEOUT + Duration::from_secs(1)).await;
            servers.go_on(leader);
            contention.let_go();
            contention.until_more_grants(50).await;
            servers.wait_until_all_serve();
        }
    });
}

/// A holder's network goes silent. It stops by its own clock; then its session expires and others
/// get the lock.
#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_a_holder_is_cut_off_in_silence() {
    let row = Row::behind_proxies(Kind::Mutex, "a holder is cut off in silence, twice");
    let figures = row.under(async |_, contention| {
        for _ in 0..2 {
            let holder = contention.hold_on().await;
            let session = contention.client(holder).snapshot().session_id;
            let proxy = usize::try_from(holder).expect("few");
            contention.recorder.disturbed();
            contention.proxies()[proxy].swallow();
            contention.until_more_grants(50).await;
            contention.proxies()[proxy].pass();
            contention.recorder.disturbed();
            until("the holder has another session", async || {
                let now = contention.client(holder).snapshot();
                now.state.is_connected() && now.session_id != session
            })
            .await;
            contention.until_more_grants(50).await;
        }
    });
    // On a slow machine, the lease of another holder may end, too.
    let elapsed = figures.losses.get("elapsed").copied();
    assert!(
        elapsed >= Some(2),
        "the holder's own clock reports each loss: {elapsed:?}"
    );
    // In each of the two rounds the holder wrote late to both stores, after others had written.
    assert!(figures.refused >= 4, "{}", figures.refused);
}

/// All connections are reset again and again. Sessions and locks survive, and no contender is told
/// of a loss.
#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_connections_are_reset() {
    // So long that no session ends because the machine is slow.
    let row = Row {
        session_timeout: Duration::from_secs(20),
        ..Row::behind_proxies(Kind::Mutex, "all connections are reset, ten times")
    };
    row.under(async |_, contention| {
        let sessions: Vec<_> = (0..contention::CLIENTS)
            .map(|number| contention.client(number).snapshot().session_id)
            .collect();
        for round in 0..10 {
            // In every second round a contender holds the lock meanwhile.
            let holds = round % 2 == 0;
            if holds {
                contention.hold_on().await;
            }
            contention.recorder.disturbed();
            for proxy in contention.proxies() {
                proxy.reset();
            }
            contention.let_go();
            contention.until_more_grants(20).await;
        }
        for (number, session) in (0..).zip(sessions) {
            assert_eq!(contention.client(number).snapshot().session_id, session);
        }
        let figures = contention.recorder.figures();
        assert!(figures.losses.is_empty(), "{:?}", figures.losses);
    });
}

#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_the_servers_are_restarted_one_after_the_other() {
    let row = Row::of(
        Kind::ReadWrite,
        "all servers are restarted in turn; readers and writers",
    );
    row.under(async |servers, contention| {
        for number in 0..COUNT {
            contention.recorder.disturbed();
            servers.shut_down(number);
            servers.wait_until_serving(COUNT - 1);
            contention.recorder.served();
            servers.start(number);
            servers.wait_until_all_serve();
            contention.until_more_grants(20).await;
        }
    });
}

/// A server that cannot write its log any more ends, or serves no longer. The first time the others
/// go on. The second time nobody can get the lock until the disks have room again.
#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_the_disks_are_full() {
    let row = Row::of(
        Kind::Mutex,
        "the disk of the leader is full, then all disks",
    );
    row.under(async |servers, contention| {
        let leader = servers.leader();
        contention.recorder.disturbed();
        servers.fill_disk(leader);
        servers.wait_until_serving(COUNT - 1);
        contention.recorder.served();
        contention.until_more_grants(50).await;
        servers.kill(leader);
        servers.start(leader);
        servers.wait_until_all_serve();

        contention.recorder.disturbed();
        for number in 0..COUNT {
            servers.fill_disk(number);
        }
        let before = contention.recorder.grants();
        tokio::time::sleep(2 * SESSION_TIMEOUT).await;
        assert_eq!(contention.recorder.grants(), before);
        let error = contention.client(0).get_data("/").await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        // Each server with its reason: it refuses the connection, or the handshake.
        let tried = contention.client(0).failures();
        assert_eq!(tried.len(), COUNT, "{error}");
        for number in 0..COUNT {
            servers.kill(number);
            servers.start(number);
        }
        servers.wait_until_all_serve();
        contention.recorder.served();
    });
}
