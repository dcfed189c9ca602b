//! What happens between a leader and its followers: writes and news of sessions go up, transactions
//! come down, leaders and servers fail.
//!
//! The leader keeps the sessions and ends them by its own clock. A new leader gives every session
//! its whole timeout again.
//!
//! A former leader that is cut off goes on until it gives up: it resumes sessions by itself and
//! answers `sync`. Its writes are never committed.
//!
//! Source: `Learner`, `LearnerHandler`, `Leader.lead`, `Leader.processSync`, `PrepRequestProcessor`
//! (`SESSION_MOVED`), `FinalRequestProcessor` (it closes the connection then).
//!
//! Not here: the queues of a follower (`followers`, `link`), who leads, and when servers give up by
//! themselves (`elections`).

use std::time::{Duration, Instant};

use lockkeeper_proto::{ErrorCode, Request, SessionId, Xid, Zxid};

use super::{
    Engine,
    basics::{ConnId, Now, ServerId},
    commit::{Commit, Deed, answer_to},
    connection::Connection,
    counters::count,
    link::Upward,
};

impl Engine {
    /// The last transaction of the leader.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.state.live.zxid
    }

    /// A server fails: its connections are cut, and the activity that it had not reported is lost.
    pub(super) fn fail_server(&mut self, server: ServerId) {
        self.cut_all(Some(server));
        if let Some(relay) = &mut self.relay {
            relay.take(|by| by == server);
        }
        if let Some(follower) = self.state.follower_mut(server) {
            follower.fail();
        }
    }

    /// A leader begins, and gives every session its whole timeout. Transactions that no member has
    /// learned are lost.
    pub(super) fn begin_term(&mut self, now: Now) {
        let live = &mut self.state.live;
        let followers = self.state.followers.as_mut();
        let lost = followers.map(|all| all.elect(live)).unwrap_or_default();
        for (_, commit) in lost.iter().rev() {
            let (session, _) = commit.asked;
            match commit.deed {
                Deed::Refuse(_) => continue,
                Deed::Start(..) => self.sessions.remove(session),
                Deed::Remove(_, Some(timeout)) => self.revive(session, timeout, now.instant),
                _ => {}
            }
            count(&mut self.connections.counters.lost);
        }
        // Its first transaction. Real ones number it by the epoch, the upper half of a zxid. Here that
        // would be more than an hour ahead of the clock, from which `Builder` numbers on after a
        // restart.
        let first = Deed::Refuse(ErrorCode::OK);
        let _ = self.transact((SessionId::NONE, Xid(0)), first, now);
        self.sessions.touch_all(now.instant);
        if let Some(relay) = &mut self.relay {
            relay.take(|_| true);
            relay.begin(now.instant);
        }
    }

    /// The end of this session was lost with the leader.
    fn revive(&mut self, session: SessionId, timeout: Duration, now: Instant) {
        self.sessions.insert(session, ServerId::FIRST, timeout, now);
        let own = self.connections.which(|own| own.session() == Some(session));
        if let Some(state) = self.sessions.get_mut(session) {
            state.connection = own.first().copied();
        }
    }

    /// A session has shown that its client is alive.
    pub(super) fn heard(&mut self, id: ConnId, session: SessionId, now: Now) {
        let server = self.connections.server_of(id);
        match &mut self.relay {
            Some(relay) => drop(relay.heard.insert((server, session))),
            None => self.tell_leader(server, Upward::Touch(session), now),
        }
    }

    /// Reports all active sessions when the interval is over.
    pub(super) fn report_in_time(&mut self, now: Now) {
        if let Some(relay) = self.relay.as_mut().filter(|it| it.due <= now.instant) {
            relay.begin(now.instant);
            self.report_heard(now);
        }
    }

    /// The leader pings its servers. Each answers with the sessions that it has heard of.
    pub(super) fn report_heard(&mut self, now: Now) {
        let link = |server| self.state.link(server);
        let is_pinged = |server| link(server).is_none_or(|link| !link.from_leader_cut);
        let reported = self.relay.as_mut().map(|relay| relay.take(is_pinged));
        for (server, session) in reported.into_iter().flatten() {
            self.tell_leader(server, Upward::Touch(session), now);
        }
    }

    /// A follower tells its leader something, which waits if the link is cut.
    pub(super) fn tell_leader(&mut self, server: ServerId, upward: Upward, now: Now) {
        let reaches = match self.state.link_mut(server) {
            Some(link) => link.send(upward),
            None => Some(upward),
        };
        if let Some(upward) = reaches {
            self.reaches_leader(upward, now);
        }
    }

    /// What has waited at the link of a server arrives, if that is whole. Its session may have moved
    /// to another server meanwhile.
    pub(super) fn arrive_late(&mut self, server: ServerId, now: Now) {
        let link = self.state.link_mut(server);
        let Some(link) = link.filter(|link| !link.to_leader_cut) else {
            return;
        };
        for upward in std::mem::take(&mut link.waiting) {
            if let Upward::Write(asked) = &upward
                && let Some(own) = self.sessions.get(asked.session)
                && own.owner != server
            {
                let moved = Deed::Refuse(ErrorCode::SESSION_MOVED);
                let _ = self.transact((asked.session, asked.xid), moved, now);
            } else {
                self.reaches_leader(upward, now);
            }
        }
    }

    fn reaches_leader(&mut self, upward: Upward, now: Now) {
        let asked = match upward {
            Upward::Touch(session) => return self.sessions.touch(session, now.instant),
            Upward::Write(asked) => asked,
        };
        let is_over = self.sessions.get(asked.session).is_none();
        match &*asked.request {
            Request::Sync(_) => {}
            _ if is_over => {
                let over = Deed::Refuse(ErrorCode::SESSION_EXPIRED);
                let _ = self.transact((asked.session, asked.xid), over, now);
                return;
            }
            Request::CloseSession(_) => return self.end_session(asked.session, asked.xid, now),
            _ => {}
        }
        let _ = self.write(&asked, now);
    }

    /// Delivers the transactions that are due to the followers.
    pub(super) fn arrive(&mut self, now: Now) {
        let next = |engine: &mut Self| engine.state.followers.as_mut()?.next_arrival(now.instant);
        while let Some((server, commit)) = next(self) {
            self.arrives(server, &commit, now);
        }
    }

    fn arrives(&mut self, server: ServerId, commit: &Commit, now: Now) {
        let Some(follower) = self.state.follower_mut(server) else {
            return;
        };
        let asker = follower.asked_for(commit);
        if let Some(lost) = asker.as_ref().filter(|asker| asker.fate.lose_reply)
            && let Some(connection) = self.connections.get_mut(lost.connection)
        {
            connection.muted = true;
        }
        let _ = follower.view.apply(commit, &mut self.connections);
        let (session, _) = commit.asked;
        if let Deed::Start(connection, timeout, knows_read_only) = commit.deed {
            // The member of the connection answers, when it knows of the session.
            let its = self.connections.get(connection);
            if its.is_some_and(|its| its.server == server) {
                self.welcome(connection, Some(session), timeout, knows_read_only);
                self.resume_input_of(connection, now);
            }
            return;
        }
        if let Some(asker) = asker {
            let (id, fate) = (asker.connection, asker.fate);
            let answer = answer_to(&asker.request, commit.reply.clone());
            if fate.lose_reply || answer == Err(ErrorCode::SESSION_MOVED) {
                self.close(id);
            } else {
                if let Some(delay) = fate.delay {
                    self.connections.hold(id, delay, now.instant);
                }
                self.connections.reply(id, asker.xid, commit.zxid, &answer);
            }
            self.answer_reads(server, session, now);
        }
        if matches!(commit.deed, Deed::Remove(_, Some(_))) {
            // The follower learns that the session has ended.
            if let Some(follower) = self.state.follower_mut(server) {
                follower.waiting.remove(&session);
            }
            let is_own = |own: &Connection| own.server == server && own.session() == Some(session);
            for id in self.connections.which(is_own) {
                self.close(id);
            }
        }
    }

    /// Answers the reads that waited for a write of their session.
    fn answer_reads(&mut self, server: ServerId, session: SessionId, now: Now) {
        let next = |engine: &mut Self| engine.state.follower_mut(server)?.next_read(session);
        while let Some(asked) = next(self) {
            let connection = self.connections.get(asked.connection);
            if connection.and_then(Connection::session) == Some(session) {
                self.conclude(&asked, now);
            }
        }
    }
}
