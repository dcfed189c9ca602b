//! The handle of a running server.
//!
//! Not here: sockets and tasks (`net`), the protocol (`engine`).

use std::{
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use tokio::{net::TcpListener, sync::mpsc};

use crate::{
    Builder, Faults,
    engine::{Counters, Report},
    net,
    shared::Shared,
};

/// A running server. It stops when this handle is dropped.
///
/// See the [crate's documentation](crate) for an example.
#[derive(Debug)]
#[must_use = "a server stops when its handle is dropped"]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Closes when the last task of the server has ended.
    tasks: mpsc::Receiver<Infallible>,
    orders: mpsc::Sender<net::PortOrder>,
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

    pub(crate) async fn start_with(mut builder: Builder) -> io::Result<Self> {
        let listener = TcpListener::bind(builder.address).await?;
        let address = listener.local_addr()?;
        builder.config.seed = builder
            .seed
            .unwrap_or_else(|| RandomState::new().hash_one(address));
        let shared = Arc::new(Shared::new(builder.config, builder.max_connections));
        let (orders, receiver) = mpsc::channel(1);
        let tasks = net::start(&shared, listener, address, receiver);
        tracing::debug!(%address, "listening");
        Ok(Self {
            shared,
            address,
            tasks,
            orders,
        })
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address in the form that clients take: `host:port`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let port = self.address.port();
        match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => format!("127.0.0.1:{port}"),
            IpAddr::V6(ip) if ip.is_unspecified() => format!("[::1]:{port}"),
            _ => self.address.to_string(),
        }
    }

    /// The faults that a test can cause on this server.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.shared), self.orders.clone())
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

    /// Stops the server, and waits until its port and all connections are closed.
    ///
    /// # Cancel safety
    /// The server stops even if the future is dropped.
    pub async fn shutdown(mut self) {
        self.shared.stop.cancel();
        self.tasks.recv().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
