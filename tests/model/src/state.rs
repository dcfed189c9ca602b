//! One state of the world: the history of the nodes, and what each contender and its session know
//! of it.
//!
//! The servers' history is one sequence of transactions. A server that lags shows an earlier point
//! of it. So a node has two times, of its creation and of its deletion, and a session has a time up
//! to which it has seen the history. Nothing else of the servers is kept: a reply that is under way
//! is one that a lagging server has yet to give. Only a write is told apart from its reply.
//!
//! What a contender decides is in the machines of the recipes: [`NodeLife`], [`Turn`],
//! [`PlainTurn`], [`PermitTurn`].

use lockkeeper_recipes::decisions::{
    life::{End, NodeLife},
    permit_turn::PermitTurn,
    plain_turn::PlainTurn,
    turn::Turn,
};

use crate::{
    history::{NEVER, Time},
    late::{SERVERS, Server},
    name::{Marker, Name},
    scenario::{CONTENDERS, Faults, Role, Scenario},
    view::{Known, Standing},
    violation::Violation,
};

/// More nodes than a run of any scenario has at a time.
pub(crate) const NODES: usize = 12;
/// More limits than a run has at a time.
pub(crate) const LIMITS: usize = 4;

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) name: Name,
    pub(crate) owner: u8,
    /// Whether it is a place in the queue of a semaphore.
    pub(crate) is_place: bool,
    /// Of an attempt that its owner has given up.
    pub(crate) is_former: bool,
    /// Of a place in the queue: its delete was sent, and is repeated until it is done.
    pub(crate) is_leaving: bool,
    pub(crate) born: Time,
    pub(crate) died: Time,
    /// The clients, a bit each, whose servers still keep the node although its session is over.
    pub(crate) ghost: u8,
}

impl Node {
    pub(crate) const NOBODY: Self = Self {
        name: Name::PLAIN,
        owner: 0,
        is_place: false,
        is_former: false,
        is_leaving: false,
        born: 0,
        died: 0,
        ghost: 0,
    };

    pub(crate) fn is_live(self) -> bool {
        self.died == NEVER
    }

    pub(crate) fn is_shown(self, view: Time) -> bool {
        self.born <= view && view < self.died
    }

    /// Whether it is a ghost at the server of this client.
    pub(crate) fn is_ghost(self, client: usize) -> bool {
        self.ghost >> client & 1 == 1
    }
}

/// A watch of a contender on a node, as the server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Watch {
    Empty,
    /// Its request is under way.
    Requested(Name),
    /// It was set on an earlier connection. The first request of the next connection sets it again.
    Restored(Name),
    /// Set on the node with this name that was created at this time.
    Armed(Name, Time),
    /// Its event was lost. The client does not know.
    Lost(Name),
    /// The server found that the node was deleted, or changed, when it set the watch again. Such
    /// events come in any order.
    Due(Event),
}

impl Watch {
    pub(crate) fn name(self) -> Option<Name> {
        match self {
            Self::Empty => None,
            Self::Requested(name)
            | Self::Restored(name)
            | Self::Armed(name, _)
            | Self::Lost(name) => Some(name),
            Self::Due(event) => Some(event.name),
        }
    }

    /// Whether its request is under way.
    pub(crate) fn is_requested(self) -> bool {
        matches!(self, Self::Requested(_) | Self::Restored(_))
    }

    fn name_mut(&mut self) -> Option<&mut Name> {
        match self {
            Self::Empty => None,
            Self::Requested(name)
            | Self::Restored(name)
            | Self::Armed(name, _)
            | Self::Lost(name) => Some(name),
            Self::Due(event) => Some(&mut event.name),
        }
    }
}

/// An event of a watch. If the node was not deleted, its data were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Event {
    pub(crate) name: Name,
    pub(crate) is_deleted: bool,
}

/// How far a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// It has sent nothing.
    Idle,
    /// A try that looks before it creates anything.
    Trying,
    /// In the queue of a semaphore.
    Queueing,
    /// Its node is being created.
    Entering,
    /// Its node exists, or it waits for that of another contender: `turn` decides.
    Deciding,
    /// It was granted the lock.
    Holding,
    /// Its node is being deleted.
    Leaving,
    /// Nothing is left to do.
    Done,
}

/// The request of a node's life that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Request {
    Nothing,
    Create,
    /// Creates a node whose name the contender has given up.
    CreateFormer,
    /// Creates a reader's node and deletes this writer's.
    Replace(Name),
    /// The barrier, and the listing behind it.
    Find,
    Check(Name),
    Delete(Name),
}

impl Request {
    pub(crate) fn is_write(self) -> bool {
        !matches!(self, Self::Nothing | Self::Check(_))
    }

    /// The node that it names.
    pub(crate) fn name(&mut self) -> Option<&mut Name> {
        match self {
            Self::Replace(name) | Self::Check(name) | Self::Delete(name) => Some(name),
            Self::Nothing | Self::Create | Self::CreateFormer | Self::Find => None,
        }
    }
}

/// A read that a contender waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Read {
    /// The listing of the queue, or of the permits; or the look at the plain node.
    Look,
    /// Whether each of these nodes is there.
    Each([Option<Name>; CONTENDERS]),
    /// Whether the own node is there, to renew the lease.
    Renew,
    /// The permits, with a watch.
    WatchedPermits,
    Limit,
}

/// The reply to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reply {
    /// It is under way.
    Pending,
    /// It was lost with the connection.
    Lost,
    /// It has come, and shows this point of the history.
    At(Time),
}

/// What decides for a contender whose node exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Decider {
    Nothing,
    Queue(Turn<Name>),
    Plain(PlainTurn),
    Permit(PermitTurn),
}

/// A contender.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent: what depends is in `Phase`"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Contender {
    pub(crate) phase: Phase,
    pub(crate) life: NodeLife<Name, ()>,
    pub(crate) turn: Decider,
    /// The caller has gone.
    pub(crate) is_abandoned: bool,
    /// The client knows that the session of the node is over.
    pub(crate) is_lost: bool,
    pub(crate) request: Request,
    /// When the write under way was committed.
    pub(crate) committed: Time,
    /// Whether the committed write did what it was to do.
    pub(crate) succeeded: bool,
    /// The node that the committed write has created.
    pub(crate) created: Name,
    /// The write of a lost connection that is late at each server.
    pub(crate) floating: [Request; SERVERS],
    /// The read under way, or its reply, not handled yet.
    pub(crate) read: Option<(Read, Reply)>,
    /// A try: the last listing showed nobody ahead.
    pub(crate) saw_free: bool,
    /// The first listing of the queue was handled.
    pub(crate) is_placed: bool,
    /// Where it stands in the view of its client.
    pub(crate) standing: Standing,
    /// It waits for others of its client to leave, and asks the servers for nothing.
    pub(crate) rests: bool,
    /// The watches on the own node and those ahead; of the plain lock, on the node of the holder.
    pub(crate) watches: [Watch; 3],
    /// Events that have arrived and were not handled, oldest first.
    pub(crate) events: [Option<Event>; 3],
    /// The place in the queue of a semaphore.
    pub(crate) place: Option<Name>,
    /// The permits, as they were listed.
    pub(crate) permits_at: Time,
    /// From which point on the permits are watched, and the limit.
    pub(crate) permits_since: Time,
    pub(crate) limit_since: Time,
    /// The change that a waiter for a permit waits for has been told.
    pub(crate) is_change_told: bool,
    /// The node that is gone, as the leader says, until a listing was made.
    pub(crate) gone: Option<Name>,
    /// The ghost that the last listing of the permits showed.
    pub(crate) phantom: Option<Name>,
    /// What is under way was sent before the lease ended: its reply does not renew the lease.
    pub(crate) is_stale: bool,
    /// What is under way was sent in a session that was over by then: nobody will answer.
    pub(crate) is_mute: bool,
}

impl Contender {
    pub(crate) fn idle(role: Role) -> Self {
        Self {
            phase: Phase::Idle,
            life: settled(role),
            turn: Decider::Nothing,
            is_abandoned: false,
            is_lost: false,
            request: Request::Nothing,
            committed: NEVER,
            succeeded: false,
            created: Name::PLAIN,
            floating: [Request::Nothing; SERVERS],
            read: None,
            saw_free: false,
            is_placed: false,
            standing: Standing::Apart,
            rests: false,
            watches: [Watch::Empty; 3],
            events: [None; 3],
            place: None,
            permits_at: NEVER,
            permits_since: NEVER,
            limit_since: NEVER,
            is_change_told: false,
            gone: None,
            phantom: None,
            is_stale: false,
            is_mute: false,
        }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Done)
    }

    /// Its node, while it is known to exist.
    pub(crate) fn node(&self) -> Option<Name> {
        self.life.node().map(|node| node.name)
    }

    /// Whether it takes the lock for held while its lease is valid.
    pub(crate) fn claims(&self) -> bool {
        let is_replacing = self.phase == Phase::Entering && self.turn == Decider::Nothing;
        !self.is_abandoned && (self.phase == Phase::Holding || is_replacing)
    }

    /// Adds an event behind those that have arrived.
    pub(crate) fn tell(&mut self, event: Event) {
        let free = self.events.iter().position(Option::is_none);
        self.events[free.expect("one event for each watch")] = Some(event);
    }

    /// Takes the oldest event.
    pub(crate) fn take_event(&mut self) -> Option<Event> {
        let event = self.events[0].take();
        self.events.rotate_left(1);
        event
    }

    /// Forgets what belongs to waiting for a turn.
    pub(crate) fn end_turn(&mut self) {
        *self = Self {
            turn: Decider::Nothing,
            read: None,
            is_placed: false,
            is_lost: false,
            standing: Standing::Apart,
            rests: false,
            watches: [Watch::Empty; 3],
            events: [None; 3],
            permits_at: NEVER,
            permits_since: NEVER,
            limit_since: NEVER,
            is_change_told: false,
            gone: None,
            phantom: None,
            ..*self
        };
    }

    /// Visits each name of a node.
    pub(crate) fn each_name(&mut self, mut visit: impl FnMut(&mut Name)) {
        self.life.rename(&mut visit);
        if let Decider::Queue(turn) = &mut self.turn {
            turn.rename(&mut visit);
        }
        self.request.name().into_iter().for_each(&mut visit);
        let floating = self.floating.iter_mut().filter_map(Request::name);
        floating.for_each(&mut visit);
        visit(&mut self.created);
        if let Some((Read::Each(nodes), _)) = &mut self.read {
            nodes.iter_mut().flatten().for_each(&mut visit);
        }
        self.place.iter_mut().for_each(&mut visit);
        self.gone.iter_mut().for_each(&mut visit);
        self.phantom.iter_mut().for_each(&mut visit);
        let watched = self.watches.iter_mut().filter_map(Watch::name_mut);
        watched.for_each(&mut visit);
        let events = self.events.iter_mut().flatten();
        events.for_each(|event| visit(&mut event.name));
    }
}

/// A life in which nothing is left to do.
pub(crate) fn settled(role: Role) -> NodeLife<Name, ()> {
    let mut life = NodeLife::new(role == Role::Plain);
    life.settle(End::NeverCreated);
    life
}

/// A session, and its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Session {
    /// A connection is there.
    pub(crate) is_up: bool,
    /// The number of the connection, or of the last one.
    pub(crate) connection: u8,
    /// How much of the history it has seen.
    pub(crate) view: Time,
    /// The lease is valid, by the client's clock.
    pub(crate) has_lease: bool,
    /// When the servers ended it, unknown to the client.
    pub(crate) expired: Time,
    /// The client is about to leave its server.
    pub(crate) is_leaving: bool,
    /// The server that the client has dialed last.
    pub(crate) at: u8,
    pub(crate) servers: [Server; SERVERS],
    /// What the client's tasks know of the queue.
    pub(crate) known: Known,
}

impl Session {
    pub(crate) const NEW: Self = Self {
        is_up: true,
        connection: 1,
        view: 0,
        has_lease: true,
        expired: NEVER,
        is_leaving: false,
        at: 0,
        servers: [Server::NEW; SERVERS],
        known: Known::NONE,
    };

    pub(crate) fn lives(self) -> bool {
        self.expired == NEVER
    }
}

/// What the limit of a semaphore is from some point of the history on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Limit {
    pub(crate) value: u8,
    pub(crate) born: Time,
}

/// The world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) contenders: [Contender; CONTENDERS],
    pub(crate) sessions: [Session; CONTENDERS],
    pub(crate) nodes: [Node; NODES],
    pub(crate) node_count: u8,
    pub(crate) limits: [Limit; LIMITS],
    pub(crate) limit_count: u8,
    /// How many transactions there were.
    pub(crate) now: Time,
    /// What may still go wrong.
    pub(crate) faults: Faults,
    /// How often the limit may still be changed.
    pub(crate) limit_changes: u8,
    /// What was seen to be wrong in the last step.
    pub(crate) violation: Option<Violation>,
}

impl State {
    pub(crate) fn initial(scenario: &Scenario) -> Self {
        let value = scenario.limit;
        Self {
            contenders: scenario.roles.map(Contender::idle),
            sessions: [Session::NEW; CONTENDERS],
            nodes: [Node::NOBODY; NODES],
            node_count: 0,
            limits: [Limit { value, born: 0 }; LIMITS],
            limit_count: 1,
            now: 0,
            faults: scenario.faults,
            limit_changes: scenario.limit_changes.unwrap_or(0),
            violation: None,
        }
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes[..usize::from(self.node_count)]
    }

    pub(crate) fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes[..usize::from(self.node_count)]
    }

    /// The nodes of the lock that this point of the history shows.
    pub(crate) fn shown(&self, view: Time) -> impl Iterator<Item = &Node> + Clone {
        let nodes = self.nodes().iter();
        nodes.filter(move |node| !node.is_place && node.is_shown(view))
    }

    /// The nodes of the lock that the server of this client shows from this point of the history.
    /// A ghost hides a later node with its name.
    pub(crate) fn shown_to(
        &self,
        client: usize,
        view: Time,
    ) -> impl Iterator<Item = &Node> + Clone {
        let nodes = self.nodes().iter().filter(|node| !node.is_place);
        let is_ghost = move |node: &&Node| node.is_ghost(client) && node.born <= view;
        let ghosts = nodes.clone().filter(is_ghost);
        nodes.filter(move |node| {
            let mut ghosts = ghosts.clone();
            match ghosts.find(|ghost| ghost.name == node.name) {
                Some(ghost) => *ghost == **node,
                None => node.is_shown(view),
            }
        })
    }

    /// The node with this name that the server of this client shows from this point of the history.
    pub(crate) fn node_shown(&self, client: usize, name: Name, view: Time) -> Option<&Node> {
        let mut shown = self.shown_to(client, view);
        shown.find(|node| node.name == name)
    }

    /// The server of this client has no ghosts, or the client has left it.
    pub(crate) fn lay_ghosts(&mut self, client: usize) {
        let nodes = self.nodes_mut().iter_mut();
        nodes.for_each(|node| node.ghost &= !(1 << client));
    }

    /// The node with this name that this point of the history shows.
    pub(crate) fn node_at(&self, name: Name, view: Time) -> Option<&Node> {
        self.shown(view).find(|node| node.name == name)
    }

    /// When the node in a queue with this name was deleted: never, if it exists.
    pub(crate) fn died(&self, name: Name) -> Time {
        let mut nodes = self.nodes().iter().filter(|node| !node.is_place);
        nodes
            .find(|node| node.name == name)
            .map_or(0, |node| node.died)
    }

    /// When the place in the queue of a semaphore with this name was deleted: never, if it exists.
    pub(crate) fn place_died(&self, name: Name) -> Time {
        let mut places = self.nodes().iter().filter(|node| node.is_place);
        places
            .find(|node| node.name == name)
            .map_or(0, |node| node.died)
    }

    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limits[..usize::from(self.limit_count)]
    }

    /// The limit at this point of the history.
    pub(crate) fn limit_at(&self, view: Time) -> u8 {
        let mut before = self.limits().iter().filter(|limit| limit.born <= view);
        before.next_back().map_or(0, |limit| limit.value)
    }

    pub(crate) fn is_over(&self) -> bool {
        let is_leaving = |node: &Node| node.is_live() && node.is_leaving;
        self.contenders
            .iter()
            .all(|contender| contender.phase == Phase::Done)
            && !self.nodes().iter().any(is_leaving)
    }

    /// Creates a node in a transaction of its own.
    pub(crate) fn create(&mut self, owner: usize, marker: Marker, is_place: bool) -> Name {
        let numbers = self.nodes().iter().map(|node| node.name.number);
        let number = numbers.max().map_or(0, |highest| highest + 1);
        let name = if marker == Marker::Plain {
            Name::PLAIN
        } else {
            Name::new(marker, number)
        };
        self.now += 1;
        self.insert(owner, name, is_place);
        name
    }

    /// Adds a node that the present transaction creates.
    pub(crate) fn insert(&mut self, owner: usize, name: Name, is_place: bool) {
        self.nodes[usize::from(self.node_count)] = Node {
            name,
            owner: u8::try_from(owner).expect("few contenders"),
            is_place,
            born: self.now,
            died: NEVER,
            ..Node::NOBODY
        };
        self.node_count += 1;
    }

    /// Deletes the node with this name in a transaction of its own. Whether it existed.
    pub(crate) fn delete(&mut self, name: Name) -> bool {
        let is_it = |node: &Node| node.is_live() && !node.is_place && node.name == name;
        let at = self.nodes().iter().position(is_it);
        if let Some(at) = at {
            self.delete_at(at);
        }
        at.is_some()
    }

    /// Deletes the node at this place of `nodes` in a transaction of its own.
    pub(crate) fn delete_at(&mut self, at: usize) {
        self.now += 1;
        self.nodes[at].died = self.now;
    }

    /// Whether the client has nothing to do.
    pub(crate) fn is_idle(&self, scenario: &Scenario, client: usize) -> bool {
        let is_leaving = |node: &Node| {
            node.is_leaving && node.is_live() && scenario.clients[usize::from(node.owner)] == client
        };
        let mut tasks = scenario.tasks(client);
        let is_idle =
            |it: &Contender| it.is_at_rest() && it.floating == [Request::Nothing; SERVERS];
        tasks.all(|task| is_idle(&self.contenders[task])) && !self.nodes().iter().any(is_leaving)
    }
}
