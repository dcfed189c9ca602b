//! Sockets: accepting, one task for each connection, one for the port, one for the time. Nothing else is spawned.
//!
//! Not here: what the bytes mean (`engine`), in which order they leave (`shared`).

use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use bytes::BytesMut;
use futures::future::{Either, select};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, oneshot},
    task, time,
};

use crate::{
    engine::{ConnId, Received},
    outgoing::Outgoing,
    shared::Shared,
};

/// What the task of the port is told to do, and how to say that it is done.
#[derive(Debug)]
pub(crate) enum PortOrder {
    /// Stop listening: connections are refused by the operating system.
    Close(oneshot::Sender<()>),
    /// Listen again on the same port.
    Open(oneshot::Sender<io::Result<()>>),
}

/// Held by every task while it runs: the receiver of the pair hears the end of the last one.
type Alive = mpsc::Sender<Infallible>;

/// Starts the tasks of a server. What comes back ends, without ever having said anything, when all of them have.
pub(crate) fn start(
    shared: &Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
    orders: mpsc::Receiver<PortOrder>,
) -> mpsc::Receiver<Infallible> {
    let (alive, ended) = mpsc::channel(1);
    let (own, held) = (Arc::clone(shared), alive.clone());
    tokio::spawn(async move {
        own.stop.run_until_cancelled(own.keep_time()).await;
        drop(held);
    });
    let own = Arc::clone(shared);
    tokio::spawn(async move {
        let port = serve_port(&own, &alive, listener, address, orders);
        own.stop.run_until_cancelled(port).await;
    });
    ended
}

async fn serve_port(
    shared: &Arc<Shared>,
    alive: &Alive,
    listener: TcpListener,
    address: SocketAddr,
    mut orders: mpsc::Receiver<PortOrder>,
) {
    let mut listener = Some(listener);
    loop {
        let order = {
            let accepting = async {
                match &listener {
                    Some(listener) => accept_all(shared, alive, listener).await,
                    None => std::future::pending().await,
                }
            };
            match select(pin!(orders.recv()), pin!(accepting)).await {
                Either::Left((Some(order), _)) => order,
                Either::Left((None, accepting)) => return accepting.await,
                Either::Right(((), _)) => return,
            }
        };
        match order {
            PortOrder::Close(done) => {
                listener = None;
                let _ = done.send(());
            }
            PortOrder::Open(done) => {
                let opened = match listener {
                    Some(_) => Ok(()),
                    None => TcpListener::bind(address)
                        .await
                        .map(|bound| listener = Some(bound)),
                };
                let _ = done.send(opened);
            }
        }
    }
}

async fn accept_all(shared: &Arc<Shared>, alive: &Alive, listener: &TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                let Some((id, outgoing)) = shared.accept(remote) else {
                    tracing::warn!(%remote, "too many connections");
                    continue;
                };
                let (shared, held) = (Arc::clone(shared), alive.clone());
                tokio::spawn(async move {
                    let serving = serve(&shared, id, stream, &outgoing);
                    outgoing.cut.run_until_cancelled(serving).await;
                    shared.ended(id);
                    drop(held);
                });
            }
            Err(error) => {
                // Too many open files, most likely: others must end first.
                tracing::warn!(%error, "cannot accept");
                time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves a connection to its end.
async fn serve(shared: &Shared, id: ConnId, mut stream: TcpStream, outgoing: &Outgoing) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let (mut read, mut write) = stream.split();
    {
        // Whichever of the two ends, the other has little time: a client that reads nothing must not keep what is queued.
        let reading = pin!(async {
            read_requests(shared, id, &mut read, outgoing).await;
            // The client sends no more, but it may still read: `echo ruok | nc` does.
            shared.forget(id);
            outgoing.end();
        });
        let reading = pin!(async {
            select(reading, pin!(outgoing.ended())).await;
            time::sleep(FLUSH).await;
        });
        select(reading, pin!(write_replies(&mut write, outgoing))).await;
    }
    // Closing a socket with unread input would reset the connection, and the client might lose our last words.
    let _ = write.shutdown().await;
    let _ = time::timeout(LINGER, drain(&mut read)).await;
}

/// Hands everything that is read to the engine; ends when the client does.
async fn read_requests(shared: &Shared, id: ConnId, read: &mut ReadHalf<'_>, outgoing: &Outgoing) {
    loop {
        outgoing.wait_for_capacity().await;
        // Who sends without end must not keep others from their turn.
        task::coop::consume_budget().await;
        // Room is made when there is something to read: a thousand connections that say nothing cost nothing.
        let buffer = match select(pin!(read.readable()), pin!(outgoing.nudged())).await {
            Either::Left((Ok(()), _)) => match try_read(read) {
                Ok(buffer) if buffer.is_empty() => return,
                Ok(buffer) => buffer,
                // There was nothing to read, after all.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => {
                    tracing::debug!(connection = id.0, %error, "cannot read");
                    return;
                }
            },
            Either::Left((Err(error), _)) => {
                tracing::debug!(connection = id.0, %error, "cannot wait");
                return;
            }
            // What was held back may be more than could be answered at once.
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

/// What there is to read; empty at the end.
fn try_read(read: &ReadHalf<'_>) -> io::Result<BytesMut> {
    let mut buffer = BytesMut::with_capacity(READ_CHUNK);
    read.try_read_buf(&mut buffer)?;
    Ok(buffer)
}

/// Writes everything that is queued; ends after the last byte, or when the client does not take it.
async fn write_replies(write: &mut WriteHalf<'_>, outgoing: &Outgoing) {
    while let Some(mut bytes) = outgoing.take().await {
        if let Err(error) = write.write_all_buf(&mut bytes).await {
            tracing::debug!(%error, "cannot write");
            return;
        }
    }
}

async fn drain(read: &mut ReadHalf<'_>) {
    let mut scratch = [0_u8; 1024];
    while let Ok(1..) = read.read(&mut scratch).await {}
}

/// Room for one read. A batch of requests for a few hundred locks fits.
const READ_CHUNK: usize = 16 << 10;

/// How long a client that sends no more, or that is being closed, may take to read what it is still to get.
const FLUSH: Duration = Duration::from_secs(5);

/// How long the server waits for the client to close a connection that the server has ended.
const LINGER: Duration = Duration::from_millis(500);
