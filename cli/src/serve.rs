//! `lockkeeper serve`: runs the embedded server until a signal asks it to end.
//!
//! The server keeps nothing on disk, so it knows nothing of a former one at its address. The defaults of [`Builder`] keep the
//! promises of locks: tokens grow across a restart, and no lock is granted while a client may rely on one of the former server.
//!
//! [`Builder`]: lockkeeper_server::Builder

use std::{io, net::SocketAddr, time::Duration};

use lockkeeper_server::Server;
use tokio::{net::lookup_host, time::timeout};
use tracing::level_filters::LevelFilter;

use crate::{
    args::ServeArgs,
    exit::{self, Failure, Level},
    run,
    signals::{PASSED_ON, Signals},
    text,
};

/// Where the server listens unless the user says otherwise.
const USUAL: &str = "127.0.0.1:2181";
/// Where a server with a command listens: a port of its own, so that several can run.
const OWN: &str = "127.0.0.1:0";
/// How long the look-up of a name may take.
const LOOK_UP: Duration = Duration::from_secs(5);

/// Runs the server until a signal, or until the end of the command. Says its address as soon as clients can connect: on stdout, but
/// stdout belongs to the command if there is one.
pub(crate) async fn run(args: &ServeArgs) -> Result<u8, Failure> {
    let usual = if args.command.is_empty() || exit::says(Level::Verbose) {
        LevelFilter::INFO
    } else {
        LevelFilter::WARN
    };
    let log = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false);
    let log = log.with_max_level(args.log.unwrap_or(usual));
    if args.log_format == "text" {
        log.init();
        return serve(args).await;
    }
    log.json().flatten_event(true).init();
    match serve(args).await {
        Err(failure) if !failure.is_silent() => {
            tracing::error!("{failure}");
            Ok(failure.status)
        }
        served => served,
    }
}

async fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    let mut signals = Signals::catch(&PASSED_ON)?;
    let is_alone = args.command.is_empty();
    let listen = args
        .listen
        .as_deref()
        .unwrap_or(if is_alone { USUAL } else { OWN });
    let refused = |error| Failure::system(format_args!("listen on {listen}"))(error);
    let address = signals.or_end(async { resolve(listen).await.map_err(refused) });
    let address = address.await?;
    let mut builder = Server::builder()
        .listen(address)
        .tick_time(args.tick_time)
        .max_session_timeout(args.max_session_timeout);
    if !address.ip().is_loopback() {
        tracing::warn!(
            "no encryption, no passwords: any host that reaches this address can change data"
        );
    }
    if args.fresh {
        builder = builder.fresh();
    }
    let server = builder.start().await.map_err(refused)?;
    let address = server.local_addr();
    if is_alone {
        text::print(format!("listening on {address}\n"))?;
    } else {
        tracing::info!("listening on {address}");
    }
    tracing::info!("nothing is kept on disk: nodes and sessions are gone when the server ends");
    let status = if is_alone {
        signals.ending().await;
        exit::OK
    } else {
        run::beside(&args.command, &server.connect_string(), &mut signals).await?
    };
    server.shutdown().await;
    Ok(status)
}

/// The first address that `host:port` resolves to.
async fn resolve(listen: &str) -> io::Result<SocketAddr> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let late = |_| {
        let why = "no name server has answered the look-up of the name";
        io::Error::new(io::ErrorKind::TimedOut, why)
    };
    let found = timeout(LOOK_UP, lookup_host(listen)).await.map_err(late)?;
    found?.next().ok_or_else(unknown)
}
