//! One TCP connection: sends frames and returns everything that comes in, in order.
//!
//! Not here: what a message means (`runner`, `reply`).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use lockkeeper::proto::{
    OpCode, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::RequestHeader,
    jute::{Decode, Encode, Reader},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::request::Request;

/// How long the runner waits for an expected message. The slowest is the reaper, which runs once a
/// minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a session may wait before the runner sends a ping to keep it alive.
const PING_INTERVAL: Duration = Duration::from_secs(8);

pub(crate) struct Connection {
    stream: TcpStream,
    input: BytesMut,
    /// Bytes that the next [`Connection::flush`] sends, in one write.
    pub(crate) output: BytesMut,
    /// Requests without a reply, oldest first, and the xids of their replies.
    pub(crate) pending: VecDeque<(Xid, Request)>,
    last_xid: i32,
    /// When the runner last sent something to the server.
    pub(crate) last_sent: Instant,
    /// Whether the runner may send pings of its own on this connection.
    pub(crate) is_in_session: bool,
    /// Whether the server has said that it closes the connection.
    pub(crate) is_ending: bool,
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
            is_ending: false,
        }
    }

    /// Does the handshake. Returns `None` when the server closes the connection instead of
    /// answering.
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

    /// Sends what is queued. Ignores errors: if the server has closed the connection, the next read
    /// shows it.
    pub(crate) async fn flush(&mut self) {
        self.last_sent = Instant::now();
        let _ = self.stream.write_all(&self.output.split()).await;
    }

    /// Sends a ping that the script does not show. All earlier messages of the server come before
    /// its reply.
    pub(crate) async fn probe(&mut self) {
        let header = RequestHeader {
            xid: Xid::PING,
            op: OpCode::PING,
        };
        frame::append(&mut self.output, |writer| header.encode(writer)).expect("a frame");
        self.flush().await;
    }

    /// Reads the next message. Returns `None` when the server has closed the connection.
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

    /// Reads until the server closes the connection, and returns the bytes without looking for
    /// frames.
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
