//! The rules of the facts. See `accept` for what is certain about a record.

use std::{
    collections::{BTreeMap, HashMap},
    iter::once,
    time::Duration,
};

use lockkeeper_test_support::proxy::Direction;

use super::{Asked, Link, Of, Place, ROUNDING, Sent, World};
use crate::facts::{
    SYNC_TICKS, TICK,
    wire::{CLOSE_SESSION, CREATE_SESSION, RESUME},
};

/// A leader was told of a session: not before, not after, when that was certainly handled, and
/// whether it is the beginning of the leader that counts.
type Told = (Duration, Duration, Option<Duration>, bool);

/// A server heard of a session: not before, not after, and whether it must tell of it.
type Heard = (Place, Option<Place>, bool);

/// A ping, its answer, and what that tells of.
type Round<'a> = (Place, Place, &'a Vec<i64>);

impl World {
    /// What each leader, by its epoch, was told of each session.
    fn told(&self) -> HashMap<(i64, i64), Vec<Told>> {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        let mut tell = |epoch: i64, session: i64, from, to, handled| {
            let told = all.entry((epoch, session)).or_default();
            told.push((from, to, handled, false));
        };
        for link in self.links.values() {
            let Some(epoch) = link.epoch else { continue };
            // What was read ahead of a request was handled before its proposal.
            let requests = link.requests.iter();
            let proposed = requests.filter_map(|it| Some((it.0, self.proposal(it.1)?.1.first.at)));
            let proposed: Vec<_> = proposed.collect();
            let mut told = |at: Place, session| {
                let next = proposed.partition_point(|(request, _)| *request < at);
                let handled = proposed.get(next).map(|(_, proposal)| *proposal);
                tell(epoch, session, at.at, at.at, handled);
            };
            for (at, _, sessions) in link.answers.iter().filter(|it| !it.1) {
                for session in sessions {
                    told(*at, *session);
                }
            }
            for (at, Asked(session, _, kind)) in &link.requests {
                if [CREATE_SESSION, RESUME].contains(kind) {
                    told(*at, *session);
                }
            }
        }
        // Clients of a leader, also one whose handshake was not answered.
        for client in self.clients.values() {
            let requests = client.requests.iter().map(|it| (it.sent, it.answered));
            for (sent, answered) in once((client.made, client.connected)).chain(requests) {
                if let Some(epoch) = self.reign(client.server, sent) {
                    let answered = answered.map(|it| it.at);
                    let latest = answered.unwrap_or(sent.at + self.settings.slack);
                    tell(epoch, client.session, sent.at, latest, answered);
                }
            }
        }
        all
    }

    /// F1, F3, F6.
    pub(super) fn ends_of_sessions(&self) {
        let mut told = self.told();
        let made = self.of_sessions(CREATE_SESSION);
        let made = made.filter(|(_, it)| it.acked.is_some());
        let made = made.map(|(zxid, it)| (it.asked.0, (zxid >> 32, it)));
        let made: BTreeMap<_, _> = made.collect();
        let mut ends = HashMap::new();
        for (zxid, it) in self.of_sessions(CLOSE_SESSION) {
            let seen = (!it.is_replayed).then_some(it.first);
            ends.entry(it.asked.0).or_insert((zxid >> 32, seen));
        }
        for (session, (made, creation)) in made {
            let (about, timeout) = (Of::Session(session), creation.timeout);
            let mut clients = self.clients.values().filter(|it| it.session == session);
            let is_asked = clients.any(|it| it.requests.iter().any(|it| it.what == Sent::Close));
            let writes = self.links.values().flat_map(|it| &it.requests);
            let writes = writes.filter(|(_, it)| it.0 == session && !it.key().2 && it.2 != RESUME);
            let written = writes.map(|it| it.0.at).collect::<Vec<_>>();
            // Leaders that may have ended it alone. One that leads again may have kept that, see
            // assumption A1 of docs/safety.md: then nobody ends it.
            let (mut alone, mut is_lost) = (Vec::new(), false);
            for (&epoch, &(leader, begin, serves)) in self.epochs.range(made..) {
                let mut told = told.remove(&(epoch, session)).unwrap_or_default();
                if epoch != made {
                    let handled = serves.map(|it| it.at);
                    told.push((begin.at, handled.unwrap_or(begin.at), handled, true));
                }
                let end = ends.get(&session).filter(|end| end.0 == epoch);
                let seen = end.and_then(|it| it.1);
                let until = seen.map_or(self.end_of(epoch), |it| it.at);
                let before = told.iter().filter(|it| it.0 <= until).map(|it| it.1);
                // If a leader fails before it has answered a handshake of its own client, no client
                // knows the session. The leader was told of it before it proposed to make it.
                let began = if epoch == made { creation.first } else { begin };
                let latest = before.chain(once(began.at)).max().expect("at least one");
                // A write that is newer than that would have extended the session, if writes did.
                let is_written = written.iter().any(|at| *at > latest && *at < until);
                let fact = if is_written { "F3" } else { "F1" };
                is_lost |= alone.contains(&leader);
                let is_soon = self.within(leader, latest, timeout + 2 * TICK, until) || is_lost;
                let how = format!("it lived until {until:?}, told at {latest:?}");
                self.demand((fact, about), is_soon, seen.unwrap_or(begin), &how);
                let Some(end) = seen.filter(|_| !is_asked) else {
                    if end.is_some() {
                        break;
                    }
                    let mut later = self.epochs.range(epoch + 1..);
                    if later
                        .next()
                        .is_some_and(|(_, it)| latest + timeout <= it.1.at)
                    {
                        alone.push(leader);
                    }
                    continue;
                };
                let is_new = |at: &Duration| *at < end.at && *at + timeout > end.at;
                if written.iter().any(is_new) {
                    self.looked_at("F3");
                }
                let is_sure = |at| at + self.settings.to_message < end.at;
                let sure = told.iter().filter(|it| it.2.is_some_and(is_sure));
                if let Some(newest) = sure.max_by_key(|it| it.0) {
                    let fact = if newest.3 { "F6" } else { "F1" };
                    self.looked_at(fact);
                    let is_late = end.at + ROUNDING >= newest.0 + timeout;
                    let how = format!("it ended early, {newest:?}");
                    self.demand((fact, about), is_late, end, &how);
                }
                break;
            }
        }
    }

    /// F2.
    pub(super) fn touches(&self) {
        let mut heard: HashMap<(usize, i64), Vec<Heard>> = HashMap::new();
        for client in self.clients.values() {
            let heard = heard.entry((client.server, client.session)).or_default();
            heard.push((client.made, client.connected, false));
            let requests = client.requests.iter();
            heard.extend(requests.map(|it| (it.sent, it.answered, it.what != Sent::Close)));
        }
        let made = self.of_sessions(CREATE_SESSION);
        let made: HashMap<_, _> = made.map(|(zxid, it)| (it.asked.0, zxid)).collect();
        for (number, link) in &self.links {
            let Some(serves) = link.serves else { continue };
            self.pings(("F2", Of::Link(*number)), link, serves);
            let rounds = link.pings.iter().zip(&link.answers);
            let rounds: Vec<_> = rounds.map(|(ping, it)| (*ping, it.0, &it.2)).collect();
            // Each touch is told in the next answer.
            for ((_, session), touches) in heard.iter().filter(|(key, _)| key.0 == link.follower) {
                let of_session = ("F2", Of::Session(*session));
                for &(sent, answered, _) in touches.iter().filter(|it| it.2 && it.0 > serves) {
                    let answered = answered.filter(|it| *it < link.end);
                    let is_later = |it: &Round<'_>| answered.is_some_and(|at| it.0 > at);
                    let Some(last) = rounds.iter().position(is_later) else {
                        continue;
                    };
                    self.looked_at("F2");
                    let first = rounds.partition_point(|it| it.1 < sent);
                    let mut those = rounds[first..=last].iter();
                    let is_told = those.any(|it| it.2.contains(session))
                        || self.is_closed_on(link, *session, rounds[last].1);
                    self.demand(of_session, is_told, sent, "a touch is not told");
                }
            }
            // And nothing else is told: a follower also notes a session when its making is committed.
            // The handshake of a new session is a touch, and if it gets no answer, no client knows
            // the session.
            let is_known = |session| self.clients.values().any(|it| it.session == session);
            let nameless = self
                .clients
                .values()
                .filter(|it| it.is_new && it.session == 0 && it.server == link.follower);
            let nameless: Vec<_> = nameless.map(|it| (it.made, it.lost.or(it.left))).collect();
            let may_be_new = |answer: Place, before: Place| {
                let mut during = nameless.iter();
                during.any(|(made, end)| *made < answer && end.is_none_or(|it| it > before))
            };
            let mut before = link.made;
            for (ping, answer, sessions) in rounds {
                for session in sessions {
                    let touches = heard.get(&(link.follower, *session));
                    let is_heard = touches.into_iter().flatten().any(|(sent, answered, _)| {
                        *sent < answer && answered.is_none_or(|it| it > before)
                    });
                    // The commit may be handled late, but an earlier ping is handled before it.
                    let made = made.get(session).and_then(|zxid| link.commits.get(zxid));
                    let is_made = |it: &Place| self.soon(link.follower, it.at, before.at);
                    let is_heard = is_heard || made.is_some_and(|it| *it < answer && is_made(it));
                    let is_heard = is_heard || !is_known(*session) && may_be_new(answer, before);
                    let of_session = ("F2", Of::Session(*session));
                    self.demand(of_session, is_heard, answer, "told, but not heard of");
                }
                before = ping;
            }
        }
    }

    fn is_closed_on(&self, link: &Link, session: i64, before: Place) -> bool {
        let is_committed = |zxid| link.commits.get(&zxid).is_some_and(|at| *at < before);
        let mut closes = self.closes_of(session);
        closes.any(|(zxid, it)| it.first < before || is_committed(zxid))
    }

    /// The leader pings every half tick, and its follower answers.
    fn pings(&self, rule: super::Rule, link: &Link, serves: Place) {
        let half = TICK / 2;
        let pings = link.pings.iter().copied().chain(once(link.end));
        let pings: Vec<_> = once(serves).chain(pings).collect();
        let mut gaps = Vec::new();
        for pair in pings.windows(2) {
            let (from, to) = (pair[0].at, pair[1].at.max(pair[0].at));
            let is_soon = self.within(link.leader, from, half, to);
            self.demand(rule, is_soon, pair[1], "no ping for long");
            gaps.push(to.saturating_sub(from));
        }
        gaps.sort_unstable();
        let is_often = gaps.len() <= 10 || gaps[gaps.len() / 2] <= half * 3 / 2;
        self.demand(rule, is_often, link.end, "pings are rare");
        for (number, ping) in link.pings.iter().enumerate() {
            let until = link.answers.get(number).map_or(link.end, |it| it.0);
            let is_soon = self.soon(link.follower, ping.at, until.at);
            self.demand(rule, is_soon, *ping, "a ping is not answered");
        }
    }

    /// F4.
    pub(super) fn order(&self) {
        for (number, link) in &self.links {
            let (mut newest, f4) = (0, ("F4", Of::Link(*number)));
            for (at, asked) in &link.requests {
                if let Some((zxid, _)) = self.proposal(*asked) {
                    self.demand(f4, zxid >= newest, *at, "a request overtook another");
                    newest = newest.max(zxid);
                }
            }
            // What a client sends after the answer to a write comes to the leader behind the
            // answers to all pings that the leader sent before it committed the write.
            for client in self.clients_of(link.follower) {
                let writes = client.requests.iter().filter(|it| it.what == Sent::Write);
                for write in writes.clone() {
                    let committed = self.proposal(Asked(client.session, write.xid, 0));
                    let committed = committed.and_then(|(zxid, _)| link.commits.get(&zxid));
                    let (Some(heard), Some(committed)) = (write.answered, committed) else {
                        continue;
                    };
                    let next = writes.clone().find(|it| it.sent > heard);
                    let next = next.map(|it| (client.session, it.xid));
                    let is_next = |it: &&(Place, Asked)| next == Some((it.1.0, it.1.1));
                    let Some((next, _)) = link.requests.iter().find(is_next) else {
                        continue;
                    };
                    self.looked_at("F4");
                    let older = link.pings.partition_point(|it| it < committed);
                    let answered = link.answers.partition_point(|it| it.0 < *next);
                    let how = "a request is ahead of the answer to an older ping";
                    self.demand(f4, answered >= older, *next, how);
                }
            }
        }
    }

    /// F5, and what F7 and F8 say of servers that lose their leader.
    pub(super) fn silence(&self) {
        for (server, cut, lost) in &self.cuts {
            let links = self.links.values();
            let links = links.filter(|it| it.end == *cut && it.serves.is_some());
            let links: Vec<_> = links.collect();
            for link in &links {
                let (fact, since) = match lost {
                    None => ("F5", (link.heard, link.heard)),
                    Some(Direction::FromServer) => ("F5 down", (link.heard, link.heard)),
                    // The leader misses the follower, and closes the link.
                    Some(Direction::ToServer) => ("F5 up", self.missed(link)),
                };
                self.cut_off((fact, link.follower), *cut, since, &[link]);
            }
            let of_leader = links.iter().filter(|it| it.leader == *server);
            let missed = of_leader.map(|it| self.missed(it));
            if let Some(newest) = missed.reduce(|one, it| (one.0.max(it.0), one.1.max(it.1))) {
                // It looks at the end of a tick.
                let since = (newest.0, newest.1 + TICK);
                self.cut_off(("F5 alone", *server), *cut, since, &links);
            }
        }
        for link in self.links.values() {
            let all = self.clients_of(link.follower);
            for client in all.filter(|it| it.made < link.made) {
                let answers = client.requests.iter().filter_map(|it| it.answered);
                if let Some(last) = answers.max().filter(|it| *it > link.made) {
                    let is_soon = self.soon(link.follower, link.made.at, last.at);
                    let how = "a client of a former leader was answered";
                    self.demand(("F8", Of::Session(client.session)), is_soon, last, how);
                }
            }
        }
    }

    /// When a leader last heard a follower, or sent a proposal that was not acknowledged (the relay
    /// sees proposals later): not before, and not after.
    fn missed(&self, link: &Link) -> (Duration, Duration) {
        let owed = link.unacked.values().copied().min();
        let owed = owed.map(|it| it.saturating_sub(self.settings.to_message));
        (owed.map_or(link.spoke, |it| it.min(link.spoke)), link.spoke)
    }

    /// A server that is cut off answers reads and no writes. It gives up when `syncLimit` ticks have
    /// passed since the last message: not before, and not after.
    fn cut_off(
        &self,
        (fact, server): (&'static str, usize),
        cut: Place,
        since: (Duration, Duration),
        links: &[&Link],
    ) {
        let limit = TICK * SYNC_TICKS;
        let is_open = |it: Option<Place>| it.is_none_or(|it| it > cut);
        for client in self.clients_of(server) {
            let was_open = client.connected.is_some_and(|it| it < cut);
            // A leader that does not hear the server may still end its sessions.
            let mut closes = self.closes_of(client.session);
            let is_ended = closes.any(|it| links.iter().any(|on| on.commits.contains_key(&it.0)));
            if !was_open || is_ended || !is_open(client.lost) || !is_open(client.left) {
                continue;
            }
            let (about, early) = (Of::Session(client.session), since.0 + limit);
            let (rule, f7) = ((fact, about), ("F7 cut", about));
            let until = client.lost.or(client.left).unwrap_or(self.end);
            // A server also closes the connection of a client that is silent for long.
            let spoke = client.requests.last().map_or(client.made, |it| it.sent);
            let is_silent = spoke.at + self.timeout(client.session) < until.at;
            let is_late = client.lost.is_none() || until.at + ROUNDING >= early || is_silent;
            self.demand(rule, is_late, until, "its server gave up early");
            let is_soon = self.within(server, since.1, limit, until.at);
            self.demand(rule, is_soon, until, "its server went on");
            // A read behind a write of its session is answered behind the write.
            let mut writes = client.requests.iter().filter(|it| it.what != Sent::Touch);
            let waits = writes.find(|it| is_open(it.answered)).map(|it| it.sent.at);
            let until = waits.unwrap_or(early.saturating_sub(self.settings.slack / 2));
            let until = client.left.map_or(until, |left| until.min(left.at));
            for request in client.requests.iter().filter(|it| it.sent > cut) {
                let (is_answered, at) = (request.answered.is_some(), request.sent);
                if request.what == Sent::Write {
                    self.looked_at("F7 cut");
                    self.demand(f7, !is_answered, at, "a write is answered");
                } else if at.at + self.settings.slack / 10 < until {
                    self.looked_at(fact);
                    self.demand(rule, is_answered, at, "a read is not answered");
                }
            }
        }
    }

    /// The timeout of a session.
    fn timeout(&self, session: i64) -> Duration {
        let creation = self.proposal(Asked(session, 0, CREATE_SESSION));
        creation.map_or(Duration::MAX / 2, |(_, it)| it.timeout)
    }

    /// F7, F8: what was answered was acknowledged by a majority before. F6, about the same.
    pub(super) fn writes(&self) {
        let acked = |zxid: i64| self.proposals.get(&zxid).and_then(|it| it.acked);
        for (number, link) in &self.links {
            // What a new leader has in its log is committed with its beginning.
            let its = |zxid: i64| link.epoch == Some(zxid >> 32);
            for (zxid, at) in link.commits.iter().filter(|it| its(*it.0)) {
                let is_before = acked(*zxid).is_some_and(|acked| acked < *at);
                let how = "a commit is ahead of all acknowledgements";
                self.demand(("F7", Of::Link(*number)), is_before, *at, how);
            }
        }
        for client in self.clients.values() {
            let Some(connected) = client.connected else {
                continue;
            };
            let (session, home) = (client.session, self.home(client.server, connected));
            let is_done = |asked: Asked, before: Place| {
                self.proposal(asked).is_some_and(|(zxid, _)| {
                    let is_here = |it: &Link| it.commits.get(&zxid).is_some_and(|at| *at < before);
                    acked(zxid).is_some_and(|it| it < before) && home.is_none_or(is_here)
                })
            };
            self.looked_at("F8");
            let is_its = |it: &(Place, i64)| it.1 == session && it.0 < connected;
            let is_known = if client.is_new {
                is_done(Asked(session, 0, CREATE_SESSION), connected)
            } else {
                home.is_none_or(|home| home.resumed.iter().any(is_its))
            };
            let (f7, f8) = (("F7", Of::Session(session)), ("F8", Of::Session(session)));
            self.demand(
                f8,
                is_known,
                connected,
                "a handshake was answered too early",
            );
            for write in client.requests.iter().filter(|it| it.what == Sent::Write) {
                let Some(answered) = write.answered else {
                    continue;
                };
                self.looked_at("F7");
                let is_done = is_done(Asked(session, write.xid, 0), answered);
                let how = "a write was answered before a majority had it";
                self.demand(f7, is_done, answered, how);
            }
        }
        // After a new leader serves, nothing is acknowledged to a former one any more.
        for (epoch, (.., serves)) in &self.epochs {
            let Some(serves) = serves else { continue };
            for (_, it) in self.proposals.range(..epoch << 32) {
                let is_before = it.acked_to_its_leader.is_none_or(|at| at <= *serves);
                let how = "a write was acknowledged to a former leader";
                self.demand(("F6", Of::Session(it.asked.0)), is_before, it.first, how);
            }
        }
    }
}
