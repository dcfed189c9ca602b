//! A server whose connections follow a script, and what it saw.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use lockkeeper_proto::{
    ErrorCode, EventType, KeeperState, OpCode, Request, Response, SessionId, Stat, WatcherEvent,
    Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Encode, Reader, Writer},
    records::{
        Empty, GetChildrenResponse, GetDataResponse, StatResponse, SyncRequest, SyncResponse,
    },
};
use lockkeeper_session::{Cause, Client, Error};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, timeout},
};

/// No test waits longer for anything.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
/// The session that the server gives.
pub(crate) const ID: SessionId = SessionId(0x5ea);

type Story = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A listening server; it goes with this value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    handshakes: Vec<ConnectRequest>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// What errors say of whom they are.
    pub(crate) fn peer(&self) -> lockkeeper_session::Peer {
        let (server, session) = (Some(Arc::new(self.address.into())), ID);
        lockkeeper_session::Peer { server, session }
    }

    /// Connections are counted from 0; `story` is told for each.
    pub(crate) async fn start<F>(story: impl Fn(usize, Peer) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            let mut stories = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let number = {
                    let mut seen = shared.lock().unwrap();
                    seen.connections += 1;
                    seen.connections - 1
                };
                let peer = Peer {
                    stream,
                    read: BytesMut::new(),
                    seen: shared.clone(),
                };
                stories.spawn(story(number, peer));
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    /// The first connections are told this story, as many as `bad` says; the others are fine.
    pub(crate) async fn bad<F>(
        bad: usize,
        story: impl Fn(Peer) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start(move |number, peer| -> Story {
            if number < bad {
                Box::pin(story(peer))
            } else {
                Box::pin(peer.healthy())
            }
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    pub(crate) fn handshakes(&self) -> Vec<ConnectRequest> {
        self.seen.lock().unwrap().handshakes.clone()
    }

    pub(crate) fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// A client of this server with this session timeout.
    pub(crate) async fn client(&self, session_timeout: Duration) -> Result<Client, Error> {
        let builder = Client::builder(&self.connect_string()).unwrap();
        within(builder.session_timeout(session_timeout).connect()).await
    }
}

/// One connection, from the server's side.
pub(crate) struct Peer {
    stream: TcpStream,
    read: BytesMut,
    seen: Arc<Mutex<Seen>>,
}

impl Peer {
    /// The next message; `None` at the end.
    pub(crate) async fn message(&mut self) -> Option<Reader> {
        loop {
            if let Some(message) = frame::split(&mut self.read, usize::MAX).unwrap() {
                return Some(Reader::new(message));
            }
            if self.stream.read_buf(&mut self.read).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// Reads the handshake and does not answer it.
    pub(crate) async fn hear_handshake(&mut self) -> Option<ConnectRequest> {
        let request = ConnectRequest::decode(&mut self.message().await?).unwrap();
        self.seen.lock().unwrap().handshakes.push(request.clone());
        Some(request)
    }

    /// Answers the handshake as it should be, with the timeout that is asked for. False at the end.
    pub(crate) async fn handshake(&mut self) -> bool {
        let Some(request) = self.hear_handshake().await else {
            return false;
        };
        self.send(&accepted(request.timeout_ms)).await;
        true
    }

    /// The next request that is no ping: those are answered.
    pub(crate) async fn request(&mut self) -> Option<(Xid, Request)> {
        loop {
            let mut message = self.message().await?;
            let RequestHeader { xid, op } = RequestHeader::decode(&mut message).unwrap();
            if op == OpCode::PING {
                self.send(&reply(xid, &Response::Ping(Empty {}))).await;
            } else {
                return Some((xid, Request::decode(op, &mut message).unwrap()));
            }
        }
    }

    /// Sends bytes as they are. That the client has gone is no matter.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Sends bytes one by one.
    pub(crate) async fn drip(&mut self, bytes: &[u8], pause: Duration) {
        for byte in bytes {
            self.send(&[*byte]).await;
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends chunks until the client does not take them any more; how many bytes it took.
    pub(crate) async fn flood(&mut self, chunk: &[u8], most: usize) -> usize {
        let mut sent = 0;
        while sent < most {
            match timeout(Duration::from_secs(5), self.stream.write_all(chunk)).await {
                Ok(Ok(())) => sent += chunk.len(),
                _ => break,
            }
        }
        sent
    }

    pub(crate) async fn answer(&mut self, xid: Xid, response: &Response) {
        self.send(&reply(xid, response)).await;
    }

    /// Answers everything as a healthy server does, until the client goes.
    pub(crate) async fn serve(&mut self) {
        while let Some((xid, request)) = self.request().await {
            self.answer(xid, &sound(&request)).await;
        }
    }

    /// A connection to a healthy server.
    pub(crate) async fn healthy(mut self) {
        if self.handshake().await {
            self.serve().await;
        }
    }

    /// Ends the connection so that the client reads an end, and no reset.
    pub(crate) async fn close(mut self) {
        let _ = self.stream.shutdown().await;
        self.ignore().await;
    }

    /// Reads and says nothing until the client goes.
    pub(crate) async fn ignore(&mut self) {
        while self
            .stream
            .read_buf(&mut self.read)
            .await
            .is_ok_and(|n| n > 0)
        {
            self.read.clear();
        }
    }
}

/// The handshake's answer as it should be.
pub(crate) fn accepted(timeout_ms: i32) -> Bytes {
    message(|writer| {
        ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id: ID,
            password: Some(Bytes::from_static(&[7; 16])),
            read_only: Some(false),
        }
        .encode(writer);
    })
}

pub(crate) fn header(xid: Xid, err: ErrorCode) -> ReplyHeader {
    let zxid = Zxid(1);
    ReplyHeader { xid, zxid, err }
}

pub(crate) fn reply(xid: Xid, response: &Response) -> Bytes {
    message(|writer| {
        header(xid, ErrorCode::OK).encode(writer);
        response.encode(writer);
    })
}

/// A reply of success with this body.
pub(crate) fn raw_reply(xid: Xid, body: &[u8]) -> Bytes {
    message(|writer| {
        header(xid, ErrorCode::OK).encode(writer);
        writer.put_slice(body);
    })
}

pub(crate) fn event(event_type: i32, state: i32, path: &str) -> Bytes {
    message(|writer| {
        header(Xid::NOTIFICATION, ErrorCode::OK).encode(writer);
        WatcherEvent {
            event_type: EventType(event_type),
            state: KeeperState(state),
            path: path.to_owned(),
        }
        .encode(writer);
    })
}

/// A message in its frame.
pub(crate) fn message(write: impl FnOnce(&mut Writer<'_>)) -> Bytes {
    let mut out = BytesMut::new();
    frame::append(&mut out, write).unwrap();
    out.freeze()
}

/// What a healthy server answers.
pub(crate) fn sound(request: &Request) -> Response {
    let stat = Stat::decode(&mut Reader::new(Bytes::from_static(&[0; 68]))).unwrap();
    match request {
        Request::GetData(_) => Response::GetData(GetDataResponse {
            data: Some(Bytes::from_static(b"sound")),
            stat,
        }),
        Request::Exists(_) => Response::Exists(StatResponse { stat }),
        Request::GetChildren(_) => Response::GetChildren(GetChildrenResponse {
            children: vec!["child".to_owned()],
        }),
        Request::Sync(SyncRequest { path }) => Response::Sync(SyncResponse { path: path.clone() }),
        Request::Delete(_) => Response::Delete(Empty {}),
        Request::SetWatches(_) => Response::SetWatches(Empty {}),
        Request::RemoveWatches(_) => Response::RemoveWatches(Empty {}),
        Request::CloseSession(_) => Response::CloseSession(Empty {}),
        other => panic!("no reply to {other:?} is written down"),
    }
}

// What tests look at.

/// The future's result: a hang is a failure.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(PROBE_TIMEOUT, future).await.expect("it hangs")
}

/// Why the connection of this request was lost.
pub(crate) fn lost(error: Error) -> Cause {
    match error {
        Error::ConnectionLost(lost) => lost.cause,
        other => panic!("{other:?}"),
    }
}

/// Why the only server was not reached.
pub(crate) fn unreachable_because(error: Error) -> Cause {
    match error {
        Error::Unreachable { tried, .. } => match &*tried {
            [only] => only.cause.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// All is well: the session is this one, and its requests are answered.
pub(crate) async fn assert_well(client: &Client) {
    let data = within(client.get_data("/well")).await.unwrap().data;
    assert_eq!(data.as_deref(), Some(&b"sound"[..]));
    assert_eq!(client.snapshot().session_id, ID);
}

/// Asks again and again for so long, and sees that the server is not asked for connections in a loop.
pub(crate) async fn assert_patient(server: &Server, client: &Client) {
    let (begin, before) = (Instant::now(), server.connections());
    while begin.elapsed() < Duration::from_millis(1500) {
        let asked = timeout(Duration::from_millis(300), client.get_data("/patient"));
        assert!(!matches!(asked.await, Ok(Ok(_))), "all is well");
    }
    let connections = server.connections() - before;
    assert!(connections <= 8, "{connections} connections in 1.5 s");
}

/// The stream of a four-letter prefix: how long a frame is announced.
pub(crate) fn length(bytes: &[u8]) -> i32 {
    (&mut &*bytes).get_i32()
}
