//! What can happen next, by name.

use crate::{
    history::Time,
    name::Marker,
    state::{Node, State},
};

/// One step. `usize` is a contender, unless something else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It looks, or creates its node, or enters the queue of a semaphore.
    Start(usize),
    /// The servers commit the write under way.
    Commit(usize),
    /// The servers commit a write that was under way when the connection was lost.
    CommitLate(usize),
    /// The server answers the first request under way, from this point of the history.
    Reply(usize, Time),
    /// The server to which all clients are connected dies.
    Die,
    /// The event of one of its watches arrives.
    Tell(usize, usize),
    /// The event of one of its watches is lost.
    Lose(usize, usize),
    /// The event arrives that a waiter for a permit waits for.
    TellChange(usize),
    /// The event is lost that a waiter for a permit waits for.
    LoseChange(usize),
    /// It has waited for long, and asks the leader whether the node ahead is there. It is not.
    Ask(usize),
    /// Another task of its client has told it that events are missing, or it acts on what that one has
    /// learned.
    Doubt(usize),
    /// Its future is polled, and does something.
    Poll(usize),
    Release(usize),
    Downgrade(usize),
    /// Its future is dropped.
    Cancel(usize),
    Again(usize),
    /// The place of a semaphore's queue with this index among the nodes is deleted.
    LeaveQueue(usize),
    /// The connection of a client is lost.
    Cut(usize),
    /// A server closes the connection of a client whose session is over.
    Close(usize),
    Connect(usize),
    /// A client gives up a dial of the server with this number. It may be the one with a late write.
    Dial(usize, usize),
    /// The client connects again to the server with a ghost that it came from.
    ConnectAgain(usize),
    /// The client leaves a server that shows what its leader does not have.
    Leave(usize),
    /// The client connects, but its tasks are not polled before. What they submit, they submit in
    /// the new session.
    ConnectLate(usize),
    /// A client hears of no server until its lease has ended.
    Pause(usize),
    /// The servers end the session of a client.
    Expire(usize),
    /// The servers end the session of a client, but that of the second client keeps the node with
    /// this index.
    ExpireBut(usize, usize, usize),
    /// A ping of a client is answered: its lease is renewed.
    Ping(usize),
    /// An operator deletes the node with this index.
    DeleteByHand(usize),
    /// An operator changes the data of the node of a watch.
    Touch(usize, usize),
    SetLimit(u8),
    /// The limit was 0, and is raised in the end.
    RaiseLimit(u8),
}

/// A step, the phases that it changes, and the live nodes after it.
pub(crate) fn describe(before: &State, action: Action, after: &State) -> String {
    let pairs = before.contenders.iter().zip(&after.contenders).enumerate();
    let changed = pairs.filter(|(_, (before, after))| before.phase != after.phase);
    let changed = changed.map(|(i, (_, after))| format!("{}: {:?}", who(i), after.phase));
    let changed: Vec<_> = changed.collect();
    let live = after.nodes().iter().filter(|node| node.is_live());
    let live: Vec<_> = live.map(|node| name_of(*node)).collect();
    let (step, changed) = (format!("{action:?}"), changed.join(", "));
    format!("{step:<20} {changed:<24} [{}]", live.join(" "))
}

fn who(i: usize) -> char {
    char::from(b"ABC"[i])
}

/// A node in words: its owner, its role, its number.
fn name_of(node: Node) -> String {
    let former = if node.is_former { "(former)" } else { "" };
    let owner = who(usize::from(node.owner));
    let role = match node.name.marker {
        _ if node.is_place => "place",
        Marker::Lock => "lock",
        Marker::Write => "write",
        Marker::Read => "read",
        Marker::Lease => "lease",
        Marker::Plain => return format!("{owner}.lock{former}"),
    };
    format!("{owner}.{role}.{}{former}", node.name.number)
}
