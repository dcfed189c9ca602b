//! Failures of whole servers, and activity of sessions that the leader learns late.
//!
//! The leader keeps the sessions. Its followers report at intervals which sessions were active. When a follower fails
//! between two reports, its last reports are lost: those sessions expire up to one interval earlier than their clients
//! expect. When all servers restart, every session gets its whole timeout again.
//!
//! Source: `Learner.ping`, `Leader.lead` (half a tick), `LearnerSessionTracker`, `SessionTrackerImpl`.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use lockkeeper_proto::SessionId;

use super::{ConnId, Engine, Now, ServerId, after};

/// The sessions that were active and are not reported to the leader yet.
#[derive(Debug)]
pub(crate) struct Relay {
    interval: Duration,
    due: Instant,
    /// Each with the server that has heard of it.
    heard: BTreeSet<(ServerId, SessionId)>,
}

impl Relay {
    pub(crate) fn due(&self) -> Instant {
        self.due
    }
}

impl Engine {
    /// From now on, the activity of a session counts only at the end of each interval; with `None` it counts at once.
    pub fn set_relay(&mut self, interval: Option<Duration>, now: Now) {
        self.tell_heard(None, now);
        self.relay = interval.map(|interval| Relay {
            interval,
            due: after(now.instant, interval),
            heard: BTreeSet::new(),
        });
    }

    /// A server fails: its connections are cut, and the activity that it had not reported is lost.
    pub fn fail_server(&mut self, server: ServerId) {
        self.cut_server(server);
        if let Some(relay) = &mut self.relay {
            relay.heard.retain(|(by, _)| *by != server);
        }
        self.frozen.remove(&server);
        self.read_only.remove(&server);
        if let Some(followers) = &mut self.followers {
            followers.fail(server);
        }
    }

    /// All servers were down until now: all connections are cut, and every live session gets its whole timeout again.
    pub fn restart(&mut self, now: Now) {
        self.cut_all();
        self.frozen.clear();
        self.read_only.clear();
        self.settle_followers();
        self.begin_term(now);
    }

    /// A leader begins: every live session gets its whole timeout again.
    pub(super) fn begin_term(&mut self, now: Now) {
        let live: Vec<SessionId> = self.sessions.iter().map(|(id, _)| id).collect();
        for session in live {
            self.sessions.touch(session, now.instant);
        }
        if let Some(relay) = &mut self.relay {
            relay.heard.clear();
            relay.due = after(now.instant, relay.interval);
        }
    }

    /// A session has shown that its client is alive.
    pub(super) fn heard(&mut self, id: ConnId, session: SessionId, now: Now) {
        let server = self.server_of(id);
        match &mut self.relay {
            Some(relay) => {
                relay.heard.insert((server, session));
            }
            None => self.tell(server, session, now),
        }
    }

    /// Reports all active sessions when the interval is over.
    pub(super) fn relay(&mut self, now: Now) {
        if let Some(relay) = &mut self.relay
            && relay.due <= now.instant
        {
            relay.due = after(now.instant, relay.interval);
            self.tell_heard(None, now);
        }
    }

    /// The leader pings its servers, or only this one. Each answers with the sessions that it has heard of.
    pub(super) fn tell_heard(&mut self, only: Option<ServerId>, now: Now) {
        let relay = self.relay.as_mut();
        let heard = relay.map(|relay| std::mem::take(&mut relay.heard));
        for (server, session) in heard.into_iter().flatten() {
            let is_pinged = only.is_none_or(|only| only == server)
                && self
                    .peek_link(server)
                    .is_none_or(|link| !link.from_leader_cut);
            if is_pinged {
                self.tell(server, session, now);
            } else if let Some(relay) = &mut self.relay {
                relay.heard.insert((server, session));
            }
        }
    }
}
