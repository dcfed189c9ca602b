//! Rows 4 and 48 to 51: candidates that replace their nodes endlessly, or stop being candidates.

use lockkeeper::{Client, Election, election::Latch, error::ErrorCode, proto::OpCode};
use lockkeeper_server::{Server, When};

use crate::rig::{
    PATH, client, clients, cut_off, delete, idle, let_in, queue, server, session, soon, until,
    until_other_session, until_queue_has,
};

fn latch(client: &Client) -> Latch {
    Election::new(client, PATH).unwrap().latch()
}

async fn candidates<const N: usize>(server: &Server) -> [(Client, Latch); N] {
    let candidates = clients::<N>(server).await.map(|client| {
        let latch = latch(&client);
        (client, latch)
    });
    until_queue_has(server, N).await;
    candidates
}

/// Waits until one candidate leads and returns its index. Fails if two lead at the same time.
async fn leader(candidates: &[(Client, Latch)]) -> usize {
    let mut leader = None;
    until("one leads", async || {
        let leads = |index: &usize| candidates[*index].1.is_leader();
        let leading: Vec<_> = (0..candidates.len()).filter(leads).collect();
        assert!(leading.len() <= 1, "{leading:?} lead");
        leader = leading.first().copied();
        leader.is_some()
    })
    .await;
    leader.unwrap()
}

/// CURATOR-644, -645, -504: a candidate whose predecessor was missing deleted its own node and
/// created a new one, instead of listing again. That removed the predecessor of the next candidate,
/// which did the same. The candidates went through millions of nodes. CURATOR-652, -653: the resets
/// of candidates that reconnected at the same time overlapped, and they ended with different
/// leaders.
///
/// Here candidates that reconnect keep their nodes and their places, and each expiry of a leader
/// causes exactly one new node: that of the former leader.
#[tokio::test]
async fn row_04_and_48_only_a_candidate_that_lost_its_node_creates_a_new_one() {
    const ROUNDS: u64 = 6;
    let server = server().await;
    let candidates = candidates::<3>(&server).await;
    let before = server.counters().requests_of(OpCode::CREATE2);
    for _ in 0..ROUNDS {
        let (leader, nodes) = (leader(&candidates).await, queue(&server));
        let connections = || candidates.each_ref().map(|it| it.0.snapshot().connections);
        let next = connections().map(|count| count + 1);
        server.faults().cut_all();
        until!(connections() == next);
        for (client, _) in &candidates {
            idle(client).await;
        }
        assert_eq!(queue(&server), nodes);
        let (client, latch) = &candidates[leader];
        assert!(latch.is_leader());
        server.faults().expire_early(session(client));
        until!(!latch.is_leader());
        until_queue_has(&server, 3).await;
    }
    leader(&candidates).await;
    let creates = server.counters().requests_of(OpCode::CREATE2) - before;
    assert_eq!(creates, ROUNDS);
}

/// CURATOR-724: the directory was deleted while the connection was down. The latch only logged the
/// "no node" error and never took part again. Here both candidates create the directory and their
/// nodes again, and one leads with a higher token.
#[tokio::test]
async fn row_49_a_directory_deleted_during_an_outage_is_created_again() {
    let server = server().await;
    let (operator, candidates) = (client(&server).await, candidates::<2>(&server).await);
    let before = candidates[leader(&candidates).await].1.token();
    for (client, _) in &candidates {
        cut_off(&server, client).await;
    }
    for node in queue(&server) {
        delete(&operator, &node).await;
    }
    delete(&operator, PATH).await;
    let_in(&server);
    until_queue_has(&server, 2).await;
    until!(candidates[leader(&candidates).await].1.token() > before);
}

/// Curator's latch only logs a create that the server refuses, and never tries again. Here the
/// candidate tries again and is elected.
#[tokio::test]
async fn row_50_a_refused_candidate_tries_again() {
    let server = server().await;
    let client = client(&server).await;
    let create = When::op(OpCode::CREATE2);
    server.faults().refuse(create, ErrorCode::NO_AUTH);
    let latch = latch(&client);
    until!(server.faults().pending() == 0);
    soon(latch.elected()).await.unwrap();
}

/// CURATOR-16, -73, -104, -518, -671: an interrupt or a session expiry at a bad moment, or two of
/// them in a row, ended the candidacy for ever. Here the candidate stands again after each of them
/// and is elected.
#[tokio::test]
async fn row_51_a_candidate_is_elected_after_an_expiry_at_any_moment() {
    let server = server().await;
    for number in 1.. {
        let candidate = client(&server).await;
        // In round N the connection is cut at the N-th request. The session expires then, and its
        // successor expires as soon as it is there.
        let request = When::any().of_session(session(&candidate)).nth(number);
        server.faults().cut_before(request);
        let latch = latch(&candidate);
        let met = until("it is cut off", async || server.faults().pending() == 0);
        let is_met = tokio::select! {
            () = met => true,
            () = idle(&candidate) => false,
        };
        for _ in 0..2 {
            let old = session(&candidate);
            server.faults().expire_early(old);
            until_other_session(&candidate, old).await;
        }
        server.faults().clear();
        soon(latch.elected()).await.unwrap();
        drop(latch);
        until_queue_has(&server, 0).await;
        if !is_met {
            assert!(number > 2, "elected after {number} requests");
            break;
        }
    }
}
