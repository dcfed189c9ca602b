//! The members of an ensemble: which one leads, which links between them are cut, when they give up, and whom they elect.
//!
//! `followers` and `links` know one leader, and one link of each server to it. This module says who the leader is, and what
//! cuts between any two members mean for those links.
//!
//! | what happens | what follows |
//! |---|---|
//! | the link of a follower to its leader is cut, in any direction | what `links` says; after the sync limit the follower gives up |
//! | the leader has whole links to less than a majority | no transaction is committed; after the sync limit the leader gives up |
//! | the leader is stopped, or gives up, or less than a majority runs | all others give up at once |
//! | a majority has no leader, and has whole links to one of its members | they elect that member |
//! | a member without a leader has whole links to the leader | it follows the leader, and knows all transactions |
//!
//! Of several members that could be elected, the one that knows most transactions is; of those, the one with the highest id.
//! A member that has given up serves nobody. Without a leader no session expires.
//!
//! Differences from a real ensemble: an election takes no time, and members give up after exactly the sync limit.
//!
//! Source: `QuorumPeer`, `Leader.lead`, `Learner.followLeader`, `FastLeaderElection.totalOrderPredicate`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use lockkeeper_proto::Zxid;

use super::{Direction, Engine, Now, ServerId, after};

/// All members.
#[derive(Debug)]
pub(super) struct Ensemble {
    /// After this time without a whole link, a follower gives up its leader, and a leader without a majority gives up.
    sync_limit: Duration,
    members: BTreeMap<ServerId, Member>,
    /// Directions that are cut: from this member to that one.
    cuts: BTreeSet<(ServerId, ServerId)>,
    leader: Option<ServerId>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    role: Role,
    /// When it gives up its role, if nothing changes.
    gives_up: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
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
enum Step {
    GiveUp(ServerId),
    Elect(ServerId, Vec<ServerId>),
    Follow(ServerId),
}

impl Ensemble {
    fn role(&self, server: ServerId) -> Role {
        let member = self.members.get(&server);
        member.map_or(Role::Stopped, |member| member.role)
    }

    fn set_role(&mut self, server: ServerId, role: Role) {
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
    fn is_in_sync(&self) -> bool {
        let in_sync = |leader| {
            let serving = self.in_role(Role::Serving);
            serving.filter(move |it| self.is_linked(leader, *it))
        };
        self.leader
            .is_some_and(|leader| self.is_majority(in_sync(leader).count()))
    }

    /// The member that `voters` elect, and those of them that take part.
    fn winner(
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
    fn next_step(&self, known: impl Fn(ServerId) -> Zxid) -> Option<Step> {
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

    /// Starts the time of those that will give up, and ends the time of those whose links are whole again.
    fn set_timers(&mut self, now: Instant) {
        let (in_sync, cuts, leader) = (self.is_in_sync(), &self.cuts, self.leader);
        for (server, member) in &mut self.members {
            let is_linked = leader.is_some_and(|leader| {
                !cuts.contains(&(leader, *server)) && !cuts.contains(&(*server, leader))
            });
            let stays = match member.role {
                Role::Serving if leader == Some(*server) => in_sync,
                Role::Serving => is_linked,
                Role::Former => false,
                Role::Looking | Role::Stopped => true,
            };
            let due = member.gives_up.unwrap_or(after(now, self.sync_limit));
            member.gives_up = (!stays).then_some(due);
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let members = self.members.values();
        members.filter_map(|member| member.gives_up).min()
    }

    /// Whether this direction of the link between a server and the leader is cut.
    fn is_cut(&self, server: ServerId, direction: Direction) -> bool {
        match (self.role(server), self.leader) {
            (Role::Serving, Some(leader)) => self.cuts.contains(&match direction {
                Direction::ToLeader => (server, leader),
                Direction::FromLeader => (leader, server),
            }),
            _ => true,
        }
    }
}

impl Engine {
    /// From now on, there are `servers` members with links between each two of them, and they elect their leaders.
    /// A transaction travels for no time. Call this before the first connection.
    ///
    /// Each member reports its sessions every half tick. It gives up its role after `sync_limit` without what the role needs.
    pub fn set_ensemble(&mut self, servers: u32, sync_limit: Duration, now: Now) {
        self.set_followers(servers, Duration::ZERO);
        self.set_relay(Some(self.config.tick_time / 2), now);
        let looking = Member {
            role: Role::Looking,
            gives_up: None,
        };
        self.ensemble = Some(Ensemble {
            sync_limit,
            members: (0..servers).map(|id| (ServerId(id), looking)).collect(),
            cuts: BTreeSet::new(),
            leader: None,
        });
        self.review(now);
    }

    /// The member that leads: of two, the one that was elected last.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        self.ensemble.as_ref()?.leader
    }

    /// Whether a server accepts connections. Only a member of an ensemble may not.
    #[must_use]
    pub fn is_serving(&self, server: ServerId) -> bool {
        let role = self.ensemble.as_ref().map(|it| it.role(server));
        role.is_none_or(|role| matches!(role, Role::Serving | Role::Former))
    }

    /// Stops a member: its connections are cut, and the others notice at once.
    pub fn stop_server(&mut self, server: ServerId, now: Now) {
        self.leave_ensemble(server, Role::Stopped);
        self.review(now);
    }

    /// Starts a stopped member again. It has lost nothing, and follows the leader if its links let it.
    pub fn start_server(&mut self, server: ServerId, now: Now) {
        if let Some(ensemble) = &mut self.ensemble
            && ensemble.role(server) == Role::Stopped
        {
            ensemble.set_role(server, Role::Looking);
        }
        self.review(now);
    }

    /// Cuts the link between two members in one direction. Nobody is told.
    pub fn cut_between(&mut self, from: ServerId, to: ServerId, now: Now) {
        if let Some(ensemble) = &mut self.ensemble {
            ensemble.cuts.insert((from, to));
        }
        self.review(now);
    }

    /// Mends one direction of the link between two members.
    pub fn mend_between(&mut self, from: ServerId, to: ServerId, now: Now) {
        if let Some(ensemble) = &mut self.ensemble {
            ensemble.cuts.remove(&(from, to));
        }
        self.review(now);
    }

    /// The members elect a new leader now. The present one takes part, and may not win. If it is cut off from the winner, it
    /// goes on until it gives up. Returns the new leader; `None` if no other member has whole links to a majority.
    pub fn elect_another(&mut self, now: Now) -> Option<ServerId> {
        let former = self.leader()?;
        let running = self.ensemble.iter().flat_map(|it| {
            let looking = it.in_role(Role::Looking);
            it.in_role(Role::Serving).chain(looking)
        });
        let running: Vec<ServerId> = running.collect();
        let known = |server| self.known_to(server);
        let ensemble = self.ensemble.as_ref()?;
        let (winner, voters) = ensemble.winner(&running, Some(former), known)?;
        for server in running {
            if server == former && !voters.contains(&server) {
                if let Some(ensemble) = &mut self.ensemble {
                    ensemble.set_role(server, Role::Former);
                }
                self.lead_alone(server);
            } else {
                self.leave_ensemble(server, Role::Looking);
            }
        }
        self.carry_out(Step::Elect(winner, voters), now);
        self.review(now);
        Some(winner)
    }

    /// Members whose time is over give up.
    pub(super) fn give_up(&mut self, now: Now) {
        let is_over = |member: &Member| member.gives_up.is_some_and(|due| due <= now.instant);
        let members = self.ensemble.iter().flat_map(|it| &it.members);
        let over = members.filter(|(_, member)| is_over(member));
        let over: Vec<ServerId> = over.map(|(server, _)| *server).collect();
        for server in &over {
            self.carry_out(Step::GiveUp(*server), now);
        }
        if !over.is_empty() {
            self.review(now);
        }
    }

    /// Whether sessions can expire: not in an ensemble without a leader.
    pub(super) fn has_leader(&self) -> bool {
        let ensemble = self.ensemble.as_ref();
        ensemble.is_none_or(|ensemble| ensemble.leader.is_some())
    }

    /// The members do what follows from the present links.
    fn review(&mut self, now: Now) {
        while let Some(step) = self
            .ensemble
            .as_ref()
            .and_then(|it| it.next_step(|server| self.known_to(server)))
        {
            self.carry_out(step, now);
        }
        if let Some(ensemble) = &mut self.ensemble {
            ensemble.set_timers(now.instant);
        }
        self.wire(now);
    }

    fn carry_out(&mut self, step: Step, now: Now) {
        match step {
            Step::GiveUp(server) => self.leave_ensemble(server, Role::Looking),
            Step::Follow(server) => {
                if let Some(ensemble) = &mut self.ensemble {
                    ensemble.set_role(server, Role::Serving);
                }
                self.wire(now);
                self.arrive(now);
            }
            Step::Elect(winner, voters) => {
                if let Some(ensemble) = &mut self.ensemble {
                    ensemble.leader = Some(winner);
                    for voter in voters {
                        ensemble.set_role(voter, Role::Serving);
                    }
                }
                self.wire(now);
                let lost = self.depose(Zxid::ZERO, now);
                tracing::debug!(leader = winner.0, lost, "elected a leader");
            }
        }
    }

    /// A member stops serving.
    fn leave_ensemble(&mut self, server: ServerId, role: Role) {
        if let Some(ensemble) = &mut self.ensemble
            && ensemble.members.contains_key(&server)
        {
            ensemble.leader.take_if(|leader| *leader == server);
            ensemble.set_role(server, role);
            self.fail_server(server);
        }
    }

    /// The last transaction that a member knows.
    fn known_to(&self, server: ServerId) -> Zxid {
        let followers = self.followers.as_ref();
        let view = followers.and_then(|it| it.view(server));
        view.map_or(Zxid::ZERO, |view| view.zxid)
    }

    /// Cuts and mends the links to the leader as the links between the members are.
    fn wire(&mut self, now: Now) {
        let Some(ensemble) = &self.ensemble else {
            return;
        };
        let is_in_sync = ensemble.is_in_sync();
        let wanted: Vec<_> = ensemble
            .members
            .keys()
            .flat_map(|server| [Direction::ToLeader, Direction::FromLeader].map(|it| (*server, it)))
            .map(|(server, direction)| (server, direction, ensemble.is_cut(server, direction)))
            .collect();
        let leader = ensemble.leader;
        for (server, direction, is_cut) in wanted {
            let was_cut = self.peek_link(server).map(|link| link.has_cut(direction));
            match (was_cut, is_cut) {
                (Some(false), true) => self.cut_link(server, direction),
                (Some(true), false) => self.mend_link(server, direction, now),
                _ => {}
            }
        }
        if let Some(followers) = &mut self.followers {
            followers.commits = leader.is_none() || is_in_sync;
        }
        if let Some(link) = leader.and_then(|leader| self.link_of(leader)) {
            link.leads = !is_in_sync;
        }
    }
}
