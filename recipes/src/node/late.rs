//! Creates that a scan has not found: a second net, in case one of them is applied later.
//!
//! A scan trusts the order in which servers apply the writes of a session. A server whose link to
//! its leader hangs may break that order (see `machine::link::servers` in `lockkeeper-session`). Then
//! the node of a create that was given up appears, while its session lives, and blocks all contenders
//! behind it. Only this client can know whose node it is. So it keeps the names of such creates for as
//! long as the session lives, and deletes the nodes that a listing of the directory shows. It uses
//! the listings that its contenders make. It also makes some of its own: on each new connection, a
//! session timeout after that, and whenever a contender there has waited for a session timeout.
//!
//! Invariant: each name is one that is used no more, so a node with it belongs to nobody.
//!
//! Not here: the scan itself (`scan`), how a node is deleted for certain (`clean_up`).

use std::{
    collections::VecDeque,
    mem,
    pin::pin,
    sync::{Arc, Mutex, atomic::Ordering},
};

use lockkeeper_proto::SessionId;
use lockkeeper_session::{
    AsRaw, Client,
    sync::{
        BoxFuture,
        os::lock,
        select::{Either, select},
    },
};

use super::{
    Node,
    directory::{Directory, HasLate},
    identity::NodeIdentity,
};

/// So many names are kept at most. Few creates are ever lost.
const MOST: usize = 64;

/// The creates of a client that were not found.
#[derive(Debug, Default)]
pub(crate) struct LateCreates {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first. They hold clients, so they go with the future that looks for them.
    creates: VecDeque<(SessionId, NodeIdentity)>,
    is_watched: bool,
}

impl LateCreates {
    fn of(directory: &Directory) -> Arc<Self> {
        directory.client.raw().extension()
    }

    /// Mostly not, and then a listing costs nothing here.
    fn are_there(directory: &Directory) -> bool {
        directory.has_late.0.load(Ordering::Relaxed)
    }

    /// A scan has not found this create, whose name is not used again.
    pub(super) fn note(identity: &NodeIdentity) {
        let (client, late) = (identity.client(), Self::of(&identity.directory));
        let has_late = identity.directory.has_late.clone();
        let session = client.raw().look(|now| now.session_id);
        let mut state = lock(&late.state);
        if state.creates.len() == MOST {
            state.creates.pop_front();
        }
        state.creates.push_back((session, identity.clone()));
        has_late.0.store(true, Ordering::Relaxed);
        let is_watched = mem::replace(&mut state.is_watched, true);
        drop(state);
        if !is_watched {
            let watch = Watch {
                late,
                has_late,
                is_over: false,
            };
            (client.raw()).run_in_background(watch.run(client.clone()));
        }
    }

    /// The directory was listed: deletes the nodes that are known here.
    #[inline]
    pub(crate) fn listed<'a, I>(directory: &Directory, names: impl FnOnce() -> I)
    where
        I: Iterator<Item = &'a str>,
    {
        if Self::are_there(directory) {
            Self::find(directory, &mut names());
        }
    }

    /// Does the work of `listed`, compiled once and not for each kind of listing.
    fn find(directory: &Directory, names: &mut dyn Iterator<Item = &str>) {
        let late = Self::of(directory);
        for name in names {
            let mut state = lock(&late.state);
            let is_it = |it: &NodeIdentity| {
                it.directory.server_path == directory.server_path && it.is_named(name)
            };
            let at = state.creates.iter().position(|(_, it)| is_it(it));
            let found = at.and_then(|at| state.creates.remove(at));
            drop(state);
            if let Some((_, identity)) = found {
                let path: &str = &directory.parent;
                tracing::warn!(path, name, "a create was applied after a look for its node");
                Node::found_late(identity, name);
            }
        }
    }

    /// Lists the directory, if a create there was not found. Returns whether it is done.
    pub(crate) fn look(directory: &Directory) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let is_here = |it: &NodeIdentity| it.directory.server_path == directory.server_path;
            let has_one = || {
                let late = Self::of(directory);
                lock(&late.state).creates.iter().any(|(_, it)| is_here(it))
            };
            if !Self::are_there(directory) || !has_one() {
                return true;
            }
            let list = directory.client.raw().submit_one(directory.list_request());
            match list.await.names().await {
                Ok(names) => Self::listed(directory, || names.iter()),
                Err(error) => return error.is_no_node(),
            }
            true
        })
    }

    /// The directories in which creates were not found.
    fn directories(&self) -> Vec<Arc<Directory>> {
        let mut directories: Vec<Arc<Directory>> = Vec::new();
        for (_, NodeIdentity { directory, .. }) in &lock(&self.state).creates {
            if directories
                .iter()
                .all(|it| it.server_path != directory.server_path)
            {
                directories.push(directory.clone());
            }
        }
        directories
    }
}

/// Looks for late creates while there is any.
struct Watch {
    late: Arc<LateCreates>,
    has_late: Arc<HasLate>,
    /// Whether there is none. Another one may look for others by now.
    is_over: bool,
}

impl Watch {
    async fn run(mut self, client: Client) {
        let raw = client.raw();
        let pause = || raw.sleep(client.snapshot().session_timeout);
        // The scan that has not found them was made on the present connection.
        let mut seen = raw.look(|now| now.connections);
        let mut again = Some(pause());
        loop {
            let changed = raw.snapshot_changed();
            let now = client.snapshot();
            if !self.keep(now.session_id) {
                self.is_over = true;
                return;
            }
            let is_new = now.state.is_connected() && now.connections != seen;
            let mut is_due = is_new;
            if let Some(pause) = again.as_mut().filter(|_| !is_new) {
                let either = select(pin!(changed), pause).await;
                is_due = matches!(either, Either::Right(()));
            } else if !is_new {
                changed.await;
            }
            if is_due {
                let mut is_done = !is_new;
                seen = now.connections;
                for directory in self.late.directories() {
                    is_done &= LateCreates::look(&directory).await;
                }
                again = (!is_done).then(pause);
            }
        }
    }

    /// Forgets the creates of former sessions. Returns whether there are others.
    fn keep(&self, session: SessionId) -> bool {
        let mut state = lock(&self.late.state);
        state.creates.retain(|(of, _)| *of == session);
        state.is_watched = !state.creates.is_empty();
        (self.has_late.0).store(state.is_watched, Ordering::Relaxed);
        state.is_watched
    }
}

/// The client has ended.
impl Drop for Watch {
    fn drop(&mut self) {
        if !self.is_over {
            self.keep(SessionId::NONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_proto::{CreateMode, OpCode};
    use lockkeeper_server::{Server, When};

    use super::*;
    use crate::{LockMeter, Mutex as LockMutex, RwLock, order::name::Kind};

    async fn client(server: &Server, timeout: Duration) -> Client {
        let builder = Client::builder(&server.connect_string())
            .unwrap()
            .session_timeout(timeout);
        builder.connect().await.unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    /// A directory with as many creates of this client that were not found. The names of their
    /// nodes begin with these texts.
    async fn noted(
        client: &Client,
        meter: &LockMeter,
        count: usize,
    ) -> (Arc<Directory>, Vec<String>) {
        let mut directory = Directory::new(client, "/lock", None, Kind::Mutex).unwrap();
        Arc::get_mut(&mut directory).unwrap().set_meter(meter);
        client
            .create_all("/lock", "", CreateMode::Persistent)
            .await
            .ok();
        let prefixes = (0..count).map(|_| {
            let identity = NodeIdentity::new(directory.clone(), Kind::Mutex);
            LateCreates::note(&identity);
            identity.prefix()
        });
        let prefixes = prefixes.collect();
        (directory, prefixes)
    }

    /// The server applies such a create after all.
    async fn apply(client: &Client, prefix: &str) -> String {
        let mode = CreateMode::EphemeralSequential;
        let path = format!("/lock/{prefix}");
        client.create(&path, "", mode).await.unwrap().path
    }

    async fn reconnect(server: &Server, client: &Client) {
        let before = client.snapshot().connections;
        server.faults().cut(client.snapshot().session_id);
        while client.snapshot().connections == before || client.exists("/").await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn is_gone(client: &Client, path: &str) -> bool {
        for _ in 0..3000 {
            if client.exists(path).await.unwrap().is_none() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        false
    }

    /// Its only client may have no contender there any more.
    #[tokio::test]
    async fn a_new_connection_finds_the_nodes_of_late_creates() {
        let server = Server::start().await.unwrap();
        let (ours, other) = (client(&server, LONG).await, client(&server, LONG).await);
        let meter = LockMeter::new("late");
        let (_directory, prefixes) = noted(&ours, &meter, 2).await;
        for (at, prefix) in prefixes.iter().enumerate() {
            // The name is kept for as long as it takes.
            reconnect(&server, &ours).await;
            let late = apply(&ours, prefix).await;
            assert!(other.exists(&late).await.unwrap().is_some());
            reconnect(&server, &ours).await;
            assert!(is_gone(&other, &late).await);
            assert_eq!(meter.metrics().cleaned_up, at as u64 + 1);
        }
    }

    #[tokio::test]
    async fn a_listing_of_a_contender_finds_the_node_of_a_late_create() {
        let server = Server::start().await.unwrap();
        let (ours, other) = (client(&server, LONG).await, client(&server, LONG).await);
        let (_directory, prefixes) = noted(&ours, &LockMeter::new("late"), 2).await;
        let mutex = LockMutex::new(&ours, "/lock").unwrap();
        apply(&ours, &prefixes[0]).await;
        let guard = mutex.try_lock_for(LONG / 4).await.unwrap();
        guard.release().await.unwrap();
        // A try makes no node.
        let late = apply(&ours, &prefixes[1]).await;
        assert!(mutex.try_lock().await.unwrap().is_none());
        assert!(is_gone(&other, &late).await);
    }

    /// The look is followed by another one a session timeout later, without any contender; and who
    /// waits for others looks as often.
    #[tokio::test]
    async fn a_late_create_is_found_within_a_session_timeout() {
        let server = Server::start().await.unwrap();
        let short = Duration::from_millis(400);
        for waits in [false, true] {
            let (ours, other) = (client(&server, short).await, client(&server, LONG).await);
            let (directory, prefixes) = noted(&ours, &LockMeter::new("late"), 1).await;
            if waits {
                // The look of the client alone is over.
                tokio::time::sleep(3 * short).await;
            }
            let late = apply(&ours, &prefixes[0]).await;
            if waits {
                let mut stall = crate::queue::stall::StallCheck::default();
                let role = crate::queue::stall::Role::Numbered(7);
                assert!(!stall.asks(&directory, role, &[]).await);
            }
            assert!(is_gone(&other, &late).await);
        }
    }

    #[tokio::test]
    async fn a_create_that_a_look_has_not_found_is_deleted_when_it_comes() {
        let server = Server::start().await.unwrap();
        let (ours, other) = (client(&server, LONG).await, client(&server, LONG).await);
        let mutex = LockMutex::new(&ours, "/lock").unwrap();
        mutex.lock().await.unwrap().release().await.unwrap();
        server.faults().cut_before(When::create());
        let guard = mutex.lock().await.unwrap();
        let late = LateCreates::of(&Directory::new(&ours, "/lock", None, Kind::Mutex).unwrap());
        let prefix = {
            let mut state = lock(&late.state);
            let [(session, identity)] = state.creates.make_contiguous() else {
                panic!("one create was lost");
            };
            assert_eq!(*session, ours.snapshot().session_id);
            identity.prefix()
        };
        assert!(!guard.path().contains(&prefix));
        let node = apply(&ours, &prefix).await;
        reconnect(&server, &ours).await;
        assert!(is_gone(&other, &node).await);
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }

    /// The name that was not found is not that of the node that is there now.
    #[tokio::test]
    async fn a_downgrade_that_was_repeated_keeps_its_node() {
        let server = Server::start().await.unwrap();
        let ours = client(&server, LONG).await;
        let lock = RwLock::new(&ours, "/lock").unwrap();
        let writer = lock.write().await.unwrap();
        server.faults().cut_before(When::op(OpCode::MULTI));
        let reader = writer.downgrade().await.unwrap();
        let other = lock.read().await.unwrap();
        reconnect(&server, &ours).await;
        reader.confirm().await.unwrap();
        other.confirm().await.unwrap();
        assert_eq!(server.faults().pending(), 0);
    }

    /// Nobody can apply anything in a session that is over.
    #[tokio::test]
    async fn few_names_are_kept_and_none_outlives_its_session() {
        let server = Server::start().await.unwrap();
        let ours = client(&server, LONG).await;
        let meter = LockMeter::new("late");
        let (directory, prefixes) = noted(&ours, &meter, MOST + 1).await;
        let kept = |directory: &Directory| lock(&LateCreates::of(directory).state).creates.len();
        assert_eq!(kept(&directory), MOST);
        let newest = &prefixes[MOST];
        assert!(
            lock(&LateCreates::of(&directory).state)
                .creates
                .iter()
                .any(|(_, it)| it.prefix() == *newest)
        );
        server.faults().expire(ours.snapshot().session_id);
        while kept(&directory) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let listings = server.counters().requests_of(OpCode::GET_CHILDREN);
        LateCreates::look(&directory).await;
        assert_eq!(
            server.counters().requests_of(OpCode::GET_CHILDREN),
            listings
        );
    }
}
