//! Restoring the watches of a former connection on a new one.
//!
//! The machine sends `setWatches` requests before anything else. Until the last of them is answered
//! it keeps events back, so that no listener acts on one of several changes that happened while
//! there was no connection.

use std::time::Instant;

use lockkeeper_proto::{EventType, OpCode};

use super::{batches::Batches, early::Restore};
use crate::{
    Cause,
    machine::{
        Event, Machine, Notice, Output, ReplyTo,
        watches::{kind::WatchKind, table::Recipient},
    },
};

/// How many events are kept back for persistent watches. More events are a flood.
const MOST_FOR_PERSISTENT: usize = 1 << 16;
/// How many bytes the paths of these events may have together: 64 for each, more than most paths
/// have.
const BYTES_FOR_PERSISTENT: usize = 64 * MOST_FOR_PERSISTENT;
/// A server sends at most this many events for the one-shot watches of a path: one for each kind.
const ONE_SHOT_EVENTS: usize = WatchKind::ONE_SHOT.len();

impl<T> Machine<T> {
    /// Sends the requests that restore all watches, before everything that is queued.
    pub(crate) fn restore_watches(&mut self) {
        if self.unsupported.includes(OpCode::SET_WATCHES) {
            self.end_one_shot();
        }
        let since = self.session.watched_since();
        let mut batches = Batches::new(since, self.config.max_request);
        self.watches.restore(&mut batches);
        let restore = true;
        let restore = |batch| (batch, ReplyTo::SetWatches { since, restore });
        let requests: Vec<_> = batches.finish().map(restore).collect();
        let for_persistent = if self.watches.has_persistent() {
            (MOST_FOR_PERSISTENT, BYTES_FOR_PERSISTENT)
        } else {
            (0, 0)
        };
        if let Some(connection) = &mut self.connection {
            connection.restore = Restore {
                requests: requests.len(),
                events: Vec::new(),
                most: ONE_SHOT_EVENTS * self.watches.len() + for_persistent.0,
                bytes_left: ONE_SHOT_EVENTS * self.watches.path_bytes() + for_persistent.1,
            };
        }
        self.queue.put_first(requests, self.began);
    }

    /// A watch has fired. Its listeners are told now, or when all watches are restored.
    pub(crate) fn event(&mut self, now: Instant, event: Event) {
        self.metrics.events += 1;
        let Some(connection) = &mut self.connection else {
            return;
        };
        let restore = &mut connection.restore;
        if restore.requests == 0 {
            self.fire(event);
        } else if restore.events.len() > restore.most || event.path.len() > restore.bytes_left {
            let limit = restore.most;
            self.give_up(now, Cause::TooManyEvents { limit });
        } else {
            restore.bytes_left -= event.path.len();
            restore.events.push(event);
        }
    }

    /// One of the requests is answered. After the last one, the listeners are told what was kept
    /// back.
    pub(crate) fn restored(&mut self) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let restore = &mut connection.restore;
        restore.requests = restore.requests.saturating_sub(1);
        if restore.requests > 0 {
            return;
        }
        let events = std::mem::take(&mut restore.events);
        for id in self.watches.persistent() {
            self.outputs
                .push_back(Output::Notice(id, Notice::Reconnected));
        }
        for event in events {
            self.fire(event);
        }
    }

    /// The request with this number, which sets watches, is answered. Its listeners hear of the
    /// events that came before.
    pub(crate) fn watches_set(&mut self, request: u64) {
        if let Some(connection) = &mut self.connection {
            for (id, event) in connection.early.answered(request) {
                self.outputs.push_back(Output::Watch(id, Ok(event)));
            }
        }
    }

    /// Tells every listener of a watch on this node.
    fn fire(&mut self, event: Event) {
        let recipients = self.watches.fire(&event.path, event.event_type);
        // The last one gets the event itself. Usually there is one.
        let events = std::iter::repeat_n(event, recipients.len());
        for (recipient, event) in recipients.into_iter().zip(events) {
            self.outputs.push_back(match recipient {
                Recipient::OneShot(id) => match &mut self.connection {
                    Some(open) if open.early.is_early(id) => {
                        open.early.keep(id, event);
                        continue;
                    }
                    _ => Output::Watch(id, Ok(event)),
                },
                Recipient::Persistent(id) => Output::Notice(id, Notice::Event(event)),
                Recipient::Parent(id, path) => Output::Notice(
                    id,
                    Notice::Event(Event {
                        event_type: EventType::NODE_CHILDREN_CHANGED,
                        path: path.to_string(),
                    }),
                ),
            });
        }
    }
}
