//! Rows 48 to 51: candidates that chase each other, or do not stand any more.

use std::pin::pin;

use lockkeeper::{Client, Election, ErrorCode, Latch, LockError, Loss, Semaphore, proto::OpCode};
use lockkeeper_server::{Server, When};

use crate::rig::{
    PATH, below, client, cut_off, delete, driven, idle, let_in, line, server, session, soon, until,
    until_line_has, until_other_session,
};

fn latch(client: &Client) -> Latch {
    Election::new(client, PATH).unwrap().latch()
}

async fn candidates<const N: usize>(server: &Server) -> [(Client, Latch); N] {
    let mut candidates = Vec::new();
    for _ in 0..N {
        let client = client(server).await;
        let latch = latch(&client);
        candidates.push((client, latch));
    }
    until_line_has(server, N).await;
    candidates.try_into().unwrap()
}

/// Waits until one leads, and tells which; never do two.
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

/// CURATOR-644, -645, -504: a predecessor that was missing made a candidate delete its own node and stand anew, which did
/// the same to the next: they chased each other through millions of nodes.
#[tokio::test]
async fn row_48_only_who_has_lost_its_node_stands_anew() {
    const ROUNDS: u64 = 6;
    let server = server().await;
    let candidates = candidates::<3>(&server).await;
    let before = server.counters().requests_of(OpCode::CREATE2);
    for _ in 0..ROUNDS {
        let leader = leader(&candidates).await;
        server.faults().expire(session(&candidates[leader].0));
        let (_, latch) = &candidates[leader];
        until("it does not lead", async || !latch.is_leader()).await;
        until_line_has(&server, 3).await;
    }
    leader(&candidates).await;
    let creates = server.counters().requests_of(OpCode::CREATE2) - before;
    assert_eq!(creates, ROUNDS);
}

/// CURATOR-724: the directory vanished while the connection was down, and the error that came of it was only logged.
#[tokio::test]
async fn row_49_a_directory_that_vanished_in_an_outage_is_made_again() {
    let server = server().await;
    let (operator, candidates) = (client(&server).await, candidates::<2>(&server).await);
    let before = candidates[leader(&candidates).await].1.token();
    for (client, _) in &candidates {
        cut_off(&server, client).await;
    }
    for node in line(&server) {
        delete(&operator, &node).await;
    }
    delete(&operator, PATH).await;
    let_in(&server);
    until_line_has(&server, 2).await;
    until("one leads anew", async || {
        candidates[leader(&candidates).await].1.token() > before
    })
    .await;
}

/// The same to one that waits for a lease: it is told what has become of it.
#[tokio::test]
async fn row_49_who_waits_for_a_lease_in_a_directory_that_vanishes_is_told() {
    let server = server().await;
    let (operator, client) = (client(&server).await, client(&server).await);
    let semaphore = Semaphore::new(&client, PATH, 1).unwrap();
    let _held = semaphore.acquire().await.unwrap();
    let mut waiting = pin!(semaphore.acquire());
    assert!(driven(&client, waiting.as_mut()).await.is_none());
    cut_off(&server, &client).await;
    for line in ["/lock/leases", "/lock/locks"] {
        for node in below(&server, line) {
            delete(&operator, &node).await;
        }
        delete(&operator, line).await;
    }
    let_in(&server);
    let error = soon(waiting).await.unwrap_err();
    assert_eq!(error, LockError::Lost(Loss::Deleted));
}

/// Curator's latch logs a create that is refused, and never stands again.
#[tokio::test]
async fn row_50_who_is_refused_stands_again() {
    let server = server().await;
    let client = client(&server).await;
    let create = When::op(OpCode::CREATE2);
    server.faults().refuse(create, ErrorCode::NO_AUTH);
    let latch = latch(&client);
    until("it is refused", async || server.faults().pending() == 0).await;
    soon(latch.elected()).await.unwrap();
}

/// CURATOR-16, -73, -104, -518, -671: an interrupt or expiry at the wrong moment, or two in a row, ended the standing.
#[tokio::test]
async fn row_51_who_expires_at_any_moment_stands_again() {
    let server = server().await;
    for number in 1.. {
        let candidate = client(&server).await;
        // It expires at its first request, the second one, ..; then once more, as soon as there is another session.
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
            server.faults().expire(old);
            until_other_session(&candidate, old).await;
        }
        server.faults().clear();
        soon(latch.elected()).await.unwrap();
        drop(latch);
        until_line_has(&server, 0).await;
        if !is_met {
            assert!(number > 2, "elected after {number} requests");
            break;
        }
    }
}
