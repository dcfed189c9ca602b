//! The history, the log for people, and the figures.
//!
//! Not here: the format of the history (`history`).

use std::{collections::BTreeMap, fmt, time::Duration};

use bytes::BytesMut;
use lockkeeper_proto::{
    OpCode, Request, Response, WatcherEvent, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, Reader},
};

use super::{World, net::Link};
use crate::history::{End, Event, What};

/// How often each thing happens in 300 seeds: no less than about half of what is usual.
const USUAL: [(&str, u64); 47] = [
    ("attempts cancelled", 150),
    ("clients closed by a task", 3),
    ("elections at the end", 6),
    ("ended: hold limit reached", 8),
    ("ended: node deleted", 30),
    ("ended: not in time", 30),
    ("ended: session over", 50),
    ("ended: the lock was taken", 60),
    ("fault: all servers restarted", 8),
    ("fault: client crashed", 6),
    ("fault: client killed", 6),
    ("fault: client paused", 40),
    ("fault: client vanished", 6),
    ("fault: connection cut", 50),
    ("fault: event lost", 3),
    ("fault: leader cut off from all servers", 3),
    ("fault: leader deposed", 10),
    ("fault: no majority", 5),
    ("fault: node deleted by hand", 30),
    ("fault: reply cut", 25),
    ("fault: reply lost", 45),
    ("fault: server cut off from the others", 15),
    ("fault: server failed", 25),
    ("fault: server lags", 70),
    ("fault: server without a majority", 3),
    ("fault: session ended by force", 25),
    ("fault: silence", 25),
    ("fault: slow", 25),
    ("fault: write cut", 15),
    ("grants that waited for a lease", 60),
    ("hidden lock nodes", 16),
    ("holders asked to release", 6),
    ("holders told of their loss", 100),
    ("latches that became leader", 15),
    ("leaders deposed that went on", 2),
    ("elections that lost transactions", 4),
    ("locks granted", 1500),
    ("partitions: leases that ended before the next grant", 3),
    ("requests throttled", 11),
    ("servers that gave up", 12),
    ("watches at the end", 7),
    ("watches set", 45),
    ("writers downgraded", 30),
    ("writes accepted only in part", 4000),
    ("writes answered: unknown", 30),
    ("writes while callers waited for capacity", 100),
    ("writes with a token refused", 90),
];

/// How often each thing happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures(pub BTreeMap<&'static str, u64>);

impl Figures {
    /// Counts one event.
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add_count(what, 1);
    }

    /// Counts several events.
    pub(crate) fn add_count(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }

    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            self.add_count(what, *count);
        }
    }

    /// What has happened less often than half of what is usual in so many seeds: each kind of fault
    /// shall happen, and have an effect.
    #[must_use]
    pub fn scarce(&self, seeds: u64) -> Vec<String> {
        let scarce = USUAL.iter().filter_map(|(what, usual)| {
            let (count, least) = (self.0.get(what).copied(), usual * seeds / 300);
            let count = count.unwrap_or(0);
            (count < least).then(|| format!("{what}: {count}, fewer than {least}"))
        });
        scarce.collect()
    }
}

impl World {
    /// Adds an event to the history.
    pub(crate) fn record(&mut self, client: u32, what: What) {
        match &what {
            What::Asked { attempt, .. } => {
                self.open.insert(*attempt, (client, false));
            }
            What::Granted { attempt, .. } => {
                self.figures.count("locks granted");
                self.open.insert(*attempt, (client, true));
            }
            What::Ended { attempt, end } => {
                self.figures.count(name_of(end));
                self.open.remove(attempt);
            }
            What::SessionOver(_) => self.figures.count("sessions over"),
            What::Watching { watch, .. } => {
                self.watches.insert(*watch, client);
            }
            What::Fired(watch) => {
                self.watches.remove(watch);
            }
            _ => {}
        }
        let believed = self.believed(&what);
        let at = Duration::from_micros(self.now());
        let event = Event { at, client, what };
        self.mix(&[self.now(), u64::from(client), self.history.len() as u64]);
        if let Some(lines) = &mut self.lines {
            lines.push(event.to_string());
        }
        self.history.push(event);
        if let Some(what) = believed {
            self.record(client, what);
        }
    }

    /// The lie that a client has believed, if this grant shows one.
    fn believed(&self, what: &What) -> Option<What> {
        let What::Granted {
            attempt,
            token,
            node,
            session,
        } = what
        else {
            return None;
        };
        let is_lie = self.plan.lies_per_mille > 0 && !self.is_true(node, *token, *session);
        is_lie.then_some(What::Believed(*attempt))
    }

    /// Adds a line to the log.
    pub(super) fn line(&mut self, client: u32, text: impl FnOnce() -> String) {
        let seconds = Duration::from_micros(self.now()).as_secs_f64();
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{seconds:9.3}  c{client}  {}", text()));
        }
    }

    /// Adds numbers to the digest of the run.
    pub(super) fn mix(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.digest = (self.digest ^ number)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23);
        }
    }

    fn mix_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut()
                .zip(chunk)
                .for_each(|(to, from)| *to = *from);
            self.mix(&[u64::from_le_bytes(word)]);
        }
    }

    pub(super) fn log_up(&mut self, id: u64, link: &mut Link, bytes: &[u8]) {
        self.mix_bytes(bytes);
        if self.lines.is_none() {
            return;
        }
        link.up_log.extend_from_slice(bytes);
        while let Some(reader) = next(&mut link.up_log) {
            if let Ok(Some(text)) = told_up(link, reader) {
                let (client, server) = (link.client, link.server);
                self.line(client, || format!("  -> s{server} ({id}) {text}"));
            }
        }
    }

    pub(super) fn log_down(&mut self, id: u64, link: &mut Link, bytes: &[u8]) {
        self.mix_bytes(bytes);
        if self.lines.is_none() {
            return;
        }
        link.down_log.extend_from_slice(bytes);
        while let Some(reader) = next(&mut link.down_log) {
            if let Ok(Some(text)) = told_down(link, reader) {
                let (client, server) = (link.client, link.server);
                self.line(client, || format!("  <- s{server} ({id}) {text}"));
            }
        }
    }

    /// The numbers of the writes that were answered.
    pub(crate) fn answered(&self) -> Vec<u64> {
        let answered = self.history.iter().filter_map(|event| match event.what {
            What::Answered { write, .. } => Some(write),
            _ => None,
        });
        answered.collect()
    }

    /// Takes the history, the log and the digest.
    pub(crate) fn take_record(&mut self) -> (Vec<Event>, Vec<String>, u64) {
        (
            std::mem::take(&mut self.history),
            self.lines.take().unwrap_or_default(),
            self.digest,
        )
    }
}

/// The figure that counts attempts and holds with this end.
fn name_of(end: &End) -> &'static str {
    match end {
        End::Released => "ended: released",
        End::Dropped => "ended: dropped, or released with unknown outcome",
        End::Refused => "ended: the lock was taken",
        End::TimedOut => "ended: not in time",
        End::GivenUp => "ended: cancelled",
        End::LostDeleted => "ended: node deleted",
        End::LostSession => "ended: session over",
        End::LostOverdue => "ended: hold limit reached",
        End::Failed(why) if why.contains("lease") => "ended: lease run out",
        End::Failed(_) => "ended: failed",
    }
}

fn next(stream: &mut BytesMut) -> Option<Reader> {
    frame::split(stream, usize::MAX >> 1).ok()?.map(Reader::new)
}

/// What a message of a client says, and no heartbeat.
fn told_up(link: &mut Link, mut reader: Reader) -> Result<Option<String>, DecodeError> {
    if link.asked.is_empty() {
        link.asked.push((0, 0));
        let request = ConnectRequest::decode(&mut reader)?;
        let (session, seen) = (request.session_id, request.last_zxid_seen.0);
        return Ok(Some(format!("handshake, session {session}, seen {seen}")));
    }
    let RequestHeader { xid, op } = RequestHeader::decode(&mut reader)?;
    link.asked.push((xid.0, op.0));
    if op == OpCode::PING {
        return Ok(None);
    }
    let request = told(&Request::decode(op, &mut reader));
    Ok(Some(format!("{} {request}", xid.0)))
}

/// What a message of a server says, and no heartbeat.
fn told_down(link: &mut Link, mut reader: Reader) -> Result<Option<String>, DecodeError> {
    if let Some(first) = link.asked.first_mut().filter(|first| **first == (0, 0)) {
        *first = (0, 1);
        let session = ConnectResponse::decode(&mut reader)?.session_id;
        return Ok(Some(format!("handshake done, session {session}")));
    }
    let ReplyHeader { xid, zxid, err } = ReplyHeader::decode(&mut reader)?;
    let text = match xid {
        Xid::PING => return Ok(None),
        Xid::NOTIFICATION => {
            let WatcherEvent {
                event_type, path, ..
            } = WatcherEvent::decode(&mut reader)?;
            format!("{event_type} {path}")
        }
        xid if !err.is_ok() => format!("{} {err}", xid.0),
        xid => {
            let mut asked = link.asked.iter().rev();
            let op = asked.find(|(asked, _)| *asked == xid.0);
            let op = OpCode(op.map_or(0, |(_, op)| *op));
            format!("{} {}", xid.0, told(&Response::decode(op, &mut reader)))
        }
    };
    Ok(Some(format!("{text} (zxid {})", zxid.0)))
}

/// A request or a reply as a short text.
fn told<T: fmt::Debug, E>(message: &Result<T, E>) -> String {
    let text = message.as_ref().map(|message| format!("{message:?}"));
    text.map_or_else(|_| "?".to_owned(), |text| shorten(&text))
}

/// Removes the open access control list and the words `Request` and `Response`, and cuts long
/// texts.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 220;
    let text = text.replace(
        "acl: Some([Acl { perms: Perms(31), id: Id { scheme: \"world\", id: \"anyone\" } }]), ",
        "",
    );
    let text = text.replace("Request", "").replace("Response", "");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
