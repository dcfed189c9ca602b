//! What an attempt to connect needs: a socket, and the addresses of a name.
//!
//! Not here: which address is connected to (`dial`).

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
};

use tokio::net::TcpStream;

use crate::Endpoint;
use crate::client::sync::{oneshot, os::thread};

/// Opens a TCP connection without Nagle's delay.
pub(super) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The addresses of a server. The system's resolver blocks, so a name is resolved on a thread of its
/// own, which ends by itself if the future is dropped.
pub(super) async fn look_up(server: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = (server.host.clone(), server.port);
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = oneshot::channel();
    let look_up = move || Ok((host.as_str(), port).to_socket_addrs()?.collect());
    let builder = thread::Builder::new().name("lockkeeper-dns".to_owned());
    builder.spawn(move || sender.send(look_up()))?;
    receiver
        .await
        .unwrap_or_else(|_| Err(io::Error::other("the resolver panicked")))
}
