//! What an attempt to connect needs: a socket, and the addresses of a name.
//!
//! Not here: which address is connected to (`dial`).

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
};

use tokio::net::TcpStream;

use super::transport::{Connecting, Transport};
use crate::Endpoint;
use crate::client::sync::{oneshot, os::thread};

/// Opens a TCP connection without Nagle's delay.
pub(super) fn connect(address: SocketAddr) -> Connecting {
    Box::pin(async move {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream) as Box<dyn Transport>)
    })
}

/// The addresses of a server. The system's resolver blocks, so a name is resolved on a thread.
pub(super) async fn look_up(server: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = (server.host.clone(), server.port);
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    off_thread(move || Ok((host.as_str(), port).to_socket_addrs()?.collect())).await
}

/// Runs what blocks on a thread of its own. If the future is dropped, the thread ends by itself.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = oneshot::channel();
    let builder = thread::Builder::new().name("lockkeeper-io".to_owned());
    builder.spawn(move || sender.send(work()))?;
    receiver
        .await
        .unwrap_or_else(|_| Err(io::Error::other("the resolver panicked")))
}
