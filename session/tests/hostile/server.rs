//! A server whose connections follow a script, a record of what it saw, and checks of the client.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
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

use super::waiting::soon;

/// The session that the server grants.
pub(crate) const ID: SessionId = SessionId(0x5ea);

type Script = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A listening server; it stops when this value is dropped.
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
    /// The server and session that errors about this server name.
    pub(crate) fn peer(&self) -> lockkeeper_session::Peer {
        let (server, session) = (Some(Arc::new(self.address.into())), ID);
        lockkeeper_session::Peer { server, session }
    }

    /// Runs `script` for each connection, with its number, which starts at 0.
    pub(crate) async fn start<F>(script: impl Fn(usize, Peer) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            let mut scripts = tokio::task::JoinSet::new();
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
                scripts.spawn(script(number, peer));
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    /// Runs this script for the first `bad` connections. Later connections are healthy.
    pub(crate) async fn bad<F>(
        bad: usize,
        script: impl Fn(Peer) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start(move |number, peer| -> Script {
            if number < bad {
                Box::pin(script(peer))
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

    /// Connects a client with this session timeout.
    pub(crate) async fn client(&self, session_timeout: Duration) -> Result<Client, Error> {
        let builder = Client::builder(&self.connect_string()).unwrap();
        soon(builder.session_timeout(session_timeout).connect()).await
    }
}

/// One connection, from the server's side.
pub(crate) struct Peer {
    stream: TcpStream,
    read: BytesMut,
    seen: Arc<Mutex<Seen>>,
}

impl Peer {
    /// The next message; `None` at the end of the connection.
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

    /// Accepts the handshake with the requested timeout. False at the end of the connection.
    pub(crate) async fn handshake(&mut self) -> bool {
        let Some(request) = self.hear_handshake().await else {
            return false;
        };
        self.send(&accepted(request.timeout_ms)).await;
        true
    }

    /// The next request that is not a ping. Pings are answered.
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

    /// Sends bytes as they are. An error, because the client has closed, is ignored.
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

    /// Sends chunks until the client takes no further ones, at most `most` bytes. Returns the
    /// number of bytes that it took.
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

    /// Answers everything as a healthy server does, until the client closes.
    pub(crate) async fn serve(&mut self) {
        while let Some((xid, request)) = self.request().await {
            self.answer(xid, &sound(&request)).await;
        }
    }

    /// Runs a connection to a healthy server.
    pub(crate) async fn healthy(mut self) {
        if self.handshake().await {
            self.serve().await;
        }
    }

    /// Ends the connection with an end of stream, and not with a reset.
    pub(crate) async fn close(mut self) {
        let _ = self.stream.shutdown().await;
        self.ignore().await;
    }

    /// Reads and sends nothing until the client closes.
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

/// The answer of a healthy server to the handshake.
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

/// A successful reply with this body.
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

/// The answer of a healthy server.
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
        Request::SetWatches2(_) => Response::SetWatches2(Empty {}),
        Request::RemoveWatches(_) => Response::RemoveWatches(Empty {}),
        Request::CloseSession(_) => Response::CloseSession(Empty {}),
        other => panic!("the script has no reply to {other:?}"),
    }
}

// Checks of the tests.

/// The cause of the lost connection that failed this request.
pub(crate) fn lost(error: Error) -> Cause {
    match error {
        Error::ConnectionLost(lost, _) => lost.cause,
        other => panic!("{other:?}"),
    }
}

/// The cause for which the only server was not reached.
pub(crate) fn unreachable_because(error: Error) -> Cause {
    match error {
        Error::Unreachable { tried, .. } => match &*tried {
            [only] => only.cause.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Checks that the client works: it has the session [`ID`], and its requests are answered.
pub(crate) async fn assert_well(client: &Client) {
    let data = soon(client.get_data("/well")).await.unwrap().data;
    assert_eq!(data.as_deref(), Some(&b"sound"[..]));
    assert_eq!(client.snapshot().session_id, ID);
}

/// Makes requests for 1.5 s. Checks that the client does not reconnect in a loop meanwhile.
pub(crate) async fn assert_patient(server: &Server, client: &Client) {
    let (begin, before) = (Instant::now(), server.connections());
    while begin.elapsed() < Duration::from_millis(1500) {
        let asked = timeout(Duration::from_millis(300), client.get_data("/patient"));
        assert!(!matches!(asked.await, Ok(Ok(_))), "the bad server answered");
    }
    let connections = server.connections() - before;
    assert!(connections <= 8, "{connections} connections in 1.5 s");
}
