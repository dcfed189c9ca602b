//! Replays the exchanges that were captured from Apache ZooKeeper 3.9.3 against this server.
//!
//! For each exchange, the test sets up the same state and sends the captured bytes. Each reply must be equal field by
//! field, except for times, session ids and passwords. Zxids are counted from the start of the exchange's session, and
//! must be equal, too. So the test also checks which requests take a transaction, and the zxid of each reply and event.
//!
//! Only the values in `srvr` are not compared, because they depend on earlier requests; the names of its lines are
//! compared.

use lockkeeper_test_support::peer as common;
use std::{collections::VecDeque, path::Path, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use common::{Peer, Raw, create_with, delete, framed, new_session, request_frame, set_data};
use lockkeeper_proto::{
    Acl, CreateMode, OpCode, Perms, Request, Response, SessionId, Stat, WatcherEvent, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, NegativeCounts, Reader},
    multi::{MultiOp, MultiRequest, MultiResult},
    records::{CreateRequest, DeleteRequest, SetDataRequest},
};
use lockkeeper_server::Server;

/// A step of another session, before the exchange, or where a comment in the exchange says so.
enum Do {
    Create(&'static str),
    CreateWith(&'static str, &'static str),
    Set(&'static str, &'static str),
    Delete(&'static str),
    /// A node that only `user:pass` may touch. `SecretButReadable` can also be read by anyone.
    Secret(&'static str),
    SecretButReadable(&'static str),
    /// The transaction of `multi_watch_events`.
    Multi,
    /// A write that fails. It takes a zxid and changes nothing.
    Fail,
}

use Do::*;

/// The steps before each exchange. `/g` exists in all of them.
fn setup(name: &str) -> Vec<Do> {
    let mut steps = vec![Create("/g")];
    steps.extend(match name {
        "addWatch_bad_mode"
        | "addWatch_persistent"
        | "addWatch_recursive"
        | "checkWatches"
        | "exists_hit_watch_delete"
        | "multi_failure"
        | "multi_success"
        | "removeWatches"
        | "setACL"
        | "setData"
        | "watch_before_reply" => vec![Create("/g/x")],
        "multiRead" => vec![CreateWith("/g/x", "data")],
        "getData_watch" => vec![CreateWith("/g/x", "old")],
        "delete" => vec![Create("/g/d")],
        "getChildren_watch_delete" => vec![Create("/g/a")],
        "getChildren" | "getChildren2" => vec![Create("/g/a"), Create("/g/b")],
        "getAllChildrenNumber" => vec![Create("/g/a"), Create("/g/a/b")],
        "error_noauth" => vec![SecretButReadable("/g/sec"), Secret("/g/sec2")],
        "pipelined_handshake" => vec![
            Fail,
            Fail,
            Fail,
            Fail,
            Fail,
            Create("/g/e"),
            Delete("/g/e"),
            Fail,
            Fail,
        ],
        "setWatches" => vec![
            Create("/g/a"),
            Create("/g/b"),
            Create("/g/d"),
            Fail,
            Set("/g/a", "1"),
            Delete("/g/d"),
            Create("/g/new"),
            Create("/g/b/k"),
        ],
        "setWatches2" => vec![
            Create("/g/a"),
            Create("/g/b"),
            Fail,
            Set("/g/a", "1"),
            Create("/g/b/k"),
            Fail,
            Fail,
        ],
        _ => vec![],
    });
    steps
}

/// The steps of another session in the middle of an exchange.
fn meanwhile(name: &str) -> Vec<Do> {
    match name {
        "addWatch_persistent" => vec![
            Set("/g/x", ""),
            Create("/g/x/k"),
            Delete("/g/x/k"),
            Set("/g/x", ""),
        ],
        "addWatch_recursive" => vec![
            Set("/g/x", ""),
            Create("/g/x/k"),
            Set("/g/x/k", ""),
            Delete("/g/x/k"),
            Delete("/g/x"),
        ],
        "exists_hit_watch_delete" => vec![Delete("/g/x")],
        "exists_miss_watch" => vec![Create("/g/x")],
        "getChildren" => vec![Create("/g/c")],
        "getChildren_watch_delete" => vec![Delete("/g/a")],
        "getData_watch" => vec![Set("/g/x", "new")],
        "multi_watch_events" => vec![Multi],
        "setWatches" => vec![Set("/g/b", "1")],
        "setWatches2" => vec![Set("/g/a", "2"), Create("/g/b/k2")],
        other => panic!("{other}: unknown interlude"),
    }
}

#[derive(Debug)]
enum Step {
    Client(Vec<u8>),
    Server(Vec<u8>),
    Meanwhile,
    Closes,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_captured_exchange_is_reproduced() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/tests/golden");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| {
            let file = entry.unwrap().file_name().into_string().unwrap();
            file.strip_suffix(".3.9.3.hex").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(names.len() >= 79, "{} exchanges", names.len());
    for name in names {
        let file = folder.join(format!("{name}.3.9.3.hex"));
        let text = std::fs::read_to_string(file).unwrap();
        println!("{name}");
        replay(&name, parse(&text)).await;
    }
}

fn parse(text: &str) -> Vec<Step> {
    let bytes = |hex: &str| {
        let digits: Vec<u8> = hex.trim().bytes().collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    };
    text.lines()
        .filter_map(|line| {
            if let Some(hex) = line.strip_prefix("C> ") {
                Some(Step::Client(bytes(hex)))
            } else if let Some(hex) = line.strip_prefix("S> ") {
                Some(Step::Server(bytes(hex)))
            } else if line.starts_with("# another session") {
                Some(Step::Meanwhile)
            } else if line.starts_with("# server closes the connection") {
                Some(Step::Closes)
            } else {
                None
            }
        })
        .collect()
}

async fn replay(name: &str, steps: Vec<Step>) {
    let server = Server::builder()
        .tick_time(Duration::from_millis(50))
        .min_session_timeout(Duration::from_millis(500))
        .start()
        .await
        .unwrap();
    let mut other = Peer::join(&server).await;
    for step in setup(name) {
        act(&mut other, step).await;
    }
    let mut replay = Replay {
        name,
        asked: VecDeque::new(),
        shift: 0,
        is_open: false,
        is_answered: false,
    };
    let earlier = earlier_session(name, &server).await;
    // The start of the session takes a zxid itself.
    let start = server.report().zxid.0 + i64::from(earlier.is_none());
    replay.shift = start - captured_start(&steps);
    let mut raw = Raw::connect(server.local_addr()).await;
    for step in steps {
        match step {
            Step::Client(bytes) => {
                let bytes = replay.adapt(bytes, earlier.as_ref());
                raw.send(&bytes).await;
            }
            Step::Server(captured) if name.starts_with("4lw_") => {
                let own = raw.rest().await;
                compare_words(name, &captured, &own);
            }
            Step::Server(captured) => {
                let captured = Bytes::from(captured).slice(4..);
                let own = raw.frame().await;
                replay.compare(captured, own);
            }
            Step::Meanwhile => {
                for step in meanwhile(name) {
                    act(&mut other, step).await;
                }
            }
            Step::Closes => raw.assert_closed().await,
        }
    }
    server.shutdown().await;
}

/// The session that the exchange resumes at its start.
async fn earlier_session(name: &str, server: &Server) -> Option<ConnectResponse> {
    let resumes = matches!(
        name,
        "connect_resume" | "connect_resume_bad_password" | "session_expired_reconnect"
    );
    if !resumes {
        return None;
    }
    let mut raw = Raw::connect(server.local_addr()).await;
    let earlier = raw.handshake(&new_session(10_000)).await.unwrap();
    if name == "session_expired_reconnect" {
        assert!(server.faults().expire(earlier.session_id));
    }
    Some(earlier)
}

struct Replay<'a> {
    name: &'a str,
    /// Requests without a reply so far.
    asked: VecDeque<(Xid, OpCode)>,
    /// The difference between the zxids of this run and the captured ones.
    shift: i64,
    /// Whether the handshake was sent. The next field says whether it was answered.
    is_open: bool,
    is_answered: bool,
}

impl Replay<'_> {
    /// Replaces the values that depend on the run: session, password, and the zxid of a setWatches.
    fn adapt(&mut self, bytes: Vec<u8>, earlier: Option<&ConnectResponse>) -> Vec<u8> {
        let mut body = Reader::new(Bytes::from(bytes.clone()).slice(4.min(bytes.len())..))
            .with_negative_counts(NegativeCounts::Empty);
        if !self.is_open {
            let Ok(mut request) = ConnectRequest::decode(&mut body) else {
                return bytes;
            };
            if let Some(earlier) = earlier {
                request.session_id = earlier.session_id;
                if self.name != "connect_resume_bad_password" {
                    request.password.clone_from(&earlier.password);
                }
            }
            self.is_open = true;
            return framed(&request);
        }
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut body) else {
            return bytes;
        };
        self.asked.push_back((xid, op));
        let Ok(mut request) = Request::decode(op, &mut body) else {
            return bytes;
        };
        match &mut request {
            Request::SetWatches(lists) => lists.relative_zxid.0 += self.shift,
            Request::SetWatches2(lists) => lists.relative_zxid.0 += self.shift,
            _ => return bytes,
        }
        request_frame(xid, &request)
    }

    fn compare(&mut self, captured: Bytes, own: Bytes) {
        let name = self.name;
        if !std::mem::replace(&mut self.is_answered, true) {
            let read = |bytes| ConnectResponse::decode(&mut Reader::new(bytes)).unwrap();
            let (captured, mut own) = (read(captured), read(own));
            assert_eq!(
                own.session_id == SessionId::NONE,
                captured.session_id == SessionId::NONE,
                "{name}"
            );
            assert_eq!(own.password.as_ref().unwrap().len(), 16);
            own.session_id = captured.session_id;
            own.password.clone_from(&captured.password);
            assert_eq!(own, captured, "{name}");
            return;
        }
        let (mut captured, mut own) = (Reader::new(captured), Reader::new(own));
        let captured_header = ReplyHeader::decode(&mut captured).unwrap();
        let own_header = ReplyHeader::decode(&mut own).unwrap();
        let expected = ReplyHeader {
            zxid: shifted(captured_header.zxid, self.shift),
            ..captured_header
        };
        assert_eq!(own_header, expected, "{name}");
        if own_header.xid == Xid::NOTIFICATION {
            let read = |reader: &mut Reader| WatcherEvent::decode(reader).unwrap();
            assert_eq!(read(&mut own), read(&mut captured), "{name}");
            return;
        }
        // Auth may be answered before earlier requests. The reply to a ping has the xid of pings.
        let (_, op) = self.asked.pop_front().unwrap();
        if !own_header.err.is_ok() {
            assert_eq!(own.left(), 0, "{name}");
            return;
        }
        let mut own_reply = Response::decode(op, &mut own).unwrap();
        let mut captured_reply = Response::decode(op, &mut captured).unwrap();
        assert_eq!((own.left(), captured.left()), (0, 0), "{name}");
        normalise(&mut own_reply, 0);
        normalise(&mut captured_reply, self.shift);
        assert_eq!(own_reply, captured_reply, "{name}");
    }
}

/// Moves a captured zxid to this run; 0 and -1 stay.
fn shifted(zxid: Zxid, shift: i64) -> Zxid {
    if zxid.0 > 0 {
        Zxid(zxid.0 + shift)
    } else {
        zxid
    }
}

/// The zxid of the captured session's start: that of the first reply, less one if its request takes a transaction.
fn captured_start(steps: &[Step]) -> i64 {
    let sent = steps.iter().filter_map(|step| match step {
        Step::Client(bytes) => Some(bytes),
        _ => None,
    });
    let received = steps.iter().filter_map(|step| match step {
        Step::Server(bytes) => Some(bytes),
        _ => None,
    });
    // The handshake is skipped.
    let first_write = sent.skip(1).find_map(|bytes| {
        let mut reader = Reader::new(Bytes::from(bytes.clone()).slice(4..))
            .with_negative_counts(NegativeCounts::Empty);
        let RequestHeader { op, .. } = RequestHeader::decode(&mut reader).ok()?;
        // The reply to auth has no zxid, so the next one is used.
        (op != OpCode::AUTH).then(|| {
            let reads = Request::decode(op, &mut reader).is_ok();
            op == OpCode::MULTI || reads && takes_transaction(op)
        })
    });
    let first_zxid = received.skip(1).find_map(|bytes| {
        let mut reader = Reader::new(Bytes::from(bytes.clone()).slice(4..));
        let zxid = ReplyHeader::decode(&mut reader).ok()?.zxid.0;
        (zxid > 0).then_some(zxid)
    });
    first_zxid.unwrap_or(0) - i64::from(first_write == Some(true))
}

fn takes_transaction(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::CREATE
            | OpCode::CREATE2
            | OpCode::CREATE_CONTAINER
            | OpCode::CREATE_TTL
            | OpCode::DELETE
            | OpCode::SET_DATA
            | OpCode::SET_ACL
            | OpCode::RECONFIG
            | OpCode::CLOSE_SESSION
    )
}

fn normalise(reply: &mut Response, shift: i64) {
    let stat = |stat: &mut Stat| {
        assert!(stat.mtime >= stat.ctime);
        stat.ctime = 0;
        stat.mtime = 0;
        stat.ephemeral_owner.0 = i64::from(stat.ephemeral_owner != SessionId::NONE);
        for zxid in [&mut stat.czxid, &mut stat.mzxid, &mut stat.pzxid] {
            *zxid = shifted(*zxid, shift);
        }
    };
    match reply {
        Response::Exists(r) | Response::SetData(r) | Response::SetAcl(r) => stat(&mut r.stat),
        Response::Create2(r) | Response::CreateContainer(r) | Response::CreateTtl(r) => {
            stat(&mut r.stat);
        }
        Response::GetData(r) | Response::Reconfig(r) => stat(&mut r.stat),
        Response::GetAcl(r) => stat(&mut r.stat),
        Response::GetChildren(r) => r.children.sort(),
        Response::GetChildren2(r) => {
            r.children.sort();
            stat(&mut r.stat);
        }
        Response::GetEphemerals(r) => r.ephemerals.sort(),
        Response::WhoAmI(r) => r.client_info.sort_by(|a, b| a.user.cmp(&b.user)),
        Response::Multi(r) | Response::MultiRead(r) => {
            for result in &mut r.results {
                match result {
                    MultiResult::Create2(r) => stat(&mut r.stat),
                    MultiResult::SetData(r) => stat(&mut r.stat),
                    MultiResult::GetData(r) => stat(&mut r.stat),
                    MultiResult::GetChildren(r) => r.children.sort(),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn compare_words(name: &str, captured: &[u8], own: &[u8]) {
    if name != "4lw_srvr" {
        return assert_eq!(own, captured, "{name}");
    }
    let keys = |text: &[u8]| -> Vec<String> {
        let text = std::str::from_utf8(text).unwrap();
        let key = |line: &str| line.split(": ").next().unwrap().to_owned();
        text.lines().map(key).collect()
    };
    assert_eq!(keys(own), keys(captured), "{name}");
}

async fn act(peer: &mut Peer, step: Do) {
    let anyone = || Acl::OPEN_UNSAFE.to_vec();
    let owner = || Acl::new(Perms::ALL, "digest", "user:smGaoVKd/cQkjm7b88GyorAUz20=");
    let node =
        |path, data: &str, acl| create_with(path, data.as_bytes(), CreateMode::Persistent, acl);
    let request = match step {
        Create(path) => node(path, "", anyone()),
        CreateWith(path, data) => node(path, data, anyone()),
        Secret(path) => node(path, "s", vec![owner()]),
        SecretButReadable(path) => {
            let acl = [vec![owner()], Acl::READ_UNSAFE.to_vec()].concat();
            node(path, "s", acl)
        }
        Set(path, data) => set_data(path, data.as_bytes()),
        Delete(path) => delete(path),
        Fail => {
            peer.call(&delete("/none")).await.unwrap_err();
            return;
        }
        Multi => Request::Multi(interlude()),
    };
    peer.call(&request).await.unwrap();
}

/// create /g/a, create /g/b, setData /g/a, delete /g/b
fn interlude() -> MultiRequest {
    let version = lockkeeper_proto::Version::ANY;
    let create = |path: &str| {
        MultiOp::Create(CreateRequest {
            path: path.to_owned(),
            data: None,
            acl: Some(Acl::OPEN_UNSAFE.into()),
            flags: 0,
        })
    };
    let mut data = BytesMut::new();
    data.put_u8(b'1');
    MultiRequest {
        ops: vec![
            create("/g/a"),
            create("/g/b"),
            MultiOp::SetData(SetDataRequest {
                path: "/g/a".to_owned(),
                data: Some(data.freeze()),
                version,
            }),
            MultiOp::Delete(DeleteRequest {
                path: "/g/b".to_owned(),
                version,
            }),
        ],
    }
}
