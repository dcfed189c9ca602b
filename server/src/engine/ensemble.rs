//! The members of an ensemble: which one leads, which links between them are cut, when they give
//! up, whom they elect, and how transactions travel from the leader to all. The only server is an
//! ensemble without members.
//!
//! Not here: one member (`member`), carrying out what members do (`elections`, `replication`).
//!
//! | what happens | what follows |
//! |---|---|
//! | the link of a follower to its leader is cut, in any direction | what `member` says; after the sync limit the follower gives up |
//! | the leader has whole links to less than a majority | no transaction is committed; after the sync limit the leader gives up |
//! | the leader is stopped, or gives up, or less than a majority runs | all others give up at once |
//! | a majority has no leader, and has whole links to one of its members | they elect that member |
//! | a member without a leader has whole links to the leader | it follows the leader, and knows all transactions |
//!
//! Of several members that could be elected, the one that knows most transactions is; of those, the
//! one with the highest id. A member that has given up accepts connections, but no session. Without
//! a leader no session expires.
//!
//! Differences from a real ensemble: an election takes no time, and members give up after exactly
//! the sync limit.
//!
//! Source: `QuorumPeer`, `Leader.lead`, `Learner.followLeader`,
//! `FastLeaderElection.totalOrderPredicate`.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{BuildHasher, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use lockkeeper_proto::{SessionId, Zxid};

use super::{
    basics::{ServerId, after},
    commit::Commit,
    member::{Member, Role},
    view::View,
};

/// All members.
#[derive(Debug, Default)]
pub(super) struct Ensemble {
    /// After this time without a whole link, a follower gives up its leader, and a leader without a
    /// majority gives up.
    pub(super) sync_limit: Duration,
    /// For how long a transaction travels at most.
    travel: Duration,
    /// The number of transactions that were sent to the members so far.
    sent: u64,
    /// No election loses a transaction up to this one.
    pub(super) kept: Zxid,
    /// When the members report next which sessions were active.
    pub(super) report_due: Option<Instant>,
    pub(super) members: BTreeMap<ServerId, Member>,
    /// Directions that are cut: from this member to that one.
    cuts: BTreeSet<(ServerId, ServerId)>,
    pub(super) leader: Option<ServerId>,
}

/// Something that members do by themselves.
#[derive(Debug)]
pub(super) enum Step {
    GiveUp(ServerId),
    Elect(ServerId, Vec<ServerId>),
    Follow(ServerId),
}

impl Ensemble {
    pub(super) fn new(servers: u32, sync_limit: Duration, travel: Duration, live: &View) -> Self {
        let all = (0..servers).map(|id| (ServerId(id), Member::new(live)));
        Self {
            sync_limit,
            travel,
            members: all.collect(),
            ..Self::default()
        }
    }

    /// Whether there is only one server.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn servers(&self) -> Vec<ServerId> {
        self.members.keys().copied().collect()
    }

    /// Whether somebody orders writes and ends sessions: only an ensemble may have no leader.
    pub(super) fn has_leader(&self) -> bool {
        self.is_empty() || self.leader.is_some()
    }

    /// How many members follow the leader.
    pub(super) fn followers(&self) -> usize {
        self.in_role(Role::Serving).count().saturating_sub(1)
    }

    /// Whether a member takes itself for the leader.
    pub(super) fn leads(&self, server: ServerId) -> bool {
        self.leader == Some(server) || self.role(server) == Role::Former
    }

    /// Whether a member takes itself for the leader, and no majority follows it.
    pub(super) fn leads_alone(&self, server: ServerId) -> bool {
        self.leads(server) && !(self.leader == Some(server) && self.is_in_sync())
    }

    /// Whether a handshake must wait until the link of this member to its leader is mended.
    pub(super) fn awaits_leader(&self, server: ServerId, resumes: bool) -> bool {
        self.is_cut_off(server) && !(self.leads_alone(server) && resumes)
    }

    /// Whether a member accepts sessions.
    pub(super) fn is_serving(&self, server: ServerId) -> bool {
        matches!(self.role(server), Role::Serving | Role::Former)
    }

    /// Nothing is cut between a member and itself.
    pub(super) fn set_cut(&mut self, from: ServerId, to: ServerId, is_cut: bool) {
        if is_cut && from != to {
            self.cuts.insert((from, to));
        } else {
            self.cuts.remove(&(from, to));
        }
    }

    /// A member stops serving.
    pub(super) fn leave(&mut self, server: ServerId, role: Role) {
        self.leader.take_if(|leader| *leader == server);
        self.set_role(server, role);
    }

    /// These members have elected one of them.
    pub(super) fn follow(&mut self, leader: ServerId, voters: Vec<ServerId>) {
        self.leader = Some(leader);
        for voter in voters {
            self.set_role(voter, Role::Serving);
        }
    }

    /// The members that run and do not follow a former leader.
    pub(super) fn running(&self) -> Vec<ServerId> {
        let serving = self.in_role(Role::Serving);
        serving.chain(self.in_role(Role::Looking)).collect()
    }

    /// The members whose time is over.
    pub(super) fn overdue(&self, now: Instant) -> Vec<ServerId> {
        let is_over = |member: &Member| member.gives_up.is_some_and(|due| due <= now);
        let over = self.members.iter().filter(|(_, member)| is_over(member));
        over.map(|(server, _)| *server).collect()
    }

    /// The only server serves; one that is no member does not.
    pub(super) fn role(&self, server: ServerId) -> Role {
        match self.members.get(&server) {
            Some(member) => member.role,
            None if self.is_empty() => Role::Serving,
            None => Role::Stopped,
        }
    }

    pub(super) fn set_role(&mut self, server: ServerId, role: Role) {
        if let Some(member) = self.members.get_mut(&server) {
            (member.role, member.gives_up) = (role, None);
        }
    }

    /// The members in this role.
    fn in_role(&self, wanted: Role) -> impl Iterator<Item = ServerId> {
        let members = self.members.iter();
        members.filter_map(move |(server, member)| (member.role == wanted).then_some(*server))
    }

    fn is_majority(&self, count: usize) -> bool {
        count > self.members.len() / 2
    }

    fn is_linked(&self, one: ServerId, other: ServerId) -> bool {
        !self.cuts.contains(&(one, other)) && !self.cuts.contains(&(other, one))
    }

    /// Whether the leader has whole links to a majority, itself included.
    pub(super) fn is_in_sync(&self) -> bool {
        self.leader.is_some_and(|leader| {
            let serving = self.in_role(Role::Serving);
            let linked = serving.filter(|it| self.is_linked(leader, *it));
            self.is_majority(linked.count())
        })
    }

    /// The member that `voters` elect, and those of them that take part.
    pub(super) fn winner(
        &self,
        voters: &[ServerId],
        except: Option<ServerId>,
    ) -> Option<(ServerId, Vec<ServerId>)> {
        let known = |server| self.members.get(&server).map(|member| member.view.zxid);
        let candidates = voters.iter().copied().filter(|it| Some(*it) != except);
        let with_votes = candidates.filter_map(|candidate| {
            let linked = voters.iter().copied();
            let linked = linked.filter(|it| self.is_linked(candidate, *it));
            let linked: Vec<ServerId> = linked.collect();
            self.is_majority(linked.len())
                .then_some((candidate, linked))
        });
        with_votes.max_by_key(|(candidate, _)| (known(*candidate), *candidate))
    }

    /// What one of the members does next; `None` if all stay as they are.
    pub(super) fn next_step(&self) -> Option<Step> {
        let stopped = self.in_role(Role::Stopped).count();
        let can_lead = self.is_majority(self.members.len().saturating_sub(stopped));
        let Some(leader) = self.leader.filter(|_| can_lead) else {
            let serving = self.in_role(Role::Serving).next();
            let looking: Vec<ServerId> = self.in_role(Role::Looking).collect();
            return match serving {
                Some(server) => Some(Step::GiveUp(server)),
                None => (self.winner(&looking, None)).map(|(it, voters)| Step::Elect(it, voters)),
            };
        };
        let looking = self.in_role(Role::Looking);
        let mut without = looking.chain(self.in_role(Role::Former));
        let linked = without.find(|it| self.is_linked(leader, *it));
        linked.map(Step::Follow)
    }

    /// Starts the time of those that will give up, and ends the time of those whose links are whole
    /// again.
    pub(super) fn set_timers(&mut self, now: Instant) {
        let (in_sync, leader) = (self.is_in_sync(), self.leader);
        let stays = |(server, member): (&ServerId, &Member)| match member.role {
            Role::Serving if leader == Some(*server) => in_sync,
            Role::Serving => leader.is_some_and(|leader| self.is_linked(leader, *server)),
            Role::Former => false,
            Role::Looking | Role::Stopped => true,
        };
        let stay: Vec<bool> = self.members.iter().map(stays).collect();
        for (member, stays) in self.members.values_mut().zip(stay) {
            let due = member.gives_up.unwrap_or(after(now, self.sync_limit));
            member.gives_up = (!stays).then_some(due);
        }
    }

    /// Whether nothing gets from a member to the leader, and nothing from the leader to the member.
    pub(super) fn cuts_of(&self, server: ServerId) -> (bool, bool) {
        let is_cut = |way| self.cuts.contains(&way);
        match (self.role(server), self.leader) {
            (Role::Serving, Some(leader)) => (is_cut((server, leader)), is_cut((leader, server))),
            _ => (!self.is_empty(), !self.is_empty()),
        }
    }

    fn is_cut_off(&self, server: ServerId) -> bool {
        let (up, down) = self.cuts_of(server);
        up || down
    }

    /// Whether the last request of a session is a read that waits for a write. Its reply may be long,
    /// and the write may be about to arrive.
    pub(super) fn owes_read(&self, server: ServerId, session: SessionId) -> bool {
        let member = self.members.get(&server);
        let waiting = member.and_then(|member| member.waiting.get(&session));
        let last = waiting.and_then(|own| own.requests.back());
        last.is_some_and(|asked| !asked.needs_commit())
    }

    /// Sends a transaction to all members.
    pub(super) fn send(&mut self, commit: Commit, now: Instant) {
        let commit = Arc::new(commit);
        self.sent = self.sent.saturating_add(1);
        for (server, member) in &mut self.members {
            let mut hasher = member.view.tree.seed().build_hasher();
            hasher.write_u64(self.sent);
            hasher.write_u32(server.0);
            let chance = hasher.finish();
            // Most transactions are quick, so that a slow one arrives much later than the others.
            let longest = match chance & 15 {
                0..8 => self.travel / 10,
                8..13 => self.travel / 2,
                _ => self.travel,
            };
            let part = u32::try_from(chance >> 4 & 0xff).unwrap_or(0);
            let due = after(now, longest.saturating_mul(part) / 256);
            member.expect(Arc::clone(&commit), due);
        }
    }

    /// The members to which a transaction travels that arrives, and when. Nothing is committed
    /// without a majority.
    fn arrivals(&self) -> impl Iterator<Item = (Instant, ServerId)> {
        let commits = self.is_in_sync();
        let all = self.members.iter().filter(move |_| commits);
        all.filter_map(|(server, member)| {
            let gets_nothing = member.lags || self.cuts_of(*server).1;
            let (due, _) = member.coming.front().filter(|_| !gets_nothing)?;
            Some((*due, *server))
        })
    }

    /// Takes a transaction that has arrived, with its member.
    pub(super) fn next_arrival(&mut self, now: Instant) -> Option<(ServerId, Arc<Commit>)> {
        let (_, server) = self.arrivals().find(|(due, _)| *due <= now)?;
        let (_, commit) = self.members.get_mut(&server)?.coming.pop_front()?;
        Some((server, commit))
    }

    /// When a transaction arrives, or a member gives up.
    pub(super) fn due(&self) -> Option<Instant> {
        let members = self.members.values();
        let others = members.filter_map(|member| member.gives_up);
        self.arrivals().map(|(due, _)| due).chain(others).min()
    }

    /// Whether a report would tell the leader anything.
    pub(super) fn has_news(&self) -> bool {
        let mut members = self.members.iter();
        members.any(|(server, own)| !own.heard.is_empty() && !self.cuts_of(*server).1)
    }

    /// The members whose links are whole have a new leader, which knows what any member has
    /// learned, and what is kept. Returns the transactions that the new leader does not know.
    pub(super) fn elect(&mut self, live: &mut View) -> VecDeque<(Instant, Arc<Commit>)> {
        let learned = self.members.values().map(|member| member.view.zxid);
        let last = learned.fold(self.kept, Zxid::max);
        let mut unknown = VecDeque::new();
        for server in self.servers() {
            let is_cut_off = self.is_cut_off(server);
            let Some(member) = self.members.get_mut(&server) else {
                continue;
            };
            let coming = &mut member.coming;
            let known = coming.partition_point(|(_, commit)| commit.zxid <= last);
            unknown = coming.split_off(known);
            if !is_cut_off {
                for (_, commit) in coming.drain(..) {
                    let _ = member.view.catch_up_with(&commit);
                }
                if self.leader == Some(server) {
                    live.tree.clone_from(&member.view.tree);
                }
            }
        }
        unknown
    }
}
