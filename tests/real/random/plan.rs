//! What fails in a round, and the servers and relays that it happens to.
//!
//! Not here: the clients and their locks (`contender`).

use std::{mem, ops::Range, sync::Arc, time::Duration};

use lockkeeper_sim::Rng;
use lockkeeper_test_support::{
    proxy::{Direction, Proxy, relayed},
    servers::{COUNT, Servers},
};
use tokio::time::{Instant, sleep_until};

pub(super) const CLIENTS: usize = 6;

/// In which milliseconds failures begin.
const FAILURES: Range<u64> = 500..17_000;

/// Which relays fail.
#[derive(Clone, Copy, Debug)]
pub(super) enum Links {
    Client(usize),
    ClientTo(usize, usize),
    /// The client can reach one server only.
    ClientToOthersThan(usize, usize),
    ClientsOf(usize),
    /// From one server to another, as the first has made them. A follower connects to its leader.
    FromTo(usize, usize),
    Between(usize, usize),
    /// Between a server and all others.
    Around(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    /// The server's process stops, and goes on.
    Stop(usize),
    /// The server is killed, and restarted.
    Kill(usize),
    /// Bytes wait, in one direction or in both. If so many milliseconds are shorter than the
    /// failure, the bytes go on each time that they are over.
    Late(Links, Option<Direction>, u64),
    /// Connections are reset, and new ones carry nothing.
    Cut(Links),
}

/// A failure, and from when until when it lasts, in milliseconds.
pub(super) type Step = (Range<u64>, Failure);

pub(super) fn within(random: &mut Rng, range: Range<u64>) -> u64 {
    range.start + random.draw() % (range.end - range.start)
}

/// Draws what fails, with clients that have this session timeout.
pub(super) fn plan(random: &mut Rng, session: u64) -> Vec<Step> {
    let (mut steps, mut at) = (Vec::new(), FAILURES.start);
    let (mut killed, mut busy_until) = ([false; COUNT], 0);
    while at < FAILURES.end {
        let lengths = [
            0..1,
            50..500,
            session / 5..session,
            session..session * 3 / 2,
        ];
        let length = random.one_of(&lengths);
        let length = within(random, length);
        let (client, server) = (random.below(CLIENTS), random.below(COUNT));
        let other = (server + 1 + random.below(COUNT - 1)) % COUNT;
        let links = random.one_of(&[
            Links::Client(client),
            Links::ClientTo(client, server),
            Links::ClientToOthersThan(client, server),
            Links::ClientsOf(server),
            Links::FromTo(server, other),
            Links::Between(server, other),
            Links::Around(server),
        ]);
        let side = random.one_of(&[None, Some(Direction::ToServer), Some(Direction::FromServer)]);
        // The longer ones make a proof of a lease old before it is complete.
        let lag = random.one_of(&[20..200, session / 8..session / 3]);
        let lag = within(random, lag);
        let failure = random.one_of(&[
            Failure::Stop(server),
            Failure::Stop(server),
            Failure::Kill(server),
            Failure::Late(links, side, u64::MAX),
            Failure::Late(links, side, u64::MAX),
            Failure::Late(links, side, lag),
            Failure::Late(Links::Client(client), side, lag),
            Failure::Late(Links::Client(client), side, lag),
            Failure::Cut(links),
            Failure::Cut(links),
            Failure::Cut(Links::ClientToOthersThan(client, server)),
        ]);
        if let Failure::Stop(_) | Failure::Kill(_) = failure {
            // One process at a time. A server that is killed again soon after a restart may lose
            // transactions that it had missed (ZOOKEEPER-4785).
            let again =
                matches!(failure, Failure::Kill(_)) && mem::replace(&mut killed[server], true);
            if at < busy_until || again {
                continue;
            }
            busy_until = at + length + 500;
        }
        let end = at + length;
        if let Failure::Late(links, _, every) = failure {
            if matches!(links, Links::Client(_)) && every == lag {
                // A holder whose replies were late hears nothing more: its lease must end in time.
                let silence = Failure::Late(links, None, u64::MAX);
                steps.push((end + 1..end + session * 3 / 2, silence));
            } else if random.below(2) == 0 {
                // What has waited is lost: mostly replies to what the servers have done.
                steps.push((end..end, Failure::Cut(links)));
            }
            // Clients leave a server that may still have writes of theirs.
            if let Links::FromTo(..) | Links::Between(..) | Links::Around(_) = links {
                let moment = within(random, at..end + 1);
                steps.push((moment..moment, Failure::Cut(Links::ClientsOf(server))));
            }
        }
        steps.push((at..end, failure));
        // Now and then all is quiet.
        let pause = random.one_of(&[50..200, 50..200, 50..800, 50..800, session / 2..session]);
        at += within(random, pause);
    }
    steps.sort_by_key(|(time, _)| time.start);
    steps
}

/// Three servers, and the relays.
pub(super) struct Laboratory {
    pub(super) servers: Servers,
    /// From each server to each other one.
    between: Vec<Vec<Proxy>>,
    /// From each client to each server.
    pub(super) clients: Vec<Vec<Proxy>>,
}

impl Laboratory {
    pub(super) async fn start() -> Self {
        let (servers, between) = relayed(|_, _| Arc::new(|_| Box::new(()))).await;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut row = Vec::new();
            for server in servers.addresses() {
                row.push(Proxy::to(&[server]).await);
            }
            clients.push(row);
        }
        servers.wait_until_all_serve();
        Self {
            servers,
            between,
            clients,
        }
    }

    fn of(&self, links: Links) -> Vec<&Proxy> {
        let others = |server| (0..COUNT).filter(move |other| *other != server);
        let link = |one: usize, other: usize| &self.between[one][other];
        let both = |one, other| [link(one, other), link(other, one)];
        match links {
            Links::Client(client) => self.clients[client].iter().collect(),
            Links::ClientTo(client, server) => vec![&self.clients[client][server]],
            Links::ClientToOthersThan(client, server) => others(server)
                .map(|other| &self.clients[client][other])
                .collect(),
            Links::ClientsOf(server) => self.clients.iter().map(|row| &row[server]).collect(),
            Links::FromTo(one, other) => vec![link(one, other)],
            Links::Between(one, other) => both(one, other).into(),
            Links::Around(server) => others(server).flat_map(|it| both(server, it)).collect(),
        }
    }

    fn set(&mut self, failure: Failure, begins: bool) {
        match failure {
            Failure::Stop(server) if begins => self.servers.stop(server),
            Failure::Stop(server) => self.servers.go_on(server),
            Failure::Kill(server) if begins => self.servers.kill(server),
            Failure::Kill(server) => self.servers.start(server),
            Failure::Late(links, side, _) if begins => {
                self.of(links).iter().for_each(|it| it.hold(side));
            }
            Failure::Late(links, ..) => self.of(links).iter().for_each(|it| it.pass()),
            Failure::Cut(links) if begins => self.of(links).iter().for_each(|it| it.cut()),
            Failure::Cut(links) => self.of(links).iter().for_each(|it| it.mend()),
        }
    }

    /// Lets happen what is planned. In the end everything works.
    pub(super) async fn fail(&mut self, steps: &[Step]) {
        let mut events = Vec::new();
        for (time, failure) in steps {
            events.extend([(time.start, *failure, true), (time.end, *failure, false)]);
            if let Failure::Late(_, _, every) = *failure {
                let mut at = time.start.saturating_add(every);
                while at.saturating_add(5) < time.end {
                    events.extend([(at, *failure, false), (at + 5, *failure, true)]);
                    at += every;
                }
            }
        }
        events.sort_by_key(|(at, ..)| *at);
        let start = Instant::now();
        for (at, failure, begins) in events {
            sleep_until(start + Duration::from_millis(at)).await;
            self.set(failure, begins);
        }
        self.between
            .iter()
            .chain(&self.clients)
            .flatten()
            .for_each(Proxy::mend);
        self.servers.wait_until_all_serve();
    }
}
