//! The scan for a node whose create may have been applied: the barrier, and the listing behind it.
//!
//! When a connection is lost, the replies to many creates of one client may be lost with it. Its
//! attempts share one scan for each directory and connection, because every scan receives the whole
//! queue.
//!
//! Invariant: an attempt uses only a scan whose barrier leaves on a later connection than its
//! create did. The barrier of an earlier connection may have been ahead of the create, and then the
//! listing proves nothing.
//!
//! Not here: what the barrier is (`identity`), what is done with a node that is found (`life`).

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use lockkeeper_proto::SessionId;
use lockkeeper_session::{AsRaw, Client, Error as SessionError, ErrorKind, sync::Notify};

use super::{identity::NodeIdentity, late::LateCreates};
use crate::{common::Common, order::listing::ListedName};

/// The names in the directory, in order; or the error of the barrier or of the listing, if the
/// reply was one.
pub(super) type Found = Result<Arc<[(i64, ListedName)]>, Option<SessionError>>;

/// The newest scan for nodes in a directory that the attempts of a client use.
type Newest = Mutex<Weak<Scan>>;

/// A scan for nodes in one directory. The client's task makes it: each attempt that waits for it
/// may be given up.
#[derive(Debug)]
pub(super) struct Scan {
    /// The barrier leaves on this connection, or on a later one.
    connection: u64,
    found: OnceLock<Found>,
    /// Wakes the attempts. Not under a lock: a waker may poll its attempt.
    is_made: Notify,
    /// Where other attempts find it.
    _newest: Option<Arc<Newest>>,
}

impl Scan {
    /// The scan for this attempt, whose create was lost with its connection.
    pub(super) fn shared(identity: &NodeIdentity) -> Arc<Self> {
        let client = identity.client();
        let newest = Common::at::<Newest>(client, "scan", &identity.directory.server_path);
        let mut former = newest.lock().unwrap_or_else(PoisonError::into_inner);
        let scan = Self::next(client, Some(newest.clone()));
        // The connection of the create has ended, so it is an earlier one than that of the new
        // scan.
        if let Some(shared) = former.upgrade() {
            if shared.connection >= scan.connection && !shared.has_failed() {
                return shared;
            }
        }
        *former = Arc::downgrade(&scan);
        drop(former);
        scan.begin(identity, None);
        scan
    }

    /// A scan for this attempt only. It may be bound to a session.
    pub(super) fn alone(identity: &NodeIdentity, within: Option<SessionId>) -> Arc<Self> {
        let scan = Self::next(identity.client(), None);
        scan.begin(identity, within);
        scan
    }

    /// A scan that begins now.
    fn next(client: &Client, newest: Option<Arc<Newest>>) -> Arc<Self> {
        Arc::new(Self {
            connection: client.raw().next_connection(),
            found: OnceLock::new(),
            is_made: Notify::new(),
            _newest: newest,
        })
    }

    fn begin(self: &Arc<Self>, identity: &NodeIdentity, within: Option<SessionId>) {
        let barrier = identity.barrier_request();
        let list = identity.directory.list_request();
        let (maker, directory) = (Maker(self.clone()), identity.directory.clone());
        identity.client().raw().run_in_background(async move {
            let raw = directory.client.raw();
            let raw = within.map_or(raw, |session_id| raw.within(session_id));
            let [barrier, list] = raw.submit_with_backpressure([barrier, list]).await;
            let names = async {
                match barrier.await {
                    Err(error) if !error.is_no_node() => return Err(Some(error)),
                    // The barrier has passed: the listing behind it shows everything.
                    _ => {}
                }
                let names = list.names().await?;
                LateCreates::listed(&directory, || names.iter());
                Ok(ListedName::sorted(&names))
            };
            let _ = maker.0.found.set(names.await);
        });
    }

    fn has_failed(&self) -> bool {
        self.found.get().is_some_and(Result::is_err)
    }

    /// What it shows.
    pub(super) async fn found(&self) -> Found {
        let is_made = self.is_made.notified();
        if self.found.get().is_none() {
            is_made.await;
        }
        self.found.get().cloned().unwrap_or(Err(None))
    }
}

/// Makes a scan. When it is dropped, the scan is made, or the client has ended before.
struct Maker(Arc<Scan>);

impl Drop for Maker {
    fn drop(&mut self) {
        let _ = self.0.found.set(Err(Some(ErrorKind::Closed.into())));
        self.0.is_made.notify_waiters();
    }
}
