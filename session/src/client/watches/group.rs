//! Watches of several nodes, whose events come in the order in which the server sent them.
//!
//! Single watchers are polled one by one, so that their order is lost: an event may arrive between
//! two polls. A group has one queue for all.

use std::{collections::VecDeque, future::poll_fn, sync::Arc};

use lockkeeper_proto::{EventType, OpCode, path};

use crate::{
    Error,
    client::{Client, sync::mailbox::Mailbox},
    machine::{Event, WatchId},
};

/// One-shot watches of several nodes with one queue of events. Made by
/// [`Raw::watch_group`](crate::Raw::watch_group).
///
/// # Ordering
/// The events come in the order in which the server sent them. They come before the reply of any
/// request that shows the change, but not before all watches of the same call are set. Events of
/// different watches that make up for an outage come in any order.
///
/// # Cancel safety
/// Dropping the group ends all its watches.
#[derive(Debug)]
pub struct WatchGroup {
    /// It does not keep the session open.
    client: Client,
    events: Arc<GroupEvents>,
}

impl WatchGroup {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            events: Arc::default(),
        }
    }

    /// Watches existing nodes of a directory with one request, which is sent immediately; for very
    /// many nodes with several. `directory` is the path with which the server names it.
    ///
    /// Each watch gets one event, by the rule of
    /// [`Machine::watch_nodes`](crate::machine::Machine::watch_nodes). So no change of a node is
    /// missed that was read in this session before the call. If you know the node from elsewhere,
    /// or from a reply that came after the call, read it then.
    ///
    /// The watches outlive reconnects and end with the session.
    pub fn watch(&self, directory: &str, names: Vec<Arc<str>>) {
        self.client.makes(OpCode::SET_WATCHES);
        self.client.shared.act(|core| {
            let paths = names.iter().map(|name| path::join(directory, name));
            let ids = core.watch_group(paths, &self.events);
            self.events.look(|events| {
                // Most groups never watch more.
                events.watches.reserve_exact(names.len());
                events.watches.extend(ids.into_iter().zip(names));
            });
        });
    }

    /// Gives up the watches on all other nodes.
    pub fn retain(&self, is_wanted: impl Fn(&str) -> bool) {
        self.keep(&is_wanted);
    }

    /// Gives up watches for [`retain`](Self::retain): compiled once, and not for each caller.
    fn keep(&self, is_wanted: &dyn Fn(&str) -> bool) {
        let given_up = self.events.look(|events| {
            let mut given_up = Vec::new();
            events.watches.retain(|(id, name)| {
                let is_kept = is_wanted(name);
                if !is_kept {
                    given_up.push(*id);
                }
                is_kept
            });
            given_up
        });
        if !given_up.is_empty() {
            self.client
                .shared
                .act(|core| given_up.into_iter().for_each(|id| core.cancel(id)));
        }
    }

    /// The next event, if one has arrived.
    ///
    /// # Errors
    /// The error that has ended a watch.
    #[must_use = "an event is reported once"]
    pub fn try_next(&self) -> Option<Result<GroupEvent, Error>> {
        self.events.look(Events::pop)
    }

    /// Takes events as [`try_next`](Self::try_next) does, and does not keep the watches of the
    /// group.
    #[doc(hidden)]
    pub fn events(&self) -> impl Fn() -> Option<Result<GroupEvent, Error>> + Send + Sync + use<> {
        let events = self.events.clone();
        move || events.look(Events::pop)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// The error that has ended a watch.
    ///
    /// # Cancel safety
    /// No event is lost when the future is dropped.
    pub fn next(&self) -> impl Future<Output = Result<GroupEvent, Error>> + Send {
        poll_fn(|cx| self.events.poll(cx, Events::pop))
    }
}

impl Drop for WatchGroup {
    fn drop(&mut self) {
        self.keep(&|_| false);
    }
}

/// An event of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupEvent {
    /// The name of the node in its directory.
    pub name: Arc<str>,
    /// What happened to it.
    pub event_type: EventType,
}

/// The events of a group: the driver fills in what has fired, and the group takes it.
pub(crate) type GroupEvents = Mailbox<Events>;

#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The watches that have not fired, with the names of their nodes in the directory.
    watches: Vec<(WatchId, Arc<str>)>,
    pub(crate) fired: VecDeque<(WatchId, Result<Event, Error>)>,
}

impl Events {
    /// The next event of a watch that was not given up.
    fn pop(&mut self) -> Option<Result<GroupEvent, Error>> {
        while let Some((id, result)) = self.fired.pop_front() {
            let Some(at) = self.watches.iter().position(|(watch, _)| *watch == id) else {
                continue;
            };
            let (_, name) = self.watches.swap_remove(at);
            return Some(result.map(|Event { event_type, .. }| GroupEvent { name, event_type }));
        }
        None
    }
}
