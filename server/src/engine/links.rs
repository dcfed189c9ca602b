//! Links between servers that are cut, and leaders that are deposed.
//!
//! A follower and its leader share one link. What travels in one direction of it arrives in order. A cut is silent: nothing
//! arrives, and neither end is told. The follower goes on answering pings and reads from its own state. What waits:
//!
//! | cut | what waits |
//! |---|---|
//! | [`Direction::ToLeader`] | writes of clients, and the news of which sessions were active |
//! | [`Direction::FromLeader`] | transactions, and pings: a follower tells of its sessions only when it is pinged |
//! | any | handshakes |
//!
//! It arrives when the link is mended, unless the follower gives up before ([`Engine::fail_server`]): a real one does so when
//! it has heard nothing for `syncLimit` ticks. Meanwhile the leader ends sessions by its own clock.
//!
//! A server whose link is cut takes no part in the election of a new leader ([`Engine::depose`]). If that server was the leader
//! itself ([`Engine::lead_alone`]), it goes on until it gives up: it resumes sessions by itself and answers `sync`. Its
//! writes are never committed.
//!
//! Source: `Learner`, `LearnerHandler`, `Leader.lead`, `Leader.processSync`, `PrepRequestProcessor` (`SESSION_MOVED`),
//! `FinalRequestProcessor` (it closes the connection then).
//!
//! Not here: who leads, and when servers give up by themselves (`ensemble`).

use std::{collections::VecDeque, time::Instant};

use lockkeeper_proto::{ErrorCode, Request, SessionId, Xid, Zxid};

use super::{
    ConnId, Engine, Now, ServerId,
    connection::Connection,
    followers::{Commit, Follower, Followers, Mutation},
};

/// A direction of the link between a follower and its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the follower to the leader.
    ToLeader,
    /// From the leader to the follower.
    FromLeader,
}

/// The link of one follower.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(super) struct Link {
    to_leader_cut: bool,
    pub(super) from_leader_cut: bool,
    /// What has not reached the leader, oldest first.
    waiting: VecDeque<Upward>,
    /// Whether the server was the leader, and does not know better.
    pub(super) leads: bool,
    /// Whether the other servers have elected a new leader since the cut.
    is_deposed: bool,
}

/// What a follower tells its leader.
#[derive(Debug)]
enum Upward {
    /// A session was active.
    Touch(SessionId),
    /// A write, with its connection and its session.
    Write(ConnId, SessionId, Xid, Request),
}

impl Link {
    pub(super) fn is_cut(&self) -> bool {
        self.to_leader_cut || self.from_leader_cut
    }

    pub(super) fn has_cut(&self, direction: Direction) -> bool {
        match direction {
            Direction::ToLeader => self.to_leader_cut,
            Direction::FromLeader => self.from_leader_cut,
        }
    }

    /// The follower gives up: nothing more of what waits reaches the leader.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        (self.leads, self.is_deposed) = (false, false);
    }
}

impl Follower {
    /// The other servers elect a leader without this one.
    fn is_left_behind(&mut self, last: Zxid, first: Zxid, now: Now) {
        self.link.to_leader_cut = true;
        self.link.from_leader_cut = true;
        self.link.is_deposed = true;
        self.coming.retain(|(_, commit)| commit.zxid <= last);
        // The new leader begins with this when the follower is back.
        self.expect(Commit::new_epoch(first, now), now.instant);
    }
}

impl Engine {
    /// Cuts one direction of the link between a follower and its leader.
    pub fn cut_link(&mut self, server: ServerId, direction: Direction) {
        if let Some(link) = self.link_of(server) {
            match direction {
                Direction::ToLeader => link.to_leader_cut = true,
                Direction::FromLeader => link.from_leader_cut = true,
            }
        }
    }

    /// Mends it: what waits arrives. A server whose leader was deposed meanwhile gives up, and follows the new one.
    pub fn mend_link(&mut self, server: ServerId, direction: Direction, now: Now) {
        if self.link_of(server).is_some_and(|link| link.is_deposed) {
            self.fail_server(server);
        }
        let Some(link) = self.link_of(server) else {
            return;
        };
        link.leads = false;
        match direction {
            Direction::ToLeader => {
                link.to_leader_cut = false;
                for upward in std::mem::take(&mut link.waiting) {
                    self.reaches_leader(server, upward, now);
                }
            }
            Direction::FromLeader => {
                link.from_leader_cut = false;
                // The pings of the leader are ahead of its transactions.
                self.tell_heard(Some(server), now);
            }
        }
        self.resume_input(now);
    }

    /// A server was the leader when its link was cut, and goes on as one.
    pub fn lead_alone(&mut self, server: ServerId) {
        if let Some(link) = self.link_of(server) {
            link.leads = true;
        }
    }

    /// The leader is deposed. Transactions that no follower has learned are lost, except those up to `kept`.
    ///
    /// The connections of the servers that elect the next leader are cut, as real followers do then. The next leader gives
    /// every session its whole timeout again. A server whose link is cut goes on as it is until its link is mended. If all are
    /// cut, there is no election.
    ///
    /// Returns how many transactions were lost.
    pub fn depose(&mut self, kept: Zxid, now: Now) -> usize {
        let Some(followers) = &mut self.followers else {
            self.restart(now);
            return 0;
        };
        if followers
            .all
            .values()
            .all(|follower| follower.link.is_cut())
        {
            return 0;
        }
        let learned = followers.views().map(|view| view.zxid).max();
        let last = learned.map_or(kept, |learned| learned.max(kept));
        let any = followers.all.values().next();
        let coming = any.into_iter().flat_map(|follower| &follower.coming);
        let gone: Vec<_> = coming
            .map(|(_, commit)| commit.clone())
            .filter(|commit| commit.zxid > last)
            .collect();
        // The upper half of a zxid is the epoch of the leader, the lower half counts its transactions.
        let first = Zxid((last.0 >> 32).saturating_add(1) << 32);
        let mut voters = Vec::new();
        for (server, follower) in &mut followers.all {
            if follower.link.is_cut() {
                follower.is_left_behind(last, first, now);
                continue;
            }
            voters.push(*server);
            follower.settle(last);
            follower.view.zxid = first;
            self.live.tree.clone_from(&follower.view.tree);
        }
        self.live.zxid = first;
        for server in voters {
            self.cut_server(server);
        }
        for commit in gone.iter().rev() {
            let session = commit.asked.0;
            match commit.deed {
                Mutation::Start(..) => {
                    self.sessions.remove(session);
                }
                Mutation::Remove(_, Some(timeout)) => self.revive(session, timeout, now.instant),
                _ => {}
            }
        }
        self.begin_term(now);
        gone.len()
    }

    /// The end of this session was lost with the leader.
    fn revive(&mut self, session: SessionId, timeout: std::time::Duration, now: Instant) {
        self.sessions.insert(session, timeout, now);
        let mut all = self.connections.iter();
        let own = all.find(|(_, own)| own.session() == Some(session));
        if let (Some((id, _)), Some(state)) = (own, self.sessions.get_mut(session)) {
            state.connection = Some(*id);
        }
    }

    /// What a follower tells its leader arrives there.
    fn reaches_leader(&mut self, server: ServerId, upward: Upward, now: Now) {
        match upward {
            Upward::Touch(session) => {
                self.sessions.touch(session, now.instant);
            }
            Upward::Write(id, session, xid, request) => {
                let owner = self.sessions.get(session).map(|own| own.owner);
                if owner.is_none_or(|owner| owner == server) {
                    return self.request_at_leader(id, session, xid, request, now);
                }
                self.next_zxid();
                let moved = Err(ErrorCode::SESSION_MOVED);
                self.replicate((session, xid), Mutation::Nothing, moved, now);
            }
        }
    }

    /// A server tells its leader that a session was active.
    pub(super) fn tell(&mut self, server: ServerId, session: SessionId, now: Now) {
        let touch = Upward::Touch(session);
        match self.link_of(server).filter(|link| link.to_leader_cut) {
            Some(link) => link.waiting.push_back(touch),
            None => self.reaches_leader(server, touch, now),
        }
    }

    /// A follower forwards a write of a client to its leader.
    pub(super) fn forward(
        &mut self,
        id: ConnId,
        session: SessionId,
        xid: Xid,
        request: Request,
        now: Now,
    ) {
        let server = self.server_of(id);
        match self.link_of(server).filter(|link| link.to_leader_cut) {
            Some(link) => {
                let write = Upward::Write(id, session, xid, request);
                link.waiting.push_back(write);
            }
            None => self.request_at_leader(id, session, xid, request, now),
        }
    }

    /// Whether a handshake on this connection must wait until the link of its server is mended.
    pub(super) fn awaits_leader(&self, id: ConnId, session: SessionId) -> bool {
        let link = self.peek_link(self.server_of(id));
        link.is_some_and(|link| link.is_cut() && !(link.leads && session != SessionId::NONE))
    }

    /// Whether this server takes itself for the leader.
    pub(super) fn leads_alone(&self, server: ServerId) -> bool {
        self.peek_link(server).is_some_and(|link| link.leads)
    }

    /// Whether this server takes itself for the leader although there is another one.
    pub(super) fn leads_in_vain(&self, server: ServerId) -> bool {
        let link = self.peek_link(server);
        link.is_some_and(|link| link.leads && link.is_deposed)
    }

    pub(super) fn peek_link(&self, server: ServerId) -> Option<&Link> {
        let followers = self.followers.as_ref()?;
        followers.all.get(&server).map(|follower| &follower.link)
    }

    pub(super) fn link_of(&mut self, server: ServerId) -> Option<&mut Link> {
        let followers: &mut Followers = self.followers.as_mut()?;
        followers
            .all
            .get_mut(&server)
            .map(|follower| &mut follower.link)
    }

    /// Cuts all connections of one server.
    pub fn cut_server(&mut self, server: ServerId) {
        let own = |connection: &Connection| connection.server == server;
        let cut = self.connections.iter().filter(|(_, it)| own(it));
        let cut: Vec<ConnId> = cut.map(|(id, _)| *id).collect();
        for id in cut {
            self.cut(id);
        }
    }
}
