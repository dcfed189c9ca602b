//! The handle of a running server.
//!
//! Not here: sockets and tasks (`net`), the protocol (`engine`).

use std::{io, net::SocketAddr, sync::Arc, thread, time::Duration};

use tokio::{net::TcpListener, runtime};

use crate::{
    Builder, Faults,
    engine::{Counters, Report},
    net::{self, Port},
    shared::Shared,
};

/// A running server. It stops when this handle is dropped.
///
/// See the [crate's documentation](crate) for an example.
#[derive(Debug)]
#[must_use = "a server stops when its handle is dropped"]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    /// One port; in a cluster one for each server.
    pub(crate) ports: Arc<[Port]>,
}

impl Server {
    /// The settings of a server, all at their defaults. [`Builder::start`] starts it.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a server on a free port of 127.0.0.1, with all defaults.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// Starts a server; a cluster if `members` has a number.
    pub(crate) async fn start_with(builder: Builder, members: Option<u32>) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for number in 0..members.unwrap_or(1) {
            let mut address = builder.address;
            if address.port() > 0 {
                let number = u16::try_from(number).unwrap_or(u16::MAX);
                address.set_port(address.port().saturating_add(number));
            }
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            tracing::debug!(%address, "listening");
            listeners.push((listener, address));
        }
        let config = builder.config();
        let wait = config.no_ephemerals_for;
        if !wait.is_zero() {
            tracing::warn!(
                "no lock is granted before {wait:?} have passed: clients of a former server at this \
                 address may still rely on theirs; if there was none, start this server as fresh"
            );
        }
        let sync_limit = config.tick_time.saturating_mul(builder.sync_limit_ticks);
        let shared = Arc::new(Shared::new(config, builder.max_connections));
        let addresses = listeners.iter().map(|(_, own)| net::for_clients(*own));
        let addresses = addresses.collect();
        shared.with(|engine, now| {
            if let Some(members) = members {
                engine.set_ensemble(members, sync_limit, Duration::ZERO, now);
            }
            engine.set_addresses(addresses, now);
        });
        let ports = Arc::from(net::start(&shared, listeners)?);
        Ok(Self { shared, ports })
    }

    /// The address that the server listens on; in a cluster that of the first member.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        let port = self.ports.first();
        port.map_or(SocketAddr::from(([0; 4], 0)), |port| port.address)
    }

    /// The address in the form that clients take: `host:port`. In a cluster the addresses of all
    /// members.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let all = self.ports.iter().map(|port| net::for_clients(port.address));
        let all: Vec<String> = all.collect();
        all.join(",")
    }

    /// The faults that a test can cause on this server.
    #[must_use]
    pub fn faults(&self) -> Faults {
        let (shared, ports) = (Arc::clone(&self.shared), Arc::clone(&self.ports));
        Faults { shared, ports }
    }

    /// Counts of what has happened since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.look(|engine| engine.counters().clone())
    }

    /// A snapshot of the present state: nodes, watches, sessions.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.look(crate::engine::Engine::report)
    }

    /// The paths of all nodes except the system's four, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.shared.look(crate::engine::Engine::paths)
    }

    /// Moves the server's clock ahead. Everything that this time brings happens before the method
    /// returns: sessions expire, nodes whose time to live is over and empty containers are deleted,
    /// delayed replies are sent.
    ///
    /// To the server, every client is silent meanwhile, also one that is connected. So a session
    /// lives on only if its timeout is longer. The session of a connected client ends as by
    /// [`Faults::expire`]: when the client knows. A session without a connection ends at once, as if
    /// its client had crashed. A client that is only cut off may still rely on its locks then.
    ///
    /// However long the time is, the call takes only as long as what happens in it. The server's
    /// clock gets a century ahead of the real one, and no further.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = lockkeeper_server::Server::start().await?;
    /// // .. clients come, and some of them crash.
    /// server.advance(Duration::from_secs(3600));
    /// assert!(server.report().sessions.is_empty());
    /// # server.shutdown().await;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn advance(&self, time: Duration) {
        self.shared.advance(time);
    }

    /// Asserts that clients have left nothing behind. Call this after all clients have closed their
    /// sessions.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = lockkeeper_server::Server::start().await?;
    /// // .. clients come and go.
    /// server.assert_no_leaks();
    /// # server.shutdown().await;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Panics
    /// If a session is left. The message names each session, and its ephemeral nodes and watches.
    #[track_caller]
    pub fn assert_no_leaks(&self) {
        let left = self.report().sessions;
        let lines = left.iter().map(|(id, own)| format!("\n{id}: {own:?}"));
        assert!(
            left.is_empty(),
            "sessions are left on the server:{}",
            lines.collect::<String>()
        );
    }

    /// Stops the server, and waits until its port and all connections are closed.
    ///
    /// # Cancel safety
    /// The server stops even if the future is dropped.
    pub async fn shutdown(self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Builder {
    /// Starts the server on the current tokio runtime. The runtime must have its time and I/O
    /// drivers enabled. Without a runtime, see [`start_on_thread`](Self::start_on_thread).
    ///
    /// # Errors
    /// The error of the operating system, if the server cannot listen on the address.
    ///
    /// # Cancel safety
    /// If the future is dropped early, nothing listens.
    pub async fn start(self) -> io::Result<Server> {
        Server::start_with(self, None).await
    }

    /// Starts the server on a thread of its own, which ends with the server. For programs without
    /// async, and for tests of code with an executor that is not tokio's.
    ///
    /// ```
    /// let server = lockkeeper_server::Server::builder().start_on_thread()?;
    /// let connect_string = server.connect_string(); // for any ZooKeeper client
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`start`](Self::start), and the error of the operating system if it has no thread.
    pub fn start_on_thread(self) -> io::Result<Server> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (started, starting) = std::sync::mpsc::channel();
        let run = async move {
            let server = self.start().await;
            let stop = server.as_ref().ok().map(|own| own.shared.stop.clone());
            let _ = started.send(server);
            if let Some(stop) = stop {
                stop.cancelled().await;
            }
        };
        let name = "zookeeper-server".to_owned();
        thread::Builder::new()
            .name(name)
            .spawn(move || runtime.block_on(run))?;
        starting.recv().map_err(io::Error::other)?
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
