//! Identities that a caller adds to a running client.

use bytes::Bytes;
use lockkeeper_proto::{ErrorCode, OpCode, Request, Response, Xid, records::AuthPacket};

use super::{
    pair::{Pair, TIMEOUT},
    requests::{sound_reply, sync},
};
use crate::{
    AuthFailure, Cause, Effect, ErrorKind, State,
    machine::{Auth, RequestOptions},
};

fn auth(scheme: &str) -> Auth {
    Auth {
        scheme: scheme.to_owned(),
        credentials: Bytes::from_static(b"user:password"),
    }
}

fn packet(scheme: &str) -> Request {
    Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: scheme.to_owned(),
        auth: Some(auth(scheme).credentials),
    })
}

/// Adds an identity under this token. The pair itself must not use the same token.
fn add(pair: &mut Pair, token: u32, scheme: &str) -> u32 {
    let options = RequestOptions::at(pair.now);
    (pair.machine).add_auth(pair.now, token, auth(scheme), options);
    pair.pump();
    token
}

fn answer(pair: &mut Pair, reply: Result<(), ErrorCode>) {
    let reply = reply.map(|()| sound_reply(&packet("")));
    pair.reply(Xid::AUTH, 0, reply);
}

#[test]
fn an_added_identity_is_sent_at_once_in_order_and_again_on_each_connection() {
    let mut pair = Pair::connected(|config| config.auth.push(auth("first")));
    assert_eq!(pair.request(), Some((Xid::AUTH, packet("first"))));
    let before = pair.submit(sync("/"));
    let added = add(&mut pair, 1001, "second");
    pair.submit(sync("/"));
    assert_eq!(pair.ops(), [OpCode::SYNC, OpCode::AUTH, OpCode::SYNC]);
    answer(&mut pair, Ok(()));
    assert!(
        !pair.is_settled(added),
        "the first answer belongs to the first identity"
    );
    answer(&mut pair, Ok(()));
    assert!(matches!(pair.result(added), Ok(Response::Auth(_))));
    assert!(
        !pair.is_settled(before),
        "answers to identities overtake replies"
    );
    for _ in 0..2 {
        pair.reconnect();
        assert_eq!(pair.sent(), [packet("first"), packet("second")]);
    }
}

#[test]
fn an_identity_added_without_a_connection_is_kept_for_the_next_one() {
    let mut pair = Pair::connected(|_| {});
    pair.cut();
    let added = add(&mut pair, 1001, "digest");
    let again = add(&mut pair, 1002, "digest");
    pair.connect();
    assert_eq!(pair.ops(), [OpCode::AUTH; 3]);
    for token in [added, again] {
        assert!(!pair.is_settled(token));
    }
    for _ in 0..3 {
        answer(&mut pair, Ok(()));
    }
    assert!(pair.result(added).is_ok() && pair.result(again).is_ok());
    pair.reconnect();
    assert_eq!(
        pair.ops(),
        [OpCode::AUTH],
        "both callers added the same identity"
    );
}

#[test]
fn an_added_identity_whose_answer_is_lost_is_sent_again() {
    let mut pair = Pair::connected(|_| {});
    let added = add(&mut pair, 1001, "digest");
    pair.cut();
    assert_eq!(pair.error(added).effect(), Effect::Unknown);
    pair.connect();
    assert_eq!(pair.ops(), [OpCode::AUTH]);
}

#[test]
fn a_refused_identity_ends_the_client_and_says_which_it_was() {
    let mut pair = Pair::connected(|config| config.auth.push(auth("good")));
    let added = add(&mut pair, 1001, "bad");
    let other = pair.submit(sync("/"));
    answer(&mut pair, Ok(()));
    answer(&mut pair, Err(ErrorCode::AUTH_FAILED));
    let ErrorKind::AuthFailed(reason) = pair.error(added).kind().clone() else {
        panic!("another error");
    };
    let (scheme, code) = ("bad".to_owned(), ErrorCode::AUTH_FAILED);
    assert_eq!(reason, AuthFailure::Refused { scheme, code });
    assert_eq!(pair.states(), [State::Connected, State::AuthFailed]);
    assert_eq!(pair.error(other).effect(), Effect::Unknown);
    let late = add(&mut pair, 1002, "good");
    assert!(matches!(pair.error(late).kind(), ErrorKind::AuthFailed(_)));
}

/// The connection sends it before its caller does, and the caller was told of a lost connection.
#[test]
fn who_adds_an_identity_without_a_connection_hears_that_it_was_refused() {
    let mut pair = Pair::connected(|_| {});
    pair.cut();
    let request = pair.submit(sync("/"));
    let added = add(&mut pair, 1001, "bad");
    let another = add(&mut pair, 1002, "other");
    pair.connect();
    answer(&mut pair, Err(ErrorCode::AUTH_FAILED));
    let (scheme, code) = ("bad".to_owned(), ErrorCode::AUTH_FAILED);
    let refused = ErrorKind::AuthFailed(AuthFailure::Refused { scheme, code });
    for token in [added, another] {
        assert_eq!(*pair.error(token).kind(), refused);
    }
    assert!(matches!(
        pair.error(request).kind(),
        ErrorKind::ConnectionLost(_)
    ));
}

#[test]
fn an_identity_without_an_answer_costs_only_the_connection() {
    let mut pair = Pair::connected(|config| config.request_timeout = Some(TIMEOUT / 9));
    let added = add(&mut pair, 1001, "digest");
    pair.wait(TIMEOUT / 9);
    assert_eq!(pair.last_cause(), Cause::RequestTimeout(TIMEOUT / 9));
    assert_eq!(pair.error(added).effect(), Effect::Unknown);
}

#[test]
fn an_identity_too_long_for_a_request_is_not_kept() {
    let mut pair = Pair::connected(|config| config.max_request = 100);
    let added = add(&mut pair, 1001, &"x".repeat(100));
    let (length, limit) = (133, 100);
    let too_large = ErrorKind::TooLarge { length, limit };
    assert_eq!(pair.error(added), too_large.into());
    pair.reconnect();
    assert_eq!(pair.requests(), []);
}
