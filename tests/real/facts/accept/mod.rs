//! Is a record one that the facts about sessions allow? The facts F1 to F8 are those of
//! `docs/safety.md`.
//!
//! A relay sees a message after it was sent and before it arrives, and a client cannot know when a
//! server handled its request. So each instant is an interval, and a rule is broken only if every
//! choice of instants breaks it. There are three forms of a rule. One event is before another, which
//! needs no clock. Something happens within a time; `slack`, and the time in which the test had
//! stopped the server, do not count. Something happens no sooner than after a time.
//!
//! Not here: the rules (`rules`); how a record is made (`record`, `wire`).

mod rules;

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use lockkeeper_test_support::proxy::Direction;

use crate::facts::{
    record::{Asked, Of, Record, Sent, What},
    wire::CLOSE_SESSION,
};

/// How late servers and the test may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) slack: Duration,
    /// From a leader's decision to a message that shows it, which another thread sends.
    pub(crate) to_message: Duration,
}

/// Servers count whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// A fact, and the part of the record that shows it.
type Rule = (&'static str, Of);

/// What is wrong with a record, and how often each fact was looked at.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) broken: Vec<(Rule, String)>,
    pub(crate) checked: BTreeMap<&'static str, usize>,
}

/// A place in the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    number: usize,
    at: Duration,
}

/// A connection of a follower to its leader.
#[derive(Debug, Default)]
struct Link {
    follower: usize,
    leader: usize,
    made: Place,
    epoch: Option<i64>,
    serves: Option<Place>,
    /// From here on nothing is demanded: the link was closed or cut.
    end: Place,
    /// When its leader was last heard, and its follower.
    heard: Duration,
    spoke: Duration,
    pings: Vec<Place>,
    /// The answer to each ping, in their order; whether the relay lost it.
    answers: Vec<(Place, bool, Vec<i64>)>,
    requests: Vec<(Place, Asked)>,
    /// Proposals that the follower has not acknowledged.
    unacked: BTreeMap<i64, Duration>,
    commits: HashMap<i64, Place>,
    resumed: Vec<(Place, i64)>,
}

#[derive(Debug, Default)]
struct Client {
    server: usize,
    /// 0 as long as it is not known.
    session: i64,
    is_new: bool,
    made: Place,
    connected: Option<Place>,
    /// By the server, or by the client.
    lost: Option<Place>,
    left: Option<Place>,
    requests: Vec<Request>,
}

#[derive(Debug)]
struct Request {
    xid: i32,
    what: Sent,
    sent: Place,
    answered: Option<Place>,
}

#[derive(Debug)]
struct Proposal {
    first: Place,
    /// A leader that was alone had made it before, and it is first seen when a new one begins.
    is_replayed: bool,
    asked: Asked,
    timeout: Duration,
    acked: Option<Place>,
    /// To the leader that proposed it. A later one replays what it has in its log.
    acked_to_its_leader: Option<Place>,
}

#[derive(Debug, Default)]
struct World {
    settings: Settings,
    end: Place,
    links: BTreeMap<usize, Link>,
    clients: BTreeMap<usize, Client>,
    proposals: BTreeMap<i64, Proposal>,
    by_request: HashMap<(i64, i32, bool), i64>,
    /// When each leader sent its first message as such, and when the first follower served.
    epochs: BTreeMap<i64, (usize, Place, Option<Place>)>,
    stops: Vec<(usize, Duration, Duration)>,
    cuts: Vec<(usize, Place, Option<Direction>)>,
    verdict: RefCell<Verdict>,
}

/// Looks for everything that is wrong with a record.
pub(crate) fn accept(record: &Record, settings: Settings) -> Verdict {
    let mut world = World {
        settings,
        ..World::default()
    };
    let (number, last) = (record.len(), record.last());
    world.end = last.map_or(Place::default(), |&(at, ..)| Place { number, at });
    for (number, &(at, of, ref what)) in record.iter().enumerate() {
        let now = Place { number, at };
        match of {
            Of::Link(number) => world.note_link(now, number, what),
            Of::Client(number) => world.note_client(now, number, what),
            Of::Server(server) => world.note_server(now, server, what),
            Of::Session(_) => unreachable!("only rules are about sessions"),
        }
    }
    world.ends_of_sessions();
    world.touches();
    world.order();
    world.silence();
    world.writes();
    world.verdict.into_inner()
}

impl World {
    fn note_link(&mut self, now: Place, number: usize, what: &What) {
        let link = self.links.entry(number).or_default();
        match what {
            What::Touches(..) | What::Request(_) | What::Ack(_) => link.spoke = now.at,
            What::Unlinked => {}
            _ => link.heard = now.at,
        }
        match *what {
            What::Linked(follower, leader) => {
                (link.follower, link.leader) = (follower, leader);
                (link.made, link.end) = (now, self.end);
            }
            What::Unlinked => link.end = link.end.min(now),
            What::NewLeader(epoch) => {
                link.epoch = Some(epoch);
                self.epochs.entry(epoch).or_insert((link.leader, now, None));
            }
            What::UpToDate => {
                link.serves = Some(now);
                let epoch = self.epochs.get_mut(&link.epoch.expect("a leader"));
                epoch.expect("a leader").2.get_or_insert(now);
            }
            // A follower that does not serve yet reads pings, and does not answer them.
            What::Ping if link.serves.is_none() => {}
            What::Ping => link.pings.push(now),
            What::Touches(ref sessions, is_withheld) => {
                link.answers.push((now, is_withheld, sessions.clone()));
                let is_asked = link.answers.len() <= link.pings.len();
                let f2 = ("F2", Of::Link(number));
                self.demand(f2, is_asked, now, "an answer to no ping");
            }
            What::Request(asked) => link.requests.push((now, asked)),
            What::Proposal(zxid, asked, timeout) => {
                link.unacked.insert(zxid, now.at);
                self.proposals.entry(zxid).or_insert(Proposal {
                    first: now,
                    is_replayed: link.epoch.is_none(),
                    asked,
                    timeout,
                    acked: None,
                    acked_to_its_leader: None,
                });
                self.by_request.entry(asked.key()).or_insert(zxid);
            }
            What::Ack(zxid) => {
                link.unacked.retain(|it, _| *it > zxid);
                if let Some(proposal) = self.proposals.get_mut(&zxid) {
                    proposal.acked.get_or_insert(now);
                    if link.epoch == Some(zxid >> 32) {
                        proposal.acked_to_its_leader.get_or_insert(now);
                    }
                }
            }
            What::Commit(zxid) => drop(link.commits.insert(zxid, now)),
            What::Resumed(session, true) => link.resumed.push((now, session)),
            What::Resumed(_, false) => {}
            _ => unreachable!("{what:?} on a link"),
        }
    }

    fn note_client(&mut self, now: Place, number: usize, what: &What) {
        let client = self.clients.entry(number).or_default();
        match *what {
            What::Connect(server, session) => {
                (client.server, client.session, client.made) = (server, session, now);
                client.is_new = session == 0;
            }
            What::Connected(session) => {
                (client.session, client.connected) = (session, Some(now));
            }
            What::Sent(xid, what) => client.requests.push(Request {
                xid,
                what,
                sent: now,
                answered: None,
            }),
            What::Answered(xid) => {
                if let Some(request) = client.requests.iter_mut().find(|it| it.xid == xid) {
                    request.answered = Some(now);
                }
            }
            What::Lost => client.lost = Some(now),
            What::Left => client.left = Some(now),
            _ => unreachable!("{what:?} of a client"),
        }
    }

    fn note_server(&mut self, now: Place, server: usize, what: &What) {
        match what {
            What::Stopped => self.stops.push((server, now.at, Duration::MAX)),
            What::GoesOn => {
                let mut stops = self.stops.iter_mut().rev();
                stops.find(|it| it.0 == server).expect("it stopped").2 = now.at;
            }
            What::Cut(lost) => self.cuts.push((server, now, *lost)),
            _ => {}
        }
        for link in self.links.values_mut() {
            let is_its = [link.follower, link.leader].contains(&server);
            if is_its && matches!(what, What::Cut(_) | What::Killed) {
                link.end = link.end.min(now);
            }
        }
    }

    /// A fact demands that something is so.
    fn demand(&self, rule: Rule, is_so: bool, at: Place, how: &str) {
        if !is_so {
            let how = format!("{how}: event {} at {:?}", at.number, at.at);
            self.verdict.borrow_mut().broken.push((rule, how));
        }
    }

    fn looked_at(&self, fact: &'static str) {
        *self.verdict.borrow_mut().checked.entry(fact).or_default() += 1;
    }

    /// Whether a server has done something in time that it has to do within `limit`.
    fn within(&self, server: usize, from: Duration, limit: Duration, until: Duration) -> bool {
        let of_server = self.stops.iter().filter(|stop| stop.0 == server);
        let stopped = of_server.map(|stop| stop.2.min(until).saturating_sub(stop.1.max(from)));
        until <= from + limit + self.settings.slack + stopped.sum::<Duration>()
    }

    /// Whether a server has done at once what it has to do at once.
    fn soon(&self, server: usize, from: Duration, until: Duration) -> bool {
        self.within(server, from, Duration::ZERO, until.max(from))
    }

    /// The link over which a server served at this place.
    fn home(&self, server: usize, now: Place) -> Option<&Link> {
        let is_home = |it: &&Link| it.serves.is_some_and(|it| it < now) && now < it.end;
        let mut links = self.links.values().filter(|it| it.follower == server);
        links.find(is_home)
    }

    /// The epoch of which a server was the leader at this place.
    fn reign(&self, server: usize, now: Place) -> Option<i64> {
        let mut begun = self.epochs.iter().rev().filter(|(_, epoch)| epoch.1 < now);
        let (epoch, (leader, ..)) = begun.next()?;
        (*leader == server).then_some(*epoch)
    }

    /// The last place at which a leader was seen to lead.
    fn end_of(&self, epoch: i64) -> Duration {
        let links = self.links.values().filter(|link| link.epoch == Some(epoch));
        let ends = links.map(|link| link.end.at.min(link.heard));
        ends.max().unwrap_or_default()
    }

    fn proposal(&self, asked: Asked) -> Option<(i64, &Proposal)> {
        let zxid = *self.by_request.get(&asked.key())?;
        Some((zxid, &self.proposals[&zxid]))
    }

    fn clients_of(&self, server: usize) -> impl Iterator<Item = &Client> {
        let all = self.clients.values();
        all.filter(move |it| it.server == server)
    }

    fn closes_of(&self, session: i64) -> impl Iterator<Item = (i64, &Proposal)> {
        let all = self.of_sessions(CLOSE_SESSION);
        all.filter(move |(_, it)| it.asked.0 == session)
    }

    /// The proposals that make sessions, or that end them.
    fn of_sessions(&self, kind: i32) -> impl Iterator<Item = (i64, &Proposal)> {
        let each = self.proposals.iter().map(|(zxid, it)| (*zxid, it));
        each.filter(move |(_, it)| it.asked.2 == kind)
    }
}
