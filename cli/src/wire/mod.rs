//! `lockkeeper wire`: shows the messages of ZooKeeper's protocol, of a recording or between a client and a server.
//!
//! | file | what |
//! |---|---|
//! | `conversation` | both directions of one connection: cut into messages, decoded and printed |
//! | `show` | a field as text or JSON |
//! | `sources` | where the bytes come from: `wire decode` and `wire spy` |
//!
//! The records are those of `lockkeeper-proto`, and so are the names of their fields. Not here: any record.

mod conversation;
mod show;
mod sources;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{exit::Failure, servers::listen};

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

/// Print recorded messages, with all their fields
#[derive(Args, Debug)]
#[command(
    after_help = "A recording has lines that begin with C> (bytes of the client) or S> (bytes of \
        the server) and go on in hexadecimal, and comments that begin with #. The \
        comment `server closes the connection (EOF)` begins a new connection.\n\n\
        tshark makes a recording of a connection in a capture of tcpdump:\n  \
        tshark -r FILE -qz follow,tcp,raw,0 | sed -n 's/^[0-9a-f]*$/C>&/p; s/^\\t/S>/p'\n\n\
        Passwords and credentials are shown.\n\n\
        What cannot be decoded is shown as bytes, with the reason. The status is then 0, \
        too.\n\n\
        Example:\n  lockkeeper wire decode recording.hex"
)]
struct DecodeArgs {
    /// Print JSON: an object in one line for each message, with the offset and the bytes of each field
    #[arg(long)]
    json: bool,

    /// The recording; - reads stdin
    file: PathBuf,
}

/// Relay between clients and a server, and print each message
#[derive(Args, Debug)]
#[command(
    after_help = "Each connection to --listen is relayed to --connect. Passwords and the \
        credentials of identities are not printed.\n\n\
        Example:\n  lockkeeper wire spy --listen 127.0.0.1:2180 --connect 127.0.0.1:2181"
)]
struct SpyArgs {
    /// The address for clients; port 0 picks a free port
    #[arg(long, value_name = "HOST:PORT", value_parser = listen)]
    listen: String,

    /// The server
    #[arg(long, value_name = "HOST:PORT", value_parser = listen)]
    connect: String,

    /// Print JSON, as wire decode does
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &WireArgs) -> Result<u8, Failure> {
    match &args.command {
        WireCommand::Decode(args) => sources::decode(args),
        WireCommand::Spy(args) => sources::spy(args).await,
    }
}
