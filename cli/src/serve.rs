//! `lockkeeper serve`: runs the embedded server until a signal asks it to end.
//!
//! The server keeps nothing on disk, so it knows nothing of a former one at its address. Two things could break the promises of
//! locks, and are prevented here:
//! - Tokens could go backwards. The transactions are numbered from the time of the start on.
//! - A client that is cut off may rely on a lock of the former server until its session would have ended. No ephemeral node is
//!   created before. A client that comes back is told at once that its session has expired.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use lockkeeper::client::Zxid;
use lockkeeper_server::Server;
use tokio::net::lookup_host;

use crate::{
    args::ServeArgs,
    duration::Human,
    exit::{self, Failure},
    security,
    servers::BadServers,
    signals::{ENDING, Signals},
};

/// Runs the server. Prints its address to stdout as soon as clients can connect.
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
        .first_zxid(first_zxid())
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
            None => {
                &"no encryption, no passwords: any host that reaches this address can change data"
            }
            Some(_) => &"no encryption: an attacker on the network can read and change everything",
        });
    }
    if !args.fresh {
        builder = builder.no_ephemerals_for(args.max_session_timeout);
    }
    let server = builder.start().await.map_err(refused)?;
    announce(server.local_addr()).map_err(Failure::Output)?;
    exit::say(&"nothing is kept on disk: nodes and sessions are gone when the server ends");
    if !args.fresh {
        let wait = Human(args.max_session_timeout);
        exit::say(&format_args!(
            "no lock is granted before {wait} have passed: clients of a former server may still rely on theirs; \
             --fresh if there was none"
        ));
    }
    signals.ending().await;
    server.shutdown().await;
    Ok(exit::OK)
}

/// A number above all that a former life of this server has used: the microseconds since 1970, and 4096 numbers for each.
fn first_zxid() -> Zxid {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = now.map_or(0, |now| now.as_micros());
    Zxid(i64::try_from(micros << 12).unwrap_or(0))
}

/// The first address that `host:port` resolves to.
async fn resolve(listen: &str) -> io::Result<SocketAddr> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    lookup_host(listen).await?.next().ok_or_else(unknown)
}

fn announce(address: SocketAddr) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "listening on {address}")?;
    stdout.flush()
}
