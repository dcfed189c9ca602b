//! Who contends for what, and how much may go wrong.

use lockkeeper_recipes::{decisions::view::ACTIVE, rank::Kind};

use crate::{
    history::Time,
    late::{Late, SERVERS},
    state::State,
};

/// How many contenders there are.
pub const CONTENDERS: usize = 3;

/// Contenders come back for ever only while no server lags by more changes than this.
pub(crate) const LAG: Time = 4;

/// What a contender wants, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A place in a queue: `Mutex`, `RwLock`.
    Queue(Kind),
    /// The plain lock.
    Plain,
    /// One permit of a semaphore.
    Permit,
}

/// How often each thing may go wrong in one run, over all contenders. Everything else may happen at
/// any time: servers lag, writes of a lost connection arrive or do not, events wait, a holder
/// releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Faults {
    /// A connection is lost, with all requests and replies on it.
    pub cuts: u8,
    /// A client is paused, or cut off, until its lease has ended. Its session may expire from then
    /// on.
    pub pauses: u8,
    /// A caller drops its attempt, or its release.
    pub cancels: u8,
    /// An operator deletes a node by hand, or changes the data of a watched one.
    pub by_hand: u8,
    /// A contender that is done starts again.
    pub again: u8,
    /// A server dies of a request, and with it the connections of all clients.
    pub deaths: u8,
    /// The event of a watch is lost, or withheld from a client that may not read the node.
    pub losses: u8,
    /// A server keeps a node whose session is over, until a client leaves this server.
    pub ghosts: u8,
}

impl Faults {
    /// The counts in the order of the fields. Those that are missing at the end are 0.
    #[must_use]
    pub fn of(counts: &[u8]) -> Option<Self> {
        let mut all = [0; 8];
        all.get_mut(..counts.len())?.copy_from_slice(counts);
        let mut all = all.into_iter();
        let mut next = || all.next();
        Some(Self {
            cuts: next()?,
            pauses: next()?,
            cancels: next()?,
            by_hand: next()?,
            again: next()?,
            deaths: next()?,
            losses: next()?,
            ghosts: next()?,
        })
    }

    pub(crate) fn counts(self) -> [u8; 8] {
        [
            self.cuts,
            self.pauses,
            self.cancels,
            self.by_hand,
            self.again,
            self.deaths,
            self.losses,
            self.ghosts,
        ]
    }
}

/// A mistake in which contenders go in circles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Planted {
    /// A waiter that hears of an event deletes its node, and enters the queue again at the end.
    EntersAgain,
    /// A contender that lists the queue and sees others in it, ahead or behind, gives way likewise.
    GivesWay,
    /// A waiter in a queue does not wait for an event, and lists again at once.
    NeverWaits,
}

/// A scenario to explore.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub(crate) roles: [Role; CONTENDERS],
    /// Which of them only try, and do not wait.
    pub(crate) tries: [bool; CONTENDERS],
    /// The client of each contender. Tasks of one client share its session.
    pub(crate) clients: [usize; CONTENDERS],
    /// How many of the contenders of one client that wait in a queue ask the servers.
    pub(crate) active: usize,
    /// The limit of the semaphore, and how often it may be changed; `None` if it is fixed.
    pub(crate) limit: u8,
    pub(crate) limit_changes: Option<u8>,
    pub(crate) faults: Faults,
    /// Whether a contender that waits for long asks whether the node ahead is there.
    asks: bool,
    /// Whether livelocks are looked for. Then contenders that are alike are told apart: a run is
    /// fair to each of them.
    pub(crate) is_fair: bool,
    /// Whether contenders come back for ever.
    pub(crate) is_for_ever: bool,
    planted: Option<Planted>,
    /// The servers, if they are told apart.
    pub(crate) late: Option<Late>,
}

impl Scenario {
    /// Three contenders of a client each, without faults.
    #[must_use]
    pub fn new(roles: [Role; CONTENDERS]) -> Self {
        Self {
            roles,
            tries: [false; CONTENDERS],
            clients: std::array::from_fn(|client| client),
            active: ACTIVE,
            limit: 1,
            limit_changes: None,
            faults: Faults::default(),
            asks: true,
            is_fair: false,
            is_for_ever: false,
            planted: None,
            late: None,
        }
    }

    /// The scenario, in which livelocks are looked for.
    #[must_use]
    pub fn fair(self) -> Self {
        Self {
            is_fair: true,
            ..self
        }
    }

    /// The scenario, in which a contender that has ended may start again, however often.
    #[must_use]
    pub fn for_ever(self) -> Self {
        Self {
            is_for_ever: true,
            ..self
        }
    }

    /// The scenario, with this mistake.
    #[must_use]
    pub fn planted(self, planted: Planted) -> Self {
        Self {
            planted: Some(planted),
            ..self
        }
    }

    /// Three contenders for a permit of a semaphore with this limit, which may be changed so often.
    #[must_use]
    pub fn semaphore(limit: u8, limit_changes: Option<u8>) -> Self {
        Self {
            limit,
            limit_changes,
            ..Self::new([Role::Permit; CONTENDERS])
        }
    }

    /// The scenario with these faults.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// The scenario, in which nobody asks during a long wait.
    #[must_use]
    pub fn without_questions(self) -> Self {
        Self {
            asks: false,
            ..self
        }
    }

    /// The scenario with so many servers, one to three. A write of a lost connection may come late.
    #[must_use]
    pub fn on_servers(self, count: usize) -> Self {
        let late = Some(Late::new(count));
        Self { late, ..self }
    }

    /// The scenario, in which clients dial servers that owe the outcome of a write.
    #[must_use]
    pub fn dialing_any(self) -> Self {
        let dials = [[true; SERVERS]; 1 << SERVERS];
        let late = self.late.map(|late| Late { dials, ..late });
        Self { late, ..self }
    }

    /// The scenario, in which a client forgets the creates that it has looked for and not found.
    #[must_use]
    pub fn forgetting(self) -> Self {
        let looks = false;
        let late = self.late.map(|late| Late { looks, ..late });
        Self { late, ..self }
    }

    /// The scenario, in which only deletes come late.
    #[must_use]
    pub fn with_late_deletes(self) -> Self {
        let creates = false;
        let late = self.late.map(|late| Late { creates, ..late });
        Self { late, ..self }
    }

    /// Whether long waits are modelled: while all events come, they make no difference.
    pub(crate) fn has_doubts(&self) -> bool {
        self.asks && self.faults.losses + self.faults.ghosts > 0
    }

    /// The scenario, in which these contenders only try.
    #[must_use]
    pub fn with_tries(self, tries: [bool; CONTENDERS]) -> Self {
        Self { tries, ..self }
    }

    /// The scenario, in which the first two contenders are tasks of one client.
    #[must_use]
    pub fn with_shared_client(self) -> Self {
        let mut clients = [1; CONTENDERS];
        clients[..2].fill(0);
        Self { clients, ..self }
    }

    /// The scenario, in which all contenders are tasks of one client.
    #[must_use]
    pub fn with_one_client(self) -> Self {
        let clients = [0; CONTENDERS];
        Self { clients, ..self }
    }

    /// The scenario, in which so many contenders of one client ask the servers at a time.
    #[must_use]
    pub fn with_active(self, active: usize) -> Self {
        Self { active, ..self }
    }

    /// Whether contenders make this mistake now. While a server lags by much they do not: there would be
    /// ever more nodes to keep.
    pub(crate) fn is_planted(&self, state: &State, planted: Planted) -> bool {
        self.planted == Some(planted) && state.now <= LAG / 2
    }

    /// Whether a contender that has given way starts again.
    pub(crate) fn restarts(&self) -> bool {
        self.planted.is_some()
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.roles[0] == Role::Plain
    }

    pub(crate) fn is_queue(&self) -> bool {
        !self.is_plain() && !self.is_semaphore()
    }

    pub(crate) fn is_semaphore(&self) -> bool {
        self.roles[0] == Role::Permit
    }

    /// Whether no two contenders are tasks of one client.
    pub(crate) fn has_own_clients(&self) -> bool {
        let mut clients = self.clients.iter().enumerate();
        clients.all(|(i, client)| i == *client)
    }

    /// Whether two contenders differ in nothing but their place.
    pub(crate) fn are_alike(&self, one: usize, other: usize) -> bool {
        let is_own = self.has_own_clients() || self.clients[one] == self.clients[other];
        !self.is_fair
            && is_own
            && self.roles[one] == self.roles[other]
            && self.tries[one] == self.tries[other]
    }

    /// The contenders of a client.
    pub(crate) fn tasks(&self, client: usize) -> impl Iterator<Item = usize> + use<> {
        let clients = self.clients;
        (0..CONTENDERS).filter(move |task| clients[*task] == client)
    }
}
