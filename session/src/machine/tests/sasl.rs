//! The SASL exchange of a new connection, and its failures.
//!
//! The mechanism is a [`Parrot`], which expects the tokens `open` and `welcome`. The tests of real
//! mechanisms are beside their code.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Response, SessionId, Xid,
    header::RequestHeader,
    jute::{Decode, Reader},
    records::{SaslRequest, SaslResponse},
};
use proptest::prelude::*;

use super::{
    pair::{ID, Pair, SECOND, TIMEOUT},
    requests::{digest, sync},
};
use crate::{
    AuthFailure, Cause, Endpoint, Error, ErrorKind, State,
    machine::{
        Input, Output,
        sasl::{Authenticator, Exchange, Step},
    },
};

/// A session that a server grants in place of [`ID`].
const OTHER: SessionId = SessionId(0x200);

/// A mechanism with fixed tokens: it sends `knock`, and answers `open` with `sesame`. It is done
/// after `welcome`, or after the answer to `bye`, with which it answers `leave`.
#[derive(Debug)]
struct Parrot;

impl Authenticator for Parrot {
    fn user(&self) -> &'static str {
        "polly"
    }

    fn begin(&self, _: &Endpoint) -> Box<dyn Exchange> {
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
            b"leave" => Ok(Step::SendLast(Bytes::from_static(b"bye"))),
            b"welcome" => Ok(Step::Done),
            _ => Err(AuthFailure::ServerNotProven),
        }
    }
}

fn pair() -> Pair {
    Pair::new(|config| {
        config.sasl = Some(Arc::new(Parrot));
        config.auth = vec![digest("a:1")];
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

/// The server has received exactly one request: this token. Returns the number of the request.
fn hears(pair: &mut Pair, wanted: &'static [u8]) -> Xid {
    match &*pair.requests() {
        [(xid, request)] => {
            assert_eq!(*request, token(wanted));
            *xid
        }
        other => panic!("{other:?}"),
    }
}

/// Connects, and runs the exchange up to the last token. The server has not answered that one yet.
fn half_way(pair: &mut Pair) -> Xid {
    pair.reach();
    pair.accept(ID, TIMEOUT);
    let xid = hears(pair, b"knock");
    pair.reply(xid, 0, Ok(said(b"open")));
    hears(pair, b"sesame")
}

/// The server accepts the identity that comes after the exchange.
fn accept_identity(pair: &mut Pair) {
    let accepted = lockkeeper_proto::Response::Auth(lockkeeper_proto::records::Empty {});
    pair.reply(Xid::AUTH, 0, Ok(accepted));
}

fn reason(pair: &Pair) -> AuthFailure {
    match pair.machine.link().ended().map(Error::kind) {
        Some(ErrorKind::AuthFailed(reason)) => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_sent_or_reported_before_the_exchange_is_done() {
    let mut pair = pair();
    let waiting = pair.submit(sync("/"));
    pair.machine.watch_nodes(["/a"]);
    let xid = half_way(&mut pair);
    assert_eq!(pair.states(), []);
    assert_eq!(pair.machine.link().connections(), 0);
    assert_eq!(pair.machine.link().session_id(), ID);
    pair.reply(xid, 0, Ok(said(b"welcome")));
    assert_eq!(pair.machine.link().connections(), 1);
    let expected = [OpCode::AUTH, OpCode::SET_WATCHES, OpCode::SYNC];
    assert_eq!(pair.ops(), expected);
    accept_identity(&mut pair);
    assert_eq!(pair.states(), [State::Connected]);
    assert!(!pair.is_settled(waiting));
}

#[test]
fn every_connection_has_an_exchange_of_its_own_with_new_xids() {
    let mut pair = pair();
    let mut last = Xid(0);
    for round in 1..4 {
        let xid = half_way(&mut pair);
        assert!(xid.0 > last.0);
        last = xid;
        pair.reply(xid, 0, Ok(said(b"welcome")));
        assert!(pair.machine.link().is_connected());
        assert_eq!(pair.machine.link().connections(), round);
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
        let wanted = "authentication failed: zk1:2181, session 0x100: user polly was refused: wrong password, no such user";
        assert!(text.starts_with(wanted), "{text}");
        assert_eq!(pair.machine.next_deadline(), None);
    }
}

/// The next server grants this session, and refuses the user.
fn refused(pair: &mut Pair, id: SessionId) {
    pair.reach();
    pair.accept(id, TIMEOUT);
    let xid = hears(pair, b"knock");
    pair.reply(xid, 0, Err(ErrorCode::AUTH_FAILED));
}

/// The password may be changed on one server after the other, and a ticket may be renewed.
#[test]
fn a_login_that_fails_later_costs_only_the_connection() {
    let mut pair = pair();
    for _ in 0..3 {
        let xid = half_way(&mut pair);
        pair.reply(xid, 0, Ok(said(b"welcome")));
        accept_identity(&mut pair);
        pair.states();
        pair.cut();
        assert_eq!(pair.states(), [State::Suspended]);
        let (waiting, begun) = (pair.submit(sync("/")), pair.now);
        while pair.now < begun + TIMEOUT / 2 {
            refused(&mut pair, ID);
            let text = pair.last_cause().to_string();
            assert!(text.starts_with("login failed: user polly"), "{text}");
        }
        assert_eq!(pair.states(), []);
        assert!(!pair.is_settled(waiting));
    }
}

/// Each handshake keeps the session alive, and so the nodes of locks that nobody holds any more.
#[test]
fn a_client_whose_login_fails_for_a_session_timeout_ends() {
    let mut pair = pair();
    let xid = half_way(&mut pair);
    pair.reply(xid, 0, Ok(said(b"welcome")));
    pair.cut();
    let begun = pair.now;
    while !pair.machine.link().is_ended() {
        assert!(pair.now < begun + TIMEOUT + 2 * SECOND);
        refused(&mut pair, ID);
    }
    assert!(pair.now >= begun + TIMEOUT);
    assert!(matches!(reason(&pair), AuthFailure::Sasl { .. }));
}

/// A session has no locks before its first login.
#[test]
fn a_session_without_a_login_does_not_outlive_a_failed_one() {
    let mut pair = pair();
    half_way(&mut pair);
    pair.tick();
    refused(&mut pair, ID);
    assert!(matches!(reason(&pair), AuthFailure::Sasl { .. }));

    let mut pair = self::pair();
    let xid = half_way(&mut pair);
    pair.reply(xid, 0, Ok(said(b"welcome")));
    pair.cut();
    refused(&mut pair, OTHER);
    assert!(matches!(reason(&pair), AuthFailure::Sasl { .. }));
}

/// Servers answer null to the last token of GSSAPI.
#[test]
fn null_accepts_the_last_token_and_no_other_one() {
    let null = || Ok(Response::Sasl(SaslResponse { token: None }));
    let mut pair = pair();
    let xid = half_way(&mut pair);
    pair.reply(xid, 0, Ok(said(b"leave")));
    let xid = hears(&mut pair, b"bye");
    assert!(!pair.machine.link().is_connected());
    pair.reply(xid, 0, null());
    assert!(pair.machine.link().is_connected());

    // The next connection has not sent its last token.
    pair.cut();
    let xid = half_way(&mut pair);
    pair.reply(xid, 0, null());
    let cause = Cause::LoginFailed(AuthFailure::SaslNotOffered.to_string().into());
    assert_eq!(pair.last_cause(), cause);
}

/// A server without SASL answers null, and so does a server that ignores a failed exchange. A
/// client that is configured to authenticate does not go on without it.
#[test]
fn a_server_that_skips_the_exchange_is_not_trusted() {
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

/// Once, each answer to a handshake counted as a connection: a request waited without an end, and so
/// did all who wanted the locks of the session.
#[test]
fn servers_whose_logins_hang_keep_no_request_and_no_session_waiting() {
    let unreachable = |pair: &mut Pair, request: u32| match pair.error(request).kind() {
        ErrorKind::Unreachable { waited, .. } => *waited,
        other => panic!("{other:?}"),
    };
    let mut pair = pair();
    let (waiting, begun) = (pair.submit(sync("/")), pair.now);
    while !pair.is_settled(waiting) {
        assert!(pair.now <= begun + TIMEOUT);
        half_way(&mut pair);
        pair.tick();
    }
    assert_eq!(unreachable(&mut pair, waiting), TIMEOUT);
    assert_eq!(pair.machine.link().session_id(), ID);

    let xid = half_way(&mut pair);
    pair.reply(xid, 0, Ok(said(b"welcome")));
    pair.cut();
    let (waiting, lost) = (pair.submit(sync("/")), pair.now);
    while pair.reach().session_id == ID {
        assert!(pair.now <= lost + TIMEOUT * 4 / 3);
        pair.accept(ID, TIMEOUT);
        hears(&mut pair, b"knock");
    }
    assert_eq!(unreachable(&mut pair, waiting), TIMEOUT);
    assert_eq!(pair.now, lost + TIMEOUT * 4 / 3);
}

#[test]
fn an_answer_with_another_xid_ends_the_connection() {
    let mut pair = pair();
    let xid = half_way(&mut pair);
    pair.reply(Xid(xid.0 + 1), 0, Ok(said(b"welcome")));
    let (expected, got) = (Some(xid), Xid(xid.0 + 1));
    assert_eq!(pair.last_cause(), Cause::UnexpectedReply { expected, got });
}

/// Some servers give the client a new session if the old one is gone. The exchange goes on in the
/// new one.
#[test]
fn a_new_session_in_place_of_the_old_one_is_authenticated_too() {
    let mut pair = pair();
    let xid = half_way(&mut pair);
    pair.reply(xid, 0, Ok(said(b"welcome")));
    pair.cut();
    pair.states();
    pair.reach();
    pair.accept(OTHER, TIMEOUT);
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

/// What the server, the transport or the caller does next.
#[derive(Clone, Debug)]
enum World {
    Deadline,
    Connected,
    Accept,
    Reply(&'static [u8]),
    Null,
    Refuse,
    Noise(Vec<u8>),
    Cut,
    Submit,
    Close,
}

fn any_step() -> impl Strategy<Value = World> {
    prop_oneof![
        4 => Just(World::Deadline),
        4 => Just(World::Connected),
        4 => Just(World::Accept),
        6 => Just(World::Reply(b"open")),
        6 => Just(World::Reply(b"welcome")),
        1 => Just(World::Reply(b"hello")),
        1 => Just(World::Null),
        1 => Just(World::Refuse),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(World::Noise),
        2 => Just(World::Cut),
        2 => Just(World::Submit),
        1 => Just(World::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The server may send anything in any order. Before it has sent the tokens that the mechanism
    /// expects, it receives nothing but tokens, and the machine does not report a connection.
    #[test]
    fn no_sequence_of_inputs_bypasses_the_exchange(steps in prop::collection::vec(any_step(), 0..60)) {
        let mut pair = pair();
        let mut last_token = Xid(0);
        // On the present connection: the server has received the handshake; it has received a
        // token; it has sent `welcome`.
        let (mut greeted, mut asked, mut proved) = (false, false, false);
        for step in steps {
            proved |= asked && matches!(step, World::Reply(b"welcome"));
            let is_cut = matches!(step, World::Cut);
            match step {
                World::Deadline if pair.machine.link().is_ended() => {}
                World::Deadline => pair.tick(),
                World::Connected => pair.handle(Input::Connected),
                World::Accept => pair.accept(ID, TIMEOUT),
                World::Reply(token) => {
                    pair.reply(last_token, 0, Ok(said(token)));
                }
                World::Null => pair.reply(last_token, 0, Ok(Response::Sasl(SaslResponse { token: None }))),
                World::Refuse => pair.reply(last_token, 0, Err(ErrorCode::AUTH_FAILED)),
                World::Noise(noise) => pair.handle(Input::Frame(noise.into())),
                World::Cut => pair.cut(),
                World::Submit => drop(pair.submit(sync("/"))),
                World::Close => { pair.machine.close(pair.now); pair.pump(); }
            }
            let ends = |output| matches!(output, Output::Connect(_) | Output::Disconnect);
            if pair.outputs.drain(..).any(ends) || is_cut {
                (greeted, asked, proved) = (false, false, false);
            }
            prop_assert!(proved || !pair.machine.link().state().is_connected());
            while let Some(frame) = pair.frame() {
                if !std::mem::replace(&mut greeted, true) {
                    continue; // the handshake
                }
                let header = RequestHeader::decode(&mut Reader::new(frame)).unwrap();
                if header.op == OpCode::SASL {
                    last_token = header.xid;
                    asked = true;
                } else {
                    prop_assert!(proved, "{:?}", header.op);
                }
            }
            prop_assert_eq!(pair.machine.next_deadline().is_none(), pair.machine.link().is_ended());
        }
    }
}
