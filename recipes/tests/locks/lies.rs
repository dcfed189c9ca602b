//! Servers that keep a contender busy with lies, and others who write to its nodes all the time:
//! every loop of the recipes that repeats requests pauses after a few rounds, and those that wait
//! for no event end.
//!
//! Each test ran at full speed before: 4,000 to 28,000 requests in two seconds.

use std::{
    sync::{Arc, Mutex as StdMutex},
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_proto::{
    CreateMode, ErrorCode, EventType, OpCode, Request, Response, SessionId, Stat, Zxid,
    header::ReplyHeader,
    jute::{Decode, Encode, Names, Reader},
    multi::MultiResponse,
    path,
    records::{
        Create2Response, Empty, GetChildren2Response, GetChildrenResponse, GetDataResponse,
        StatResponse,
    },
};
use lockkeeper_recipes::{Election, LockError, Mutex, PlainMutex, REVOKE, Semaphore};
use lockkeeper_session::Client;
use lockkeeper_test_support::scripted::{ID, Peer, Server, event, message, sound};
use tokio::time::timeout;

use crate::support::waiting::soon;

const TIMEOUT: Duration = Duration::from_secs(30);
const WINDOW: Duration = Duration::from_secs(2);
/// The most requests in the window: some loops send five in a round.
const MOST: usize = 250;

/// What the server answers, and the events that it sends behind that.
struct Answer(Result<Response, ErrorCode>, Vec<(EventType, String)>);

/// What the server has created, and heard.
#[derive(Default)]
struct Memory {
    zxid: i64,
    /// The paths of the nodes, in order.
    nodes: Vec<(String, i64)>,
    requests: Vec<OpCode>,
}

impl Memory {
    fn stat(&self, path: &str) -> Stat {
        let zeros = Bytes::from_static(&[0; Stat::ENCODED_LEN]);
        let node = self.nodes.iter().find(|(node, _)| node == path);
        Stat {
            czxid: Zxid(node.map_or(1, |(_, czxid)| *czxid)),
            ephemeral_owner: ID,
            ..Stat::decode(&mut Reader::new(zeros)).unwrap()
        }
    }

    /// What an honest server answers that has these nodes and no others.
    fn honest(&mut self, request: &Request) -> Result<Response, ErrorCode> {
        Ok(match request {
            Request::Create2(create) => {
                self.zxid += 1;
                let mut path = create.path.clone();
                let mode = CreateMode::from_flags(create.flags, 0).unwrap();
                if mode.is_sequential() {
                    path = format!("{path}{:010}", 7 + self.nodes.len());
                }
                self.nodes.push((path.clone(), self.zxid));
                let stat = self.stat(&path);
                Response::Create2(Create2Response { path, stat })
            }
            Request::CreateContainer(_) => return Err(ErrorCode::NODE_EXISTS),
            Request::Delete(delete) => {
                let before = self.nodes.len();
                self.nodes.retain(|(path, _)| *path != delete.path);
                if self.nodes.len() == before {
                    return Err(ErrorCode::NO_NODE);
                }
                Response::Delete(Empty {})
            }
            Request::GetChildren(list) => Response::GetChildren(GetChildrenResponse {
                children: self.below(&list.path),
            }),
            Request::GetChildren2(list) => Response::GetChildren2(GetChildren2Response {
                children: self.below(&list.path),
                stat: self.stat(&list.path),
            }),
            Request::Exists(exists) => Response::Exists(StatResponse {
                stat: self.stat(&exists.path),
            }),
            Request::GetData(get) => Response::GetData(GetDataResponse {
                data: None,
                stat: self.stat(&get.path),
            }),
            Request::SetData(set) => Response::SetData(StatResponse {
                stat: self.stat(&set.path),
            }),
            Request::Multi(multi) => {
                let result = |op: &Request| match op {
                    Request::Check(_) => Ok(Response::Check(Empty {})),
                    other => panic!("no answer to {other:?}"),
                };
                let results = multi.ops.iter().map(result).collect();
                Response::Multi(MultiResponse { results })
            }
            other => sound(other),
        })
    }

    fn below(&self, directory: &str) -> Names {
        let nodes = self.nodes.iter();
        nodes
            .filter(|(node, _)| path::parent(node) == Some(directory))
            .map(|(node, _)| path::name(node))
            .collect()
    }
}

/// The events of the watches that a request sets.
fn events(
    request: &Request,
    event: impl Fn(&str) -> Option<EventType>,
) -> Vec<(EventType, String)> {
    let watched = match request {
        Request::SetWatches(set) => set.data_watches.clone(),
        Request::GetData(get) if get.watch => vec![get.path.clone()],
        Request::GetChildren(get) | Request::GetChildren2(get) if get.watch => {
            vec![get.path.clone()]
        }
        _ => Vec::new(),
    };
    let watched = watched.into_iter();
    watched
        .filter_map(|path| Some((event(&path)?, path)))
        .collect()
}

async fn serve(
    mut peer: Peer,
    memory: Arc<StdMutex<Memory>>,
    lie: impl Fn(&mut Memory, &Request) -> Option<Answer>,
) {
    if !peer.handshake().await {
        return;
    }
    while let Some((xid, request)) = peer.request().await {
        let (answer, zxid) = {
            let mut memory = memory.lock().unwrap();
            memory.requests.push(request.op());
            let answer = lie(&mut memory, &request);
            (answer, memory.zxid.max(1))
        };
        let Some(Answer(reply, events)) = answer else {
            return;
        };
        let err = reply.as_ref().err().copied().unwrap_or(ErrorCode::OK);
        let zxid = Zxid(zxid);
        // In one write: two would wait for a delayed acknowledgement.
        let mut bytes = message(|writer| {
            ReplyHeader { xid, zxid, err }.encode(writer);
            if let Ok(body) = reply {
                body.encode(writer);
            }
        })
        .to_vec();
        for (event_type, path) in events {
            bytes.extend_from_slice(&event(event_type, &path));
        }
        peer.send(&bytes).await;
    }
}

/// A server that answers with `lie`, which may end the connection, and a client of it.
async fn liar(
    lie: impl Fn(&mut Memory, &Request) -> Option<Answer> + Clone + Send + Sync + 'static,
) -> (Server, Client, Arc<StdMutex<Memory>>) {
    let memory = Arc::<StdMutex<Memory>>::default();
    let shared = memory.clone();
    let server = Server::start(move |_, peer| serve(peer, shared.clone(), lie.clone())).await;
    let client = server.client(TIMEOUT).await.unwrap();
    (server, client, memory)
}

/// Checks that `act` sends requests in the window, but few.
async fn is_patient<T>(memory: &StdMutex<Memory>, act: impl Future<Output = T>) {
    let ended = timeout(WINDOW, act).await;
    assert!(ended.is_err(), "it waits for ever");
    let requests = memory.lock().unwrap().requests.len();
    println!("{requests} requests");
    assert!((5..=MOST).contains(&requests), "{requests} requests");
}

/// Three are ahead in each listing, and each watch of such a node fires at once.
async fn ahead_and(event_type: EventType) {
    const AHEAD: [&str; 3] = [
        "x-lock-0000000001",
        "x-lock-0000000002",
        "x-lock-0000000003",
    ];
    let (_server, client, memory) = liar(move |memory, request| {
        let mut reply = memory.honest(request);
        if let Ok(Response::GetChildren(list)) = &mut reply {
            list.children = list.children.iter().chain(AHEAD).collect();
        }
        let event = |path: &str| AHEAD.contains(&path::name(path)).then_some(event_type);
        Some(Answer(reply, events(request, event)))
    })
    .await;
    is_patient(&memory, Mutex::new(&client, "/l").unwrap().lock()).await;
}

#[tokio::test]
async fn a_node_ahead_that_is_there_and_deleted() {
    ahead_and(EventType::NODE_DELETED).await;
}

#[tokio::test]
async fn a_node_ahead_that_changes_all_the_time() {
    ahead_and(EventType::NODE_DATA_CHANGED).await;
}

/// The connection goes on behind such a reply, so its end is no pause.
#[tokio::test]
async fn replies_that_cannot_be_read() {
    for unreadable in [OpCode::CREATE2, OpCode::GET_CHILDREN] {
        let (_server, client, memory) = liar(move |memory, request| {
            let reply = match request {
                request if request.op() == unreadable => Ok(Response::Delete(Empty {})),
                request => memory.honest(request),
            };
            Some(Answer(reply, Vec::new()))
        })
        .await;
        is_patient(&memory, Mutex::new(&client, "/l").unwrap().lock()).await;
        // The looks for the nodes of lost creates have pauses of their own, but shorter ones.
        let requests = memory.lock().unwrap().requests.len();
        assert!(requests <= MOST / 3, "{requests} requests");
        assert_eq!(client.snapshot().connections, 1);
    }
}

#[tokio::test]
async fn a_plain_lock_that_is_taken_and_deleted() {
    let (_server, client, memory) = liar(|memory, request| {
        let reply = match request {
            Request::Create2(_) => Err(ErrorCode::NODE_EXISTS),
            request => memory.honest(request),
        };
        let event = |_: &str| Some(EventType::NODE_DELETED);
        Some(Answer(reply, events(request, event)))
    })
    .await;
    is_patient(&memory, PlainMutex::new(&client, "/l").unwrap().lock()).await;
}

#[tokio::test]
async fn permits_that_are_taken_and_change_all_the_time() {
    let (_server, client, memory) = liar(|memory, request| {
        let mut reply = memory.honest(request);
        let children = match (request, &mut reply) {
            (Request::GetChildren(get), Ok(Response::GetChildren(list))) => {
                Some((&get.path, &mut list.children))
            }
            (Request::GetChildren2(get), Ok(Response::GetChildren2(list))) => {
                Some((&get.path, &mut list.children))
            }
            _ => None,
        };
        if let Some((_, children)) = children.filter(|(path, _)| path.ends_with("leases")) {
            *children = children.iter().chain(["x-lease-0000000001"]).collect();
        }
        let event = |path: &str| {
            let is_directory = path.ends_with("leases");
            is_directory.then_some(EventType::NODE_CHILDREN_CHANGED)
        };
        Some(Answer(reply, events(request, event)))
    })
    .await;
    is_patient(&memory, Semaphore::new(&client, "/s", 1).unwrap().acquire()).await;
}

#[tokio::test]
async fn the_node_of_a_holder_that_changes_all_the_time() {
    let (_server, client, memory) = liar(|memory, request| {
        let reply = memory.honest(request);
        let event = |_: &str| Some(EventType::NODE_DATA_CHANGED);
        Some(Answer(reply, events(request, event)))
    })
    .await;
    let guard = soon(Mutex::new(&client, "/l").unwrap().lock())
        .await
        .unwrap();
    is_patient(&memory, guard.lost()).await;
    memory.lock().unwrap().requests.clear();
    is_patient(&memory, guard.revoked()).await;
}

/// It waited for ever, without a watch.
#[tokio::test]
async fn a_holder_hears_a_request_behind_a_reply_that_cannot_be_read() {
    let (_server, client, _memory) = liar(|memory, request| {
        let mut reply = memory.honest(request);
        let reads = memory.requests.iter().filter(|op| **op == OpCode::GET_DATA);
        match (&mut reply, reads.count()) {
            (Ok(Response::GetData(_)), 1) => reply = Ok(Response::Delete(Empty {})),
            (Ok(Response::GetData(read)), _) => read.data = Some(REVOKE.into()),
            _ => {}
        }
        Some(Answer(reply, Vec::new()))
    })
    .await;
    let guard = soon(Mutex::new(&client, "/l").unwrap().lock())
        .await
        .unwrap();
    soon(guard.revoked()).await;
}

#[tokio::test]
async fn a_leader_whose_node_is_always_deleted() {
    let (_server, client, memory) = liar(|memory, request| {
        let reply = memory.honest(request);
        if let Request::SetWatches(_) = request {
            memory.nodes.clear();
        }
        let event = |_: &str| Some(EventType::NODE_DELETED);
        Some(Answer(reply, events(request, event)))
    })
    .await;
    let _latch = Election::new(&client, "/e").unwrap().latch();
    is_patient(&memory, std::future::pending::<()>()).await;
}

#[tokio::test]
async fn data_that_others_always_change_before() {
    let (_server, client, memory) = liar(|memory, request| {
        let reply = match request {
            Request::SetData(_) => Err(ErrorCode::BAD_VERSION),
            request => memory.honest(request),
        };
        Some(Answer(reply, Vec::new()))
    })
    .await;
    let guard = soon(PlainMutex::new(&client, "/l").unwrap().lock())
        .await
        .unwrap();
    let error = soon(guard.set_data("x")).await.unwrap_err();
    let code = match error {
        LockError::Session(error) => error.code(),
        other => panic!("{other:?}"),
    };
    assert_eq!(code, Some(ErrorCode::BAD_VERSION));
    let requests = memory.lock().unwrap().requests.len();
    assert!((8..=30).contains(&requests), "{requests} requests");
}

#[tokio::test]
async fn a_limit_whose_node_is_there_and_missing() {
    let (_server, client, memory) = liar(|memory, request| {
        let reply = match request {
            Request::SetData(_) => Err(ErrorCode::NO_NODE),
            Request::Create2(_) => Err(ErrorCode::NODE_EXISTS),
            request => memory.honest(request),
        };
        Some(Answer(reply, Vec::new()))
    })
    .await;
    let semaphore = Semaphore::with_shared_limit(&client, "/s", "/limit").unwrap();
    assert!(soon(semaphore.set_limit(3)).await.is_err());
    let requests = memory.lock().unwrap().requests.len();
    assert!((20..=30).contains(&requests), "{requests} requests");
}

/// Each create is lost with its connection, and the listing behind it shows many nodes under its
/// protection, all of another session. A contender read every one of them after each reconnect.
#[tokio::test]
async fn nodes_of_others_under_each_protection_of_ours() {
    const PLANTED: usize = 150;
    let (_server, client, memory) = liar(|memory, request| {
        if let Request::Create2(create) = request {
            let planted = (0..PLANTED).map(|number| (format!("{}{number:010}", create.path), 1));
            memory.nodes = planted.collect();
            return None;
        }
        let mut reply = memory.honest(request);
        if let Ok(Response::GetData(read)) = &mut reply {
            read.stat.ephemeral_owner = SessionId(ID.0 + 1);
        }
        Some(Answer(reply, Vec::new()))
    })
    .await;
    is_patient(&memory, Mutex::new(&client, "/l").unwrap().lock()).await;
    let memory = memory.lock().unwrap();
    let of = |op: OpCode| memory.requests.iter().filter(|it| **it == op).count();
    assert!(of(OpCode::CREATE2) > 1 && of(OpCode::GET_DATA) > PLANTED);
}

/// The reply to the create is lost, so a read tells the fencing token. A token of no transaction is
/// not believed.
#[tokio::test]
async fn a_token_that_a_read_invents_is_not_believed() {
    for invented in [0, -1, i64::MAX] {
        let (_server, client, memory) = liar(move |memory, request| {
            let is_first = memory.requests.len() == 1;
            let mut reply = memory.honest(request);
            let reads = memory.requests.iter();
            let reads = reads.filter(|op| **op == OpCode::GET_DATA).count();
            match &mut reply {
                Ok(Response::Create2(_)) if is_first => return None,
                Ok(Response::GetData(read)) if reads <= 3 => read.stat.czxid = Zxid(invented),
                _ => {}
            }
            Some(Answer(reply, Vec::new()))
        })
        .await;
        let guard = soon(Mutex::new(&client, "/l").unwrap().lock())
            .await
            .unwrap();
        assert_eq!(guard.fencing_token().get(), 1, "{invented}");
        let memory = memory.lock().unwrap();
        assert_eq!(memory.nodes.len(), 1);
        let requests = memory.requests.len();
        assert!((10..=30).contains(&requests), "{requests} requests");
        drop(memory);
        assert_eq!(client.snapshot().connections, 2);
    }
}

/// Servers that have lost answered writes gave a number again (ZOOKEEPER-4643). The error said that
/// the numbers are used up.
#[tokio::test]
async fn a_number_that_was_given_twice() {
    let (_server, client, _memory) = liar(|memory, request| {
        let mut reply = memory.honest(request);
        if let Ok(Response::GetChildren(list)) = &mut reply {
            list.children = list.children.iter().chain(["x-lock-0000000007"]).collect();
        }
        Some(Answer(reply, Vec::new()))
    })
    .await;
    let locked = soon(Mutex::new(&client, "/l").unwrap().lock()).await;
    let error = locked.unwrap_err().to_string();
    assert!(error.contains("gave one twice (try again)"), "{error}");
}
