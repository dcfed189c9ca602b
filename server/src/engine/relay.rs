//! Failures of whole servers, and what followers tell their leader late: which sessions they have heard of.
//!
//! A session is kept by the leader, who learns from its followers, at intervals, which sessions were active. A follower
//! that fails in between takes what it had heard with it: those sessions end up to an interval earlier than their clients
//! would think. Whoever restarts gives every session its whole timeout again.
//!
//! Source: `Learner.ping`, `Leader.lead` (half a tick), `LearnerSessionTracker`, `SessionTrackerImpl`.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use lockkeeper_proto::SessionId;

use super::{ConnId, Engine, Now, ServerId, after, connection::Connection};

/// Sessions that were heard of and not told of.
#[derive(Debug)]
pub(crate) struct Relay {
    interval: Duration,
    due: Instant,
    heard: BTreeSet<SessionId>,
}

impl Relay {
    pub(crate) fn due(&self) -> Instant {
        self.due
    }
}

impl Engine {
    /// From now on, what a session does counts for its life at the end of each interval; `None` for at once.
    pub fn set_relay(&mut self, interval: Option<Duration>, now: Now) {
        self.tell_heard(now);
        self.relay = interval.map(|interval| Relay {
            interval,
            due: after(now.instant, interval),
            heard: BTreeSet::new(),
        });
    }

    /// A server fails: its connections are cut, and what it had not told of its sessions is lost.
    pub fn fail_server(&mut self, server: ServerId) {
        let cut: Vec<ConnId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.server == server)
            .map(|(id, _)| *id)
            .collect();
        for id in cut {
            let session = self.connections.get(&id).and_then(Connection::session);
            if let (Some(relay), Some(session)) = (&mut self.relay, session) {
                relay.heard.remove(&session);
            }
            self.cut(id);
        }
        self.frozen.remove(&server);
        if let Some(followers) = &mut self.followers {
            followers.fail(server);
        }
    }

    /// All servers were away until now: nobody is connected, and every session that lived has its whole timeout again.
    pub fn restart(&mut self, now: Now) {
        self.cut_all();
        self.frozen.clear();
        self.settle_followers();
        let live: Vec<SessionId> = self.sessions.iter().map(|(id, _)| id).collect();
        for session in live {
            self.sessions.touch(session, now.instant);
        }
        if let Some(relay) = &mut self.relay {
            relay.heard.clear();
            relay.due = after(now.instant, relay.interval);
        }
    }

    /// A session has shown that it lives.
    pub(super) fn heard(&mut self, session: SessionId, now: Now) {
        match &mut self.relay {
            Some(relay) => {
                relay.heard.insert(session);
            }
            None => {
                self.sessions.touch(session, now.instant);
            }
        }
    }

    /// Tells of all sessions that were heard of, when it is time.
    pub(super) fn relay(&mut self, now: Now) {
        if let Some(relay) = &mut self.relay
            && relay.due <= now.instant
        {
            relay.due = after(now.instant, relay.interval);
            self.tell_heard(now);
        }
    }

    fn tell_heard(&mut self, now: Now) {
        let relay = self.relay.as_mut();
        let heard = relay.map(|relay| std::mem::take(&mut relay.heard));
        for session in heard.into_iter().flatten() {
            self.sessions.touch(session, now.instant);
        }
    }
}
