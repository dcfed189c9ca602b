//! Sends random requests to this server and to a real one. Every reply and every event must be the same.
//!
//! `LOCKKEEPER_TEST_ZOOKEEPER=host:port` names the real server (`tests/run.sh`). All nodes are below one node of our
//! own, which the test deletes at the end. The seeds are fixed, or `LOCKKEEPER_TEST_SEED` gives one. Each reply has a
//! time limit; the whole test has none.
//!
//! - Times and session ids are not compared.
//! - A zxid is compared as the number of the step that took it.
//! - The test sends no request that 3.8 and 3.9 answer differently, so the real server may be either.
//! - It makes no node that a server deletes by itself at a time of its own: containers get no children.

mod common;

use std::{collections::BTreeMap, fmt::Write as _, net::SocketAddr, time::Duration};

use bytes::Bytes;
use common::{Peer, get_data};
use lockkeeper_proto::{
    Acl, AddWatchMode, ErrorCode, EventType, Perms, Request, Response, SessionId, Stat, Version,
    WatcherType, Xid, Zxid,
    multi::{MultiOp, MultiReadOp, MultiReadRequest, MultiRequest, MultiResult},
    records::{
        AddWatchRequest, AuthPacket, CheckVersionRequest, CheckWatchesRequest, CreateRequest,
        CreateTtlRequest, DeleteRequest, Empty, ExistsRequest, GetAclRequest,
        GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest, GetEphemeralsRequest,
        RemoveWatchesRequest, SetAclRequest, SetDataRequest, SetWatches, SyncRequest,
    },
};
use lockkeeper_server::Server;

/// Sessions 0 and 1 use one-shot watches, session 2 persistent ones. 3.8 cannot keep both kinds on one path.
const SESSIONS: usize = 3;

const STEPS: usize = 2000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real ZooKeeper: tests/run.sh"]
async fn random_requests_are_answered_as_by_a_real_server() {
    let real = std::env::var("LOCKKEEPER_TEST_ZOOKEEPER")
        .expect("LOCKKEEPER_TEST_ZOOKEEPER names no server: use tests/run.sh");
    let real = tokio::net::lookup_host(real).await.unwrap().next().unwrap();
    let seeds = match std::env::var("LOCKKEEPER_TEST_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => vec![1, 2, 3, 4],
    };
    for seed in seeds {
        println!("LOCKKEEPER_TEST_SEED={seed}");
        compare(real, seed).await;
    }
}

async fn compare(real: SocketAddr, seed: u64) {
    let server = Server::builder()
        .min_session_timeout(Duration::from_millis(500))
        .start()
        .await
        .unwrap();
    let mut random = Random(seed);
    let outer = format!("/lockkeeper-{}-{seed}", std::process::id());
    // Requests also create siblings of the base.
    let base = format!("{outer}/base");
    let mut own = Side::new(server.local_addr(), &outer).await;
    let mut real = Side::new(real, &outer).await;
    let mut log = String::new();
    let mut mismatch = String::new();
    for step in 0..STEPS {
        let session = usize::try_from(random.below(3)).unwrap();
        let action = action(&mut random, &base, session);
        writeln!(log, "{step}: {session} {action:?}").unwrap();
        let (here, there) = (
            own.act(step, session, &action).await,
            real.act(step, session, &action).await,
        );
        if here != there {
            let tail: Vec<&str> = log.lines().rev().take(12).collect();
            mismatch = format!(
                "seed {seed}\nhere:  {here:?}\nthere: {there:?}\nnewest first:\n{}",
                tail.join("\n")
            );
            break;
        }
    }
    real.clean_up(&outer).await;
    server.shutdown().await;
    assert!(mismatch.is_empty(), "{mismatch}");
}

/// One step of a session.
#[derive(Clone, Debug)]
enum Action {
    Ask(Box<Request>),
    /// Sets watches as if the client had seen everything (`true`) or nothing (`false`).
    SetWatches(Vec<String>, Vec<String>, Vec<String>, bool),
    /// Resumes the session on a new connection.
    Reconnect,
    /// Closes the session and starts another.
    Restart,
}

/// What the clients saw of a step, in a form that can be compared.
#[derive(Debug, PartialEq)]
struct Seen {
    reply: Option<Result<Response, ErrorCode>>,
    /// The events that each session got meanwhile.
    events: Vec<Vec<(EventType, String)>>,
}

struct Side {
    address: SocketAddr,
    peers: Vec<Option<Peer>>,
    /// The step that took each zxid.
    steps: BTreeMap<Zxid, i64>,
}

impl Side {
    async fn new(address: SocketAddr, base: &str) -> Self {
        let mut side = Self {
            address,
            peers: Vec::new(),
            steps: BTreeMap::new(),
        };
        for _ in 0..SESSIONS {
            side.peers.push(Some(Peer::join_at(address, 30_000).await));
        }
        let peer = side.peers[0].as_mut().unwrap();
        peer.create(base, lockkeeper_proto::CreateMode::Persistent)
            .await
            .unwrap();
        side.steps.insert(peer.zxid, -1);
        side
    }

    async fn act(&mut self, step: usize, session: usize, action: &Action) -> Seen {
        let mut peer = self.peers[session].take().unwrap();
        let mut reply = None;
        let mut closing = Vec::new();
        match action {
            Action::Ask(request) => {
                let before = peer.zxid;
                let got = peer.call(request).await;
                if peer.zxid > before {
                    self.steps
                        .entry(peer.zxid)
                        .or_insert(i64::try_from(step).unwrap());
                }
                reply = Some(got.map(|response| self.normalised(response)));
            }
            Action::SetWatches(data, exist, child, everything) => {
                // A read first, so that "everything" means the same on both servers.
                peer.call(&get_data("/", false)).await.unwrap();
                let request = Request::SetWatches(SetWatches {
                    relative_zxid: if *everything { peer.zxid } else { Zxid(0) },
                    data_watches: data.clone(),
                    exist_watches: exist.clone(),
                    child_watches: child.clone(),
                });
                reply = Some(peer.call(&request).await);
            }
            Action::Reconnect => {
                // Not a mere cut: the handshake makes sure that the server has noticed it before the next step.
                let resumed = peer.resume_at(self.address).await;
                peer = resumed.expect("the session is gone");
            }
            Action::Restart => {
                let xid = peer.send(&Request::CloseSession(Empty {})).await;
                let request = Request::CloseSession(Empty {});
                peer.reply_to(xid, &request).await.unwrap().unwrap();
                self.steps.insert(peer.zxid, i64::try_from(step).unwrap());
                closing = events_of(&mut peer);
                peer.raw.assert_closed().await;
                peer = Peer::join_at(self.address, 30_000).await;
            }
        }
        self.peers[session] = Some(peer);
        let mut events = Vec::new();
        for peer in self.peers.iter_mut().flatten() {
            // The reply to the ping comes after all events of earlier steps.
            peer.raw
                .send(&common::request_frame(Xid::PING, &Request::Ping(Empty {})))
                .await;
            let ping = peer.reply_to(Xid::PING, &Request::Ping(Empty {})).await;
            ping.unwrap().unwrap();
            events.push(events_of(peer));
        }
        events[session].splice(0..0, closing);
        if matches!(action, Action::Restart) {
            // A server deletes the nodes of a session in no fixed order.
            for events in &mut events {
                events.sort();
            }
        }
        Seen { reply, events }
    }

    /// The reply without the values that differ between runs.
    fn normalised(&self, mut response: Response) -> Response {
        let stat = |stat: &mut Stat| {
            stat.ctime = 0;
            stat.mtime = i64::from(stat.mtime < stat.ctime);
            for zxid in [&mut stat.czxid, &mut stat.mzxid, &mut stat.pzxid] {
                zxid.0 = self.steps.get(zxid).copied().unwrap_or(-100);
            }
            let mut peers = self.peers.iter();
            let owner = peers.position(|peer| {
                (peer.as_ref()).is_some_and(|peer| peer.session == stat.ephemeral_owner)
            });
            // The session that asks is not in `peers` at this moment. It is enough that the node has an owner.
            let known = i64::try_from(owner.unwrap_or(SESSIONS)).unwrap();
            if stat.ephemeral_owner != SessionId::NONE {
                stat.ephemeral_owner = SessionId(known + 1);
            }
        };
        match &mut response {
            Response::Exists(r) | Response::SetData(r) | Response::SetAcl(r) => stat(&mut r.stat),
            Response::Create2(r) | Response::CreateContainer(r) | Response::CreateTtl(r) => {
                stat(&mut r.stat);
            }
            Response::GetData(r) => stat(&mut r.stat),
            Response::GetAcl(r) => {
                // The ids of a connection have no fixed order.
                r.acl.sort_by(|a, b| a.id.id.cmp(&b.id.id));
                stat(&mut r.stat);
            }
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
        response
    }

    /// Deletes everything below the base, then the base itself.
    async fn clean_up(&mut self, base: &str) {
        for peer in self.peers.drain(1..) {
            peer.unwrap().close().await;
        }
        let peer = self.peers[0].as_mut().unwrap();
        for credentials in CREDENTIALS {
            peer.raw
                .send(&common::request_frame(Xid::AUTH, &auth(credentials)))
                .await;
            let done = peer.reply_to(Xid::AUTH, &auth(credentials)).await;
            done.unwrap().unwrap();
        }
        let mut left = vec![base.to_owned()];
        while let Some(path) = left.last().cloned() {
            // The node may have any ACL. This client holds all ids that the test uses.
            let open = Request::SetAcl(SetAclRequest {
                path: path.clone(),
                acl: Some(Acl::OPEN_UNSAFE.into()),
                version: Version::ANY,
            });
            let _ = peer.call(&open).await;
            let children = peer.children(&path).await.unwrap_or_default();
            if children.is_empty() {
                let _ = peer.call(&common::delete(&path)).await;
                left.pop();
            }
            left.extend(children.iter().map(|child| format!("{path}/{child}")));
        }
    }
}

fn events_of(peer: &mut Peer) -> Vec<(EventType, String)> {
    let events = peer.events.drain(..);
    events.map(|event| (event.event_type, event.path)).collect()
}

fn action(random: &mut Random, base: &str, session: usize) -> Action {
    match random.below(100) {
        0 => Action::Restart,
        1 => Action::Reconnect,
        2..=4 if session < 2 => {
            let mut some = || (0..random.below(3)).map(|_| path(random, base)).collect();
            let lists: [Vec<String>; 3] = [some(), some(), some()];
            let [data, exist, child] = lists;
            Action::SetWatches(data, exist, child, random.below(2) == 0)
        }
        _ => Action::Ask(Box::new(request(random, base, session))),
    }
}

#[allow(clippy::too_many_lines, reason = "one line for each kind of request")]
fn request(random: &mut Random, base: &str, session: usize) -> Request {
    let path = path(random, base);
    // The session with persistent watches sets no one-shot ones.
    let watch = session < 2 && random.below(3) == 0;
    match random.below(34) {
        0..=4 => {
            let path = secret_or(random, base, path);
            Request::Create(create(random, path))
        }
        5..=6 => Request::Create2(create(random, path)),
        7 => Request::CreateContainer(container(random, base)),
        8 => {
            let CreateRequest {
                path, data, acl, ..
            } = create(random, path);
            Request::CreateTtl(CreateTtlRequest {
                path,
                data,
                acl,
                flags: [5, 6, 0, 9][random.index(4)],
                ttl_ms: [3_600_000, 0, 1 << 40][random.index(3)],
            })
        }
        9..=12 => Request::Delete(delete(random, path)),
        13..=14 => Request::SetData(set_data(random, path)),
        15 => {
            // If a client may not read a node, 3.8 and 3.9 answer `exists` differently. So no `exists` is sent for the
            // secret node.
            let secret = random.below(2) == 0;
            Request::SetAcl(SetAclRequest {
                path: if secret {
                    format!("{base}/secret")
                } else {
                    path
                },
                acl: acl(random, secret),
                version: version(random),
            })
        }
        16..=17 => Request::Exists(ExistsRequest { path, watch }),
        18..=19 => Request::GetData(GetDataRequest {
            path: secret_or(random, base, path),
            watch,
        }),
        20..=21 => Request::GetChildren(GetChildrenRequest {
            path: secret_or(random, base, path),
            watch,
        }),
        22 => Request::GetChildren2(GetChildrenRequest { path, watch }),
        23 => Request::GetAcl(GetAclRequest {
            path: secret_or(random, base, path),
        }),
        24 => Request::Sync(SyncRequest { path }),
        25..=27 => Request::Multi(MultiRequest {
            ops: (0..random.below(5))
                .map(|_| multi_op(random, base))
                .collect(),
        }),
        28 => Request::MultiRead(MultiReadRequest {
            ops: (0..random.below(4))
                .map(|_| {
                    let path = self::path(random, base);
                    let watch = random.below(2) == 0;
                    if random.below(2) == 0 {
                        MultiReadOp::GetData(GetDataRequest { path, watch })
                    } else {
                        MultiReadOp::GetChildren(GetChildrenRequest { path, watch })
                    }
                })
                .collect(),
        }),
        29 if session == 2 && random.below(3) > 0 => {
            // One mode for each path, because 3.8 keeps only one.
            let mode = if path.len().is_multiple_of(2) {
                AddWatchMode::PERSISTENT
            } else {
                AddWatchMode::PERSISTENT_RECURSIVE
            };
            Request::AddWatch(AddWatchRequest { path, mode })
        }
        29 => Request::RemoveWatches(RemoveWatchesRequest {
            path: with_slash(path),
            watcher_type: WatcherType(if session == 2 {
                3
            } else {
                [1, 2, 3, 9][random.index(4)]
            }),
        }),
        // 3.8 also finds the watches of other connections, so the test asks only for types that do not exist.
        30 => Request::CheckWatches(CheckWatchesRequest {
            path,
            watcher_type: WatcherType([0, 9][random.index(2)]),
        }),
        31 => Request::GetEphemerals(GetEphemeralsRequest {
            prefix_path: [Some(path), None, Some("/".to_owned())][random.index(3)].clone(),
        }),
        32 => Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path }),
        _ if random.below(4) == 0 => auth(CREDENTIALS[random.index(2)]),
        _ => Request::WhoAmI(Empty {}),
    }
}

fn multi_op(random: &mut Random, base: &str) -> MultiOp {
    let path = path(random, base);
    match random.below(6) {
        0 | 1 => MultiOp::Create(CreateRequest {
            flags: i32::try_from(random.below(4)).unwrap(),
            ..create(random, path)
        }),
        2 => MultiOp::CreateContainer(container(random, base)),
        3 => MultiOp::Delete(delete(random, path)),
        4 => MultiOp::SetData(set_data(random, path)),
        _ => MultiOp::Check(CheckVersionRequest {
            path,
            version: version(random),
        }),
    }
}

fn create(random: &mut Random, path: String) -> CreateRequest {
    CreateRequest {
        path,
        data: data(random),
        acl: acl(random, false),
        // Mostly valid flags. A plain create does not have 5 and above.
        flags: [0, 0, 1, 1, 2, 2, 3, 3, 5, 9][random.index(10)],
    }
}

/// A container, only at paths that never get children. Each server would delete an emptied container at its own time.
fn container(random: &mut Random, base: &str) -> CreateRequest {
    let childless = ["/a/y", "/b/x", "/a/x/1", "/none/x"][random.index(4)];
    CreateRequest {
        flags: 4,
        ..create(random, format!("{base}{childless}"))
    }
}

fn delete(random: &mut Random, path: String) -> DeleteRequest {
    DeleteRequest {
        path,
        version: version(random),
    }
}

fn set_data(random: &mut Random, path: String) -> SetDataRequest {
    SetDataRequest {
        path,
        data: data(random),
        version: version(random),
    }
}

fn data(random: &mut Random) -> Option<Bytes> {
    [None, Some(""), Some("x"), Some("more")][random.index(4)]
        .map(|text| Bytes::from_static(text.as_bytes()))
}

fn version(random: &mut Random) -> Version {
    Version([-1, -1, -1, 0, 1][random.index(5)])
}

/// An ACL. Anyone may read the node, unless `secret`.
fn acl(random: &mut Random, secret: bool) -> Option<std::borrow::Cow<'static, [Acl]>> {
    let digest = |perms| Acl::new(perms, "digest", "user:smGaoVKd/cQkjm7b88GyorAUz20=");
    let anyone = |perms| Acl::new(perms, "world", "anyone");
    let auth = Acl::new(Perms::ALL, "auth", "");
    let ip = Acl::new(Perms::ALL, "ip", "127.0.0.0/8");
    let readable = match random.below(20) {
        0 => vec![anyone(Perms::READ | Perms::CREATE | Perms::ADMIN)],
        1 => vec![anyone(Perms::READ), digest(Perms::ALL), anyone(Perms::READ)],
        2 => vec![anyone(Perms::READ), auth],
        3 => vec![anyone(Perms::READ), ip],
        4 => vec![anyone(
            Perms::READ | Perms::DELETE | Perms::WRITE | Perms::ADMIN,
        )],
        5 => return None,
        6 => vec![],
        7 => vec![Acl::new(Perms::ALL, "foo", "bar")],
        8 => vec![Acl::new(Perms::ALL, "world", "someone")],
        9 => vec![anyone(Perms::READ), Acl::new(Perms::ALL, "digest", "a:b:c")],
        10 => vec![anyone(Perms::READ), Acl::new(Perms::ALL, "ip", "10.0.0")],
        _ => vec![anyone(Perms::ALL)],
    };
    if secret && random.below(2) == 0 {
        return Some(vec![digest(Perms::READ), anyone(Perms::ADMIN)].into());
    }
    Some(readable.into())
}

fn path(random: &mut Random, base: &str) -> String {
    let below = [
        "/a",
        "/a",
        "/b",
        "/a/x",
        "/a/x",
        "/a/y",
        "/b/x",
        "/a/x/1",
        "/s-",
        "/a/s-",
        "/b/",
        "/a//x",
        "/a/..",
        "",
        "/none/x",
        "/a\u{1}",
        "/a/x/s-",
        "/s-0000000003",
        "/a/s-0000000002",
        "/b/0000000000",
    ];
    if random.below(60) == 0 {
        return ["no", "//x"][random.index(2)].to_owned();
    }
    format!("{base}{}", below[random.index(below.len())])
}

/// 3.8 fails on a path without a slash when it looks for watches above it.
fn with_slash(path: String) -> String {
    if path.contains('/') {
        path
    } else {
        "/".to_owned()
    }
}

fn secret_or(random: &mut Random, base: &str, path: String) -> String {
    if random.below(5) == 0 {
        format!("{base}/secret")
    } else {
        path
    }
}

const CREDENTIALS: [&str; 2] = ["user:pass", "other:word"];

fn auth(credentials: &'static str) -> Request {
    Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: "digest".to_owned(),
        auth: Some(Bytes::from_static(credentials.as_bytes())),
    })
}

/// Splitmix64: the same numbers for the same seed on any machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap())).unwrap()
    }
}
