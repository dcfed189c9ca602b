//! Is a record one that the facts about sessions allow? The facts F1 to F8 are those of
//! `docs/safety.md`.
//!
//! A relay sees a message after it was sent and before it arrives, and a client cannot know when a
//! server handled its request. So each instant is an interval, and a rule is broken only if every
//! choice of instants breaks it. The rules that say "before" need no clock. Those that say "soon"
//! have `slack`, and the time in which the test had stopped a server.
//!
//! Not here: the rules (`rules`); how a record is made (`record`, `wire`).

mod rules;

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use crate::{
    record::{Event, Record, Sent},
    wire::{CLOSE_SESSION, CREATE_SESSION},
};

/// What servers are told, and how late they and the test may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) tick: Duration,
    pub(crate) sync_ticks: u32,
    pub(crate) slack: Duration,
    /// From a leader's decision to end a session to its proposal.
    pub(crate) to_proposal: Duration,
}

/// Servers count whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// A fact, and how the record breaks it.
pub(crate) type Broken = (&'static str, String);

/// How often each fact was looked at.
pub(crate) type Checked = BTreeMap<&'static str, usize>;

/// A place in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    number: usize,
    at: Duration,
}

/// A connection of a follower to its leader.
#[derive(Debug)]
struct Link {
    follower: usize,
    leader: usize,
    made: Place,
    epoch: Option<i64>,
    serves: Option<Place>,
    /// From here on nothing is demanded: the link was closed or cut.
    end: Place,
    /// When its leader was last heard.
    heard: Duration,
    rounds: Vec<Round>,
    /// Its requests, and the proposals that they became.
    requests: Vec<(Place, i64, i32, i32)>,
    commits: HashMap<i64, Place>,
    resumed: Vec<(Place, i64)>,
}

/// A ping, and the answer to it.
#[derive(Debug)]
struct Round {
    ping: Place,
    answer: Option<Place>,
    /// Whether the relay lost the answer.
    is_withheld: bool,
    sessions: HashSet<i64>,
}

#[derive(Debug)]
struct Client {
    server: usize,
    made: Place,
    is_new: bool,
    connected: Option<(Place, i64)>,
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
    session: i64,
    kind: i32,
    timeout: Duration,
    acked: Option<Place>,
}

/// What a leader was told of a session.
#[derive(Debug)]
struct Told {
    /// Not before, and not after.
    between: (Duration, Duration),
    /// When it was certainly handled, if that is known.
    handled: Option<Duration>,
    is_beginning: bool,
}

#[derive(Debug)]
struct World {
    settings: Settings,
    end: Place,
    links: BTreeMap<usize, Link>,
    clients: BTreeMap<usize, Client>,
    proposals: BTreeMap<i64, Proposal>,
    /// By session, number, and whether it makes or ends a session.
    by_request: HashMap<(i64, i32, bool), i64>,
    /// When each leader sent its first message as such, and when the first follower served.
    epochs: BTreeMap<i64, (usize, Place, Option<Place>)>,
    stops: Vec<(usize, Duration, Duration)>,
    cuts: Vec<(usize, Place)>,
    broken: Vec<Broken>,
    checked: RefCell<Checked>,
}

/// Whether a transaction makes or ends a session.
fn is_of_session(kind: i32) -> bool {
    kind == CREATE_SESSION || kind == CLOSE_SESSION
}

/// Everything that is wrong with a record.
pub(crate) fn accept(record: &Record, settings: Settings) -> (Vec<Broken>, Checked) {
    let mut world = World::read(record, settings);
    world.ends_of_sessions();
    world.touches();
    world.order();
    world.silence();
    world.writes();
    (world.broken, world.checked.into_inner())
}

impl World {
    fn read(record: &Record, settings: Settings) -> Self {
        let last = record.last().map_or(Duration::ZERO, |(at, _)| *at);
        let end = Place {
            number: record.len(),
            at: last,
        };
        let mut world = Self {
            settings,
            end,
            links: BTreeMap::new(),
            clients: BTreeMap::new(),
            proposals: BTreeMap::new(),
            by_request: HashMap::new(),
            epochs: BTreeMap::new(),
            stops: Vec::new(),
            cuts: Vec::new(),
            broken: Vec::new(),
            checked: RefCell::default(),
        };
        for (number, (at, event)) in record.iter().enumerate() {
            world.note(Place { number, at: *at }, event);
        }
        world
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each event")]
    fn note(&mut self, now: Place, event: &Event) {
        use Event as E;
        if let E::NewLeader { link, .. }
        | E::UpToDate { link }
        | E::Ping { link }
        | E::Resumed { link, .. }
        | E::Proposal { link, .. }
        | E::Commit { link, .. } = event
        {
            self.link(*link).heard = now.at;
        }
        match *event {
            E::Linked {
                link,
                follower,
                leader,
            } => {
                let end = self.end;
                let made = Link {
                    follower,
                    leader,
                    made: now,
                    epoch: None,
                    serves: None,
                    end,
                    heard: now.at,
                    rounds: Vec::new(),
                    requests: Vec::new(),
                    commits: HashMap::new(),
                    resumed: Vec::new(),
                };
                self.links.insert(link, made);
            }
            E::Unlinked { link } => {
                let link = self.link(link);
                link.end = link.end.min(now);
            }
            E::NewLeader { link, epoch } => {
                let link = self.link(link);
                link.epoch = Some(epoch);
                let leader = link.leader;
                self.epochs.entry(epoch).or_insert((leader, now, None));
            }
            E::UpToDate { link } => {
                let link = self.link(link);
                link.serves = Some(now);
                let epoch = link.epoch.expect("a leader");
                let began = &mut self.epochs.get_mut(&epoch).expect("a leader").2;
                began.get_or_insert(now);
            }
            // A follower that does not serve yet reads pings, and does not answer them.
            E::Ping { link } if self.links[&link].serves.is_none() => {}
            E::Ping { link } => {
                let round = Round {
                    ping: now,
                    answer: None,
                    is_withheld: false,
                    sessions: HashSet::new(),
                };
                self.link(link).rounds.push(round);
            }
            E::Touches {
                link,
                ref sessions,
                is_withheld,
            } => {
                let rounds = &mut self.link(link).rounds;
                match rounds.iter_mut().find(|round| round.answer.is_none()) {
                    Some(round) => {
                        round.answer = Some(now);
                        round.is_withheld = is_withheld;
                        round.sessions = sessions.iter().copied().collect();
                    }
                    None => self.breaks("F2", format!("an answer to no ping at {now:?}")),
                }
            }
            E::Request {
                link,
                session,
                xid,
                kind,
            } => {
                self.link(link).requests.push((now, session, xid, kind));
            }
            E::Proposal {
                zxid,
                session,
                xid,
                kind,
                timeout,
                ..
            } => {
                let timeout = Duration::from_millis(u64::try_from(timeout).unwrap_or(0));
                let proposal = Proposal {
                    first: now,
                    session,
                    kind,
                    timeout,
                    acked: None,
                };
                self.proposals.entry(zxid).or_insert(proposal);
                let of_session = kind == CREATE_SESSION || kind == CLOSE_SESSION;
                self.by_request
                    .entry((session, xid, of_session))
                    .or_insert(zxid);
            }
            E::Ack { zxid, .. } => {
                if let Some(proposal) = self.proposals.get_mut(&zxid) {
                    proposal.acked.get_or_insert(now);
                }
            }
            E::Commit { link, zxid } => {
                self.link(link).commits.insert(zxid, now);
            }
            E::Resumed {
                link,
                session,
                is_valid,
            } => {
                if is_valid {
                    self.link(link).resumed.push((now, session));
                }
            }
            E::Connect {
                client,
                server,
                session,
            } => {
                let made = Client {
                    server,
                    made: now,
                    is_new: session == 0,
                    connected: None,
                    lost: None,
                    left: None,
                    requests: Vec::new(),
                };
                self.clients.insert(client, made);
            }
            E::Connected { client, session } => {
                self.client(client).connected = Some((now, session));
            }
            E::Sent { client, xid, what } => {
                let request = Request {
                    xid,
                    what,
                    sent: now,
                    answered: None,
                };
                self.client(client).requests.push(request);
            }
            E::Answered { client, xid } => {
                let mut requests = self.client(client).requests.iter_mut();
                if let Some(request) = requests.find(|request| request.xid == xid) {
                    request.answered = Some(now);
                }
            }
            E::Lost { client } => self.client(client).lost = Some(now),
            E::Left { client } => self.client(client).left = Some(now),
            E::Stopped { server } => self.stops.push((server, now.at, Duration::MAX)),
            E::GoesOn { server } => {
                let mut stops = self.stops.iter_mut().rev();
                if let Some(stop) = stops.find(|stop| stop.0 == server) {
                    stop.2 = now.at;
                }
            }
            E::Cut { server } => {
                self.cuts.push((server, now));
                self.end_links(server, now);
            }
            E::Killed { server } => self.end_links(server, now),
        }
    }

    fn end_links(&mut self, server: usize, now: Place) {
        for link in self.links.values_mut() {
            if link.follower == server || link.leader == server {
                link.end = link.end.min(now);
            }
        }
    }

    fn link(&mut self, number: usize) -> &mut Link {
        self.links.get_mut(&number).expect("it was made")
    }

    fn client(&mut self, number: usize) -> &mut Client {
        self.clients.get_mut(&number).expect("it was made")
    }

    fn checked(&self, fact: &'static str) {
        *self.checked.borrow_mut().entry(fact).or_default() += 1;
    }

    fn breaks(&mut self, fact: &'static str, how: String) {
        self.broken.push((fact, how));
    }

    /// How late something may be that a server does in this time.
    fn late(&self, server: usize, from: Duration, to: Duration) -> Duration {
        let of_server = self.stops.iter().filter(|stop| stop.0 == server);
        let stopped = of_server.map(|stop| stop.2.min(to).saturating_sub(stop.1.max(from)));
        self.settings.slack + stopped.sum::<Duration>()
    }

    /// The link over which a server served at this place.
    fn home(&self, server: usize, now: Place) -> Option<&Link> {
        let mut links = self.links.values();
        links.find(|link| {
            let is_ready = link.serves.is_some_and(|it| it < now);
            link.follower == server && is_ready && now < link.end
        })
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
        links
            .map(|link| link.end.at.min(link.heard))
            .max()
            .unwrap_or_default()
    }

    fn is_closed_on(&self, link: &Link, session: i64, before: Place) -> bool {
        let mut closes = self.proposals.iter();
        closes.any(|(zxid, it)| {
            let is_its = it.session == session && it.kind == CLOSE_SESSION;
            is_its && (link.commits.get(zxid).is_some_and(|at| *at < before) || it.first < before)
        })
    }

    fn proposal(&self, session: i64, xid: i32, of_session: bool) -> Option<(i64, &Proposal)> {
        let zxid = *self.by_request.get(&(session, xid, of_session))?;
        Some((zxid, &self.proposals[&zxid]))
    }
}
