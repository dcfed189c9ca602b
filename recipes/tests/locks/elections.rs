//! Leading with a guard, leading in a program that shuts down, and latches that lose the lead.
//!
//! Not here: the contract that all kinds of lock keep (`tests/contract`).

use std::{pin::pin, sync::atomic::Ordering, time::Duration};

use futures::future::FutureExt;
use lockkeeper_proto::{ErrorCode, OpCode, Version};
use lockkeeper_recipes::{Election, FencingToken, Latch, Loss};
use lockkeeper_server::{Server, When};
use lockkeeper_session::{Client, Effect};
use tokio::sync::oneshot;

use crate::support::{
    below, client, server, server_and_two,
    waiting::{LONG, clock_ahead, idle, soon, until, until_another_session},
};

const PATH: &str = "/leader";

fn election(client: &Client) -> Election {
    Election::new(client, PATH).unwrap()
}

async fn until_contenders(server: &Server, count: usize) {
    until!(below(server, PATH) == count);
}

#[tokio::test]
async fn an_elected_leader_has_a_guard() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let leader = election(&one).elect().await.unwrap();
    assert!(leader.is_valid());
    let wait = Duration::from_millis(500);
    let late = election(&two).try_elect_for(wait).await.unwrap_err();
    let text = format!("lock {PATH} not acquired in 500 ms, 1 ahead");
    assert_eq!(late.to_string(), text);
    until_contenders(&server, 1).await;
    let before = leader.fencing_token();
    leader.release().await.unwrap();
    let wait = Duration::from_secs(30);
    let next = soon(election(&two).try_elect_for(wait)).await.unwrap();
    assert!(next.fencing_token() > before);
}

#[tokio::test]
async fn a_shutdown_leaves_the_queue_while_waiting() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let leader = election(&one).elect().await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let waiting = election(&two);
    let led = waiting.lead_until(stopped, LONG, async |_| panic!("it never leads"));
    let mut led = pin!(led);
    until("it waits", async || {
        assert!(led.as_mut().now_or_never().is_none());
        below(&server, PATH) == 2
    })
    .await;
    stop.send(()).unwrap();
    assert!(soon(led).await.unwrap().is_none());
    until_contenders(&server, 1).await;
    assert!(leader.is_valid());
}

#[tokio::test]
async fn a_shutdown_from_the_beginning_sends_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let led = election(&client)
        .lead_until(async {}, LONG, async |_| ())
        .await;
    assert!(led.unwrap().is_none());
    assert_eq!(server.counters().requests_of(OpCode::CREATE2), 0);
}

#[tokio::test]
async fn a_leader_finishes_its_work_after_the_shutdown() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (stop, stopped) = oneshot::channel::<()>();
    let (finish, finished) = oneshot::channel::<u32>();
    let (begin, working) = oneshot::channel::<()>();
    let election_of_one = election(&one);
    let mut led = pin!(election_of_one.lead_until(stopped, LONG, async |_| {
        begin.send(()).unwrap();
        finished.await.unwrap()
    }));
    tokio::select! {
        _ = &mut led => panic!("the work is not done"),
        result = working => result.unwrap(),
    }
    let _ = stop.send(());
    let waiting = election(&two);
    let mut next = pin!(waiting.elect());
    until("the next one waits", async || {
        assert!(led.as_mut().now_or_never().is_none(), "it still works");
        assert!(next.as_mut().now_or_never().is_none());
        below(&server, PATH) == 2
    })
    .await;
    finish.send(7).unwrap();
    assert_eq!(soon(led).await, Ok(Some(7)));
    soon(next).await.unwrap().release().await.unwrap();
}

/// Others lead then.
#[tokio::test]
async fn a_leader_that_works_for_too_long_after_the_shutdown_is_stopped() {
    let server = server().await;
    let client = client(&server).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut stop = Some(stop);
    let election = election(&client);
    let led = election.lead_until(stopped, Duration::from_millis(50), async |guard| {
        let _ = stop.take().unwrap().send(());
        until!(!guard.is_valid());
        panic!("the work goes on after its limit");
    });
    let late: Result<Option<()>, _> = soon(led).await;
    assert_eq!(late.unwrap_err().loss(), Some(Loss::Overdue));
    until_contenders(&server, 0).await;
}

/// The work and the loss are ready at the same time. The loss is first: the work does not go on.
#[tokio::test]
async fn a_loss_drops_the_work_also_after_the_shutdown() {
    let server = server().await;
    let client = client(&server).await;
    let session = client.snapshot().session_id;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut stop = Some(stop);
    let election = election(&client);
    let led = election.lead_until(stopped, LONG, async |_| {
        let _ = stop.take().unwrap().send(());
        server.faults().expire_early(session);
        until!(client.snapshot().session_id != session);
        panic!("the work goes on after the loss");
    });
    let lost: Result<Option<()>, _> = soon(led).await;
    assert_eq!(lost.unwrap_err().loss(), Some(Loss::Expired));
}

/// The reply to the delete of a leader that resigns is lost, and no node is found after that. An
/// operator may have deleted it while the leader worked, and another one may have led meanwhile.
#[tokio::test]
async fn a_leader_that_resigned_perhaps_has_perhaps_not_led_to_the_end() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().lose_reply(When::op(OpCode::DELETE));
    let election = election(&client);
    let resigned = soon(election.lead(async |_| 7)).await;
    assert_eq!(resigned.unwrap_err().effect(), Effect::Unknown);
    assert_eq!(server.faults().pending(), 0);
}

/// Only the client's clock runs ahead. The server's does not, so the session lives.
#[tokio::test]
async fn a_latch_leads_again_when_its_lease_is_proved_again() {
    let server = server().await;
    let (clock, ahead) = clock_ahead();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let builder = builder.session_timeout(2 * LONG).clock(clock);
    let client = builder.connect().await.unwrap();
    let latch = election(&client).latch();
    let token = soon(latch.elected()).await.unwrap();
    // The task of the latch has not run meanwhile.
    assert_eq!(latch.token(), Some(token));
    let asleep = u32::try_from(2 * LONG.as_secs()).unwrap();
    ahead.fetch_add(asleep, Ordering::Relaxed);
    assert_eq!(latch.token(), None, "the lease has ended");
    assert!(latch.elected().now_or_never().is_none());
    ahead.fetch_sub(asleep, Ordering::Relaxed);
    assert_eq!(soon(latch.elected()).await.unwrap(), token);

    let becomes = async |wanted: Option<FencingToken>| {
        until("the latch leads or follows", async || {
            ahead.fetch_add(1, Ordering::Relaxed);
            // The server answers in time, so the connection stays.
            client.exists("/").await.unwrap();
            latch.changes().latest() == wanted
        })
        .await;
    };
    // Reads and pings are answered, and no write proves anything.
    for nth in 1..1000 {
        let proof = When::op(OpCode::MULTI).nth(nth);
        server.faults().refuse(proof, ErrorCode::THROTTLED_OP);
    }
    becomes(None).await;
    server.faults().clear();
    becomes(Some(token)).await;
    assert_eq!(client.snapshot().connections, 1);
}

/// Waits until one candidate leads, and never more than one.
async fn leader(candidates: &[(Client, Latch)]) -> &(Client, Latch) {
    let leads = || candidates.iter().filter(|(_, latch)| latch.is_leader());
    until("one leads", async || {
        assert!(leads().count() <= 1, "two lead");
        leads().count() == 1
    })
    .await;
    leads().next().unwrap()
}

/// CURATOR-644, -645, -504: a candidate whose predecessor was missing replaced its own node. Then
/// the next one did, and so on, millions of times. CURATOR-652, -653: candidates that reconnected
/// together ended with different leaders.
#[tokio::test]
async fn only_a_candidate_that_lost_its_node_creates_a_new_one() {
    const ROUNDS: u64 = 4;
    let server = server().await;
    let mut candidates = Vec::new();
    for _ in 0..3 {
        let client = client(&server).await;
        let latch = election(&client).latch();
        candidates.push((client, latch));
    }
    until_contenders(&server, 3).await;
    let creates = || server.counters().requests_of(OpCode::CREATE2);
    let before = creates();
    for _ in 0..ROUNDS {
        let (leader, latch) = leader(&candidates).await;
        let nodes = server.paths();
        let connected = candidates.iter().map(|it| it.0.snapshot().connections);
        let connected: Vec<_> = connected.collect();
        server.faults().cut_all();
        for ((client, _), before) in candidates.iter().zip(connected) {
            until!(client.snapshot().connections > before);
            idle(client).await;
        }
        assert_eq!(server.paths(), nodes);
        assert!(latch.is_leader());
        assert!(server.faults().expire_early(leader.snapshot().session_id));
        until!(!latch.is_leader());
        until_contenders(&server, 3).await;
    }
    leader(&candidates).await;
    assert_eq!(creates() - before, ROUNDS);
}

/// Other latches never stood again after a create that was refused, after two expiries in a row
/// (CURATOR-16, -73, -104, -518, -671), or when their directory was deleted in an outage
/// (CURATOR-724).
#[tokio::test]
async fn a_latch_stands_again_after_a_refusal_and_after_each_loss() {
    let (server, client, other) = server_and_two().await;
    let create = When::op(OpCode::CREATE2);
    server.faults().refuse(create, ErrorCode::NO_AUTH);
    let latch = election(&client).latch();
    let mut token = Some(soon(latch.elected()).await.unwrap());
    assert_eq!(server.faults().pending(), 0);
    for _ in 0..2 {
        let session = client.snapshot().session_id;
        assert!(server.faults().expire_early(session));
        until_another_session(&client, session).await;
    }
    until!(latch.token() > token);
    token = latch.token();
    server.faults().refuse_handshakes(true);
    server.faults().cut(client.snapshot().session_id);
    until!(!client.snapshot().state.is_connected());
    let paths = server.paths();
    for path in paths.iter().rev().filter(|path| path.starts_with(PATH)) {
        other.delete(path, Version::ANY).await.unwrap();
    }
    server.faults().refuse_handshakes(false);
    until!(latch.token() > token);
}
