//! SASL: who the client is, before anything else; what becomes of it when that fails.
//!
//! The mechanism is a parrot that has to hear `open` and `welcome`. Real ones are tested beside their code.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Response, Xid, records::SaslRequest, records::SaslResponse,
};

use super::{
    pair::{ID, Pair, TIMEOUT},
    requests::sync,
};
use crate::{
    AuthFailure, Cause, Error, State,
    machine::{
        Auth,
        sasl::{Authenticator, Exchange, Step},
    },
};

#[derive(Debug)]
struct Parrot;

impl Authenticator for Parrot {
    fn user(&self) -> &'static str {
        "polly"
    }

    fn begin(&self) -> Box<dyn Exchange> {
        Box::new(Self)
    }
}

impl Exchange for Parrot {
    fn first(&mut self) -> Bytes {
        Bytes::from_static(b"knock")
    }

    fn answer(&mut self, token: &[u8]) -> Result<Step, AuthFailure> {
        match token {
            b"open" => Ok(Step::Send(Bytes::from_static(b"sesame"))),
            b"welcome" => Ok(Step::Done),
            _ => Err(AuthFailure::ServerNotProven),
        }
    }
}

fn pair() -> Pair {
    Pair::new(|config| {
        config.sasl = Some(Arc::new(Parrot));
        config.auth = vec![Auth {
            scheme: "digest".to_owned(),
            credentials: Bytes::from_static(b"a:1"),
        }];
    })
}

fn token(token: &'static [u8]) -> Request {
    Request::Sasl(SaslRequest {
        token: Some(Bytes::from_static(token)),
    })
}

fn said(token: &'static [u8]) -> Response {
    Response::Sasl(SaslResponse {
        token: Some(Bytes::from_static(token)),
    })
}

/// The only request that the server has got, which is this token; its number.
fn hears(pair: &mut Pair, wanted: &'static [u8]) -> Xid {
    match &*pair.requests() {
        [(xid, request)] => {
            assert_eq!(*request, token(wanted));
            *xid
        }
        other => panic!("{other:?}"),
    }
}

/// To the last token, which the server has not answered yet.
fn half_way(pair: &mut Pair) -> Xid {
    pair.reach();
    pair.accept(ID, TIMEOUT);
    let xid = hears(pair, b"knock");
    pair.reply(xid, 0, Ok(said(b"open")));
    hears(pair, b"sesame")
}

/// The server believes the identity that comes after the exchange.
fn accept_identity(pair: &mut Pair) {
    let accepted = lockkeeper_proto::Response::Auth(lockkeeper_proto::records::Empty {});
    pair.reply(Xid::AUTH, 0, Ok(accepted));
}

fn reason(pair: &Pair) -> AuthFailure {
    match pair.machine.ended() {
        Some(Error::AuthFailed { reason, .. }) => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_sent_and_nobody_told_before_the_exchange_is_done() {
    let mut pair = pair();
    let waiting = pair.submit(sync("/"));
    pair.machine.watch_nodes(pair.now, ["/a"]);
    let xid = half_way(&mut pair);
    assert_eq!(pair.states(), []);
    assert_eq!(pair.machine.connections(), 0);
    assert_eq!(pair.machine.session_id(), ID);
    pair.reply(xid, 0, Ok(said(b"welcome")));
    assert_eq!(pair.machine.connections(), 1);
    let expected = [OpCode::AUTH, OpCode::SET_WATCHES, OpCode::SYNC];
    assert_eq!(pair.ops(), expected);
    accept_identity(&mut pair);
    assert_eq!(pair.states(), [State::Connected]);
    assert!(!pair.is_settled(waiting));
}

#[test]
fn the_exchange_is_held_anew_on_every_connection_under_new_numbers() {
    let mut pair = pair();
    let mut last = Xid(0);
    for round in 1..4 {
        let xid = half_way(&mut pair);
        assert!(xid.0 > last.0);
        last = xid;
        pair.reply(xid, 0, Ok(said(b"welcome")));
        assert!(pair.machine.is_connected());
        assert_eq!(pair.machine.connections(), round);
        pair.cut();
    }
}

#[test]
fn a_refused_user_ends_the_client() {
    for code in [
        ErrorCode::AUTH_FAILED,
        ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH,
    ] {
        let mut pair = pair();
        let waiting = pair.submit(sync("/"));
        let xid = half_way(&mut pair);
        pair.reply(xid, 0, Err(code));
        assert_eq!(pair.states(), [State::AuthFailed]);
        let text = pair.error(waiting).to_string();
        let wanted = "authentication failed: zk1:2181: user polly was refused: wrong password, or no such user";
        assert!(text.starts_with(wanted), "{text}");
        assert_eq!(pair.machine.next_deadline(), None);
    }
}

/// Servers that tolerate a failure say null, as those that know no SASL; a client that was told to prove itself does not
/// go on as nobody.
#[test]
fn a_server_that_lets_everybody_in_is_not_trusted() {
    let null = || Ok(Response::Sasl(SaslResponse { token: None }));
    let mut first = pair();
    first.reach();
    first.accept(ID, TIMEOUT);
    let xid = hears(&mut first, b"knock");
    first.reply(xid, 0, null());
    assert_eq!(reason(&first), AuthFailure::SaslNotOffered);

    let mut second = pair();
    let xid = half_way(&mut second);
    second.reply(xid, 0, null());
    assert_eq!(reason(&second), AuthFailure::SaslNotOffered);
}

#[test]
fn a_server_that_cannot_prove_itself_ends_the_client() {
    let mut pair = pair();
    let xid = half_way(&mut pair);
    pair.reply(xid, 0, Ok(said(b"hello")));
    assert_eq!(reason(&pair), AuthFailure::ServerNotProven);
    assert_eq!(pair.states(), [State::AuthFailed]);
}

#[test]
fn a_server_that_falls_silent_in_the_exchange_is_given_up_and_the_session_kept() {
    let mut pair = pair();
    half_way(&mut pair);
    pair.tick();
    assert!(matches!(pair.last_cause(), Cause::HandshakeTimeout(_)));
    let request = pair.reach();
    assert_eq!(request.session_id, ID);
}

#[test]
fn an_answer_to_something_else_ends_the_connection() {
    let mut pair = pair();
    let xid = half_way(&mut pair);
    pair.reply(Xid(xid.0 + 1), 0, Ok(said(b"welcome")));
    let (expected, got) = (Some(xid), Xid(xid.0 + 1));
    assert_eq!(pair.last_cause(), Cause::UnexpectedReply { expected, got });
}

/// Some servers hand out a new session where the old one is gone; the exchange goes on in it.
#[test]
fn a_new_session_in_place_of_the_old_one_is_proved_as_well() {
    let mut pair = pair();
    let xid = half_way(&mut pair);
    pair.reply(xid, 0, Ok(said(b"welcome")));
    pair.cut();
    pair.states();
    pair.reach();
    pair.accept(lockkeeper_proto::SessionId(0x200), TIMEOUT);
    let xid = hears(&mut pair, b"knock");
    pair.reply(xid, 0, Ok(said(b"open")));
    let xid = hears(&mut pair, b"sesame");
    pair.reply(xid, 0, Ok(said(b"welcome")));
    accept_identity(&mut pair);
    let states = pair.states();
    assert_eq!(
        states,
        [State::Expired, State::Connecting, State::Connected]
    );
}
