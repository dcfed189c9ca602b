//! `lockkeeper serve`: the embedded server, until a signal asks to end.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
};

use lockkeeper_server::Server;
use tokio::net::lookup_host;

use crate::{
    args::ServeArgs,
    exit::{self, Failure},
    security,
    servers::BadServers,
    signals::{ENDING, Signals},
};

/// Serves. Says so on stdout once clients can connect.
pub(crate) async fn run(args: &ServeArgs) -> Result<u8, Failure> {
    let mut signals = Signals::catch(&ENDING).map_err(Failure::System)?;
    let refused = |error| Failure::Listen {
        address: args.listen.clone(),
        error,
    };
    let address = resolve(&args.listen).await.map_err(refused)?;
    let mut builder = Server::builder()
        .listen(address)
        .tick_time(args.tick_time)
        .max_session_timeout(args.max_session_timeout);
    if let Some(path) = &args.auth_file {
        let users = security::users(path);
        let users = users.map_err(|problem| Failure::Servers(BadServers::Security(problem)))?;
        for (user, password) in users {
            builder = builder.user(&user, &password);
        }
        builder = builder.require_sasl();
    }
    if !address.ip().is_loopback() {
        exit::say(match &args.auth_file {
            None => &"no encryption here: whoever reaches this address reads and writes everything",
            Some(_) => {
                &"no encryption here: whoever listens on the way reads and changes everything"
            }
        });
    }
    let server = builder.start().await.map_err(refused)?;
    announce(server.local_addr()).map_err(Failure::Output)?;
    signals.ending().await;
    server.shutdown().await;
    Ok(exit::OK)
}

/// The first address of `host:port`.
async fn resolve(listen: &str) -> io::Result<SocketAddr> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    lookup_host(listen).await?.next().ok_or_else(unknown)
}

fn announce(address: SocketAddr) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "listening on {address}")?;
    stdout.flush()
}
