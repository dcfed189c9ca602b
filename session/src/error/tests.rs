//! Tests of the messages of errors: each error that concerns a server names the server and the
//! session, in one line.

use lockkeeper_proto::{SessionId, jute::DecodeErrorKind};

use super::*;
use crate::{ConnectString, Endpoint};

const SESSION: SessionId = SessionId(0x2a);

fn server() -> Arc<Endpoint> {
    Arc::new(Endpoint {
        host: "zk1".to_owned(),
        port: 2181,
    })
}

fn peer() -> Peer {
    Peer {
        server: Some(server()),
        session: SESSION,
    }
}

fn lost() -> Lost {
    Lost {
        endpoint: server(),
        session: SESSION,
        cause: Cause::ClosedByServer,
    }
}

/// One error of each kind, with its message, and whether it concerns a server. A missing kind fails
/// to compile or changes the count.
#[allow(clippy::too_many_lines, reason = "a table")]
fn all() -> Vec<(bool, Error, &'static str)> {
    let op = OpCode::CREATE_TTL;
    let (length, limit) = (2, 1);
    let at = |kind| Error::new(kind, peer(), Effect::NotApplied);
    let unknown = |kind| Error::new(kind, peer(), Effect::Unknown);
    let errors = [
        (
            at(ErrorKind::Refused {
                op,
                path: "/a".to_owned(),
                code: ErrorCode::NO_NODE,
            }),
            "createTTL /a refused: no node (-101) (zk1:2181, session 0x2a)",
        ),
        (
            Error::unsupported(op, peer()),
            "the server does not support createTTL, which needs ZooKeeper 3.5.3 or later (zk1:2181, session 0x2a)",
        ),
        (
            at(ErrorKind::TransactionRefused {
                index: 2,
                code: ErrorCode::NO_NODE,
            }),
            "transaction refused: operation 2: no node (-101) (zk1:2181, session 0x2a)",
        ),
        (
            unknown(ErrorKind::NotAllDeleted {
                left: vec![Error::expired(peer()), ErrorKind::Closed.into()],
            }),
            "session 0x2a expired (reported by zk1:2181); and 1 other nodes were left",
        ),
        (
            Error::lost(lost()),
            "connection lost: zk1:2181, session 0x2a: closed by the server; the request may have been applied",
        ),
        (
            at(ErrorKind::Unreachable {
                waited: Duration::from_secs(4),
                tried: [lost()].into(),
                servers: 1,
            }),
            "no server reached in 4 s: zk1:2181, session 0x2a: closed by the server",
        ),
        (
            Error::expired(peer()),
            "session 0x2a expired (reported by zk1:2181)",
        ),
        (
            ErrorKind::WatchConflict.into(),
            "this client has a watch of another kind on the node, and keeps one kind on each; watch with a second client",
        ),
        (
            ErrorKind::WatchRemoved.into(),
            "the watch was removed with remove_watches",
        ),
        (
            at(ErrorKind::AuthFailed(AuthFailure::Required)),
            "authentication failed: zk1:2181, session 0x2a: the server answers only authenticated clients",
        ),
        (ErrorKind::Closed.into(), "client closed"),
        (
            lockkeeper_proto::path::check("a").unwrap_err().into(),
            "bad path \"a\": it must start with /; did you mean /a?",
        ),
        (
            "zk1:0".parse::<ConnectString>().unwrap_err().into(),
            "bad server list \"zk1:0\": port \"0\" is not a number from 1 to 65535",
        ),
        (
            ErrorKind::TooLarge { length, limit }.into(),
            "request too large: 2 bytes, limit 1 (max_request, jute.maxbuffer)",
        ),
        (
            unknown(ErrorKind::ReplyTooLarge { op, length, limit }),
            "the reply to createTTL has 2 bytes, limit 1 (zk1:2181, session 0x2a)",
        ),
        (
            ErrorKind::TooManyRequests {
                requests: 2,
                bytes: 1,
            }
            .into(),
            "too many pending requests: 2 (1 bytes); wait for capacity",
        ),
        (
            unknown(ErrorKind::DeadlineExceeded {
                op,
                waited: Duration::from_millis(7),
            }),
            "createTTL not answered within 7 ms by zk1:2181, session 0x2a; the request may have been applied",
        ),
        (
            unknown(ErrorKind::Malformed {
                op,
                error: DecodeError {
                    field: "Stat.czxid",
                    offset: 3,
                    kind: DecodeErrorKind::Short { needed: 8, left: 1 },
                },
            }),
            "the reply to createTTL cannot be read (zk1:2181, session 0x2a); the request may have been applied",
        ),
        (
            ErrorKind::NoThread(Cause::from(&std::io::ErrorKind::WouldBlock.into())).into(),
            "no thread runs the client: operation would block",
        ),
    ];
    let concerns = |error: &Error| match error.kind() {
        ErrorKind::Refused { .. }
        | ErrorKind::Unsupported(_)
        | ErrorKind::TransactionRefused { .. }
        | ErrorKind::NotAllDeleted { .. }
        | ErrorKind::ConnectionLost(_)
        | ErrorKind::Unreachable { .. }
        | ErrorKind::SessionExpired
        | ErrorKind::AuthFailed(_)
        | ErrorKind::ReplyTooLarge { .. }
        | ErrorKind::DeadlineExceeded { .. }
        | ErrorKind::Malformed { .. } => true,
        ErrorKind::WatchRemoved
        | ErrorKind::WatchConflict
        | ErrorKind::Closed
        | ErrorKind::BadPath(_)
        | ErrorKind::BadConnectString(_)
        | ErrorKind::TooLarge { .. }
        | ErrorKind::TooManyRequests { .. }
        | ErrorKind::NoThread(_) => false,
    };
    let told = errors.map(|(error, text)| (concerns(&error), error, text));
    let kinds: std::collections::HashSet<_> = told
        .iter()
        .map(|(_, error, _)| std::mem::discriminant(error.kind()))
        .collect();
    assert_eq!(kinds.len(), 19, "one of each");
    told.into()
}

#[test]
fn every_error_that_concerns_a_server_names_it_and_the_session() {
    for (concerns, error, text) in all() {
        assert_eq!(error.to_string(), text);
        let fields = format!("{error:?}");
        let kind = format!("{:?}", error.kind());
        assert!(fields.contains(&kind), "{fields}");
        assert_eq!(*error.peer() == peer(), concerns, "{text}");
        assert_eq!(text.contains("zk1:2181"), concerns, "{text}");
        assert_eq!(text.contains("session 0x2a"), concerns, "{text}");
        assert!(!text.contains('\n'));
    }
}

/// A result is moved several times on its way to the caller, so an error must not make it large.
#[test]
fn an_error_is_small() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    let of_reply = size_of::<Result<lockkeeper_proto::Response, Error>>();
    assert_eq!(of_reply, size_of::<lockkeeper_proto::Response>());
    assert_eq!(size_of::<Peer>(), size_of::<(u64, usize)>());
}

#[test]
fn an_error_leaves_out_an_unknown_server_or_session() {
    let text = |peer: Peer| {
        let (op, path, code) = (OpCode::GET_DATA, "/a".to_owned(), ErrorCode::NO_NODE);
        let kind = ErrorKind::Refused { op, path, code };
        Error::new(kind, peer, Effect::NotApplied).to_string()
    };
    let (server, session) = (None, SESSION);
    let of_session = Peer { server, session };
    assert_eq!(
        text(of_session.clone()),
        "getData /a refused: no node (-101) (session 0x2a)"
    );
    assert_eq!(text(Peer::default()), "getData /a refused: no node (-101)");
    let expired = Error::new(ErrorKind::SessionExpired, of_session, Effect::Unknown);
    assert_eq!(
        expired.to_string(),
        "session 0x2a expired; the request may have been applied"
    );
}

/// Three servers with one wrong certificate are one failure to read.
#[test]
fn servers_that_failed_for_one_reason_are_named_with_it_once() {
    let of = |host: &str, cause: &Cause| Lost {
        endpoint: Arc::new(Endpoint {
            host: host.to_owned(),
            port: 2181,
        }),
        session: SessionId::NONE,
        cause: cause.clone(),
    };
    let (one, other) = (Cause::SessionRefused, Cause::ClosedByServer);
    let tried = [of("a", &one), of("b", &other), of("c", &one), of("d", &one)];
    let kind = ErrorKind::Unreachable {
        waited: Duration::from_secs(4),
        tried: tried.into(),
        servers: 5,
    };
    assert_eq!(
        Error::new(kind, Peer::default(), Effect::NotApplied).to_string(),
        "no server reached in 4 s: a:2181, c:2181, d:2181: the server refused a new session; \
         b:2181: closed by the server; and 1 other servers"
    );
}
