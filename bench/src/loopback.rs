//! A stand-in for a server: it answers every request at once, in memory and in the client's own
//! thread.
//!
//! With it, the cost of a client can be counted exactly in instructions, because nothing else runs:
//! no kernel, no other thread, no clock. It knows one directory, and checks nothing. The directory
//! has at most one other contender (the stranger), or any number of contenders of the client
//! itself. Not here: a server for tests; that is `lockkeeper-server`.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::{Buf, BytesMut};
use lockkeeper::{
    Version,
    client::{Connector, SessionId, Transport, Zxid},
    error::ErrorCode,
    node::Stat,
    proto::{
        CreateMode, KeeperState, OpCode, WatcherEvent, Xid,
        connect::{ConnectResponse, PASSWORD_LEN},
        frame,
        header::{ReplyHeader, RequestHeader},
        jute::{Decode, Encode, Reader, Writer},
        path::{self, SEQUENCE_DIGITS},
        records::{CreateRequest, DeleteRequest, SetWatches},
    },
    watch::EventType,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const SESSION: SessionId = SessionId(0x1234);
const TIMEOUT_MS: i32 = 10_000;
const DATA: [u8; 100] = [b'x'; 100];
/// The node of the stranger. It is always first in the queue.
///
/// The stranger holds the lock, and releases it as soon as the client watches this node.
const STRANGER: &str = "_c_00000000-0000-4000-8000-000000000000-lock-0000000000";

/// A connector to a server in memory.
///
/// Unless the queue is `empty`, a stranger holds every lock until the client watches the stranger's
/// node.
#[must_use]
pub fn connector(empty: bool) -> Connector {
    to(move || Loopback::new(empty))
}

/// A connector to a server in memory that keeps all nodes of the client, and their watches.
#[must_use]
pub fn connector_of_crowd() -> Connector {
    to(|| Loopback {
        queue: Some(Vec::new()),
        ..Loopback::new(true)
    })
}

fn to(loopback: impl Fn() -> Loopback + Send + Sync + 'static) -> Connector {
    Connector::new(move |_| {
        let transport: Box<dyn Transport> = Box::new(loopback());
        Box::pin(std::future::ready(Ok(transport)))
    })
}

struct Loopback {
    stranger: bool,
    requests: BytesMut,
    replies: BytesMut,
    reader: Option<Waker>,
    associated: bool,
    /// The last transaction, and the sequence number of the last node.
    zxid: i64,
    /// The path of the node that was created last.
    newest: String,
    /// Whether the client watches that node.
    watched: bool,
    /// The paths of all nodes, oldest first, and whether the client watches them. `None` if only
    /// the newest one is known.
    queue: Option<Vec<(String, bool)>>,
    stat: BytesMut,
}

impl Loopback {
    fn new(empty: bool) -> Self {
        let mut stat = BytesMut::new();
        stat_of_ours().encode(&mut Writer::new(&mut stat));
        Self {
            stranger: !empty,
            requests: BytesMut::new(),
            replies: BytesMut::new(),
            reader: None,
            associated: false,
            zxid: 0,
            newest: String::new(),
            watched: false,
            queue: None,
            stat,
        }
    }

    fn answer(&mut self) -> io::Result<()> {
        let limit = frame::SERVER_LIMIT;
        while let Some(request) =
            frame::split(&mut self.requests, limit).map_err(io::Error::other)?
        {
            if self.associated {
                self.reply(Reader::new(request))?;
            } else {
                self.associated = true;
                let response = ConnectResponse {
                    protocol_version: 0,
                    timeout_ms: TIMEOUT_MS,
                    session_id: SESSION,
                    password: Some(vec![1; PASSWORD_LEN].into()),
                    read_only: Some(false),
                };
                send(&mut self.replies, |writer| response.encode(writer))?;
            }
        }
        if !self.replies.is_empty()
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
        Ok(())
    }

    fn reply(&mut self, mut request: Reader) -> io::Result<()> {
        let RequestHeader { xid, op } =
            RequestHeader::decode(&mut request).map_err(io::Error::other)?;
        if op == OpCode::CREATE2 {
            let create = CreateRequest::decode(&mut request).map_err(io::Error::other)?;
            self.zxid += 1;
            self.newest.clear();
            self.newest.push_str(&create.path);
            if create.flags == CreateMode::EphemeralSequential.flags() {
                use std::fmt::Write as _;
                let _ = write!(self.newest, "{:010}", self.zxid);
            }
        }
        let header = ReplyHeader {
            xid,
            zxid: Zxid(self.zxid),
            err: ErrorCode::OK,
        };
        if op == OpCode::DELETE && std::mem::take(&mut self.watched) {
            let newest = self.newest.clone();
            self.deleted(newest)?;
        }
        if self.queue.is_some() && self.reply_of_crowd(op, &header, &mut request)? {
            return Ok(());
        }
        let (newest, stat, stranger) = (&*self.newest, &self.stat[..], self.stranger);
        send(&mut self.replies, |writer| {
            header.encode(writer);
            match op {
                OpCode::CREATE2 => {
                    writer.put_buffer(newest.as_bytes());
                    // A stat begins with the `czxid`, which the client compares with the header.
                    header.zxid.encode(writer);
                    writer.put_slice(&stat[size_of::<i64>()..]);
                }
                OpCode::GET_DATA => {
                    writer.put_buffer(&DATA);
                    writer.put_slice(stat);
                }
                OpCode::GET_CHILDREN => {
                    writer.put_length(1 + usize::from(stranger));
                    if stranger {
                        writer.put_buffer(STRANGER.as_bytes());
                    }
                    writer.put_buffer(path::name(newest).as_bytes());
                }
                _ => {}
            }
        })?;
        if op == OpCode::SET_WATCHES {
            self.watched = true;
            let directory = path::parent(&self.newest).unwrap_or(path::ROOT);
            self.deleted(path::join(directory, STRANGER))?;
        }
        Ok(())
    }

    /// Does the request with all nodes. Returns whether it has replied.
    #[inline(never)]
    fn reply_of_crowd(
        &mut self,
        op: OpCode,
        header: &ReplyHeader,
        request: &mut Reader,
    ) -> io::Result<bool> {
        let queue = self.queue.get_or_insert_default();
        let mut gone = Vec::new();
        match op {
            OpCode::CREATE2 => queue.push((self.newest.clone(), false)),
            OpCode::DELETE => {
                let delete = DeleteRequest::decode(request).map_err(io::Error::other)?;
                let of_node = |(node, _): &(String, _)| number(node).cmp(number(&delete.path));
                let place = queue.binary_search_by(of_node).ok();
                let deleted = place.map(|place| queue.remove(place));
                gone.extend(deleted.filter(|(_, is_watched)| *is_watched));
            }
            OpCode::SET_WATCHES => {
                let watches = SetWatches::decode(request).map_err(io::Error::other)?;
                for path in watches.data_watches {
                    let place = queue.binary_search_by(|(node, _)| number(node).cmp(number(&path)));
                    match place.ok().and_then(|place| queue.get_mut(place)) {
                        Some((_, is_watched)) => *is_watched = true,
                        None => gone.push((path, true)),
                    }
                }
            }
            _ => {}
        }
        for (path, _) in gone {
            self.deleted(path)?;
        }
        let queue = self.queue.as_deref().unwrap_or_default();
        let name_at = self.newest.len() - path::name(&self.newest).len();
        let is_list = op == OpCode::GET_CHILDREN;
        if is_list || op == OpCode::SET_WATCHES {
            send(&mut self.replies, |writer| {
                header.encode(writer);
                if is_list {
                    writer.put_length(queue.len());
                    for (node, _) in queue {
                        writer.put_buffer(node.get(name_at..).unwrap_or_default().as_bytes());
                    }
                }
            })?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Sends the client the event that a node was deleted.
    fn deleted(&mut self, path: String) -> io::Result<()> {
        let header = ReplyHeader {
            xid: Xid::NOTIFICATION,
            zxid: Zxid(-1),
            err: ErrorCode::OK,
        };
        let event = WatcherEvent {
            event_type: EventType::NODE_DELETED,
            state: KeeperState::SYNC_CONNECTED,
            path,
        };
        send(&mut self.replies, |writer| {
            header.encode(writer);
            event.encode(writer);
        })
    }
}

/// The number at the end of a node's path: the nodes of the queue are in the order of their numbers.
fn number(node: &str) -> &str {
    node.get(node.len().saturating_sub(SEQUENCE_DIGITS)..)
        .unwrap_or_default()
}

fn send(replies: &mut BytesMut, write: impl FnOnce(&mut Writer<'_>)) -> io::Result<()> {
    frame::append(replies, write)
        .map(|_| ())
        .map_err(io::Error::other)
}

fn stat_of_ours() -> Stat {
    Stat {
        czxid: Zxid(1),
        mzxid: Zxid(1),
        ctime: 0,
        mtime: 0,
        version: Version(0),
        cversion: Version(0),
        aversion: Version(0),
        ephemeral_owner: SESSION,
        data_length: 0,
        num_children: 0,
        pzxid: Zxid(1),
    }
}

impl AsyncRead for Loopback {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.replies.is_empty() {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let length = self.replies.len().min(buffer.remaining());
        buffer.put_slice(&self.replies[..length]);
        self.replies.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Loopback {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.requests.extend_from_slice(bytes);
        self.answer()?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
