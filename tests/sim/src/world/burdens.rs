//! Servers that no fault of the network explains: slow ones, ones with little memory, and ones that
//! lie. And clients whose lock nodes nobody else may read.
//!
//! Not here: which of them do that (`plan::burdens`, `plan::long_waits`).

use std::net::Ipv4Addr;

use bytes::{Buf, Bytes, BytesMut};
use lockkeeper_proto::{
    Acl, Perms,
    jute::{Encode, Writer},
};

use super::{Coming, World, net::Link};
use crate::{history::What, rng::Rng};

/// The length, xid, zxid and error of a reply.
const HEAD: usize = 4 + 4 + 8 + 4;
/// The metadata of a node. They begin with its czxid.
const STAT: usize = 68;

impl World {
    /// Bytes reach a server, which may be slow.
    pub(super) fn arrives_at_server(&mut self, id: u64, bytes: &[u8]) {
        if self.plan.service_us == 0 {
            return self.arrives_up(id, bytes);
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.backlog.extend_from_slice(bytes);
            if !std::mem::replace(&mut link.is_handled, true) {
                self.at(self.now() + self.plan.service_us, Coming::Served(id));
            }
        }
    }

    /// A slow server is done with the oldest request of a connection.
    pub(super) fn served(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let length = frame_length(&link.backlog);
        let request = length.map(|length| link.backlog.split_to(length));
        link.is_handled = frame_length(&link.backlog).is_some();
        if link.is_handled {
            self.at(self.now() + self.plan.service_us, Coming::Served(id));
        }
        if let Some(request) = request {
            self.arrives_up(id, &request);
        }
    }

    /// Records when a server has more replies in its memory than it has room for.
    pub(super) fn look_at_memory(&mut self, server: u32) {
        let most = self.plan.most_bytes;
        if most == 0 || self.has_drowned {
            return;
        }
        let links = self.links.values().filter(|link| link.server == server);
        let bytes = links.map(|link| link.on_their_way).sum();
        if bytes > most {
            self.has_drowned = true;
            self.record(0, What::Drowned { server, bytes });
        }
    }

    /// What a server that may lie sends in place of these bytes. They are whole replies.
    pub(super) fn lied(&mut self, link: &mut Link, bytes: &[u8]) -> Bytes {
        if self.plan.lies_per_mille == 0 || link.client == 0 {
            return Bytes::copy_from_slice(bytes);
        }
        let mut told = bytes.to_vec();
        let mut rest = &mut *told;
        while let Some(length) = frame_length(rest) {
            let (reply, others) = rest.split_at_mut(length);
            if link.rng.chance(self.plan.lies_per_mille)
                && let Some((path, stat)) = created(reply)
            {
                self.figures.count("lies");
                self.lie(&mut link.rng, path, stat);
            }
            rest = others;
        }
        told.into()
    }

    /// Changes the name or the transaction of a node.
    fn lie(&self, rng: &mut Rng, path: &mut [u8], stat: &mut [u8]) {
        let others = self.contenders().into_iter();
        let is_like = |other: &String| other.len() == path.len() && other.as_bytes() != path;
        let others: Vec<_> = others.filter(is_like).collect();
        let czxid = stat.get(..8).map_or(0, |mut czxid| czxid.get_i64());
        let invented = match rng.within(0, 5) {
            0 => 0,
            1 => -1,
            2 => i64::MAX,
            3 => czxid + 1,
            _ => {
                match others.len() {
                    0 => path.reverse(),
                    _ => path.copy_from_slice(rng.one_of(&others).as_bytes()),
                }
                czxid
            }
        };
        if let Some(at) = stat.get_mut(..8) {
            at.copy_from_slice(&invented.to_be_bytes());
        }
    }

    /// What a client sends in place of these bytes: if it hides its lock nodes, only it may read
    /// those that it creates.
    pub(super) fn hidden(&mut self, client: u32, bytes: &[u8]) -> Bytes {
        let mut plans = self.plan.clients.iter();
        if !plans.any(|plan| plan.id == client && plan.hides) {
            return Bytes::copy_from_slice(bytes);
        }
        let own = Acl::new(Perms::ALL, "ip", address_of(client).to_string());
        let [open, own] = [&Acl::OPEN_UNSAFE[0], &own].map(encoded);
        let (mut sent, mut rest) = (Vec::new(), bytes);
        while let Some(length) = frame_length(rest) {
            let (frame, others) = rest.split_at(length);
            let at = position(frame, &open).filter(|_| position(frame, b"_c_").is_some());
            if let Some(at) = at {
                self.figures.count("hidden lock nodes");
                let body = [&frame[4..at], &own, &frame[at + open.len()..]].concat();
                let length = u32::try_from(body.len()).unwrap_or(0);
                sent.extend(length.to_be_bytes());
                sent.extend(body);
            } else {
                sent.extend_from_slice(frame);
            }
            rest = others;
        }
        sent.extend_from_slice(rest);
        sent.into()
    }

    /// Whether the servers have this node, with this token, in this session.
    pub(super) fn is_true(&self, node: &str, token: u64, session: i64) -> bool {
        self.engine.node(node).is_some_and(|(stat, _)| {
            u64::try_from(stat.czxid.0) == Ok(token) && stat.ephemeral_owner.0 == session
        })
    }
}

/// The length of the first frame, if all of it is there.
fn frame_length(mut bytes: &[u8]) -> Option<usize> {
    let all = bytes.len();
    if all < 4 {
        return None;
    }
    let length = 4 + usize::try_from(bytes.get_i32()).ok()?;
    (length <= all).then_some(length)
}

/// The address that the servers see a client at.
pub(super) fn address_of(client: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 + client)
}

fn encoded(acl: &Acl) -> BytesMut {
    let mut bytes = BytesMut::new();
    acl.encode(&mut Writer::new(&mut bytes));
    bytes
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut windows = bytes.windows(wanted.len());
    windows.position(|window| window == wanted)
}

/// The path and the metadata in the reply to a create of a contender's node.
fn created(reply: &mut [u8]) -> Option<(&mut [u8], &mut [u8])> {
    let (_, body) = reply.split_at_mut_checked(HEAD)?;
    let (length, rest) = body.split_at_mut_checked(4)?;
    let length = usize::try_from((&*length).get_i32()).ok()?;
    let (path, stat) = rest.split_at_mut_checked(length)?;
    (path.starts_with(b"/locks/") && stat.len() == STAT).then_some((path, stat))
}
