//! The connections of a capture: puts the segments of each side in order, and decodes what they carry.
//!
//! Segments may come twice, out of order, or be missing: a capture has holes. What waits for an earlier segment is kept, but not for
//! ever. Then the hole is told, and the rest is decoded as if a message began there.
//!
//! Invariants:
//! - At most [`HELD`] bytes wait, of all connections together, and there are at most [`CONNECTIONS`].
//! - No segments make this fail.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
};

use super::{
    Side,
    conversation::{Conversation, Message},
    pcap::{Flags, Segment},
};

/// How many bytes may wait for others.
const HELD: usize = 64 << 20;
/// How many connections are remembered. The one that has been silent for longest is forgotten first.
const CONNECTIONS: usize = 4096;
/// How many segments of one side wait for an earlier one. A receiver asks for a lost segment again much sooner.
const WAITING: usize = 64;

/// All connections of a capture with one port of servers.
#[derive(Debug)]
pub(super) struct Streams {
    port: u16,
    connections: HashMap<(SocketAddr, SocketAddr), Connection>,
    /// The connections so far.
    opened: usize,
    /// The segments so far.
    segments: u64,
    /// The bytes that wait.
    held: usize,
}

/// A message, and its connection.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) connection: usize,
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    pub(super) message: Message,
}

#[derive(Debug)]
struct Connection {
    number: usize,
    conversation: Conversation,
    client: Stream,
    server: Stream,
    /// What it contributes to [`Streams::held`].
    held: usize,
    /// The number of its last segment.
    last: u64,
    /// Both sides have ended it. It is remembered because segments may come twice.
    is_over: bool,
}

/// The bytes of one side.
#[derive(Debug, Default)]
struct Stream {
    /// The number of the next byte, once it is known.
    next: Option<u32>,
    /// What comes later, by the distance from the first byte of the stream.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// The distance of the next byte from the first one.
    passed: u64,
    /// The distance of the end from the first byte, once it is known.
    end: Option<u64>,
}

impl Streams {
    pub(super) fn new(port: u16) -> Self {
        Self {
            port,
            connections: HashMap::new(),
            opened: 0,
            segments: 0,
            held: 0,
        }
    }

    /// Takes a segment, and returns the messages that are complete now.
    pub(super) fn take(&mut self, segment: &Segment<'_>) -> Vec<Heard> {
        let (side, ends) = if segment.to.port() == self.port {
            (Side::Client, (segment.from, segment.to))
        } else if segment.from.port() == self.port {
            (Side::Server, (segment.to, segment.from))
        } else {
            return Vec::new();
        };
        self.segments += 1;
        let mut heard = Vec::new();
        let syn = segment.flags.has(Flags::SYN);
        let first = syn && !segment.flags.has(Flags::ACK);
        let known = self.connections.get(&ends);
        let again = known.is_some_and(|it| {
            let next = segment.sequence.wrapping_add(1);
            it.is_over || it.client.passed > 0 || it.client.next.is_some_and(|it| it != next)
        });
        if first && again {
            heard.extend(self.forget(ends)); // the same ports, and another connection
        }
        if !self.connections.contains_key(&ends) {
            if !syn && segment.data.is_empty() {
                return heard;
            }
            heard.extend(self.make_room());
            self.opened += 1;
            let conversation = if syn {
                Conversation::default()
            } else {
                Conversation::in_the_middle()
            };
            let connection = Connection::new(self.opened, conversation);
            self.connections.insert(ends, connection);
        }
        let Some(connection) = self.connections.get_mut(&ends) else {
            return heard;
        };
        connection.last = self.segments;
        let messages = connection.take(side, segment);
        heard.extend(connection.heard(ends, messages));
        self.held = self.held - connection.held + connection.holds();
        connection.held = connection.holds();
        if self.held > HELD {
            heard.extend(self.forget(ends));
        }
        heard
    }

    /// The capture has ended: returns what is left.
    pub(super) fn end(&mut self) -> Vec<Heard> {
        let mut all: Vec<_> = self.connections.iter().collect();
        all.sort_by_key(|(_, connection)| connection.number);
        let all: Vec<_> = all.into_iter().map(|(ends, _)| *ends).collect();
        all.into_iter().flat_map(|ends| self.forget(ends)).collect()
    }

    /// How many connections are remembered, and how many bytes wait.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.connections.len(), self.held)
    }

    fn make_room(&mut self) -> Vec<Heard> {
        if self.connections.len() < CONNECTIONS {
            return Vec::new();
        }
        let oldest = self.connections.iter().min_by_key(|(_, it)| it.last);
        let oldest = oldest.map(|(ends, _)| *ends);
        oldest.map_or_else(Vec::new, |ends| self.forget(ends))
    }

    fn forget(&mut self, ends: (SocketAddr, SocketAddr)) -> Vec<Heard> {
        let Some(mut connection) = self.connections.remove(&ends) else {
            return Vec::new();
        };
        self.held -= connection.held;
        let messages = connection.end();
        connection.heard(ends, messages)
    }
}

impl Connection {
    fn new(number: usize, conversation: Conversation) -> Self {
        Self {
            number,
            conversation,
            client: Stream::default(),
            server: Stream::default(),
            held: 0,
            last: 0,
            is_over: false,
        }
    }

    fn heard(&self, (client, server): (SocketAddr, SocketAddr), all: Vec<Message>) -> Vec<Heard> {
        let heard = |message| Heard {
            connection: self.number,
            client,
            server,
            message,
        };
        all.into_iter().map(heard).collect()
    }

    fn stream(&mut self, side: Side) -> &mut Stream {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn take(&mut self, side: Side, segment: &Segment<'_>) -> Vec<Message> {
        if self.is_over {
            return Vec::new();
        }
        self.stream(side).add(segment);
        let mut messages = self.hear(side, WAITING);
        let both_end = [&self.client, &self.server].map(Stream::is_over) == [true; 2];
        if segment.flags.has(Flags::RST) || both_end {
            messages.extend(self.end());
        }
        messages
    }

    /// Decodes what is in order. If more than so many segments wait, a hole is passed.
    fn hear(&mut self, side: Side, most: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            while let Some(bytes) = self.stream(side).pop() {
                messages.extend(self.conversation.hear(side, &bytes));
            }
            if self.stream(side).waiting.len() <= most {
                return messages;
            }
            let hole = self.stream(side).skip();
            messages.push(self.conversation.lose(side, hole));
        }
    }

    fn end(&mut self) -> Vec<Message> {
        self.is_over = true;
        let mut messages = self.hear(Side::Client, 0);
        messages.extend(self.hear(Side::Server, 0));
        messages.extend(self.conversation.end());
        messages
    }

    fn holds(&self) -> usize {
        let waiting = [&self.client, &self.server].map(Stream::holds);
        waiting.iter().sum::<usize>() + self.conversation.holds()
    }
}

impl Stream {
    fn add(&mut self, segment: &Segment<'_>) {
        let syn = segment.flags.has(Flags::SYN);
        let first = segment.sequence.wrapping_add(u32::from(syn));
        if self.next.is_none() && !syn && segment.data.is_empty() {
            return; // what it says of the next byte may be one too few, as in a probe of a silent connection
        }
        let next = *self.next.get_or_insert(first);
        // Numbers wrap around. The nearer direction is meant.
        let distance = i64::from(first.wrapping_sub(next).cast_signed());
        let behind = usize::try_from(-distance).unwrap_or(0);
        let at = self.passed + u64::try_from(distance).unwrap_or(0);
        let data = segment.data.get(behind..).unwrap_or_default();
        if segment.flags.has(Flags::FIN) && behind <= segment.data.len() {
            self.end = Some(at + data.len() as u64);
        }
        let kept = self.waiting.entry(at).or_default();
        if kept.len() < data.len() {
            *kept = data.to_vec();
        } else if kept.is_empty() {
            self.waiting.remove(&at);
        }
    }

    /// The bytes that are next.
    fn pop(&mut self) -> Option<Vec<u8>> {
        while let Some(first) = self.waiting.first_entry() {
            let overlap = self.passed.checked_sub(*first.key())?;
            let mut bytes = first.remove();
            // A part of it may have come before.
            let old = usize::try_from(overlap).unwrap_or(usize::MAX);
            if old < bytes.len() {
                bytes.drain(..old);
                self.pass(bytes.len() as u64);
                return Some(bytes);
            }
        }
        None
    }

    /// Goes on behind the hole, and returns its length.
    fn skip(&mut self) -> u64 {
        let first = self.waiting.first_key_value();
        let hole = first.map_or(0, |(at, _)| at.saturating_sub(self.passed));
        self.pass(hole);
        hole
    }

    fn pass(&mut self, bytes: u64) {
        self.passed += bytes;
        let low = u32::try_from(bytes & u64::from(u32::MAX)).unwrap_or(0);
        self.next = self.next.map(|next| next.wrapping_add(low));
    }

    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.passed >= end)
    }

    fn holds(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }
}
