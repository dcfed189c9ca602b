//! What a follower and its leader say to each other, read from the bytes of their connection.
//!
//! Not here: what it means (`accept`).

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use lockkeeper_proto::jute::{Decode, DecodeErrorKind, Reader, record};

use crate::facts::record::{Asked, What};

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
/// Not a transaction: a follower asks whether a session may be resumed.
pub(crate) const RESUME: i32 = -1000;

/// What stands behind a snapshot that a leader sends.
const SIGNATURE: &[u8] = b"\0\0\0\x0aBenWasHere";

/// The bytes of one direction.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    waiting: BytesMut,
    is_in_snapshot: bool,
}

/// Whole packets, and what the record says of each.
pub(crate) type Read = (Bytes, Option<What>);

impl Stream {
    /// The packets that these bytes complete.
    pub(crate) fn read(&mut self, is_up: bool, bytes: &[u8]) -> Vec<Read> {
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
                    let what = what(is_up, &packet);
                    all.push((self.waiting.split_to(length).freeze(), what));
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

fn what(is_up: bool, packet: &QuorumPacket) -> Option<What> {
    let (zxid, mut data) = (packet.zxid, packet.data.clone().unwrap_or_default());
    Some(match (packet.kind, is_up) {
        (NEW_LEADER, false) => What::NewLeader(zxid >> 32),
        (UP_TO_DATE, false) => What::UpToDate,
        (PING, false) => What::Ping,
        (PING, true) => {
            // Sessions with their timeouts.
            assert_eq!(data.len() % 12, 0, "not a table of sessions");
            What::Touches(data.chunks(12).map(|mut it| it.get_i64()).collect(), false)
        }
        (REVALIDATE, true) => What::Request(Asked(data.get_i64(), 0, RESUME)),
        (REVALIDATE, false) => What::Resumed(data.get_i64(), data.get_u8() != 0),
        (REQUEST, true) => What::Request(asked(&mut data, 0)),
        (PROPOSAL, false) => {
            let asked = asked(&mut data, 16);
            let timeout = if asked.2 == CREATE_SESSION {
                data.get_i32()
            } else {
                0
            };
            let timeout = u64::try_from(timeout).expect("a timeout");
            What::Proposal(zxid, asked, Duration::from_millis(timeout))
        }
        (ACK, true) => What::Ack(zxid),
        (COMMIT, false) => What::Commit(zxid),
        _ => return None,
    })
}

/// The session and the number of a request, and its type, which stands so much behind them.
fn asked(data: &mut Bytes, gap: usize) -> Asked {
    let (session, xid) = (data.get_i64(), data.get_i32());
    data.advance(gap);
    Asked(session, xid, data.get_i32())
}
