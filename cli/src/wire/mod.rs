//! `lockkeeper wire`: shows the messages of ZooKeeper's protocol, of a recording or between a client and a server.
//!
//! | file | what |
//! |---|---|
//! | `conversation` | both directions of one connection: cut into messages, and decoded |
//! | `show` | a message as text or JSON |
//! | `decode` | `wire decode` |
//! | `spy` | `wire spy` |
//!
//! The records are those of `lockkeeper-proto`, and so are the names of their fields. Not here: any record.

mod conversation;
mod decode;
mod show;
mod spy;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

use crate::{duration, exit::Failure, servers::listen};

/// Show the messages of ZooKeeper's protocol
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  lockkeeper wire decode recording.hex\n  \
        lockkeeper wire spy --listen 127.0.0.1:2180 --connect zk1:2181")]
pub(crate) struct WireArgs {
    #[command(subcommand)]
    command: WireCommand,
}

#[derive(Debug, Subcommand)]
enum WireCommand {
    Decode(DecodeArgs),
    Spy(SpyArgs),
}

/// Print every field of recorded messages, with its offset
#[derive(Args, Debug)]
#[command(
    after_help = "A recording in hexadecimal has lines that begin with C> (bytes of the client) or S>\n\
        (bytes of the server), and comments that begin with #. The comment `server closes\n\
        the connection (EOF)` begins a new connection. With --from, a file is the raw bytes\n\
        of one side.\n\n\
        tshark makes a recording of a connection in a capture of tcpdump:\n  \
        tshark -r FILE -qz follow,tcp,raw,0 | sed -n 's/^[0-9a-f]*$/C>&/p; s/^\\t/S>/p'\n\n\
        Passwords and credentials are shown.\n\n\
        What cannot be decoded is shown as bytes, with the reason. The status is 0 also then.\n\n\
        Example:\n  lockkeeper wire decode recording.hex"
)]
pub(crate) struct DecodeArgs {
    /// The file is the raw stream of this side
    #[arg(long, value_name = "SIDE", value_enum)]
    from: Option<Side>,

    /// Print JSON: an object in one line for each message, which has its bytes, too
    #[arg(long)]
    json: bool,

    /// The recordings; - reads stdin
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Relay between clients and a server, and print each message
#[derive(Args, Debug)]
#[command(
    after_help = "Each connection to --listen is relayed to --connect. Passwords and the credentials\n\
        of identities are not printed without --secrets.\n\n\
        --delay, --drop-after and --cut-after are for tests of programs: what do they do\n\
        when a server is slow, silent or gone?\n\n\
        Example:\n  lockkeeper wire spy --listen 127.0.0.1:2180 --connect 127.0.0.1:2181"
)]
pub(crate) struct SpyArgs {
    /// The address for clients; port 0 picks a free port
    #[arg(long, value_name = "HOST:PORT", value_parser = listen)]
    listen: String,

    /// The server
    #[arg(long, value_name = "HOST:PORT", value_parser = listen)]
    connect: String,

    /// Print JSON: an object in one line for each message
    #[arg(long)]
    json: bool,

    /// Also print passwords and credentials
    #[arg(long)]
    secrets: bool,

    /// Pass all bytes on after this time
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0")]
    delay: Duration,

    /// Pass nothing on when a connection is this old, and leave it open
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    drop_after: Option<Duration>,

    /// Close a connection when it is this old
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    cut_after: Option<Duration>,
}

/// The sender of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Client,
    Server,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

pub(crate) async fn run(args: &WireArgs) -> Result<u8, Failure> {
    match &args.command {
        WireCommand::Decode(args) => decode::run(args),
        WireCommand::Spy(args) => spy::run(args).await,
    }
}
