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
//! Not here: the queues of a member (`member`), who leads, and when servers give up by
//! themselves (`elections`).

use std::{
    mem,
    time::{Duration, Instant},
};

use lockkeeper_proto::{ErrorCode, Request, SessionId, Xid, Zxid};

use super::{
    CUT_ABOVE, Engine,
    basics::{ConnId, Now, ServerId, after},
    commit::{Commit, Deed},
    connection::Connection,
    counters::count,
    member::Upward,
    writes::answer_to,
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
        if let Some(member) = self.state.ensemble.members.get_mut(&server) {
            member.fail();
        }
    }

    /// A leader begins, and gives every session its whole timeout. Transactions that no member has
    /// learned are lost.
    pub(super) fn begin_term(&mut self, now: Now) {
        let lost = self.state.ensemble.elect(&mut self.state.live);
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
        for member in self.state.ensemble.members.values_mut() {
            member.heard.clear();
        }
        self.begin_interval(now);
    }

    /// The members report when this interval of half a tick is over.
    pub(super) fn begin_interval(&mut self, now: Now) {
        let due = after(now.instant, self.config.tick_time / 2);
        self.state.ensemble.report_due = Some(due);
    }

    /// The end of this session was lost with the leader.
    fn revive(&mut self, session: SessionId, timeout: Duration, now: Instant) {
        self.sessions.insert(session, ServerId::FIRST, timeout, now);
        let own = self.connections.of_session(session);
        if let Some(state) = self.sessions.get_mut(session) {
            state.connection = own.first().copied();
        }
    }

    /// A session has shown that its client is alive.
    pub(super) fn heard(&mut self, id: ConnId, session: SessionId, now: Now) {
        let server = self.connections.server_of(id);
        match self.state.ensemble.members.get_mut(&server) {
            Some(member) => drop(member.heard.insert(session)),
            None => self.sessions.touch(session, now.instant),
        }
    }

    /// Reports all active sessions when the interval is over.
    pub(super) fn report_in_time(&mut self, now: Now) {
        let due = self.state.ensemble.report_due;
        if due.is_some_and(|due| due <= now.instant) {
            self.begin_interval(now);
            self.report_heard(now);
        }
    }

    /// The leader pings its servers. Each answers with the sessions that it has heard of.
    pub(super) fn report_heard(&mut self, now: Now) {
        for server in self.state.ensemble.servers() {
            let (_, is_cut) = self.state.ensemble.cuts_of(server);
            let member = self.state.ensemble.members.get_mut(&server);
            let pinged = member.filter(|_| !is_cut);
            let heard = pinged.map(|member| mem::take(&mut member.heard));
            for session in heard.into_iter().flatten() {
                self.tell_leader(server, Upward::Touch(session), now);
            }
        }
    }

    /// A follower tells its leader something, which waits if the link is cut.
    pub(super) fn tell_leader(&mut self, server: ServerId, upward: Upward, now: Now) {
        let (is_cut, _) = self.state.ensemble.cuts_of(server);
        match self.state.ensemble.members.get_mut(&server) {
            Some(member) if is_cut => member.unsent.push_back(upward),
            _ => self.reaches_leader(server, upward, now),
        }
    }

    /// What has waited at the link of a server arrives, if that is whole.
    pub(super) fn arrive_late(&mut self, server: ServerId, now: Now) {
        let (is_cut, _) = self.state.ensemble.cuts_of(server);
        let member = self.state.ensemble.members.get_mut(&server);
        let Some(member) = member.filter(|_| !is_cut) else {
            return;
        };
        let mut late = Vec::from(mem::take(&mut member.unsent));
        // The leader handles handshakes at once, and writes in their turn.
        late.sort_by_key(|upward| !matches!(upward, Upward::Resume(_)));
        for upward in late {
            self.reaches_leader(server, upward, now);
        }
    }

    fn reaches_leader(&mut self, server: ServerId, upward: Upward, now: Now) {
        let asked = match upward {
            Upward::Touch(session) => return self.sessions.touch(session, now.instant),
            Upward::Resume(session) => return self.sessions.own(session, server, now.instant),
            Upward::Write(asked) => asked,
        };
        let owner = self.sessions.get(asked.session).map(|own| own.owner);
        let refusal = match (&*asked.request, owner) {
            (Request::Sync(_), _) => None,
            (_, None) => Some(ErrorCode::SESSION_EXPIRED),
            (Request::CloseSession(_), _) => {
                return self.end_session(asked.session, asked.xid, now);
            }
            (_, owner) => (owner != Some(server)).then_some(ErrorCode::SESSION_MOVED),
        };
        let _ = match refusal {
            None => self.write(&asked, now),
            Some(code) => self.transact((asked.session, asked.xid), Deed::Refuse(code), now),
        };
    }

    /// Delivers the transactions that are due to the followers.
    pub(super) fn arrive(&mut self, now: Now) {
        while let Some((server, commit)) = self.state.ensemble.next_arrival(now.instant) {
            self.arrives(server, &commit, now);
        }
    }

    fn arrives(&mut self, server: ServerId, commit: &Commit, now: Now) {
        let Some(member) = self.state.ensemble.members.get_mut(&server) else {
            return;
        };
        let asker = member.asked_for(commit);
        if let Some(asker) = asker.as_ref().filter(|asker| asker.fate.lose_reply) {
            self.close(asker.connection);
        }
        let view = self.state.view_at_mut(server);
        let _ = view.apply(commit, &mut self.connections);
        let (session, _) = commit.asked;
        if let Deed::Start(connection, timeout) = commit.deed {
            // The member of the connection answers, when it knows of the session, even if that is
            // over by now.
            let its = self.connections.get(connection);
            if its.is_some_and(|its| its.server == server) {
                self.welcome(connection, Some((session, timeout)));
                if self.sessions.get(session).is_some_and(|own| own.is_ending) {
                    self.close(connection);
                }
                self.connections.resume(connection);
            }
        }
        // The beginning of a session, too, can be mistaken for a write: for one with the xid 0.
        if let Some(asker) = asker {
            let (id, fate) = (asker.connection, asker.fate);
            let answer = answer_to(&asker.request, commit.reply.clone());
            if answer == Err(ErrorCode::SESSION_MOVED) {
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
            if let Some(member) = self.state.ensemble.members.get_mut(&server) {
                member.waiting.remove(&session);
            }
            for id in self.connections.of_session(session) {
                if self.connections.server_of(id) == server {
                    self.close(id);
                }
            }
        }
    }

    /// Answers the reads that waited for a write of their session.
    fn answer_reads(&mut self, server: ServerId, session: SessionId, now: Now) {
        let next = |engine: &mut Self| {
            let member = engine.state.ensemble.members.get_mut(&server);
            member?.next_read(session)
        };
        while let Some(asked) = next(self) {
            let connection = self.connections.get(asked.connection);
            if connection.is_some_and(|own| own.ready.len() > CUT_ABOVE) {
                tracing::warn!(%session, "connection cut: over 16 MiB of replies behind a write");
                self.cut(asked.connection);
            } else if connection.and_then(Connection::session) == Some(session) {
                self.conclude(&asked, now);
            }
        }
    }
}
