//! The lease under the policies that prove nothing: it counts from when an answered ping or write
//! was *sent*.
//!
//! Not here: the policy that proves (`proof`).

use std::time::{Duration, Instant};

use lockkeeper_proto::{EventType, OpCode, Response, Xid, records::Empty};
use proptest::prelude::*;

use super::{
    pair::{ID, Pair, SECOND, SIXTH, THIRD, TIMEOUT},
    requests::{delete, digest, get, sync},
};
use crate::{Cause, Config, LeasePolicy, State};

/// The session timeout of the tests without the default margin of a third.
const LEASE: Duration = Duration::from_secs(6);

fn assumed(config: &mut Config) {
    config.lease = LeasePolicy::Assumed { margin: None };
}

fn lease(pair: &Pair) -> Option<Instant> {
    pair.machine.lease_deadline()
}

#[test]
fn the_lease_counts_from_the_handshake_and_not_from_its_answer() {
    let mut pair = Pair::new(assumed);
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
    let mut pair = Pair::connected(assumed);
    let connected = pair.now;
    pair.wait(SECOND);
    pair.submit(delete("/a"));
    pair.wait(SECOND);
    pair.submit(delete("/a"));
    assert_eq!(
        lease(&pair),
        Some(connected + LEASE),
        "sending alone does not extend it"
    );
    pair.wait(Duration::from_millis(500));
    // A ping is between the two.
    for sent in [SECOND, SIXTH, 2 * SECOND] {
        let (xid, request) = pair.request().unwrap();
        pair.reply(xid, 1, Ok(super::requests::sound_reply(&request)));
        assert_eq!(lease(&pair), Some(connected + sent + LEASE));
    }
}

#[test]
fn a_queued_request_counts_from_when_it_is_sent() {
    let mut pair = Pair::new(assumed);
    pair.submit(delete("/a"));
    pair.wait(SECOND);
    pair.connect();
    let sent = pair.now;
    pair.wait(SECOND);
    pair.serve();
    assert_eq!(lease(&pair), Some(sent + LEASE));
}

#[test]
fn pings_renew_the_lease_of_an_idle_session() {
    let mut pair = Pair::connected(assumed);
    let connected = pair.now;
    for pings in 1..10 {
        pair.wait(SIXTH);
        assert_eq!(pair.ops().len(), 1);
        pair.pong();
        assert_eq!(lease(&pair), Some(connected + pings * SIXTH + LEASE));
        assert!(lease(&pair).unwrap() > pair.now + THIRD);
    }
}

/// A contender waits for the answer to a ping, and not for when the next one is due.
#[test]
fn who_waits_for_the_lease_has_a_ping_sent_at_once() {
    let mut pair = Pair::connected(assumed);
    pair.wait(SECOND);
    assert_eq!(pair.ops(), []);
    pair.machine.await_lease(pair.now);
    pair.wait(Duration::ZERO);
    assert_eq!(pair.ops(), [OpCode::PING]);
    pair.pong();
    pair.wait(SECOND);
    assert_eq!(pair.ops(), [], "it is good now");
}

/// The server sends events by itself, so they do not show that it has heard of the client. Answers
/// to identities do not count, either, nor do reads: some servers count pings and writes only.
#[test]
fn events_authentication_and_reads_do_not_renew_the_lease() {
    let mut pair = Pair::connected(|config| {
        assumed(config);
        config.auth.push(digest("a:b"));
    });
    let before = lease(&pair);
    pair.wait(SECOND);
    pair.reply(Xid::AUTH, 0, Ok(Response::Auth(Empty {})));
    for request in [get("/a", false), sync("/")] {
        pair.submit(request);
        pair.serve();
    }
    pair.event(EventType::NODE_CREATED, "/a");
    pair.pong();
    assert_eq!(
        lease(&pair),
        before,
        "an answer to a ping that was not sent does not, either"
    );
}

#[test]
fn the_margin_is_a_third_unless_it_is_set() {
    for (policy, left) in [
        (LeasePolicy::Assumed { margin: None }, LEASE),
        (margin_of(SECOND), 8 * SECOND),
        (margin_of(Duration::ZERO), TIMEOUT),
    ] {
        let pair = Pair::connected(|config| config.lease = policy);
        assert_eq!(lease(&pair), Some(pair.now + left));
    }
}

fn margin_of(margin: Duration) -> LeasePolicy {
    let margin = Some(margin);
    LeasePolicy::Assumed { margin }
}

/// A lease that never has a quarter of the session timeout would be good for no grant.
#[test]
fn half_of_a_short_lease_is_good_for_a_grant() {
    for (margin, good) in [(8 * SECOND, SECOND / 2), (THIRD, TIMEOUT * 5 / 12)] {
        let mut pair = Pair::connected(|config| config.lease = margin_of(margin));
        let last = pair.now + good;
        assert!(pair.machine.is_lease_good(last, last));
        let late = last + Duration::from_millis(1);
        assert!(!pair.machine.is_lease_good(late, late));
    }
}

#[test]
fn a_session_that_is_too_short_for_its_lease_is_an_error() {
    for margin in [TIMEOUT, Duration::MAX] {
        let mut pair = Pair::new(|config| config.lease = margin_of(margin));
        pair.reach();
        pair.accept(ID, TIMEOUT);
        let granted = TIMEOUT;
        assert_eq!(pair.last_cause(), Cause::ShortSession { granted, margin });
        assert!(
            pair.machine.link().is_ended(),
            "every server would do the same"
        );
    }
}

/// A session that was handed over had a lease of no time. No lock was ever granted, and the client
/// pinged as fast as the server answered.
#[test]
fn a_session_that_was_made_too_short_for_the_lease_is_an_error_whatever_is_granted() {
    let mut short = Pair::new(|_| {});
    short.reach();
    short.accept(ID, TIMEOUT / 3);
    let ticket = Box::new(short.machine.link().ticket());
    let (granted, margin) = (TIMEOUT / 3, TIMEOUT / 2);
    let mut pair = Pair::new(|config| {
        config.lease = margin_of(margin);
        config.session = Some(ticket);
    });
    pair.reach();
    pair.accept(ID, TIMEOUT);
    assert_eq!(pair.last_cause(), Cause::ShortSession { granted, margin });
}

#[test]
fn the_lease_ends_with_the_session() {
    let mut pair = Pair::connected(assumed);
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

/// Runs a client against a correct server, which counts the session timeout from each request that
/// it receives.
fn a_holder_never_outlives_its_session(steps: Vec<(u8, u16)>) {
    let mut pair = Pair::connected(|config| config.lease = margin_of(Duration::ZERO));
    let mut expires = pair.now + TIMEOUT;
    let mut before = lease(&pair).unwrap();
    let mut heard = Vec::new();
    for (what, millis) in steps {
        pair.wait(Duration::from_millis(millis.into()));
        if pair.now > expires || pair.machine.link().state() == State::Expired {
            break;
        }
        match what % 4 {
            0 => drop(pair.submit(delete("/a"))),
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
        if !pair.machine.link().state().is_connected() {
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
