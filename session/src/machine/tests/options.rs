//! Room, deadlines, and callers who do not wait for a connection.

use std::time::Duration;

use lockkeeper_proto::{ErrorCode, OpCode, Request, Response, Xid, records::Empty};

use super::{
    pair::{ID, Pair, SECOND, THIRD, TIMEOUT},
    requests::{create, delete, get, lost, not_reached, sound_reply, sync},
};
use crate::{
    Cause, Effect, Error,
    machine::{Input, RequestOptions, WatchId, request_bytes},
};

impl Pair {
    /// Submits with a deadline so far ahead.
    fn submit_within(&mut self, deadline: Duration, request: Request) -> (u32, Option<WatchId>) {
        let options = RequestOptions {
            deadline: Some(self.now + deadline),
            ..RequestOptions::at(self.now)
        };
        self.submit_with(request, options)
    }

    /// Submits what does not wait for a connection.
    fn submit_hastily(&mut self, request: Request) -> u32 {
        let options = RequestOptions {
            fail_fast: true,
            ..RequestOptions::at(self.now)
        };
        self.submit_with(request, options).0
    }

    fn pong(&mut self) {
        if self.ops().contains(&OpCode::PING) {
            self.reply(Xid::PING, 1, Ok(Response::Ping(Empty {})));
        }
    }
}

fn is_late(error: &Error, is_sent: bool) {
    let Error::DeadlineExceeded { effect, peer, .. } = error else {
        panic!("{error:?}");
    };
    let expected = if is_sent {
        Effect::Unknown
    } else {
        Effect::NotApplied
    };
    assert_eq!(*effect, expected);
    assert_eq!(peer.server.is_some(), is_sent);
    assert!(error.is_transient());
}

/// A server that answered pings and nothing else held its callers until the connection was given up.
#[test]
fn a_server_that_answers_pings_and_nothing_else_holds_nobody_longer_than_the_deadline() {
    let mut pair = Pair::connected(|_| {});
    let (token, _) = pair.submit_within(2 * SECOND, delete("/a"));
    let (second, _) = pair.submit_within(SECOND, delete("/b"));
    let patient = pair.submit(delete("/c"));
    pair.wait(Duration::from_nanos(999_999_999));
    assert!(!pair.is_settled(second));
    pair.wait(Duration::from_nanos(1));
    let late = pair.error(second);
    is_late(&late, true);
    let told = format!(
        "delete not answered within 1000 ms by zk1:2181, session {ID}; the request may have been applied"
    );
    assert_eq!(late.to_string(), told);
    assert!(!pair.is_settled(token));
    pair.wait(SECOND);
    is_late(&pair.error(token), true);
    while !pair.is_settled(patient) {
        pair.wait(SECOND);
        pair.pong();
    }
    assert_eq!(pair.now - pair.born, TIMEOUT);
    let why = lost("zk1", Cause::RequestTimeout(TIMEOUT));
    assert_eq!(pair.error(patient), Error::ConnectionLost(why));
}

#[test]
fn a_late_reply_reaches_nobody_and_costs_nothing() {
    let mut pair = Pair::connected(|_| {});
    let before = pair.submit(sync("/before"));
    let (late, _) = pair.submit_within(SECOND, sync("/late"));
    let after = pair.submit(sync("/after"));
    pair.wait(2 * SECOND);
    is_late(&pair.error(late), true);
    assert_eq!(pair.machine.outstanding(), 3);
    pair.serve();
    assert!(pair.result(before).is_ok() && pair.result(after).is_ok());
    assert_eq!(pair.machine.outstanding(), 0);
    assert_eq!(pair.states(), []);
    assert_eq!(pair.machine.metrics().unknown, 1);
}

#[test]
fn what_was_not_sent_by_its_deadline_never_is() {
    let mut pair = Pair::connected(|config| config.server_timeout = Some(SECOND));
    pair.cut();
    let first = pair.submit(delete("/first"));
    let (late, _) = pair.submit_within(SECOND, delete("/late"));
    let (in_time, _) = pair.submit_within(30 * SECOND, delete("/in time"));
    let (passed, watch) = pair.submit_within(Duration::ZERO, get("/passed", true));
    is_late(&pair.error(passed), false);
    assert_eq!(watch, None);
    pair.wait(SECOND);
    let error = pair.error(late);
    is_late(&error, false);
    assert_eq!(
        error.to_string(),
        "delete not answered within 1000 ms, not connected (session 0x100)"
    );
    pair.connect();
    assert_eq!(pair.ops(), [OpCode::DELETE, OpCode::DELETE]);
    assert!(!pair.is_settled(first) && !pair.is_settled(in_time));
}

/// The next deadline is the next caller's, and no longer one of those who are gone.
#[test]
fn a_deadline_goes_with_its_request() {
    let mut pair = Pair::connected(|_| {});
    let (answered, _) = pair.submit_within(SECOND, sync("/"));
    pair.serve();
    assert!(pair.result(answered).is_ok());
    pair.submit_within(SECOND, sync("/"));
    pair.cut();
    pair.submit_within(SECOND, sync("/"));
    pair.machine.abort();
    pair.pump();
    assert!(pair.machine.deadlines.is_empty());

    let mut pair = Pair::connected(|_| {});
    pair.submit_within(SECOND, sync("/"));
    pair.answer_all(|_| Err(ErrorCode::UNIMPLEMENTED));
    pair.submit_within(SECOND, create("/", vec![0; 2 << 20]));
    assert!(pair.machine.deadlines.is_empty());
}

#[test]
fn a_watch_that_comes_too_late_is_taken_back() {
    for code in [ErrorCode::OK, ErrorCode::NO_NODE] {
        let mut pair = Pair::connected(|_| {});
        let (token, watch) = pair.submit_within(SECOND, get("/a", true));
        assert!(watch.is_some());
        pair.wait(2 * SECOND);
        is_late(&pair.error(token), true);
        pair.answer_all(|request| match request {
            Request::GetData(_) if !code.is_ok() => Err(code),
            other => Ok(sound_reply(other)),
        });
        assert_eq!(pair.machine.watch_count(), 0);
        assert_eq!(pair.machine.outstanding(), 0);
        assert_eq!(pair.fired(), []);
        // Answered with success, the watch was left: a `removeWatches` has followed.
        let removed = if code.is_ok() { 2 } else { 1 };
        assert_eq!(pair.writes, 1 + removed);
    }
}

#[test]
fn who_does_not_wait_for_a_connection_is_told_at_once_that_there_is_none() {
    let mut pair = Pair::new(|_| {});
    let early = pair.submit_hastily(sync("/"));
    assert_eq!(pair.error(early), Error::NotConnected(None));
    pair.connect();
    let sent = pair.submit_hastily(sync("/"));
    let (unsent, _) = {
        let options = RequestOptions {
            fail_fast: true,
            ..RequestOptions::at(pair.now)
        };
        pair.submit_with_quietly(sync("/"), options)
    };
    let waiting = pair.submit_quietly(sync("/")).0;
    pair.machine
        .handle(pair.now, Input::Disconnected(Cause::ClosedByServer));
    pair.pump();
    let why = lost("zk1", Cause::ClosedByServer);
    assert_eq!(pair.error(sent), Error::ConnectionLost(why.clone()));
    let error = pair.error(unsent);
    assert_eq!(error, Error::NotConnected(Some(why)));
    assert_eq!(
        (error.effect(), error.is_transient()),
        (Effect::NotApplied, true)
    );
    assert!(!pair.is_settled(waiting));
    pair.reach();
    let meanwhile = pair.submit_hastily(sync("/"));
    assert!(matches!(
        pair.error(meanwhile),
        Error::NotConnected(Some(_))
    ));
    pair.cut();
    assert_eq!(pair.machine.metrics().queued, 1);
}

#[test]
fn room_is_counted_in_bytes_too_and_what_is_larger_than_all_of_it_goes_alone() {
    let mut pair = Pair::connected(|config| config.max_queued_bytes = 1000);
    pair.cut();
    let options = RequestOptions::at(pair.now);
    let large = create("/a", vec![0; 5000]);
    assert_eq!(request_bytes(&large), 5002);
    assert!(pair.machine.has_capacity(pair.now, 5002, &options));
    pair.submit(large);
    assert!(!pair.machine.has_capacity(pair.now, 1, &options));
    let refused = pair.submit(sync("/"));
    let error = pair.error(refused);
    let bytes = 5002;
    assert_eq!(error, Error::TooManyRequests { requests: 1, bytes });
    pair.connect();
    assert!(pair.machine.has_capacity(pair.now, 1000, &options));
    assert_eq!(pair.machine.metrics().queued_bytes, 0);

    let mut pair = Pair::connected(|config| config.max_queued_bytes = 1000);
    pair.cut();
    pair.submit(create("/a", vec![0; 600]));
    assert!(pair.machine.has_capacity(pair.now, 398, &options));
    assert!(!pair.machine.has_capacity(pair.now, 399, &options));
    // The reserve of those that cannot wait.
    let taken = pair.submit(create("/a", vec![0; 1000]));
    assert!(!pair.is_settled(taken));
    // Whoever gets an answer at once need not wait for room.
    for options in [
        RequestOptions {
            deadline: Some(pair.now),
            ..options
        },
        RequestOptions {
            fail_fast: true,
            ..options
        },
    ] {
        assert!(pair.machine.has_capacity(pair.now, 999, &options));
    }
    assert!(pair.machine.has_capacity(pair.now, 1 << 20, &options));
}

/// A request of a gigabyte was encoded to find that it was too long, and its memory kept.
#[test]
fn a_request_that_is_too_long_is_refused_before_it_takes_a_place_in_the_line() {
    for connected in [true, false] {
        let mut pair = Pair::new(|config| config.max_request = 1000);
        if connected {
            pair.connect();
        }
        let token = pair.submit_quietly(create("/a", vec![0; 1000])).0;
        assert_eq!(pair.machine.outstanding(), 0);
        pair.pump();
        // Header, path, data, null list, flags.
        let length = 8 + 6 + 1004 + 4 + 4;
        let limit = 1000;
        assert_eq!(pair.error(token), Error::TooLarge { length, limit });
    }
}

#[test]
fn what_is_very_much_is_sent_in_parts() {
    let mut pair = Pair::connected(|_| {});
    for _ in 0..40 {
        pair.submit_quietly(create("/a", vec![0; 50_000]));
    }
    let mut parts = Vec::new();
    let mut out = bytes::BytesMut::new();
    while pair.machine.has_unsent() {
        out.clear();
        pair.machine.transmit(pair.now, &mut out);
        parts.push(out.len());
        assert!(parts.len() < 100, "it does not end");
    }
    let total: usize = parts.iter().sum();
    assert_eq!(total, 40 * (4 + 8 + 6 + 50_004 + 4 + 4));
    assert!(parts.iter().all(|part| *part < 320_000), "{parts:?}");
    assert!(parts.len() > 6);
    assert_eq!(pair.machine.metrics().in_flight, 40);
}

/// Patience is counted from when the caller began to wait, not from when there was room for its request.
#[test]
fn time_spent_waiting_for_room_counts() {
    let mut pair = Pair::new(|_| {});
    pair.wait(2 * THIRD);
    let options = RequestOptions::at(pair.born);
    let (token, _) = pair.submit_with(sync("/"), options);
    pair.wait(THIRD);
    let Error::Unreachable { waited, tried, .. } = pair.error(token) else {
        panic!("{:?}", pair.outputs);
    };
    assert_eq!(waited, TIMEOUT);
    assert_eq!(*tried, [not_reached("zk1", Cause::ConnectTimeout(TIMEOUT))]);
}

/// Two thousand million requests, some months of a busy client.
#[test]
fn request_numbers_start_again_before_they_become_those_of_pings_and_events() {
    let mut pair = Pair::connected(|_| {});
    pair.machine.next_xid = i32::MAX - 2;
    let first = pair.submit(sync("/first"));
    let tokens: Vec<_> = (0..6).map(|_| pair.submit(sync("/"))).collect();
    let numbers: Vec<_> = pair.requests().iter().map(|(xid, _)| xid.0).collect();
    let expected = [i32::MAX - 2, i32::MAX - 1, i32::MAX, 1, 2, 3, 4];
    assert_eq!(numbers, expected);
    // Both ends are on their way at the same time: each reply finds its request.
    for (xid, token) in numbers.into_iter().zip([first].into_iter().chain(tokens)) {
        let body = sound_reply(&sync("/"));
        pair.reply(Xid(xid), 1, Ok(body));
        assert!(pair.result(token).is_ok());
    }
    pair.cut();
    pair.connect();
    pair.submit(sync("/"));
    assert_eq!(pair.requests()[0].0, Xid(5), "not again in this session");
}
