//! How connections begin: the request of the handshake, and the meaning of its answer.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::{
    SessionId, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    jute::{DecodeErrorKind, Encode},
};

use super::{
    pair::{ID, PASSWORD, Pair, SECOND, THIRD, TIMEOUT},
    requests::{digest, granted, lost, servers, sync},
};
use crate::{
    Cause, State,
    machine::{Input, Output},
};

#[test]
fn a_new_session_is_requested_with_no_id_a_blank_password_and_the_configured_timeout() {
    let mut pair = Pair::new(|_| {});
    assert_eq!(pair.machine.link().session_id(), SessionId::NONE);
    let wanted = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 9000,
        session_id: SessionId::NONE,
        password: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    };
    assert_eq!(pair.reach(), wanted);
    pair.accept(ID, TIMEOUT);
    assert_eq!(pair.machine.link().session_id(), ID);
    assert_eq!(pair.machine.link().connections(), 1);
    assert_eq!(pair.machine.link().endpoint().unwrap().host, "zk1");
    assert_eq!(pair.states(), [State::Connected]);
}

#[test]
fn a_session_is_resumed_with_its_id_its_password_and_the_newest_zxid() {
    let mut pair = Pair::connected(|_| {});
    pair.see(77);
    pair.cut();
    let wanted = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(77),
        timeout_ms: 9000,
        session_id: ID,
        password: Some(Bytes::from_static(PASSWORD)),
        read_only: Some(false),
    };
    assert_eq!(pair.connect(), wanted);
    assert_eq!(pair.machine.link().connections(), 2);
    assert_eq!(pair.states(), [State::Suspended, State::Connected]);
}

#[test]
fn the_negotiated_timeout_counts_and_the_configured_one_is_requested_again() {
    let mut pair = Pair::new(|_| {});
    assert_eq!(pair.machine.link().session_timeout(), TIMEOUT);
    pair.reach();
    pair.accept(ID, 30 * SECOND);
    assert_eq!(pair.machine.link().session_timeout(), 30 * SECOND);
    let connected = pair.now;
    pair.tick();
    assert_eq!(pair.now - connected, 30 * SECOND / 6, "a ping");
    pair.tick();
    assert_eq!(pair.now - connected, 20 * SECOND, "given up");
    assert_eq!(pair.last_cause(), Cause::Silent(20 * SECOND));

    assert_eq!(pair.reach().timeout_ms, 9000);
    pair.accept(ID, 3 * SECOND);
    let connected = pair.now;
    assert_eq!(pair.machine.link().session_timeout(), 3 * SECOND);
    pair.tick();
    assert_eq!(pair.now - connected, 3 * SECOND / 6, "a ping");
}

/// A server that refuses the session closes the connection. If it has unread requests then, its
/// refusal may be lost.
#[test]
fn no_request_is_sent_before_the_server_has_answered_the_handshake() {
    let mut pair = Pair::new(|config| config.auth.push(digest("a:b")));
    pair.submit(sync("/"));
    pair.reach();
    pair.submit(sync("/"));
    assert_eq!(pair.requests(), []);
    pair.accept(ID, TIMEOUT);
    assert_eq!(pair.requests().len(), 3);
}

#[test]
fn a_refused_new_session_is_no_expiry() {
    let mut pair = Pair::new(|_| {});
    pair.reach();
    pair.refuse_session();
    assert_eq!(pair.states(), []);
    assert_eq!(pair.last_cause(), Cause::SessionRefused);
    assert!(matches!(pair.outputs.last(), Some(Output::Disconnect)));
    pair.connect();
    assert_eq!(pair.states(), [State::Connected]);
}

#[test]
fn an_answer_with_an_invalid_password_makes_no_session() {
    for password in [None, Some(0), Some(65), Some(100_000)] {
        let mut pair = Pair::new(|_| {});
        pair.reach();
        pair.answer_handshake(&ConnectResponse {
            password: password.map(|length| vec![1; length].into()),
            ..granted(1000, ID)
        });
        assert_eq!(pair.last_cause(), Cause::BadHandshake(None));
        assert_eq!(pair.machine.link().session_id(), SessionId::NONE);
        pair.connect();
    }
}

#[test]
fn an_unreadable_answer_names_the_field() {
    let mut pair = Pair::new(|_| {});
    pair.reach();
    pair.handle(Input::Frame(Bytes::from_static(&[0; 6])));
    let Cause::BadHandshake(Some(error)) = pair.last_cause() else {
        panic!("{:?}", pair.last_cause());
    };
    assert_eq!(error.field, "ConnectResponse.timeout_ms");
    assert_eq!(error.kind, DecodeErrorKind::Short { needed: 4, left: 2 });
    pair.connect();
}

#[test]
fn an_answer_may_lack_the_read_only_byte_or_have_extra_bytes() {
    let response = ConnectResponse {
        read_only: None,
        ..granted(9000, SessionId(-5))
    };
    let mut pair = Pair::new(|_| {});
    pair.reach();
    pair.answer_handshake(&response);
    assert_eq!(pair.machine.link().session_id(), SessionId(-5));

    let mut pair = Pair::new(|_| {});
    pair.reach();
    pair.receive(|writer| {
        response.encode(writer);
        writer.put_slice(b"\0more");
    });
    assert_eq!(pair.machine.link().state(), State::Connected);
}

#[test]
fn a_server_that_does_not_accept_or_answer_in_time_is_given_up() {
    let mut pair = Pair::new(|config| config.server_timeout = Some(SECOND));
    pair.tick();
    pair.wait(SECOND);
    assert_eq!(pair.last_cause(), Cause::ConnectTimeout(SECOND));
    pair.reach();
    let sent = pair.now;
    pair.tick();
    assert_eq!(pair.now - sent, SECOND);
    assert_eq!(pair.last_cause(), Cause::HandshakeTimeout(SECOND));
    pair.connect();
}

/// ZOOKEEPER-5051: a server that has just started accepted a connection and never served it. The
/// attempt lasted as long as the session.
#[test]
fn one_silent_attempt_at_a_single_server_costs_no_session() {
    let mut pair = Pair::connected(|_| {});
    pair.cut();
    pair.reach();
    pair.wait(TIMEOUT / 2);
    assert_eq!(pair.last_cause(), Cause::HandshakeTimeout(TIMEOUT / 2));
    pair.connect();
    assert_eq!(pair.machine.link().session_id(), ID);
    assert_eq!(pair.machine.metrics().expired_sessions, 0);
}

#[test]
fn each_server_gets_its_share_of_the_timeout() {
    for (servers, share) in [("a", 4500), ("a,b,c", 3000), ("a,b,c,d,e,f,g", 2250)] {
        let mut pair = Pair::new(self::servers(servers));
        pair.tick();
        let due = pair.machine.next_deadline().unwrap();
        assert_eq!(due - pair.now, Duration::from_millis(share));
    }
}

/// The server may lag behind this client, or may not be serving. Another server may still have the
/// session.
#[test]
fn a_server_that_closes_without_an_answer_does_not_end_the_session() {
    let mut pair = Pair::connected(servers("zk1,zk2"));
    let first = pair.machine.link().endpoint().unwrap().host.clone();
    pair.cut();
    pair.reach();
    pair.cut();
    assert_eq!(pair.states(), [State::Suspended]);
    let tried = pair.machine.link().failures();
    assert_eq!(tried[0], lost(&first, Cause::ClosedByServer));
    assert_eq!(tried[1].cause, Cause::ClosedInHandshake);
    assert_ne!(tried[0].endpoint, tried[1].endpoint);
    assert_eq!(pair.connect().session_id, ID);
}

#[test]
fn inputs_of_an_abandoned_connection_are_ignored() {
    let mut pair = Pair::connected(|_| {});
    pair.wait(2 * THIRD);
    assert_eq!(pair.last_cause(), Cause::Silent(2 * THIRD));
    let (before, attempts) = (pair.machine.next_deadline(), pair.attempts);
    pair.handle(Input::Connected);
    pair.handle(Input::Frame(Bytes::from_static(&[0; 40])));
    pair.handle(Input::Disconnected(Cause::ClosedByServer));
    assert_eq!(pair.frame(), None);
    assert_eq!(pair.machine.next_deadline(), before);
    assert_eq!(pair.attempts, attempts);
    assert_eq!(pair.machine.link().failures().len(), 1);

    pair.reach();
    pair.handle(Input::Connected);
    assert_eq!(pair.frame(), None, "no second handshake");
    pair.accept(ID, TIMEOUT);
    let token = pair.submit(sync("/"));
    pair.handle(Input::Connected);
    pair.serve();
    pair.result(token).unwrap();
}

fn wrong_certificate() -> Input {
    let is_permanent = true;
    Input::Disconnected(Cause::Tls {
        reason: "wrong certificate".into(),
        is_permanent,
    })
}

#[test]
fn wrong_certificates_on_all_servers_end_a_client_that_was_never_connected() {
    let mut pair = Pair::new(servers("zk1,zk2,zk1"));
    let token = pair.submit(sync("/"));
    pair.reach();
    pair.handle(wrong_certificate());
    while !pair.machine.link().is_ended() {
        assert!(pair.attempts < 3, "the three entries are two servers");
        pair.reach();
        pair.handle(wrong_certificate());
    }
    let error = pair.error(token);
    assert!(!error.is_transient());
    let text = error.to_string();
    for server in ["zk1:2181", "zk2:2181"] {
        assert!(text.contains(server), "{text}");
    }
    assert_eq!(text.matches("wrong certificate").count(), 1, "{text}");
    assert_eq!(pair.states(), [State::Closed]);
}

#[test]
fn one_server_with_a_transient_failure_keeps_the_client_trying() {
    let mut pair = Pair::new(servers("zk1,zk2"));
    for _ in 0..3 {
        pair.reach();
        pair.handle(wrong_certificate());
        pair.reach();
        pair.handle(Input::Disconnected(Cause::ClosedByServer));
    }
    assert!(!pair.machine.link().is_ended());
}

#[test]
fn a_client_that_was_connected_waits_for_a_certificate_to_be_replaced() {
    let mut pair = Pair::connected(|_| {});
    pair.cut();
    for _ in 0..3 {
        pair.reach();
        pair.handle(wrong_certificate());
    }
    assert!(!pair.machine.link().is_ended());
    pair.connect();
}

/// Such a server has no leader: nothing is locked there, and no other server knows its sessions.
/// Nor does it know which sessions have ended.
#[test]
fn a_read_only_server_is_given_up_and_proves_nothing() {
    let answers = [(9000, ID), (9000, SessionId(5)), (0, SessionId::NONE)];
    for (timeout_ms, session_id) in answers {
        for mut pair in [Pair::new(|_| {}), Pair::connected(|_| {})] {
            let (session, lease) = (
                pair.machine.link().session_id(),
                pair.machine.lease_deadline(),
            );
            pair.cut();
            pair.states();
            pair.reach();
            pair.answer_handshake(&ConnectResponse {
                read_only: Some(true),
                ..granted(timeout_ms, session_id)
            });
            assert_eq!(pair.last_cause(), Cause::ReadOnlyServer);
            assert_eq!(pair.states(), []);
            assert_eq!(pair.machine.link().session_id(), session);
            assert_eq!(pair.machine.lease_deadline(), lease);
            let request = pair.connect();
            assert_eq!(
                (request.session_id, request.read_only),
                (session, Some(false))
            );
            assert_eq!(pair.states(), [State::Connected]);
        }
    }
}

/// Once, a server that granted a session of a millisecond got 2,300 pings in three seconds.
#[test]
fn a_session_too_short_to_be_kept_alive_is_refused_with_its_length() {
    let [margin, shortest] = [59, 60].map(Duration::from_millis);
    for granted in [Duration::from_millis(1), margin, shortest] {
        let mut pair = Pair::new(|_| {});
        pair.reach();
        pair.accept(ID, granted);
        let is_accepted = granted == shortest;
        assert_eq!(
            pair.machine.link().is_connected(),
            is_accepted,
            "{granted:?}"
        );
        if !is_accepted {
            assert_eq!(pair.last_cause(), Cause::ShortSession { granted, margin });
        }
    }
}
