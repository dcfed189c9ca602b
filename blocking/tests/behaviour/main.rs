//! The blocking client and locks on the embedded server, from plain threads.
//!
//! | file | what |
//! |---|---|
//! | `locks` | each kind of lock: acquisition, tries, timeouts, contention |
//! | `holds` | what a guard offers, and the loss of a lock |
//! | `drops` | what a drop has done when it returns |
//! | `nodes` | operations on nodes, transactions, watches |
//! | `runtime` | calls on threads of a tokio runtime |
//!
//! Not here: that the background threads end (`threads`), and the promises of the locks themselves (`tests/contract`).

mod drops;
mod holds;
mod locks;
mod nodes;
mod runtime;

use std::time::Duration;

use lockkeeper_blocking::Client;
use lockkeeper_server::Server;
use tokio::runtime::Runtime;

/// No wait of a test gets as long, unless something is wrong.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// A wait that ends without what was waited for.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// An embedded server, which runs on threads of its own.
pub(crate) struct Ensemble {
    pub(crate) server: Server,
    /// Dropped behind the server.
    pub(crate) runtime: Runtime,
}

impl Ensemble {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let builder = Server::builder()
            .tick_time(Duration::from_millis(100))
            .min_session_timeout(Duration::from_millis(100))
            .max_session_timeout(LONG);
        let server = runtime.block_on(builder.start()).unwrap();
        Self { server, runtime }
    }

    pub(crate) fn servers(&self) -> String {
        self.server.connect_string()
    }

    /// A client whose session does not expire in a test.
    pub(crate) fn client(&self) -> Client {
        let builder = Client::builder(&self.servers()).unwrap();
        builder.session_timeout(LONG).connect().unwrap()
    }
}
