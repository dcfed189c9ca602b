//! The rules of the facts. See `accept` for what is certain about a record.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{Client, Link, Place, Proposal, ROUNDING, Request, Round, Told, World, is_of_session};
use crate::{
    record::Sent,
    wire::{CLOSE_SESSION, CREATE_SESSION},
};

/// A client's request: when it was sent, when it was answered, and whether it is one that its server
/// must tell of.
type Heard = (Place, Option<Place>, bool);

impl World {
    /// What each leader was told of each session.
    fn told(&self) -> HashMap<(i64, i64), Vec<Told>> {
        let mut told: HashMap<(i64, i64), Vec<Told>> = HashMap::new();
        for link in self.links.values() {
            let Some(epoch) = link.epoch else { continue };
            // What was read ahead of a request was handled before its proposal.
            let proposed = link.requests.iter().filter_map(|(at, session, xid, kind)| {
                let (_, proposal) = self.proposal(*session, *xid, is_of_session(*kind))?;
                Some((*at, proposal.first.at))
            });
            let proposed: Vec<_> = proposed.collect();
            let mut tell = |at: Place, session| {
                let next = proposed.partition_point(|(request, _)| *request < at);
                let handled = proposed.get(next).map(|(_, proposal)| *proposal);
                let told = told.entry((epoch, session)).or_default();
                told.push(Told {
                    between: (at.at, at.at),
                    handled,
                    is_beginning: false,
                });
            };
            for round in link.rounds.iter().filter(|it| !it.is_withheld) {
                if let Some(at) = round.answer {
                    round.sessions.iter().for_each(|session| tell(at, *session));
                }
            }
            for (at, session, _, kind) in &link.requests {
                if *kind == CREATE_SESSION {
                    tell(*at, *session);
                }
            }
            link.resumed
                .iter()
                .for_each(|(at, session)| tell(*at, *session));
        }
        // Clients of a leader.
        for client in self.clients.values() {
            let Some((connected, session)) = client.connected else {
                continue;
            };
            let handshake = (client.made, Some(connected));
            let requests = client.requests.iter().map(|it| (it.sent, it.answered));
            for (sent, answered) in std::iter::once(handshake).chain(requests) {
                let Some(epoch) = self.reign(client.server, sent) else {
                    continue;
                };
                let latest = answered.map_or(sent.at + self.settings.slack, |it| it.at);
                let told = told.entry((epoch, session)).or_default();
                told.push(Told {
                    between: (sent.at, latest),
                    handled: answered.map(|it| it.at),
                    is_beginning: false,
                });
            }
        }
        told
    }

    /// F1, F3, F6.
    pub(super) fn ends_of_sessions(&mut self) {
        let mut told = self.told();
        let mut sessions: BTreeMap<i64, (i64, Duration)> = BTreeMap::new();
        let mut ends: HashMap<i64, (i64, Place)> = HashMap::new();
        for (zxid, proposal) in &self.proposals {
            if proposal.kind == CREATE_SESSION && proposal.acked.is_some() {
                sessions.insert(proposal.session, (zxid >> 32, proposal.timeout));
            } else if proposal.kind == CLOSE_SESSION {
                ends.entry(proposal.session)
                    .or_insert((zxid >> 32, proposal.first));
            }
        }
        let mut broken = Vec::new();
        for (&session, &(made, timeout)) in &sessions {
            let asks = |it: &Client| it.requests.iter().any(|it| it.what == Sent::Close);
            let mut clients = self.clients.values();
            let is_asked =
                clients.any(|it| it.connected.is_some_and(|it| it.1 == session) && asks(it));
            let writes = self.links.values().flat_map(|it| &it.requests);
            let writes = writes.filter(|it| it.1 == session && !is_of_session(it.3));
            let written = writes.map(|it| it.0.at).collect::<Vec<_>>();
            for (&epoch, &(leader, begin, serves)) in self.epochs.range(made..) {
                let mut told = told.remove(&(epoch, session)).unwrap_or_default();
                if epoch != made {
                    told.push(Told {
                        between: (begin.at, serves.unwrap_or(begin).at),
                        handled: serves.map(|it| it.at),
                        is_beginning: true,
                    });
                }
                let end = ends.get(&session).filter(|end| end.0 == epoch);
                let end = end.map(|end| end.1.at);
                let until = end.unwrap_or(self.end_of(epoch));
                let before = told.iter().filter(|it| it.between.0 <= until);
                let latest = before.map(|it| it.between.1).max().unwrap_or(begin.at);
                // A write that is newer than that would have extended the session, if writes did.
                let is_written = written.iter().any(|at| *at > latest && *at < until);
                let limit = latest + timeout + 2 * self.settings.tick;
                if until > limit + self.late(leader, latest, until) {
                    let how = format!("{session:#x} lived until {until:?}, told at {latest:?}");
                    broken.push((if is_written { "F3" } else { "F1" }, how));
                }
                let Some(end) = end else { continue };
                if is_asked {
                    break;
                }
                if written.iter().any(|at| *at < end && *at + timeout > end) {
                    self.checked("F3");
                }
                let is_sure = |it: &&Told| {
                    it.handled
                        .is_some_and(|at| at + self.settings.to_proposal < end)
                };
                let newest = told.iter().filter(is_sure).max_by_key(|it| it.between.0);
                if let Some(newest) = newest {
                    let fact = if newest.is_beginning { "F6" } else { "F1" };
                    self.checked(fact);
                    if end + ROUNDING < newest.between.0 + timeout {
                        broken.push((fact, format!("{session:#x} ended at {end:?}: {newest:?}")));
                    }
                }
                break;
            }
        }
        self.broken.extend(broken);
    }

    /// F2.
    pub(super) fn touches(&mut self) {
        let mut broken = Vec::new();
        // By server and session: when it was heard of, at the earliest and at the latest.
        let mut heard: HashMap<(usize, i64), Vec<Heard>> = HashMap::new();
        for client in self.clients.values() {
            let Some((connected, session)) = client.connected else {
                continue;
            };
            let heard = heard.entry((client.server, session)).or_default();
            heard.push((client.made, Some(connected), false));
            heard.extend(
                client
                    .requests
                    .iter()
                    .map(|it| (it.sent, it.answered, it.what != Sent::Close)),
            );
        }
        for (number, link) in &self.links {
            let Some(serves) = link.serves else { continue };
            self.pings(*number, link, serves, &mut broken);
            // Each touch is told in the next answer.
            let answers: Vec<_> = link
                .rounds
                .iter()
                .filter_map(|it| Some((it.ping, it.answer?, &it.sessions)))
                .collect();
            for ((_, session), touches) in heard.iter().filter(|(key, _)| key.0 == link.follower) {
                for &(sent, answered, counts) in touches {
                    let Some(answered) =
                        answered.filter(|it| counts && sent > serves && *it < link.end)
                    else {
                        continue;
                    };
                    let first = answers.partition_point(|(_, answer, _)| *answer < sent);
                    let Some(last) = answers.iter().position(|(ping, ..)| *ping > answered) else {
                        continue;
                    };
                    let mut those = answers[first..=last].iter();
                    self.checked("F2");
                    let is_told = those.any(|(.., sessions)| sessions.contains(session));
                    if !is_told && !self.is_closed_on(link, *session, answers[last].1) {
                        broken.push(format!(
                            "{session:#x}, heard of at {answered:?}, is in no answer on {number}"
                        ));
                    }
                }
            }
            // And nothing else is told: a follower also notes a session when its making is committed.
            let made = self
                .proposals
                .iter()
                .filter(|(_, it)| it.kind == CREATE_SESSION);
            let made: HashMap<_, _> = made
                .filter_map(|(zxid, it)| Some((it.session, *link.commits.get(zxid)?)))
                .collect();
            let mut before = link.made;
            for (ping, answer, sessions) in answers {
                for session in sessions {
                    let touches = heard.get(&(link.follower, *session));
                    let mut touches = touches.into_iter().flatten();
                    let is_heard = touches.any(|(sent, answered, _)| {
                        *sent < answer && answered.is_none_or(|it| it > before)
                    });
                    // The commit may be handled late, but an earlier ping is handled before it.
                    let is_made = made.get(session).is_some_and(|it| {
                        *it < answer
                            && before.at < it.at + self.late(link.follower, it.at, answer.at)
                    });
                    if !is_heard && !is_made {
                        broken.push(format!(
                            "{session:#x} is told at {:?}, but was not heard of since {:?}",
                            answer.at, before.at
                        ));
                    }
                }
                before = ping;
            }
        }
        self.broken
            .extend(broken.into_iter().map(|how| ("F2", how)));
    }

    /// The leader pings every half tick, and its follower answers.
    fn pings(&self, number: usize, link: &Link, serves: Place, broken: &mut Vec<String>) {
        let half = self.settings.tick / 2;
        let (mut gaps, mut last) = (Vec::new(), serves);
        let pings = link.rounds.iter().map(|round| round.ping);
        for ping in pings.filter(|ping| *ping > serves) {
            let gap = ping.at.saturating_sub(last.at);
            if gap > half + self.late(link.leader, last.at, ping.at) {
                broken.push(format!("no ping on {number} for {gap:?} until {ping:?}"));
            }
            gaps.push(gap);
            last = ping;
        }
        gaps.sort_unstable();
        if gaps.len() > 10 && gaps[gaps.len() / 2] > half * 3 / 2 {
            broken.push(format!(
                "pings on {number} come every {:?}",
                gaps[gaps.len() / 2]
            ));
        }
        let waited = link.end.at.saturating_sub(last.at);
        if waited > half + self.late(link.leader, last.at, link.end.at) {
            broken.push(format!("no ping on {number} for {waited:?} at its end"));
        }
        for Round { ping, answer, .. } in &link.rounds {
            let until = answer.map_or(link.end.at, |it| it.at);
            if until.saturating_sub(ping.at) > self.late(link.follower, ping.at, until) {
                broken.push(format!(
                    "no answer on {number} to the ping at {:?}",
                    ping.at
                ));
            }
        }
    }

    /// F4.
    pub(super) fn order(&mut self) {
        let mut broken = Vec::new();
        for (number, link) in &self.links {
            let mut newest = 0;
            for (at, session, xid, kind) in &link.requests {
                let Some((zxid, _)) = self.proposal(*session, *xid, is_of_session(*kind)) else {
                    continue;
                };
                if zxid < newest {
                    broken.push(format!(
                        "the request at {at:?} on {number} overtook another one"
                    ));
                }
                newest = newest.max(zxid);
            }
            // What a client sends after the answer to a write comes to the leader behind the
            // answers to all pings that the leader sent before it committed the write.
            for client in self
                .clients
                .values()
                .filter(|it| it.server == link.follower)
            {
                let Some((_, session)) = client.connected else {
                    continue;
                };
                let writes = client.requests.iter().filter(|it| it.what == Sent::Write);
                let answered = writes.clone().filter_map(|it| Some((it.xid, it.answered?)));
                for (xid, heard) in answered {
                    let committed = self.proposal(session, xid, false);
                    let committed = committed.and_then(|(zxid, _)| link.commits.get(&zxid));
                    let Some(committed) = committed else { continue };
                    let Some(next) = writes.clone().find(|it| it.sent > heard) else {
                        continue;
                    };
                    let mut requests = link.requests.iter();
                    let Some((next, ..)) = requests.find(|it| (it.1, it.2) == (session, next.xid))
                    else {
                        continue;
                    };
                    self.checked("F4");
                    let pings = link.rounds.iter().filter(|it| it.ping < *committed);
                    let late = pings.filter(|it| it.answer.is_none_or(|answer| answer > *next));
                    for round in late {
                        broken.push(format!(
                            "the request at {next:?} on {number} is ahead of the answer to {:?}",
                            round.ping
                        ));
                    }
                }
            }
        }
        self.broken
            .extend(broken.into_iter().map(|how| ("F4", how)));
    }

    /// F5, and what F8 says of servers that change their leader.
    pub(super) fn silence(&mut self) {
        let mut broken = Vec::new();
        let limit = self.settings.tick * self.settings.sync_ticks;
        for (server, cut) in &self.cuts {
            let links = self
                .links
                .values()
                .filter(|it| it.follower == *server && it.end == *cut);
            for link in links.filter(|it| it.serves.is_some()) {
                for client in self.clients.values().filter(|it| it.server == *server) {
                    let is_open = client.connected.is_some_and(|it| it.0 < *cut)
                        && client.lost.is_none_or(|it| it > *cut)
                        && client.left.is_none_or(|it| it > *cut);
                    if !is_open {
                        continue;
                    }
                    let early = link.heard + limit;
                    let lost = client.lost.map(|it| it.at);
                    let until = lost.or(client.left.map(|it| it.at)).unwrap_or(self.end.at);
                    // A server also closes the connection of a client that is silent for long.
                    let spoke = client.requests.last().map_or(client.made, |it| it.sent);
                    let is_silent = |lost| spoke.at + 2 * self.settings.tick < lost;
                    if lost.is_some_and(|it| it + ROUNDING < early && !is_silent(it)) {
                        broken.push((
                            "F5",
                            format!("{server} gave up at {lost:?}, before {early:?}"),
                        ));
                    }
                    if until > early + self.late(*server, link.heard, until) {
                        broken.push((
                            "F5",
                            format!("{server} went on until {until:?}, not {early:?}"),
                        ));
                    }
                    // A read behind a write of its session is answered behind the write.
                    let waits = |it: &&Request| {
                        it.what != Sent::Touch && it.answered.is_none_or(|it| it > *cut)
                    };
                    let until = client.requests.iter().find(waits).map(|it| it.sent.at);
                    let until = until.unwrap_or(early.saturating_sub(self.settings.slack / 2));
                    let until = client.left.map_or(until, |left| until.min(left.at));
                    let reads = client.requests.iter().filter(|it| it.sent > *cut);
                    for read in reads.filter(|it| it.sent.at + self.settings.slack / 10 < until) {
                        self.checked("F5");
                        if read.answered.is_none() {
                            broken.push(("F5", format!("{server} left {:?} open", read.sent)));
                        }
                    }
                }
            }
        }
        for link in self.links.values() {
            for client in self
                .clients
                .values()
                .filter(|it| it.server == link.follower)
            {
                let answers = client.requests.iter().filter_map(|it| it.answered);
                let stale = answers.filter(|it| {
                    it.at > link.made.at + self.late(link.follower, link.made.at, it.at)
                });
                if client.made < link.made
                    && let Some(stale) = stale.max()
                {
                    broken.push((
                        "F8",
                        format!("a client of a former leader was answered at {stale:?}"),
                    ));
                }
            }
        }
        self.broken.extend(broken);
    }

    /// F7, F8: what was answered was acknowledged by a majority before.
    pub(super) fn writes(&mut self) {
        let mut broken = Vec::new();
        for link in self.links.values() {
            for (zxid, at) in &link.commits {
                let acked = self.proposals.get(zxid).and_then(|it| it.acked);
                if acked.is_none_or(|acked| acked > *at) {
                    broken.push((
                        "F7",
                        format!("{zxid:#x} was committed before a follower had it"),
                    ));
                }
            }
        }
        for client in self.clients.values() {
            let Some((connected, session)) = client.connected else {
                continue;
            };
            let home = self.home(client.server, connected);
            let is_done = |found: Option<(i64, &Proposal)>, before: Place| {
                let Some((zxid, it)) = found else {
                    return false;
                };
                let is_here =
                    home.is_none_or(|home| home.commits.get(&zxid).is_some_and(|at| *at < before));
                it.acked.is_some_and(|acked| acked < before) && is_here
            };
            self.checked("F8");
            if client.is_new && !is_done(self.proposal(session, 0, true), connected) {
                broken.push((
                    "F8",
                    format!("{session:#x} was answered before a majority had it"),
                ));
            }
            let mut resumed = home.into_iter().flat_map(|home| &home.resumed);
            if !client.is_new
                && home.is_some()
                && !resumed.any(|it| it.1 == session && it.0 < connected)
            {
                broken.push(("F8", format!("{session:#x} was resumed without its leader")));
            }
            for write in client.requests.iter().filter(|it| it.what == Sent::Write) {
                let Some(answered) = write.answered else {
                    continue;
                };
                self.checked("F7");
                if !is_done(self.proposal(session, write.xid, false), answered) {
                    broken.push((
                        "F7",
                        format!(
                            "{session:#x}, {}: answered before a majority had it",
                            write.xid
                        ),
                    ));
                }
            }
        }
        // F6: after a new leader serves, nothing of a former one is acknowledged any more.
        for (epoch, (.., serves)) in &self.epochs {
            let Some(serves) = serves else { continue };
            let mut former = self
                .proposals
                .iter()
                .filter(|(zxid, _)| *zxid >> 32 < *epoch);
            if let Some((zxid, _)) = former.find(|(_, it)| it.acked.is_some_and(|at| at > *serves))
            {
                broken.push((
                    "F6",
                    format!("{zxid:#x} was acknowledged after epoch {epoch} had begun"),
                ));
            }
        }
        self.broken.extend(broken);
    }
}
