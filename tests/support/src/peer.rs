//! Two clients for tests. [`Raw`] sends bytes and receives frames. [`Peer`] has a session and makes
//! one call at a time.
//!
//! Every wait ends with a panic after [`PATIENCE`], so no test hangs.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    Acl, CreateMode, ErrorCode, Request, Response, SessionId, Version, WatcherEvent, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Encode, Reader},
    records::{
        AuthPacket, CreateRequest, DeleteRequest, Empty, ExistsRequest, GetChildrenRequest,
        GetDataRequest, SetDataRequest, SyncRequest,
    },
};
use lockkeeper_server::Server;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long a test waits for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The real time, for checks that something does not happen too early.
#[allow(clippy::disallowed_methods, reason = "tests look at real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// A connection, and the bytes that it has received.
pub struct Raw {
    stream: TcpStream,
    input: BytesMut,
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Self {
        Self {
            stream: TcpStream::connect(address).await.unwrap(),
            input: BytesMut::new(),
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends bytes. Returns whether that worked; it fails if the server has ended the connection.
    pub async fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Reads until the end, or until a reset: the server resets the connection if it has not read
    /// everything.
    pub async fn assert_ended(&mut self) {
        let end = async {
            while self
                .stream
                .read_buf(&mut self.input)
                .await
                .is_ok_and(|n| n > 0)
            {}
        };
        timeout(PATIENCE, end)
            .await
            .expect("the server does not close the connection");
    }

    /// Returns whether a frame comes before the end of the connection.
    pub async fn next_frame_or_end(&mut self) -> bool {
        self.next_frame().await.is_some()
    }

    /// Whether the connection has ended, as far as a write can tell.
    pub async fn is_reset_or_over(&mut self) -> bool {
        tokio::time::sleep(Duration::from_millis(20)).await;
        !self.try_send(&[0]).await
    }

    /// The next frame without its length prefix; `None` if the server has closed the connection.
    pub async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = frame::split(&mut self.input, usize::MAX >> 1).unwrap() {
                return Some(message);
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.input));
            let read = read.await.expect("the server is silent");
            if read.is_err() || matches!(read, Ok(0)) {
                assert!(
                    self.input.is_empty(),
                    "the connection ended within a frame: {:?}",
                    self.input
                );
                return None;
            }
        }
    }

    pub async fn frame(&mut self) -> Bytes {
        self.next_frame()
            .await
            .expect("the server closed the connection")
    }

    /// Whether nothing comes for 30 ms.
    pub async fn is_silent(&mut self) -> bool {
        let moment = Duration::from_millis(30);
        self.input.is_empty()
            && timeout(moment, self.stream.read_buf(&mut self.input))
                .await
                .is_err()
    }

    pub async fn assert_closed(&mut self) {
        assert_eq!(self.next_frame().await, None);
    }

    /// Everything until the server closes the connection.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut rest = self.input.split().to_vec();
        let read = self.stream.read_to_end(&mut rest);
        timeout(PATIENCE, read)
            .await
            .expect("the server does not close the connection")
            .unwrap();
        rest
    }

    pub async fn handshake(&mut self, request: &ConnectRequest) -> Option<ConnectResponse> {
        self.send(&framed(request)).await;
        let message = self.next_frame().await?;
        let response = ConnectResponse::decode(&mut Reader::new(message)).unwrap();
        (response.timeout_ms > 0).then_some(response)
    }
}

/// A handshake that asks for a new session.
pub fn new_session(timeout_ms: i32) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms,
        session_id: SessionId::NONE,
        password: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    }
}

/// A message with its length prefix.
pub fn framed(message: &impl Encode) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame::append(&mut out, |writer| message.encode(writer)).unwrap();
    out.to_vec()
}

/// A request with its length prefix.
pub fn request_frame(xid: Xid, request: &Request) -> Vec<u8> {
    let mut out = BytesMut::new();
    let op = request.op();
    frame::append(&mut out, |writer| {
        RequestHeader { xid, op }.encode(writer);
        request.encode(writer);
    })
    .unwrap();
    out.to_vec()
}

/// A client with a session.
pub struct Peer {
    pub raw: Raw,
    pub session: SessionId,
    pub password: Bytes,
    /// The zxid of the last reply.
    pub zxid: Zxid,
    /// Events that came before replies.
    pub events: Vec<WatcherEvent>,
    xid: i32,
}

impl Peer {
    /// Starts a session of 10 s.
    pub async fn join(server: &Server) -> Self {
        Self::join_for(server, 10_000).await
    }

    pub async fn join_for(server: &Server, timeout_ms: i32) -> Self {
        Self::join_at(server.local_addr(), timeout_ms).await
    }

    pub async fn join_at(address: SocketAddr, timeout_ms: i32) -> Self {
        let raw = Raw::connect(address).await;
        Self::start(raw, &new_session(timeout_ms))
            .await
            .expect("a new session is refused")
    }

    /// Moves the session to another connection, with the last zxid that this client has seen.
    pub async fn resume(self, server: &Server) -> Option<Self> {
        self.resume_at(server.local_addr()).await
    }

    pub async fn resume_at(self, address: SocketAddr) -> Option<Self> {
        let raw = Raw::connect(address).await;
        let request = self.resume_request();
        Self::start(raw, &request).await
    }

    pub fn resume_request(&self) -> ConnectRequest {
        ConnectRequest {
            last_zxid_seen: self.zxid,
            session_id: self.session,
            password: Some(self.password.clone()),
            ..new_session(10_000)
        }
    }

    async fn start(mut raw: Raw, request: &ConnectRequest) -> Option<Self> {
        let response = raw.handshake(request).await?;
        Some(Self {
            raw,
            session: response.session_id,
            password: response.password.unwrap(),
            zxid: request.last_zxid_seen,
            events: Vec::new(),
            xid: 0,
        })
    }

    pub async fn send(&mut self, request: &Request) -> Xid {
        self.xid += 1;
        let xid = Xid(self.xid);
        self.raw.send(&request_frame(xid, request)).await;
        xid
    }

    /// Sends a request and waits for the reply; `None` if the connection ends instead.
    pub async fn try_call(&mut self, request: &Request) -> Option<Result<Response, ErrorCode>> {
        let xid = self.send(request).await;
        self.reply_to(xid, request).await
    }

    pub async fn call(&mut self, request: &Request) -> Result<Response, ErrorCode> {
        self.try_call(request)
            .await
            .expect("the connection ended without a reply")
    }

    pub async fn reply_to(
        &mut self,
        xid: Xid,
        request: &Request,
    ) -> Option<Result<Response, ErrorCode>> {
        loop {
            let mut reader = Reader::new(self.raw.next_frame().await?);
            let header = ReplyHeader::decode(&mut reader).unwrap();
            if header.xid == Xid::NOTIFICATION {
                self.events.push(WatcherEvent::decode(&mut reader).unwrap());
                continue;
            }
            assert_eq!(header.xid, xid);
            if header.zxid.0 > 0 {
                self.zxid = header.zxid;
            }
            if !header.err.is_ok() {
                return Some(Err(header.err));
            }
            let response = Response::decode(request.op(), &mut reader).unwrap();
            assert_eq!(reader.left(), 0);
            return Some(Ok(response));
        }
    }

    /// The next event.
    pub async fn event(&mut self) -> WatcherEvent {
        if !self.events.is_empty() {
            return self.events.remove(0);
        }
        let mut reader = Reader::new(self.raw.frame().await);
        let header = ReplyHeader::decode(&mut reader).unwrap();
        assert_eq!(header.xid, Xid::NOTIFICATION);
        WatcherEvent::decode(&mut reader).unwrap()
    }

    pub async fn create(&mut self, path: &str, mode: CreateMode) -> Result<String, ErrorCode> {
        match self.call(&create(path, b"", mode)).await? {
            Response::Create(created) => Ok(created.path),
            other => panic!("{other:?}"),
        }
    }

    pub async fn children(&mut self, path: &str) -> Result<Vec<String>, ErrorCode> {
        match self.call(&get_children(path, false)).await? {
            Response::GetChildren(response) => {
                let mut children = Vec::from(response.children);
                children.sort();
                Ok(children)
            }
            other => panic!("{other:?}"),
        }
    }

    pub async fn close(mut self) {
        self.call(&Request::CloseSession(Empty {})).await.unwrap();
        self.raw.assert_closed().await;
    }
}

pub fn create(path: &str, data: &[u8], mode: CreateMode) -> Request {
    create_with(path, data, mode, Acl::OPEN_UNSAFE.to_vec())
}

pub fn create_with(path: &str, data: &[u8], mode: CreateMode, acl: Vec<Acl>) -> Request {
    Request::Create(CreateRequest {
        path: path.to_owned(),
        data: Some(Bytes::copy_from_slice(data)),
        acl: Some(acl.into()),
        flags: mode.flags(),
    })
}

pub fn delete(path: &str) -> Request {
    Request::Delete(DeleteRequest {
        path: path.to_owned(),
        version: Version::ANY,
    })
}

pub fn set_data(path: &str, data: &[u8]) -> Request {
    Request::SetData(SetDataRequest {
        path: path.to_owned(),
        data: Some(Bytes::copy_from_slice(data)),
        version: Version::ANY,
    })
}

pub fn get_data(path: &str, watch: bool) -> Request {
    Request::GetData(GetDataRequest {
        path: path.to_owned(),
        watch,
    })
}

pub fn exists(path: &str, watch: bool) -> Request {
    Request::Exists(ExistsRequest {
        path: path.to_owned(),
        watch,
    })
}

pub fn get_children(path: &str, watch: bool) -> Request {
    Request::GetChildren(GetChildrenRequest {
        path: path.to_owned(),
        watch,
    })
}

/// An identity of the scheme `digest`.
pub fn auth(credentials: &str) -> Request {
    Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: "digest".to_owned(),
        auth: Some(Bytes::copy_from_slice(credentials.as_bytes())),
    })
}

pub fn sync(path: &str) -> Request {
    Request::Sync(SyncRequest {
        path: path.to_owned(),
    })
}
