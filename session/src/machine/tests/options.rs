//! Request capacity and deadlines.

use std::time::Duration;

use lockkeeper_proto::{ErrorCode, OpCode, Request, Xid};

use super::{
    pair::{ID, Pair, SECOND, THIRD, TIMEOUT},
    requests::{create, delete, get, lost, not_reached, sound_reply, sync},
};
use crate::{
    Cause, Effect, Error, ErrorKind,
    machine::{Encoded, RequestOptions, WatchId},
};

impl Pair {
    /// Submits a request with a deadline this long from now.
    pub(super) fn submit_within(
        &mut self,
        deadline: Duration,
        request: Request,
    ) -> (u32, Option<WatchId>) {
        let options = RequestOptions {
            deadline: Some(self.now + deadline),
            ..RequestOptions::at(self.now)
        };
        self.submit_with(request, options)
    }
}

fn is_late(error: &Error, is_sent: bool) {
    let is_exceeded = matches!(error.kind(), ErrorKind::DeadlineExceeded { .. });
    assert!(is_exceeded, "{error:?}");
    let expected = if is_sent {
        Effect::Unknown
    } else {
        Effect::NotApplied
    };
    assert_eq!(error.effect(), expected);
    assert_eq!(error.peer().server.is_some(), is_sent);
    assert!(error.is_transient());
}

/// Once, callers waited until the connection was given up when the server answered pings and
/// nothing else.
#[test]
fn a_deadline_ends_the_wait_on_a_server_that_answers_only_pings() {
    let mut pair = Pair::connected(|_| {});
    let (token, _) = pair.submit_within(2 * SECOND, delete("/a"));
    let (second, _) = pair.submit_within(SECOND, delete("/b"));
    let without_deadline = pair.submit(delete("/c"));
    pair.wait(Duration::from_nanos(999_999_999));
    assert!(!pair.is_settled(second));
    pair.wait(Duration::from_nanos(1));
    let late = pair.error(second);
    is_late(&late, true);
    let told = format!(
        "delete not answered within 1 s by zk1:2181, session {ID}; the request may have been applied"
    );
    assert_eq!(late.to_string(), told);
    assert!(!pair.is_settled(token));
    pair.wait(SECOND);
    is_late(&pair.error(token), true);
    while !pair.is_settled(without_deadline) {
        pair.wait(SECOND);
        if pair.ops().contains(&OpCode::PING) {
            pair.pong();
        }
    }
    assert_eq!(pair.now - pair.born, TIMEOUT);
    let why = lost("zk1", Cause::RequestTimeout(TIMEOUT));
    assert_eq!(pair.error(without_deadline), Error::lost(why));
}

#[test]
fn a_late_reply_is_ignored() {
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
fn a_request_not_sent_by_its_deadline_is_never_sent() {
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
        "delete not answered within 1 s, not connected (session 0x100)"
    );
    pair.connect();
    assert_eq!(pair.ops(), [OpCode::DELETE, OpCode::DELETE]);
    assert!(!pair.is_settled(first) && !pair.is_settled(in_time));
}

/// The next deadline belongs to a caller that still waits, and not to a request that is settled.
#[test]
fn a_deadline_is_removed_with_its_request() {
    let mut pair = Pair::connected(|_| {});
    let (answered, _) = pair.submit_within(SECOND, sync("/"));
    pair.serve();
    assert!(pair.result(answered).is_ok());
    pair.submit_within(SECOND, sync("/"));
    pair.cut();
    pair.submit_within(SECOND, sync("/"));
    pair.machine.abort();
    pair.pump();
    assert!(pair.machine.requests.next_deadline().is_none());

    let mut pair = Pair::connected(|_| {});
    pair.submit_within(SECOND, sync("/"));
    pair.answer_all(|_| Err(ErrorCode::UNIMPLEMENTED));
    pair.submit_within(SECOND, create("/", vec![0; 2 << 20]));
    assert!(pair.machine.requests.next_deadline().is_none());
}

#[test]
fn the_watch_of_an_overdue_request_is_removed() {
    for code in [ErrorCode::OK, ErrorCode::NO_NODE] {
        let mut pair = Pair::connected(|_| {});
        let (token, watch) = pair.submit_within(SECOND, get("/a", true));
        assert!(watch.is_some());
        pair.wait(SECOND);
        let late = pair.error(token);
        assert!(
            matches!(late.kind(), ErrorKind::DeadlineExceeded { .. }),
            "{late:?}"
        );
        pair.answer_all(|request| match request {
            Request::GetData(_) if !code.is_ok() => Err(code),
            other => Ok(sound_reply(other)),
        });
        assert_eq!(pair.machine.metrics().watches, 0);
        assert_eq!(pair.machine.outstanding(), 0);
        assert_eq!(pair.fired(), []);
        // After a success the server has the watch: a `removeWatches` has followed.
        let removed = if code.is_ok() { 2 } else { 1 };
        assert_eq!(pair.writes, 1 + removed);
    }
}

#[test]
fn capacity_counts_bytes_and_a_request_above_the_whole_capacity_goes_alone() {
    let mut pair = Pair::connected(|config| config.max_queued_bytes = 1000);
    pair.cut();
    let options = RequestOptions::at(pair.now);
    let large = create("/a", vec![0; 5000]);
    assert_eq!(Encoded::from(large.clone()).len(), 5026);
    assert!(pair.machine.has_capacity(pair.now, 5026, &options));
    pair.submit(large);
    assert!(!pair.machine.has_capacity(pair.now, 1, &options));
    let refused = pair.submit(sync("/"));
    let error = pair.error(refused);
    let bytes = 5026;
    assert_eq!(
        error,
        ErrorKind::TooManyRequests { requests: 1, bytes }.into()
    );
    pair.connect();
    assert!(pair.machine.has_capacity(pair.now, 1000, &options));
    assert_eq!(pair.machine.metrics().queued_bytes, 0);

    let mut pair = Pair::connected(|config| config.max_queued_bytes = 1000);
    pair.cut();
    pair.submit(create("/a", vec![0; 600]));
    assert!(pair.machine.has_capacity(pair.now, 374, &options));
    assert!(!pair.machine.has_capacity(pair.now, 375, &options));
    // It takes from the reserve of callers that cannot wait.
    let taken = pair.submit(create("/a", vec![0; 1000]));
    assert!(!pair.is_settled(taken));
    // A request that gets its error at once need not wait for capacity.
    let late = RequestOptions {
        deadline: Some(pair.now),
        ..options
    };
    assert!(pair.machine.has_capacity(pair.now, 999, &late));
    assert!(pair.machine.has_capacity(pair.now, 1 << 20, &options));
}

#[test]
fn a_long_queue_is_sent_in_parts() {
    let mut pair = Pair::connected(|_| {});
    for _ in 0..40 {
        pair.submit_quietly(create("/a", vec![0; 50_000]));
    }
    let mut parts = Vec::new();
    let mut out = bytes::BytesMut::new();
    while parts.last().is_none_or(|(_, has_more)| *has_more) {
        out.clear();
        let has_more = pair.machine.transmit(pair.now, &mut out);
        parts.push((out.len(), has_more));
        assert!(parts.len() < 100, "it does not end");
    }
    let total: usize = parts.iter().map(|(part, _)| part).sum();
    assert_eq!(total, 40 * (4 + 8 + 6 + 50_004 + 4 + 4));
    assert!(parts.iter().all(|(part, _)| *part < 320_000), "{parts:?}");
    assert!(parts.len() > 6);
    assert_eq!(pair.machine.metrics().in_flight, 40);
}

/// The wait for a connection counts from when the caller began to wait, not from when there was
/// capacity for its request.
#[test]
fn time_spent_waiting_for_capacity_counts() {
    let mut pair = Pair::new(|_| {});
    pair.wait(2 * THIRD);
    let options = RequestOptions::at(pair.born);
    let (token, _) = pair.submit_with(sync("/"), options);
    pair.wait(THIRD);
    let ErrorKind::Unreachable { waited, tried, .. } = pair.error(token).kind().clone() else {
        panic!("{:?}", pair.outputs);
    };
    assert_eq!(waited, TIMEOUT);
    assert_eq!(
        *tried,
        [not_reached("zk1", Cause::ConnectTimeout(TIMEOUT / 2))]
    );
}

/// A caller that does not say since when it waits.
#[test]
fn a_request_waits_from_the_transmit_behind_it() {
    let mut pair = Pair::new(|_| {});
    let [first, second] = [(); 2].map(|()| {
        pair.wait(THIRD);
        pair.submit_with(sync("/"), RequestOptions::default()).0
    });
    pair.wait(2 * THIRD);
    assert!(!pair.is_settled(second));
    pair.error(first);
    pair.wait(THIRD);
    pair.error(second);
}

/// The error says how long the request has waited, although its caller did not say since when.
#[test]
fn a_deadline_without_a_beginning_counts_from_the_transmit() {
    let mut pair = Pair::connected(|_| {});
    let (since, deadline) = (None, Some(pair.now + SECOND));
    let (token, _) = pair.submit_with(sync("/"), RequestOptions { since, deadline });
    pair.wait(SECOND);
    let waited = "sync not answered within 1 s";
    assert!(pair.error(token).to_string().starts_with(waited));
}

/// A busy client sends two thousand million requests in some months.
#[test]
fn xids_start_again_before_they_become_those_of_pings_and_events() {
    let mut pair = Pair::connected(|_| {});
    pair.machine.link.set_next_xid(i32::MAX - 2);
    let first = pair.submit(sync("/first"));
    let tokens: Vec<_> = (0..6).map(|_| pair.submit(sync("/"))).collect();
    let numbers: Vec<_> = pair.requests().iter().map(|(xid, _)| xid.0).collect();
    let expected = [i32::MAX - 2, i32::MAX - 1, i32::MAX, 1, 2, 3, 4];
    assert_eq!(numbers, expected);
    // The highest and the lowest numbers are pending at the same time. Each reply finds its
    // request.
    for (xid, token) in numbers.into_iter().zip([first].into_iter().chain(tokens)) {
        let body = sound_reply(&sync("/"));
        pair.reply(Xid(xid), 1, Ok(body));
        assert!(pair.result(token).is_ok());
    }
    pair.reconnect();
    pair.submit(sync("/"));
    assert_eq!(
        pair.requests()[0].0,
        Xid(5),
        "the numbers go on in the same session"
    );
}
