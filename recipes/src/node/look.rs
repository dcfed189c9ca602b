//! The look for a node whose create may have been applied: the barrier, and the listing behind it.
//!
//! When a connection is lost, the replies to many creates of one client may be lost with it. Its attempts share one look for each
//! directory and connection, because every look receives the whole queue.
//!
//! Invariant: an attempt uses only a look whose barrier leaves on a later connection than its create did. The barrier of an earlier
//! connection may have been ahead of the create, and then the listing proves nothing.
//!
//! Not here: what the barrier is (`identity`), what is done with a node that is found (`life`).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use lockkeeper_proto::{Response, SessionId};
use lockkeeper_session::Error as SessionError;

use super::identity::NodeIdentity;

/// The names in the directory, in order; or the error of the barrier or of the listing, if the reply was one.
type Found = Result<Arc<[String]>, Option<SessionError>>;

/// The looks of a client that its attempts use, by the paths of the directories.
#[derive(Debug, Default)]
struct Looks(Mutex<HashMap<String, Weak<Look>>>);

/// A look for nodes in one directory.
#[derive(Debug)]
pub(super) struct Look {
    /// The barrier leaves on this connection, or on a later one.
    connection: u64,
    found: Shared<BoxFuture<'static, Found>>,
}

impl Look {
    /// The look for this attempt, whose create was lost with its connection.
    pub(super) fn shared(identity: &NodeIdentity) -> Arc<Self> {
        let raw = identity.client.raw();
        let looks = raw.extension::<Looks>();
        let mut looks = looks.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The connection of the create has ended, so it is an earlier one than this.
        let connection = raw.next_connection();
        let path = &identity.directory.server_path;
        let newest = looks.get(path).and_then(Weak::upgrade);
        if let Some(look) = newest
            && look.connection >= connection
            && !look.has_failed()
        {
            return look;
        }
        if looks.len() == looks.capacity() {
            looks.retain(|_, look| look.strong_count() > 0);
        }
        let look = Self::alone(identity, None);
        looks.insert(path.clone(), Arc::downgrade(&look));
        look
    }

    /// A look for this attempt only. It may be bound to a session.
    pub(super) fn alone(identity: &NodeIdentity, within: Option<SessionId>) -> Arc<Self> {
        let client = identity.client.raw().downgrade();
        let connection = client.raw().next_connection();
        let requests = [
            identity.barrier_request(),
            identity.directory.list_request(),
        ];
        let looking = async move {
            let raw = client.raw();
            let raw = within.map_or(raw, |session_id| raw.within(session_id));
            let [barrier, list] = raw.submit_with_backpressure(requests).await;
            match barrier.await {
                Err(error) if !error.is_no_node() => return Err(Some(error)),
                // The barrier has passed: the listing behind it shows everything.
                _ => {}
            }
            let Response::GetChildren(mut list) = list.await? else {
                return Err(None);
            };
            list.children.sort_unstable();
            Ok(list.children.into())
        };
        Arc::new(Self {
            connection,
            found: looking.boxed().shared(),
        })
    }

    fn has_failed(&self) -> bool {
        self.found.peek().is_some_and(Result::is_err)
    }

    /// What it shows.
    pub(super) async fn found(&self) -> Found {
        self.found.clone().await
    }
}
