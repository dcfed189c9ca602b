//! One TCP connection: frames go out, and everything that comes in is kept, in its order.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use lockkeeper::proto::{
    OpCode, SessionId, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Encode, Reader},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long anything may take that must happen; the slowest is a server that looks for outlived nodes once a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a session may wait for something without a sign of life.
const PING_INTERVAL: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    input: BytesMut,
    /// What is to be sent in one piece.
    pub(crate) output: BytesMut,
    /// Requests without a reply, oldest first: the number that the reply will have.
    pub(crate) pending: VecDeque<Pending>,
    last_xid: i32,
    /// When the server was last sent anything.
    pub(crate) last_sent: Instant,
    /// Whether the server may be asked in between whether it has anything more to say.
    pub(crate) is_in_session: bool,
}

/// A request without a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) reply_xid: Xid,
    /// The number that it was sent with, which a refusal of anything has.
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    /// Whether the script chose the number, and wants to see that of the reply.
    pub(crate) is_numbered: bool,
    /// Whether only success or failure is to be shown.
    pub(crate) is_brief: bool,
}

impl Connection {
    pub(crate) async fn open(servers: &str) -> Self {
        let stream = TcpStream::connect(servers).await;
        Self {
            stream: stream.unwrap_or_else(|error| panic!("{servers}: {error}")),
            input: BytesMut::new(),
            output: BytesMut::new(),
            pending: VecDeque::new(),
            last_xid: 0,
            last_sent: Instant::now(),
            is_in_session: false,
        }
    }

    /// Does the handshake; `None` when the server closes instead of answering.
    pub(crate) async fn handshake(&mut self, request: &ConnectRequest) -> Option<ConnectResponse> {
        frame::append(&mut self.output, |writer| request.encode(writer)).expect("a frame");
        self.flush().await;
        let message = self.next().await?;
        let mut reader = Reader::new(message);
        let response = ConnectResponse::decode(&mut reader).expect("a connect response");
        assert_eq!(reader.left(), 0, "more than a connect response");
        self.is_in_session = response.timeout_ms > 0;
        Some(response)
    }

    pub(crate) fn next_xid(&mut self) -> Xid {
        self.last_xid += 1;
        Xid(self.last_xid)
    }

    /// Sends what is queued. A connection that the server has closed shows that when it is read.
    pub(crate) async fn flush(&mut self) {
        self.last_sent = Instant::now();
        let _ = self.stream.write_all(&self.output.split()).await;
    }

    /// Sends a ping that no script sees: what the server has to say so far comes before its reply.
    pub(crate) async fn probe(&mut self) {
        let header = RequestHeader {
            xid: Xid::PING,
            op: OpCode::PING,
        };
        frame::append(&mut self.output, |writer| header.encode(writer)).expect("a frame");
        self.flush().await;
    }

    /// The next message; `None` when the server has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = frame::split(&mut self.input, usize::MAX >> 1).expect("a frame")
            {
                return Some(message);
            }
            if !self.read_more().await {
                assert!(self.input.is_empty(), "half a frame: {:?}", self.input);
                return None;
            }
        }
    }

    /// Everything until the server closes the connection, without frames.
    pub(crate) async fn rest(&mut self) -> Bytes {
        while self.read_more().await {}
        self.input.split().freeze()
    }

    async fn read_more(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let read = self.stream.read_buf(&mut self.input);
            match timeout(PING_INTERVAL, read).await {
                Ok(read) => return matches!(read, Ok(1..)),
                Err(_) if self.is_in_session => self.probe().await,
                Err(_) => {}
            }
        }
        panic!("nothing came in {PATIENCE:?}");
    }
}

/// A message with its header taken off.
pub(crate) fn open(message: Bytes) -> (ReplyHeader, Bytes) {
    let mut reader = Reader::new(message);
    let header = ReplyHeader::decode(&mut reader).expect("the header of a reply");
    (header, reader.take_rest())
}

/// A request for a new session.
pub(crate) fn new_session(timeout_ms: i32) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms,
        session_id: SessionId::NONE,
        password: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    }
}
