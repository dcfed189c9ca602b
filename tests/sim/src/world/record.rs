//! The history, the log for people, and the figures.
//!
//! Not here: the format of the history (`history`).

use std::{collections::BTreeMap, time::Duration};

use bytes::BytesMut;
use lockkeeper_proto::{
    OpCode, Request, Response, WatcherEvent, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Reader},
};

use super::{World, net::Link};
use crate::history::{End, Event, What};

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
            What::SessionOver { .. } => self.figures.count("sessions over"),
            What::Watching { watch, .. } => {
                self.watches.insert(*watch, client);
            }
            What::Fired { watch } => {
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
        is_lie.then_some(What::Believed { attempt: *attempt })
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
        let first = link.asked.is_empty();
        link.up_log.extend_from_slice(bytes);
        let mut told = Vec::new();
        while let Some(mut reader) = next(&mut link.up_log) {
            if first && link.asked.is_empty() {
                link.asked.push((0, 0));
                if let Ok(request) = ConnectRequest::decode(&mut reader) {
                    let seen = request.last_zxid_seen.0;
                    told.push(format!(
                        "handshake, session {}, seen {seen}",
                        request.session_id
                    ));
                }
                continue;
            }
            let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) else {
                continue;
            };
            link.asked.push((xid.0, op.0));
            if op != OpCode::PING {
                let request = Request::decode(op, &mut reader);
                let request = request.map_or_else(|_| "?".to_owned(), |request| brief(&request));
                told.push(format!("{} {request}", xid.0));
            }
        }
        let (client, server) = (link.client, link.server);
        for text in told {
            self.line(client, || format!("  -> s{server} ({id}) {text}"));
        }
    }

    pub(super) fn log_down(&mut self, id: u64, link: &mut Link, bytes: &[u8]) {
        self.mix_bytes(bytes);
        if self.lines.is_none() {
            return;
        }
        link.down_log.extend_from_slice(bytes);
        let mut told = Vec::new();
        while let Some(mut reader) = next(&mut link.down_log) {
            if link.asked.first() == Some(&(0, 0)) {
                if let Some(first) = link.asked.first_mut() {
                    *first = (0, 1);
                }
                if let Ok(answer) = ConnectResponse::decode(&mut reader) {
                    told.push(format!("handshake done, session {}", answer.session_id));
                }
                continue;
            }
            let Ok(header) = ReplyHeader::decode(&mut reader) else {
                continue;
            };
            match header.xid {
                Xid::PING => {}
                Xid::NOTIFICATION => {
                    if let Ok(event) = WatcherEvent::decode(&mut reader) {
                        let (what, path) = (event.event_type, event.path);
                        told.push(format!("{what} {path} (zxid {})", header.zxid.0));
                    }
                }
                Xid(xid) => {
                    let op = link.asked.iter().rev().find(|(asked, _)| *asked == xid);
                    let op = OpCode(op.map_or(0, |(_, op)| *op));
                    let answer = if header.err.is_ok() {
                        let response = Response::decode(op, &mut reader);
                        response.map_or_else(|_| "?".to_owned(), |it| answer(&it))
                    } else {
                        header.err.to_string()
                    };
                    told.push(format!("{xid} {answer} (zxid {})", header.zxid.0));
                }
            }
        }
        let (client, server) = (link.client, link.server);
        for text in told {
            self.line(client, || format!("  <- s{server} ({id}) {text}"));
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

/// A request as a short text.
fn brief(request: &Request) -> String {
    let text = format!("{request:?}");
    shorten(&text)
}

fn answer(response: &Response) -> String {
    shorten(&format!("{response:?}"))
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
