//! Sockets and tasks: one task for each connection, one for each port, one for the timer. No other
//! task is spawned.
//!
//! Not here: what the bytes mean (`engine`), the order in which they leave (`shared`).

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use bytes::BytesMut;
use futures::future::{Either, select};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    runtime::Handle,
    task::{self, JoinHandle},
    time,
};

use crate::{
    engine::{ConnId, Received, ServerId},
    outgoing::Outgoing,
    shared::Shared,
};

/// The port of one server.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    server: ServerId,
    shared: Arc<Shared>,
    /// The runtime of the server's tasks.
    runtime: Handle,
    /// What accepts connections, unless the port is closed.
    listening: Mutex<Option<Listening>>,
}

#[derive(Debug)]
struct Listening {
    listener: Arc<Listener>,
    task: JoinHandle<()>,
}

/// A listener until it is closed. Its task may end later.
#[derive(Debug)]
struct Listener(Mutex<Option<TcpListener>>);

impl Listener {
    fn close(&self) {
        *self.lock() = None;
    }

    /// The next connection. Waits for ever once the listener is closed.
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| match &*self.lock() {
            Some(listener) => listener.poll_accept(context),
            None => Poll::Pending,
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, Option<TcpListener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the listener when its task ends, in any way.
struct Closing(Arc<Listener>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Port {
    /// Stops listening. Once the future was polled, the port is closed even if the future is
    /// dropped.
    pub(crate) async fn close(&self) {
        let task = {
            let mut listening = self.listening();
            listening.take().map(|own| {
                own.listener.close();
                own.task
            })
        };
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
    }

    /// Listens again. Once the future was polled, the port is open even if the future is dropped.
    #[allow(
        clippy::unused_async,
        reason = "it waits for nothing, as whoever drops the future needs"
    )]
    pub(crate) async fn open(&self) -> io::Result<()> {
        let mut listening = self.listening();
        if listening.is_none() {
            let bound = std::net::TcpListener::bind(self.address)?;
            bound.set_nonblocking(true)?;
            let _entered = self.runtime.enter();
            *listening = Some(self.listen(TcpListener::from_std(bound)?)?);
        }
        Ok(())
    }

    fn listen(&self, listener: TcpListener) -> io::Result<Listening> {
        let (shared, server) = (Arc::clone(&self.shared), self.server);
        if shared.stop.is_cancelled() {
            let why = "cannot open the port: the server has stopped";
            return Err(io::Error::other(why));
        }
        let listener = Arc::new(Listener(Mutex::new(Some(listener))));
        let own = Closing(Arc::clone(&listener));
        let accepting = async move {
            let accepting = accept_all(&shared, server, &own.0);
            shared.stop.run_until_cancelled(accepting).await;
        };
        let task = self.shared.tasks.spawn_on(accepting, &self.runtime);
        Ok(Listening { listener, task })
    }

    fn listening(&self) -> MutexGuard<'_, Option<Listening>> {
        self.listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// An address in the form that clients take.
pub(crate) fn for_clients(mut address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address.to_string()
}

/// Starts the tasks of all servers, with a port for each listener.
pub(crate) fn start(
    shared: &Arc<Shared>,
    listeners: Vec<(TcpListener, SocketAddr)>,
) -> io::Result<Vec<Port>> {
    let listeners = (0..).map(ServerId).zip(listeners);
    let ports = listeners.map(|(server, (listener, address))| {
        let port = Port {
            address,
            server,
            shared: Arc::clone(shared),
            runtime: Handle::current(),
            listening: Mutex::new(None),
        };
        let listening = port.listen(listener)?;
        *port.listening() = Some(listening);
        Ok(port)
    });
    let ports = ports.collect::<io::Result<_>>()?;
    let own = Arc::clone(shared);
    shared.tasks.spawn(async move {
        own.stop.run_until_cancelled(own.keep_time()).await;
    });
    Ok(ports)
}

async fn accept_all(shared: &Arc<Shared>, server: ServerId, listener: &Listener) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                let Ok(place) = Arc::clone(&shared.places).try_acquire_owned() else {
                    tracing::warn!(%remote, "connection closed: the server has reached its limit of connections");
                    continue;
                };
                let (id, outgoing) = shared.accept(server, remote);
                let own = Arc::clone(shared);
                shared.tasks.spawn(async move {
                    let serving = serve(&own, id, stream, &outgoing);
                    outgoing.cut.run_until_cancelled(serving).await;
                    own.forget(id);
                    drop(place);
                });
            }
            Err(error) => {
                // Most likely the process has too many open files. Some connections must end first.
                tracing::warn!(%error, "cannot accept a connection, trying again in 50 ms");
                time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves a connection until it ends.
async fn serve(shared: &Shared, id: ConnId, mut stream: TcpStream, outgoing: &Outgoing) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY on a connection");
    }
    let (mut read, mut write) = stream.split();
    {
        // When the client stops sending, or the engine closes the connection, the writer has
        // `FLUSH` for the rest. A client that reads nothing must not keep its queue in memory for
        // longer.
        let reading = pin!(async {
            read_requests(shared, id, &mut read, outgoing).await;
            // The client sends nothing more, but it may still read: `echo ruok | nc` does.
            shared.forget(id);
            outgoing.end();
        });
        let reading = pin!(async {
            select(reading, pin!(outgoing.over.cancelled())).await;
            time::sleep(FLUSH).await;
        });
        select(reading, pin!(write_replies(&mut write, outgoing))).await;
    }
    // Closing a socket with unread input would reset the connection, and the client might lose the
    // last replies.
    let _ = write.shutdown().await;
    let _ = time::timeout(LINGER, drain(&mut read)).await;
}

/// Passes all received bytes to the engine. Returns when the client has ended the connection.
async fn read_requests(shared: &Shared, id: ConnId, read: &mut ReadHalf<'_>, outgoing: &Outgoing) {
    loop {
        outgoing.wait_for_capacity().await;
        // A client that sends without end must not keep other tasks from their turn.
        task::coop::consume_budget().await;
        // The buffer is allocated only when there is something to read, so idle connections cost no
        // buffers.
        let input = async {
            read.readable().await?;
            let mut buffer = BytesMut::with_capacity(READ_CHUNK);
            read.try_read_buf(&mut buffer)?;
            io::Result::Ok(buffer)
        };
        let buffer = match select(pin!(input), pin!(outgoing.resumed.notified())).await {
            // The client has ended the stream.
            Either::Left((Ok(buffer), _)) if buffer.is_empty() => return,
            Either::Left((Ok(buffer), _)) => buffer,
            // There was nothing to read after all.
            Either::Left((Err(error), _)) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Either::Left((Err(error), _)) => {
                tracing::debug!(connection = id.0, %error, "cannot read from a connection");
                return;
            }
            // Requests that have waited can be handled.
            Either::Right(_) => BytesMut::new(),
        };
        let mut received = shared.with(|engine, now| engine.received(id, buffer, now));
        while received == Received::Partly {
            outgoing.wait_for_capacity().await;
            task::yield_now().await;
            received = shared.with(|engine, now| engine.received(id, BytesMut::new(), now));
        }
    }
}

/// Writes everything that is queued. Returns after the last byte, or when a write fails.
async fn write_replies(write: &mut WriteHalf<'_>, outgoing: &Outgoing) {
    while let Some(mut bytes) = outgoing.take().await {
        if let Err(error) = write.write_all_buf(&mut bytes).await {
            tracing::debug!(%error, "cannot write to a connection");
            return;
        }
    }
}

async fn drain(read: &mut ReadHalf<'_>) {
    let mut scratch = [0_u8; 1024];
    while let Ok(1..) = read.read(&mut scratch).await {}
}

/// Bytes of buffer for one read. A batch of requests for a few hundred locks fits.
const READ_CHUNK: usize = 16 << 10;

/// How long the writer may take for the rest of the queue, after the client has stopped sending or
/// the engine has closed the connection.
const FLUSH: Duration = Duration::from_secs(5);

/// How long the server waits for the client to close a connection that the server has ended.
const LINGER: Duration = Duration::from_millis(500);
