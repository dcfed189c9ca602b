//! The window of requests under way: what it holds back, what passes it, and what frees it.

use std::collections::VecDeque;

use bytes::BytesMut;
use lockkeeper_proto::{ErrorCode, OpCode, Request, Xid, records::Empty};

use super::{
    pair::{Pair, SIXTH, TIMEOUT},
    proof::{keep, lease, proof_reply},
    requests::{create, get, sound_reply, sync},
};
use crate::{
    Cause, Effect, ErrorKind,
    machine::{BURST, RequestOptions, requests::WINDOW},
};

/// Submits this many requests, which leave in as few writes as the machine allows.
fn burst(pair: &mut Pair, requests: usize) -> Vec<u32> {
    let one = |_| pair.submit_quietly(sync("/")).0;
    let tokens = (0..requests).map(one).collect();
    pair.pump();
    tokens
}

/// Once, all 65,536 requests of a burst went to the server at once. A ping waited behind them for
/// so long that the client left a healthy server, and took with it the outcome of everything that
/// was under way.
#[test]
fn a_burst_goes_out_as_replies_come() {
    let mut pair = Pair::connected(|_| {});
    let tokens = burst(&mut pair, 2 * WINDOW + 500);
    let mut received = pair.requests();
    assert_eq!(received.len(), WINDOW);
    // A ping does not wait for the window.
    pair.wait(SIXTH);
    assert_eq!(pair.requests(), [(Xid::PING, Request::Ping(Empty {}))]);
    // Each reply frees the place of one request, and the turn of the machine that took it in sends
    // the next one.
    let mut answered = 0;
    while answered < received.len() {
        let (xid, request) = &received[answered];
        assert_eq!(*xid, Xid(i32::try_from(answered).unwrap() + 1));
        pair.reply(*xid, 1, Ok(sound_reply(request)));
        answered += 1;
        received.extend(pair.requests());
        assert!(received.len() - answered <= WINDOW);
    }
    assert_eq!(answered, tokens.len());
    assert!(tokens.iter().all(|token| pair.result(*token).is_ok()));
}

/// The transport asks again when the machine says that there is more. A machine that says so and
/// sends nothing would keep its task busy until the next reply.
#[test]
fn a_full_window_has_nothing_to_send() {
    let mut pair = Pair::connected(|_| {});
    for _ in 1..WINDOW {
        pair.submit_quietly(sync("/"));
    }
    // With it as much is sent as is handed over at a time.
    pair.submit_quietly(create("/a", vec![0; BURST]));
    pair.submit_quietly(sync("/"));
    let mut out = BytesMut::new();
    assert!(!pair.machine.transmit(pair.now, &mut out));
    assert_eq!(pair.machine.metrics().in_flight, WINDOW);
    let sent = out.len();
    assert!(sent >= BURST && !pair.machine.transmit(pair.now, &mut out));
    assert_eq!(out.len(), sent);
}

/// Its proofs waited behind all reads of the client, and the lease of a living session ended.
#[test]
fn a_lease_is_proved_ahead_of_the_requests_that_wait() {
    let mut pair = Pair::connected(|_| {});
    let _token = keep(&mut pair);
    // The server needs a whole session timeout for those that wait.
    let (waiting, steps) = (20 * WINDOW, 400);
    let mut received = VecDeque::new();
    for _ in 0..3 * steps {
        while pair.machine.outstanding() < waiting {
            pair.submit_quietly(get("/a", false));
        }
        pair.wait(TIMEOUT / steps);
        pair.pump();
        received.extend(pair.requests());
        for (xid, request) in received.drain(..received.len().min(waiting / 400)) {
            pair.reply(xid, 1, Ok(proof_reply(&request)));
        }
        pair.outputs.clear();
        assert!(lease(&pair) > Some(pair.now + TIMEOUT / 10));
    }
    // Nobody has lost a deadline to the requests that went ahead.
    let options = RequestOptions {
        deadline: Some(pair.now + SIXTH / 2),
        ..RequestOptions::default()
    };
    let (hasty, _) = pair.submit_with(get("/a", false), options);
    pair.wait(SIXTH / 2);
    let error = pair.error(hasty);
    assert!(matches!(error.kind(), ErrorKind::DeadlineExceeded { .. }));
}

#[test]
fn a_lost_connection_leaves_no_more_unknown_than_the_window() {
    let mut pair = Pair::connected(|_| {});
    let tokens = burst(&mut pair, 3 * WINDOW);
    pair.cut();
    let (settled, waiting) = tokens.split_at(WINDOW);
    for token in settled {
        assert_eq!(pair.error(*token).effect(), Effect::Unknown);
    }
    assert!(!waiting.iter().any(|token| pair.is_settled(*token)));
    pair.connect();
    assert_eq!(pair.requests().len(), WINDOW);
}

/// Nothing answers a program that ends, so its client has only one chance to send.
#[test]
fn a_client_that_closes_sends_what_waits_at_once() {
    let mut pair = Pair::connected(|_| {});
    burst(&mut pair, 2 * WINDOW);
    pair.machine.close(pair.now);
    pair.pump();
    let ops = pair.ops();
    assert_eq!(ops.len(), 2 * WINDOW + 1);
    assert_eq!(ops.last(), Some(&OpCode::CLOSE_SESSION));
}

#[test]
fn watches_are_restored_through_the_window_and_before_requests() {
    // Each request has room for one path.
    let mut pair = Pair::connected(|config| config.max_request = 48);
    let watches = WINDOW + 200;
    let paths = (0..watches).map(|watch| format!("/{watch:05}"));
    pair.watch_nodes(paths);
    pair.serve();
    pair.cut();
    pair.submit(sync("/"));
    pair.connect();
    let mut received = pair.requests();
    assert_eq!(received.len(), WINDOW);
    let mut answered = 0;
    while answered < received.len() {
        let (xid, request) = received[answered].clone();
        let expected = if answered < watches {
            OpCode::SET_WATCHES
        } else {
            OpCode::SYNC
        };
        assert_eq!(request.op(), expected);
        pair.reply(xid, 1, Ok(sound_reply(&request)));
        answered += 1;
        received.extend(pair.requests());
    }
    assert_eq!(answered, watches + 1);
}

/// A server whose `jute.maxbuffer` is smaller closes the connection each time. Nobody was told why.
#[test]
fn a_long_request_behind_which_several_connections_end_is_blamed() {
    let mut pair = Pair::connected(|_| {});
    // Whether the request is blamed for the end of the connection.
    let is_blamed = |pair: &mut Pair, request: Request| {
        let (first, second) = (pair.submit(request), pair.submit(sync("/")));
        pair.reconnect();
        let last = pair.error(second);
        let is_usual = matches!(
            last.kind(),
            ErrorKind::ConnectionLost(Cause::ClosedByServer)
        );
        assert!(is_usual, "{last}");
        let error = pair.error(first);
        assert_eq!(error.effect(), Effect::Unknown);
        if let ErrorKind::ConnectionLost(Cause::ClosedAtRequest { op, length }) = error.kind() {
            assert!(*op == OpCode::CREATE2 && *length >= 2000, "{error}");
            return true;
        }
        false
    };
    let long = |number: u8| create("/a", vec![number; 2000]);
    for number in 1..=6 {
        assert_eq!(is_blamed(&mut pair, long(number)), number >= 5, "{number}");
    }
    // A server has taken such a request.
    pair.submit(long(7));
    pair.answer_all(|_| Err(ErrorCode::NODE_EXISTS));
    for number in 8..12 {
        assert!(!is_blamed(&mut pair, long(number)));
    }
    // Another one: the row is at its beginning.
    assert!(!is_blamed(&mut pair, create("/b", vec![0; 2001])));
    assert!(!is_blamed(&mut pair, long(12)));
    // Each server takes requests that are so short.
    for _ in 0..8 {
        assert!(!is_blamed(&mut pair, create("/a", vec![0; 20])));
    }
}
