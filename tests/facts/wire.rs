//! What a follower and its leader say to each other, read from the bytes of their connection.
//!
//! Not here: what it means (`accept`).

use bytes::{Buf, Bytes, BytesMut};
use lockkeeper_proto::jute::{Decode, DecodeErrorKind, Reader, record};

use crate::record::Event;

record! {
    /// `org.apache.zookeeper.server.quorum.QuorumPacket`. There is no length in front of it.
    struct QuorumPacket {
        kind: i32,
        zxid: i64,
        data: Option<Bytes>,
        authinfo: Option<Vec<lockkeeper_proto::Id>>,
    }
}

/// The types of packets, `org.apache.zookeeper.server.quorum.Leader`.
const REQUEST: i32 = 1;
const PROPOSAL: i32 = 2;
const ACK: i32 = 3;
const COMMIT: i32 = 4;
const PING: i32 = 5;
const REVALIDATE: i32 = 6;
const NEW_LEADER: i32 = 10;
const UP_TO_DATE: i32 = 12;
const SNAP: i32 = 15;

/// The types of transactions that make and end sessions, `ZooDefs.OpCode`.
pub(crate) const CREATE_SESSION: i32 = -10;
pub(crate) const CLOSE_SESSION: i32 = -11;

/// What stands behind a snapshot that a leader sends.
const SIGNATURE: &[u8] = b"\0\0\0\x0aBenWasHere";

/// The bytes of one direction.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    waiting: BytesMut,
    is_in_snapshot: bool,
}

/// Whole packets, and what the record says of each.
pub(crate) type Read = (Bytes, Option<Event>);

impl Stream {
    /// The packets that these bytes complete, on a connection with this number.
    pub(crate) fn read(&mut self, link: usize, is_up: bool, bytes: &[u8]) -> Vec<Read> {
        self.waiting.extend_from_slice(bytes);
        let mut all = Vec::new();
        loop {
            if self.is_in_snapshot {
                let mut windows = self.waiting.windows(SIGNATURE.len());
                let Some(end) = windows.position(|bytes| bytes == SIGNATURE) else {
                    // The rest may be the beginning of the signature.
                    let known = self.waiting.len().saturating_sub(SIGNATURE.len() - 1);
                    all.push((self.waiting.split_to(known).freeze(), None));
                    return all;
                };
                let snapshot = self.waiting.split_to(end + SIGNATURE.len());
                all.push((snapshot.freeze(), None));
                self.is_in_snapshot = false;
            }
            let mut reader = Reader::new(Bytes::copy_from_slice(&self.waiting));
            match QuorumPacket::decode(&mut reader) {
                Ok(packet) => {
                    let length = self.waiting.len() - reader.left();
                    self.is_in_snapshot = packet.kind == SNAP;
                    let event = event(link, is_up, &packet);
                    all.push((self.waiting.split_to(length).freeze(), event));
                }
                Err(error) => {
                    use DecodeErrorKind::{Short, TooLong};
                    let is_partial = matches!(error.kind, Short { .. } | TooLong { .. });
                    assert!(is_partial, "not a packet of a quorum: {error}");
                    return all;
                }
            }
        }
    }
}

fn event(link: usize, is_up: bool, packet: &QuorumPacket) -> Option<Event> {
    let zxid = packet.zxid;
    let mut data = packet.data.clone().unwrap_or_default();
    Some(match (packet.kind, is_up) {
        (NEW_LEADER, false) => Event::NewLeader {
            link,
            epoch: zxid >> 32,
        },
        (UP_TO_DATE, false) => Event::UpToDate { link },
        (PING, false) => Event::Ping { link },
        (PING, true) => {
            let mut sessions = Vec::new();
            while data.has_remaining() {
                sessions.push(data.get_i64());
                data.advance(4);
            }
            Event::Touches {
                link,
                sessions,
                is_withheld: false,
            }
        }
        (REVALIDATE, false) => {
            let session = data.get_i64();
            Event::Resumed {
                link,
                session,
                is_valid: data.get_u8() != 0,
            }
        }
        (REQUEST, true) => {
            let (session, xid) = (data.get_i64(), data.get_i32());
            Event::Request {
                link,
                session,
                xid,
                kind: data.get_i32(),
            }
        }
        (PROPOSAL, false) => {
            let (session, xid) = (data.get_i64(), data.get_i32());
            data.advance(16);
            let kind = data.get_i32();
            let timeout = if kind == CREATE_SESSION {
                data.get_i32()
            } else {
                0
            };
            Event::Proposal {
                link,
                zxid,
                session,
                xid,
                kind,
                timeout,
            }
        }
        (ACK, true) => Event::Ack { link, zxid },
        (COMMIT, false) => Event::Commit { link, zxid },
        _ => return None,
    })
}
