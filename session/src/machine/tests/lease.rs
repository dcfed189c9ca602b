//! The lease: until when no server can have expired the session. It counts from when an answered request was *sent*.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_proto::{EventType, Response, Xid, records::Empty};
use proptest::prelude::*;

use super::{
    pair::{ID, Pair, QUARTER, SECOND, THIRD, TIMEOUT},
    requests::sync,
};
use crate::{State, machine::Auth};

/// The session timeout of the tests without the default margin of a third.
const LEASE: Duration = Duration::from_secs(6);

fn lease(pair: &Pair) -> Option<Instant> {
    pair.machine.lease_deadline()
}

#[test]
fn there_is_no_lease_without_a_session() {
    let mut pair = Pair::new(|_| {});
    assert_eq!(lease(&pair), None);
    pair.reach();
    assert_eq!(lease(&pair), None);
    pair.accept(ID, TIMEOUT);
    assert!(lease(&pair).is_some());
}

#[test]
fn the_lease_counts_from_the_handshake_and_not_from_its_answer() {
    let mut pair = Pair::new(|_| {});
    pair.reach();
    let sent = pair.now;
    pair.wait(SECOND);
    pair.accept(ID, TIMEOUT);
    assert_eq!(lease(&pair), Some(sent + LEASE));
    pair.cut();
    assert_eq!(
        lease(&pair),
        Some(sent + LEASE),
        "the lease goes on without a connection"
    );
    pair.reach();
    let sent_again = pair.now;
    assert_eq!(lease(&pair), Some(sent + LEASE));
    pair.wait(SECOND);
    pair.accept(ID, TIMEOUT);
    assert_eq!(lease(&pair), Some(sent_again + LEASE));
}

#[test]
fn a_reply_extends_the_lease_from_when_its_request_was_sent() {
    let mut pair = Pair::connected(|_| {});
    let connected = pair.now;
    pair.wait(SECOND);
    pair.submit(sync("/"));
    pair.wait(SECOND);
    pair.submit(sync("/"));
    assert_eq!(
        lease(&pair),
        Some(connected + LEASE),
        "sending alone does not extend it"
    );
    pair.wait(Duration::from_millis(500));
    for seconds in [1, 2] {
        let (xid, request) = pair.request().unwrap();
        pair.reply(xid, 1, Ok(super::requests::sound_reply(&request)));
        let sent = connected + seconds * SECOND;
        assert_eq!(lease(&pair), Some(sent + LEASE));
    }
}

#[test]
fn a_queued_request_counts_from_when_it_is_sent() {
    let mut pair = Pair::new(|_| {});
    pair.submit(sync("/"));
    pair.wait(SECOND);
    pair.connect();
    let sent = pair.now;
    pair.wait(SECOND);
    pair.serve();
    assert_eq!(lease(&pair), Some(sent + LEASE));
}

#[test]
fn pings_renew_the_lease_of_an_idle_session() {
    let mut pair = Pair::connected(|_| {});
    let connected = pair.now;
    for pings in 1..10 {
        pair.wait(QUARTER);
        assert_eq!(pair.ops().len(), 1);
        pair.reply(Xid::PING, 1, Ok(Response::Ping(Empty {})));
        assert_eq!(lease(&pair), Some(connected + pings * QUARTER + LEASE));
        assert!(lease(&pair).unwrap() > pair.now + THIRD);
    }
}

#[test]
fn a_late_answer_does_not_shorten_the_lease() {
    let mut pair = Pair::connected(|_| {});
    pair.wait(THIRD + SECOND);
    assert_eq!(pair.ops(), [lockkeeper_proto::OpCode::PING]);
    let sent = pair.now;
    pair.submit(sync("/"));
    pair.serve();
    assert_eq!(lease(&pair), Some(sent + LEASE));
    pair.reply(Xid::PING, 1, Ok(Response::Ping(Empty {})));
    assert_eq!(lease(&pair), Some(sent + LEASE));
}

/// The server sends events by itself, so they do not show that it has heard of the client. Answers to identities do not
/// count, either.
#[test]
fn events_and_authentication_do_not_renew_the_lease() {
    let mut pair = Pair::connected(|config| {
        config.auth.push(Auth {
            scheme: "digest".to_owned(),
            credentials: Bytes::from_static(b"a:b"),
        });
    });
    let before = lease(&pair);
    pair.wait(SECOND);
    pair.reply(Xid::AUTH, 0, Ok(Response::Auth(Empty {})));
    pair.event(EventType::NODE_CREATED, "/a");
    pair.reply(Xid::PING, 1, Ok(Response::Ping(Empty {})));
    assert_eq!(
        lease(&pair),
        before,
        "an answer to a ping that was not sent does not, either"
    );
}

#[test]
fn the_margin_is_a_third_unless_it_is_set() {
    for (margin, left) in [
        (None, LEASE),
        (Some(SECOND), 8 * SECOND),
        (Some(Duration::ZERO), TIMEOUT),
        (Some(TIMEOUT * 2), Duration::ZERO),
    ] {
        let pair = Pair::connected(|config| config.lease_margin = margin);
        assert_eq!(lease(&pair), Some(pair.now + left));
    }
}

#[test]
fn the_lease_ends_with_the_session() {
    let mut pair = Pair::connected(|_| {});
    pair.cut();
    pair.reach();
    pair.refuse_session();
    assert_eq!(lease(&pair), None);
    pair.connect();
    assert!(lease(&pair).is_some());
    pair.cut();
    pair.wait(LEASE);
    assert!(lease(&pair).unwrap() <= pair.now);
    pair.wait(TIMEOUT);
    assert!(pair.states().contains(&State::Expired));
    assert_eq!(lease(&pair), None);
    pair.connect();
    pair.machine.abort();
    assert_eq!(lease(&pair), None);
}

/// Runs a client against a correct server, which counts the session timeout from each request that it receives.
fn a_holder_never_outlives_its_session(steps: Vec<(u8, u16)>) {
    let mut pair = Pair::connected(|config| config.lease_margin = Some(Duration::ZERO));
    let mut expires = pair.now + TIMEOUT;
    let mut before = lease(&pair).unwrap();
    let mut heard = Vec::new();
    for (what, millis) in steps {
        pair.wait(Duration::from_millis(millis.into()));
        if pair.now > expires || pair.machine.state() == State::Expired {
            break;
        }
        match what % 4 {
            0 => drop(pair.submit(sync("/"))),
            // The server receives what was sent.
            1 => {
                let requests = pair.requests();
                if !requests.is_empty() {
                    expires = pair.now + TIMEOUT;
                }
                heard.extend(requests);
            }
            // The client receives an answer.
            2 if !heard.is_empty() => {
                let (xid, request) = heard.remove(0);
                pair.reply(xid, 1, Ok(super::requests::sound_reply(&request)));
            }
            3 if what % 16 == 3 => {
                pair.cut();
                heard.clear();
                pair.reach();
                if pair.now > expires {
                    break;
                }
                expires = pair.now + TIMEOUT;
                pair.accept(ID, TIMEOUT);
            }
            _ => {}
        }
        if !pair.machine.state().is_connected() {
            heard.clear();
            pair.reach();
            if pair.now > expires {
                break;
            }
            expires = pair.now + TIMEOUT;
            pair.accept(ID, TIMEOUT);
        }
        let now = lease(&pair).unwrap();
        assert!(now >= before, "the lease moved back");
        assert!(now <= expires, "the lease outlives the session");
        before = now;
    }
}

proptest! {
    #[test]
    fn the_lease_never_moves_back_and_never_outlives_the_session(
        steps in prop::collection::vec((any::<u8>(), 0..4000_u16), 0..100)
    ) {
        a_holder_never_outlives_its_session(steps);
    }
}
