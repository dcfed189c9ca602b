//! The rules of the facts. See `accept` for what is certain about a record.

use std::{
    collections::{BTreeMap, HashMap},
    iter::once,
    time::Duration,
};

use super::{Asked, Link, Of, Place, Proposal, ROUNDING, Sent, World};
use crate::wire::{CLOSE_SESSION, CREATE_SESSION, RESUME};

/// A leader was told of a session.
#[derive(Debug)]
struct Told {
    /// Not before, and not after.
    between: (Duration, Duration),
    /// When it was certainly handled, if that is known.
    handled: Option<Duration>,
    is_beginning: bool,
}

/// A server heard of a session: not before, not after, and whether it must tell of it.
type Heard = (Place, Option<Place>, bool);

impl World {
    /// What each leader, by its epoch, was told of each session.
    fn told(&self) -> HashMap<(i64, i64), Vec<Told>> {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        let mut tell = |epoch: i64, session: i64, between, handled| {
            let told = Told {
                between,
                handled,
                is_beginning: false,
            };
            all.entry((epoch, session)).or_default().push(told);
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
                tell(epoch, session, (at.at, at.at), handled);
            };
            for round in link.rounds.iter().filter(|it| !it.is_withheld) {
                let sessions = round.sessions.iter();
                sessions.for_each(|session| told(round.answer.expect("it tells"), *session));
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
                    tell(epoch, client.session, (sent.at, latest), answered);
                }
            }
        }
        all
    }

    /// F1, F3, F6.
    pub(super) fn ends_of_sessions(&self) {
        let mut told = self.told();
        let made = self
            .of_sessions(CREATE_SESSION)
            .filter(|(_, it)| it.acked.is_some());
        let made: BTreeMap<_, _> = made
            .map(|(zxid, it)| (it.asked.0, (zxid >> 32, it)))
            .collect();
        let ended = self.of_sessions(CLOSE_SESSION);
        let mut ends: HashMap<i64, (i64, Place)> = HashMap::new();
        for (zxid, it) in ended {
            ends.entry(it.asked.0).or_insert((zxid >> 32, it.first));
        }
        for (session, (made, creation)) in made {
            let (about, timeout) = (Of::Session(session), creation.timeout);
            let mut clients = self.clients.values().filter(|it| it.session == session);
            let is_asked = clients.any(|it| it.requests.iter().any(|it| it.what == Sent::Close));
            let writes = self.links.values().flat_map(|it| &it.requests);
            let writes = writes.filter(|(_, it)| it.0 == session && !it.key().2 && it.2 != RESUME);
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
                let end = ends
                    .get(&session)
                    .filter(|end| end.0 == epoch)
                    .map(|end| end.1);
                let until = end.map_or(self.end_of(epoch), |it| it.at);
                let before = told
                    .iter()
                    .filter(|it| it.between.0 <= until)
                    .map(|it| it.between.1);
                // If a leader fails before it has answered a handshake of its own client, no client
                // knows the session. The leader was told of it before it proposed to make it.
                let began = if epoch == made { creation.first } else { begin };
                let latest = before.chain(once(began.at)).max().expect("at least one");
                // A write that is newer than that would have extended the session, if writes did.
                let is_written = written.iter().any(|at| *at > latest && *at < until);
                let fact = if is_written { "F3" } else { "F1" };
                let limit = timeout + 2 * self.settings.tick;
                let is_soon = self.within(leader, latest, limit, until);
                let how = format!("it lived until {until:?}, told at {latest:?}");
                self.demand(fact, about, is_soon, &how, end.unwrap_or(begin));
                let Some(end) = end else { continue };
                if is_asked {
                    break;
                }
                if written
                    .iter()
                    .any(|at| *at < end.at && *at + timeout > end.at)
                {
                    self.looked_at("F3");
                }
                let is_sure = |at| at + self.settings.to_proposal < end.at;
                let sure = told.iter().filter(|it| it.handled.is_some_and(is_sure));
                if let Some(newest) = sure.max_by_key(|it| it.between.0) {
                    let fact = if newest.is_beginning { "F6" } else { "F1" };
                    self.looked_at(fact);
                    let is_late = end.at + ROUNDING >= newest.between.0 + timeout;
                    self.demand(
                        fact,
                        about,
                        is_late,
                        &format!("it ended early, {newest:?}"),
                        end,
                    );
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
        let made: HashMap<_, _> = self
            .of_sessions(CREATE_SESSION)
            .map(|(zxid, it)| (it.asked.0, zxid))
            .collect();
        for (number, link) in &self.links {
            let Some(serves) = link.serves else { continue };
            self.pings(Of::Link(*number), link, serves);
            let answers = link
                .rounds
                .iter()
                .filter_map(|it| Some((it.ping, it.answer?, &it.sessions)));
            let answers: Vec<_> = answers.collect();
            // Each touch is told in the next answer.
            for ((_, session), touches) in heard.iter().filter(|(key, _)| key.0 == link.follower) {
                for &(sent, answered, _) in touches.iter().filter(|it| it.2 && it.0 > serves) {
                    let Some(answered) = answered.filter(|it| *it < link.end) else {
                        continue;
                    };
                    let first = answers.partition_point(|(_, answer, _)| *answer < sent);
                    let last = answers.iter().position(|(ping, ..)| *ping > answered);
                    let Some(last) = last else { continue };
                    self.looked_at("F2");
                    let is_told = answers[first..=last]
                        .iter()
                        .any(|it| it.2.contains(session))
                        || self.is_closed_on(link, *session, answers[last].1);
                    self.demand(
                        "F2",
                        Of::Session(*session),
                        is_told,
                        "a touch is not told",
                        answered,
                    );
                }
            }
            // And nothing else is told: a follower also notes a session when its making is committed.
            let mut before = link.made;
            for (ping, answer, sessions) in answers {
                for session in sessions {
                    let touches = heard.get(&(link.follower, *session));
                    let is_heard = touches.into_iter().flatten().any(|(sent, answered, _)| {
                        *sent < answer && answered.is_none_or(|it| it > before)
                    });
                    // The commit may be handled late, but an earlier ping is handled before it.
                    let made = made.get(session).and_then(|zxid| link.commits.get(zxid));
                    let is_made = made.is_some_and(|it| {
                        *it < answer
                            && self.within(
                                link.follower,
                                it.at,
                                Duration::ZERO,
                                before.at.max(it.at),
                            )
                    });
                    let about = Of::Session(*session);
                    self.demand(
                        "F2",
                        about,
                        is_heard || is_made,
                        "told, but not heard of",
                        answer,
                    );
                }
                before = ping;
            }
        }
    }

    fn is_closed_on(&self, link: &Link, session: i64, before: Place) -> bool {
        let mut closes = self
            .of_sessions(CLOSE_SESSION)
            .filter(|(_, it)| it.asked.0 == session);
        closes.any(|(zxid, it)| {
            it.first < before || link.commits.get(&zxid).is_some_and(|at| *at < before)
        })
    }

    /// The leader pings every half tick, and its follower answers.
    fn pings(&self, about: Of, link: &Link, serves: Place) {
        let half = self.settings.tick / 2;
        let pings = link
            .rounds
            .iter()
            .map(|round| round.ping)
            .filter(|ping| *ping > serves);
        let pings: Vec<_> = once(serves).chain(pings).chain(once(link.end)).collect();
        let mut gaps = Vec::new();
        for pair in pings.windows(2) {
            let (from, to) = (pair[0].at, pair[1].at.max(pair[0].at));
            let is_soon = self.within(link.leader, from, half, to);
            self.demand("F2", about, is_soon, "no ping for long", pair[1]);
            gaps.push(to.saturating_sub(from));
        }
        gaps.sort_unstable();
        let is_often = gaps.len() <= 10 || gaps[gaps.len() / 2] <= half * 3 / 2;
        self.demand("F2", about, is_often, "pings are rare", link.end);
        for round in &link.rounds {
            let until = round.answer.unwrap_or(link.end).at.max(round.ping.at);
            let is_soon = self.within(link.follower, round.ping.at, Duration::ZERO, until);
            self.demand("F2", about, is_soon, "a ping is not answered", round.ping);
        }
    }

    /// F4.
    pub(super) fn order(&self) {
        for (number, link) in &self.links {
            let mut newest = 0;
            for (at, asked) in &link.requests {
                let Some((zxid, _)) = self.proposal(*asked) else {
                    continue;
                };
                let is_next = zxid >= newest;
                self.demand(
                    "F4",
                    Of::Link(*number),
                    is_next,
                    "a request overtook another",
                    *at,
                );
                newest = newest.max(zxid);
            }
            // What a client sends after the answer to a write comes to the leader behind the
            // answers to all pings that the leader sent before it committed the write.
            for client in self
                .clients
                .values()
                .filter(|it| it.server == link.follower)
            {
                let writes = client.requests.iter().filter(|it| it.what == Sent::Write);
                for write in writes.clone() {
                    let committed = self.proposal(Asked(client.session, write.xid, 0));
                    let committed = committed.and_then(|(zxid, _)| link.commits.get(&zxid));
                    let (Some(heard), Some(committed)) = (write.answered, committed) else {
                        continue;
                    };
                    let next = writes.clone().find(|it| it.sent > heard);
                    let is_next = |it: &&(Place, Asked)| {
                        next.is_some_and(|next| (it.1.0, it.1.1) == (client.session, next.xid))
                    };
                    let Some((next, _)) = link.requests.iter().find(is_next) else {
                        continue;
                    };
                    self.looked_at("F4");
                    for round in link.rounds.iter().filter(|it| it.ping < *committed) {
                        let is_behind = round.answer.is_some_and(|answer| answer < *next);
                        let how = "a request is ahead of the answer to an older ping";
                        self.demand("F4", Of::Link(*number), is_behind, how, *next);
                    }
                }
            }
        }
    }

    /// F5, and what F8 says of servers that change their leader.
    pub(super) fn silence(&self) {
        let limit = self.settings.tick * self.settings.sync_ticks;
        for (server, cut) in &self.cuts {
            let links = self
                .links
                .values()
                .filter(|it| it.follower == *server && it.end == *cut);
            let Some(link) = links.into_iter().find(|it| it.serves.is_some()) else {
                continue;
            };
            let is_open = |it: Option<Place>| it.is_none_or(|it| it > *cut);
            for client in self.clients.values().filter(|it| it.server == *server) {
                let was_open = client.connected.is_some_and(|it| it < *cut);
                if !was_open || !is_open(client.lost) || !is_open(client.left) {
                    continue;
                }
                let about = Of::Session(client.session);
                let early = link.heard + limit;
                let until = client.lost.or(client.left).unwrap_or(self.end);
                // A server also closes the connection of a client that is silent for long.
                let spoke = client.requests.last().map_or(client.made, |it| it.sent);
                let is_silent = spoke.at + self.timeout(client.session) < until.at;
                let is_late = client.lost.is_none() || until.at + ROUNDING >= early || is_silent;
                self.demand("F5", about, is_late, "its server gave up early", until);
                let is_soon = self.within(*server, link.heard, limit, until.at);
                self.demand("F5", about, is_soon, "its server went on", until);
                // A read behind a write of its session is answered behind the write.
                let is_write = |what| what != Sent::Touch;
                let mut writes = client.requests.iter().filter(|it| is_write(it.what));
                let waits = writes.find(|it| is_open(it.answered)).map(|it| it.sent.at);
                let until = waits.unwrap_or(early.saturating_sub(self.settings.slack / 2));
                let until = client.left.map_or(until, |left| until.min(left.at));
                let reads = client.requests.iter().filter(|it| it.sent > *cut);
                for read in reads.filter(|it| it.sent.at + self.settings.slack / 10 < until) {
                    self.looked_at("F5");
                    let is_answered = read.answered.is_some();
                    self.demand(
                        "F5",
                        about,
                        is_answered,
                        "a read is not answered",
                        read.sent,
                    );
                }
            }
        }
        for link in self.links.values() {
            let former = self
                .clients
                .values()
                .filter(|it| it.server == link.follower);
            for client in former.filter(|it| it.made < link.made) {
                let answers = client.requests.iter().filter_map(|it| it.answered);
                let Some(last) = answers.max().filter(|it| *it > link.made) else {
                    continue;
                };
                let is_soon = self.within(link.follower, link.made.at, Duration::ZERO, last.at);
                let how = "a client of a former leader was answered";
                self.demand("F8", Of::Session(client.session), is_soon, how, last);
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
        for (number, link) in &self.links {
            for (zxid, at) in &link.commits {
                let acked = self.proposals.get(zxid).and_then(|it| it.acked);
                let is_before = acked.is_some_and(|acked| acked < *at);
                let how = "a commit is ahead of all acknowledgements";
                self.demand("F7", Of::Link(*number), is_before, how, *at);
            }
        }
        for client in self.clients.values() {
            let (Some(connected), session) = (client.connected, client.session) else {
                continue;
            };
            let (about, home) = (Of::Session(session), self.home(client.server, connected));
            let is_done = |asked: Asked, before: Place| {
                self.proposal(asked)
                    .is_some_and(|(zxid, Proposal { acked, .. })| {
                        let is_here =
                            |it: &Link| it.commits.get(&zxid).is_some_and(|at| *at < before);
                        acked.is_some_and(|it| it < before) && home.is_none_or(is_here)
                    })
            };
            self.looked_at("F8");
            let is_known = if client.is_new {
                is_done(Asked(session, 0, CREATE_SESSION), connected)
            } else {
                let is_its = |it: &(Place, i64)| it.1 == session && it.0 < connected;
                home.is_none_or(|home| home.resumed.iter().any(is_its))
            };
            self.demand(
                "F8",
                about,
                is_known,
                "a handshake was answered too early",
                connected,
            );
            for write in client.requests.iter().filter(|it| it.what == Sent::Write) {
                let Some(answered) = write.answered else {
                    continue;
                };
                self.looked_at("F7");
                let is_done = is_done(Asked(session, write.xid, 0), answered);
                let how = "a write was answered before a majority had it";
                self.demand("F7", about, is_done, how, answered);
            }
        }
        // After a new leader serves, nothing of a former one is acknowledged any more.
        for (epoch, (.., serves)) in &self.epochs {
            let Some(serves) = serves else { continue };
            for (_, it) in self.proposals.range(..epoch << 32) {
                let is_before = it.acked.is_none_or(|at| at <= *serves);
                let how = "a write of a former leader was acknowledged";
                self.demand("F6", Of::Session(it.asked.0), is_before, how, it.first);
            }
        }
    }
}
