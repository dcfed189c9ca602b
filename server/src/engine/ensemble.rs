//! The members of an ensemble: which one leads, which links between them are cut, when they give
//! up, and whom they elect.
//!
//! `followers` and `link` know one leader, and one link of each server to it. This module says who
//! the leader is, and what cuts between any two members mean for those links. `elections` carries
//! it out.
//!
//! | what happens | what follows |
//! |---|---|
//! | the link of a follower to its leader is cut, in any direction | what `links` says; after the sync limit the follower gives up |
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
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use lockkeeper_proto::Zxid;

use super::basics::{ServerId, after};

/// All members.
#[derive(Debug)]
pub(super) struct Ensemble {
    /// After this time without a whole link, a follower gives up its leader, and a leader without a
    /// majority gives up.
    pub(super) sync_limit: Duration,
    members: BTreeMap<ServerId, Member>,
    /// Directions that are cut: from this member to that one.
    cuts: BTreeSet<(ServerId, ServerId)>,
    pub(super) leader: Option<ServerId>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    role: Role,
    /// When it gives up its role, if nothing changes.
    gives_up: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It leads, or it follows the leader.
    Serving,
    /// It leads, and does not know that others have elected another leader.
    Former,
    /// It runs, but has no leader.
    Looking,
    Stopped,
}

/// Something that members do by themselves.
#[derive(Debug)]
pub(super) enum Step {
    GiveUp(ServerId),
    Elect(ServerId, Vec<ServerId>),
    Follow(ServerId),
}

impl Ensemble {
    pub(super) fn new(servers: u32, sync_limit: Duration) -> Self {
        let looking = Member {
            role: Role::Looking,
            gives_up: None,
        };
        Self {
            sync_limit,
            members: (0..servers).map(|id| (ServerId(id), looking)).collect(),
            cuts: BTreeSet::new(),
            leader: None,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    /// How many members follow the leader.
    pub(super) fn followers(&self) -> usize {
        self.in_role(Role::Serving).count().saturating_sub(1)
    }

    /// Whether a member takes itself for the leader.
    pub(super) fn leads(&self, server: ServerId) -> bool {
        self.leader == Some(server) || self.role(server) == Role::Former
    }

    /// Whether a member accepts sessions.
    pub(super) fn is_serving(&self, server: ServerId) -> bool {
        matches!(self.role(server), Role::Serving | Role::Former)
    }

    pub(super) fn set_cut(&mut self, from: ServerId, to: ServerId, is_cut: bool) {
        if is_cut {
            self.cuts.insert((from, to));
        } else {
            self.cuts.remove(&(from, to));
        }
    }

    /// A stopped member runs again.
    pub(super) fn start(&mut self, server: ServerId) {
        if self.role(server) == Role::Stopped {
            self.set_role(server, Role::Looking);
        }
    }

    /// A member stops serving. Returns whether there is such a member.
    pub(super) fn leave(&mut self, server: ServerId, role: Role) -> bool {
        let is_member = self.members.contains_key(&server);
        if is_member {
            self.leader.take_if(|leader| *leader == server);
            self.set_role(server, role);
        }
        is_member
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

    pub(super) fn role(&self, server: ServerId) -> Role {
        let member = self.members.get(&server);
        member.map_or(Role::Stopped, |member| member.role)
    }

    pub(super) fn set_role(&mut self, server: ServerId, role: Role) {
        let gives_up = None;
        self.members.insert(server, Member { role, gives_up });
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
        let in_sync = |leader| {
            let serving = self.in_role(Role::Serving);
            serving.filter(move |it| self.is_linked(leader, *it))
        };
        self.leader
            .is_some_and(|leader| self.is_majority(in_sync(leader).count()))
    }

    /// The member that `voters` elect, and those of them that take part.
    pub(super) fn winner(
        &self,
        voters: &[ServerId],
        except: Option<ServerId>,
        known: impl Fn(ServerId) -> Zxid,
    ) -> Option<(ServerId, Vec<ServerId>)> {
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
    pub(super) fn next_step(&self, known: impl Fn(ServerId) -> Zxid) -> Option<Step> {
        let stopped = self.in_role(Role::Stopped).count();
        let can_lead = self.is_majority(self.members.len().saturating_sub(stopped));
        let Some(leader) = self.leader.filter(|_| can_lead) else {
            let serving = self.in_role(Role::Serving).next();
            let looking: Vec<ServerId> = self.in_role(Role::Looking).collect();
            let elect = || self.winner(&looking, None, known);
            return serving
                .map(Step::GiveUp)
                .or_else(|| elect().map(|(winner, voters)| Step::Elect(winner, voters)));
        };
        let without = self
            .in_role(Role::Looking)
            .chain(self.in_role(Role::Former));
        without
            .filter(|it| self.is_linked(leader, *it))
            .map(Step::Follow)
            .next()
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

    pub(super) fn due(&self) -> Option<Instant> {
        let members = self.members.values();
        members.filter_map(|member| member.gives_up).min()
    }

    /// Whether nothing gets from a member to the leader, and nothing from the leader to the member.
    pub(super) fn cuts_of(&self, server: ServerId) -> (bool, bool) {
        let is_cut = |way| self.cuts.contains(&way);
        match (self.role(server), self.leader) {
            (Role::Serving, Some(leader)) => (is_cut((server, leader)), is_cut((leader, server))),
            _ => (true, true),
        }
    }
}
