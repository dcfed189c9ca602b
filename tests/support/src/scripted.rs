//! A server whose connections follow scripts that read like a dialogue, and a record of what it
//! saw. A script can break every rule of the protocol.
//!
//! Not here: checks of the client.

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
    jute::{Decode, Encode, Names, Reader, Writer},
    records::{
        Empty, ErrorResponse, GetChildrenResponse, GetDataResponse, StatResponse, SyncRequest,
        SyncResponse,
    },
};
use lockkeeper_session::{Client, Error};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
    time::timeout,
};

use crate::waiting::soon;

/// The session that the server grants.
pub const ID: SessionId = SessionId(0x5ea);

type Script = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A listening server; it stops when this value is dropped.
pub struct Server {
    pub address: SocketAddr,
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
    /// Runs `script` for each connection, with its number, which starts at 0.
    pub async fn start<F>(script: impl Fn(usize, Peer) -> F + Send + 'static) -> Self
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
                let mut peer = Peer::over(stream);
                peer.seen = shared.clone();
                let number = shared.lock().unwrap().connections;
                shared.lock().unwrap().connections += 1;
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
    pub async fn bad<F>(bad: usize, script: impl Fn(Peer) -> F + Send + Sync + 'static) -> Self
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

    pub fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    pub fn handshakes(&self) -> Vec<ConnectRequest> {
        self.seen.lock().unwrap().handshakes.clone()
    }

    pub fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// Connects a client with this session timeout.
    pub async fn client(&self, session_timeout: Duration) -> Result<Client, Error> {
        let builder = Client::builder(&self.connect_string()).unwrap();
        soon(builder.session_timeout(session_timeout).connect()).await
    }
}

/// A stream of tokio.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One connection, from the server's side.
pub struct Peer {
    stream: Box<dyn Stream>,
    read: BytesMut,
    seen: Arc<Mutex<Seen>>,
}

impl Peer {
    pub fn over(stream: impl Stream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            read: BytesMut::new(),
            seen: Arc::default(),
        }
    }

    /// The next message; `None` at the end of the connection.
    async fn message(&mut self) -> Option<Reader> {
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
    pub async fn hear_handshake(&mut self) -> Option<ConnectRequest> {
        let request = ConnectRequest::decode(&mut self.message().await?).unwrap();
        self.seen.lock().unwrap().handshakes.push(request.clone());
        Some(request)
    }

    /// Accepts the handshake with the requested timeout. False at the end of the connection.
    pub async fn handshake(&mut self) -> bool {
        let Some(request) = self.hear_handshake().await else {
            return false;
        };
        self.send(&greeting(request.timeout_ms, ID, &[7; 16])).await;
        true
    }

    /// The next request that is not a ping. Pings are answered.
    pub async fn request(&mut self) -> Option<(Xid, Request)> {
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
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Sends bytes one by one.
    pub async fn drip(&mut self, bytes: &[u8], pause: Duration) {
        for byte in bytes {
            self.send(&[*byte]).await;
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends chunks until the client takes no further ones, at most `most` bytes. Returns the
    /// number of bytes that it took.
    pub async fn flood(&mut self, chunk: &[u8], most: usize) -> usize {
        let mut sent = 0;
        while sent < most {
            match timeout(Duration::from_secs(5), self.stream.write_all(chunk)).await {
                Ok(Ok(())) => sent += chunk.len(),
                _ => break,
            }
        }
        sent
    }

    pub async fn answer(&mut self, xid: Xid, response: &Response) {
        self.send(&reply(xid, response)).await;
    }

    pub async fn refuse(&mut self, xid: Xid, error: ErrorCode) {
        self.send(&message(|writer| header(xid, error).encode(writer)))
            .await;
    }

    /// Answers everything as a healthy server does, until the client closes.
    pub async fn serve(&mut self) {
        while let Some((xid, request)) = self.request().await {
            self.answer(xid, &sound(&request)).await;
        }
    }

    /// Runs a connection to a healthy server.
    pub async fn healthy(mut self) {
        if self.handshake().await {
            self.serve().await;
        }
    }

    /// Ends the connection with an end of stream, and not with a reset.
    pub async fn close(mut self) {
        let _ = self.stream.shutdown().await;
        self.ignore().await;
    }

    /// Reads and sends nothing until the client closes.
    pub async fn ignore(&mut self) {
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

/// An answer to the handshake.
pub fn greeting(timeout_ms: i32, session_id: SessionId, password: &[u8]) -> Bytes {
    message(|writer| {
        ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id,
            password: Some(Bytes::copy_from_slice(password)),
            read_only: Some(false),
        }
        .encode(writer);
    })
}

pub fn header(xid: Xid, err: ErrorCode) -> ReplyHeader {
    let zxid = Zxid(1);
    ReplyHeader { xid, zxid, err }
}

pub fn reply(xid: Xid, response: &Response) -> Bytes {
    message(|writer| {
        header(xid, ErrorCode::OK).encode(writer);
        response.encode(writer);
    })
}

/// A successful reply with this body.
pub fn raw_reply(xid: Xid, body: &[u8]) -> Bytes {
    message(|writer| {
        header(xid, ErrorCode::OK).encode(writer);
        writer.put_slice(body);
    })
}

pub fn event(event_type: EventType, path: &str) -> Bytes {
    message(|writer| {
        header(Xid::NOTIFICATION, ErrorCode::OK).encode(writer);
        WatcherEvent {
            event_type,
            state: KeeperState::SYNC_CONNECTED,
            path: path.to_owned(),
        }
        .encode(writer);
    })
}

/// A message in its frame.
pub fn message(write: impl FnOnce(&mut Writer<'_>)) -> Bytes {
    let mut out = BytesMut::new();
    frame::append(&mut out, write).unwrap();
    out.freeze()
}

/// The answer of a healthy server.
pub fn sound(request: &Request) -> Response {
    let stat = Stat::decode(&mut Reader::new(Bytes::from_static(&[0; 68]))).unwrap();
    match request {
        Request::GetData(_) => Response::GetData(GetDataResponse {
            data: Some(Bytes::from_static(b"sound")),
            stat,
        }),
        Request::Exists(_) => Response::Exists(StatResponse { stat }),
        Request::GetChildren(_) => Response::GetChildren(GetChildrenResponse {
            children: Names::default(),
        }),
        Request::Sync(SyncRequest { path }) => Response::Sync(SyncResponse { path: path.clone() }),
        Request::Delete(_) => Response::Delete(Empty {}),
        Request::Ping(_) => Response::Ping(Empty {}),
        Request::Auth(_) => Response::Auth(Empty {}),
        Request::AddWatch(_) => Response::AddWatch(ErrorResponse { err: ErrorCode::OK }),
        Request::RemoveWatches(_) => Response::RemoveWatches(Empty {}),
        Request::SetWatches(_) => Response::SetWatches(Empty {}),
        Request::SetWatches2(_) => Response::SetWatches2(Empty {}),
        Request::CloseSession(_) => Response::CloseSession(Empty {}),
        other => panic!("the script has no reply to {other:?}"),
    }
}
