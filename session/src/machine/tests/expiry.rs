//! Expiry: every request and watch of the session gets the error once, and the client requests a
//! new session.

use lockkeeper_proto::{ErrorCode, Response, SessionId, Xid, records::Empty};

use super::{
    pair::{ID, PASSWORD, Pair, SECOND, TIMEOUT},
    requests::{delete, expired, get, granted, sync},
};
use crate::{State, machine::Output};

#[test]
fn a_refused_session_expires_and_a_new_one_is_requested_at_once() {
    let mut pair = Pair::connected(|_| {});
    let sent = pair.submit(delete("/sent"));
    pair.reply(Xid(1), 55, Ok(Response::Delete(Empty {})));
    pair.cut();
    let waiting = pair.submit(delete("/waiting"));
    pair.reach();
    pair.outputs.clear();
    pair.refuse_session();
    assert!(matches!(pair.outputs[0], Output::Disconnect));
    assert_eq!(pair.states(), [State::Expired, State::Connecting]);
    let over = expired();
    assert_eq!(pair.error(waiting), over);
    assert!(pair.is_settled(sent));
    assert_eq!(pair.machine.link().session_id(), SessionId::NONE);
    assert_eq!(pair.machine.link().session_timeout(), TIMEOUT);

    let refused = pair.now;
    let request = pair.reach();
    assert_eq!(pair.now, refused);
    assert_eq!(request.session_id, SessionId::NONE);
    assert_eq!(request.last_zxid_seen.0, 0);
    assert_ne!(request.password.as_deref(), Some(PASSWORD));
    pair.accept(SessionId(0x200), TIMEOUT);
    assert_eq!(pair.machine.link().session_id(), SessionId(0x200));
    assert_eq!(pair.states(), [State::Connected]);
}

/// The rule of the Java client and of the C client: a timeout of 0 or less, or another id, is a
/// refusal.
#[test]
fn a_timeout_of_zero_or_less_refuses_the_session() {
    for timeout_ms in [0, -1] {
        let mut pair = Pair::connected(|_| {});
        pair.cut();
        pair.reach();
        pair.answer_handshake(&granted(timeout_ms, ID));
        assert_eq!(pair.machine.link().session_id(), SessionId::NONE);
        assert!(pair.states().contains(&State::Expired));
    }
}

/// Some servers give a new session to a client whose old session they do not know.
#[test]
fn a_different_session_in_the_answer_is_an_expiry() {
    let mut pair = Pair::connected(|_| {});
    let watch = pair.watch(get("/a", true), ErrorCode::OK);
    pair.cut();
    let waiting = pair.submit(delete("/waiting"));
    pair.reach();
    pair.outputs.clear();
    pair.accept(SessionId(0x200), 6 * SECOND);
    let told = [State::Expired, State::Connecting, State::Connected];
    let snapshots: Vec<_> = pair
        .outputs
        .iter()
        .filter_map(|output| match output {
            Output::State(snapshot) => Some((snapshot.state, snapshot.session_id)),
            _ => None,
        })
        .collect();
    let none = SessionId::NONE;
    let ids = [none, none, SessionId(0x200)];
    assert_eq!(snapshots, told.into_iter().zip(ids).collect::<Vec<_>>());
    assert_eq!(pair.states(), told);
    let over = expired();
    assert_eq!(pair.error(waiting), over);
    assert_eq!(pair.fired(), [(watch, Err(over))]);
    assert_eq!(pair.machine.link().session_id(), SessionId(0x200));
    assert_eq!(pair.machine.link().session_timeout(), 6 * SECOND);
    assert_eq!(pair.requests(), []);
    let token = pair.submit(sync("/"));
    pair.serve();
    assert!(pair.result(token).is_ok());
}

#[test]
fn a_session_that_no_server_resumes_expires_after_four_thirds_of_its_timeout() {
    let mut pair = Pair::connected(|_| {});
    let heard = pair.now;
    pair.wait(SECOND);
    pair.cut();
    while pair.machine.link().state() == State::Suspended {
        let attempts = pair.attempts;
        pair.tick();
        if pair.attempts > attempts {
            pair.stand();
            pair.cut();
        }
    }
    assert_eq!(pair.now - heard, TIMEOUT * 4 / 3);
    let told = [State::Suspended, State::Expired, State::Connecting];
    assert_eq!(pair.states(), told);
    assert_eq!(pair.reach().session_id, SessionId::NONE);
}

#[test]
fn a_pending_attempt_is_given_up_when_the_session_expires() {
    let mut pair = Pair::connected(|config| config.server_timeout = Some(100 * SECOND));
    pair.cut();
    pair.reach();
    pair.outputs.clear();
    pair.tick();
    assert_eq!(pair.states(), [State::Expired, State::Connecting]);
    assert!(matches!(pair.outputs[0], Output::Disconnect));
    assert!(matches!(pair.outputs[1], Output::Connect(_)));
    assert_eq!(pair.stand().session_id, SessionId::NONE);
}
