//! `lockkeeper wire`: shows the messages of ZooKeeper's protocol, of a recording or between a client and a server.
//!
//! Here is where the bytes come from; `conversation` has both directions of one connection: cut into messages, decoded and printed.
//!
//! The records are those of `lockkeeper-proto`, and so are the names of their fields. Not here: any record.

mod conversation;

use std::{
    cell::RefCell,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::{
    exit::{self, Failure},
    servers::{bad, listen},
    signals::{ENDING, Signals},
};
use conversation::{Conversation, Side};

/// Show the messages of ZooKeeper's protocol
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  lockkeeper wire decode recording.hex\n  \
        lockkeeper wire spy --listen 127.0.0.1:2180 --connect zk1:2181")]
pub(crate) enum WireCommand {
    Decode(DecodeArgs),
    Spy(SpyArgs),
}

/// Print recorded messages
#[derive(Args, Debug)]
#[command(
    after_help = "A recording has lines that begin with C> (bytes of the client) or S> (bytes of \
        the server) and go on in hexadecimal, and comments that begin with #. The \
        comment `server closes the connection (EOF)` begins a new connection.\n\n\
        tshark makes a recording of a connection in a capture of tcpdump:\n  \
        tshark -r FILE -qz follow,tcp,raw,0 | sed -n 's/^[0-9a-f]*$/C>&/p; s/^\\t/S>/p'\n\n\
        Passwords and credentials are left out, except where bytes are shown.\n\n\
        What cannot be decoded is shown as bytes, with the reason. The status is then 0, \
        too.\n\n\
        Example:\n  lockkeeper wire decode recording.hex"
)]
pub(crate) struct DecodeArgs {
    /// Print JSON: an object in one line for each message, with its bytes
    #[arg(long)]
    json: bool,

    /// The recording; - reads stdin
    file: PathBuf,
}

/// Relay between clients and a server, and print each message
#[derive(Args, Debug)]
#[command(
    after_help = "Each connection to --listen is relayed to --connect. Passwords and the \
        credentials of identities are not printed. A connection with TLS is relayed, and \
        cannot be shown.\n\n\
        Example:\n  lockkeeper wire spy --listen 127.0.0.1:2180 --connect 127.0.0.1:2181"
)]
pub(crate) struct SpyArgs {
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

pub(crate) async fn run(command: &WireCommand) -> Result<u8, Failure> {
    match command {
        WireCommand::Decode(args) => decode(args),
        WireCommand::Spy(args) => spy(args).await,
    }
}

/// The comment after which a recording goes on with another connection.
const CLOSED: &str = "# server closes the connection (EOF)";

/// The bytes that are read at a time.
const PIECE: usize = 64 * 1024;

/// The pause before another attempt to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

fn decode(args: &DecodeArgs) -> Result<u8, Failure> {
    let is_stdin = args.file == Path::new("-");
    let file = Some(Path::new("/dev/stdin")).filter(|_| is_stdin);
    let file = file.unwrap_or(&args.file);
    let what = format!("read {}", file.display());
    let recording = if is_stdin { stdin() } else { fs::read(file) };
    let recording = recording.map_err(Failure::system(what))?;
    let mut conversation = Conversation::new(args.json, false, 1);
    for (number, line) in (1..).zip(String::from_utf8_lossy(&recording).lines()) {
        let line = line.trim();
        if line == CLOSED {
            conversation.end()?;
        } else if !line.is_empty() && !line.starts_with('#') {
            let what = "neither C> nor S> with hexadecimal digits, nor a comment";
            let (side, bytes) = spoken(line).ok_or_else(|| bad(&file.display(), number, what))?;
            conversation.hear(side, &bytes)?;
        }
    }
    conversation.end().map(|()| exit::OK)
}

/// All of stdin, which need not be a file that can be opened again.
fn stdin() -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    io::stdin().read_to_end(&mut all)?;
    Ok(all)
}

/// The bytes of a line in hexadecimal, and their side.
fn spoken(line: &str) -> Option<(Side, Vec<u8>)> {
    let (side, hex) = match line.split_once('>')? {
        ("C", hex) => (Side::Client, hex),
        ("S", hex) => (Side::Server, hex),
        _ => return None,
    };
    Some((side, hex::decode(hex.trim()).ok()?))
}

async fn spy(args: &SpyArgs) -> Result<u8, Failure> {
    let mut signals = Signals::catch(&ENDING)?;
    let refused = |error| Failure::system(format_args!("listen on {}", args.listen))(error);
    let listener = &TcpListener::bind(&args.listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    say!("listening on {address}, relaying to {}", args.connect);
    let clients = stream::unfold(1, |number| async move {
        Some(((number, accept(listener).await), number + 1))
    });
    let relayed = clients
        .map(Ok)
        .try_for_each_concurrent(None, |(number, client)| connection(args, number, client));
    signals.or_end(relayed).await.map(|()| exit::OK)
}

/// The next client. The connections that are there go on while the system refuses another one: often no descriptor of a file is free.
async fn accept(listener: &TcpListener) -> TcpStream {
    let mut is_told = false;
    loop {
        match listener.accept().await {
            Ok((client, _)) => return client,
            Err(error) if !is_told => say!("cannot accept a connection, trying again: {error}"),
            Err(_) => {}
        }
        is_told = true;
        sleep(PAUSE).await;
    }
}

/// Relays one connection until both sides have ended it: a client that sends nothing more may still read, as `echo ruok | nc` does.
async fn connection(args: &SpyArgs, number: usize, mut client: TcpStream) -> Result<(), Failure> {
    let mut server = match TcpStream::connect(&args.connect).await {
        Ok(server) => server,
        Err(error) => {
            say!("connection {number}: {}: {error}", args.connect);
            return Ok(());
        }
    };
    // Without Nagle's delay, as clients and servers have it.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let conversation = RefCell::new(Conversation::new(args.json, true, number));
    let ended = tokio::try_join!(
        relay(&conversation, Side::Client, from_client, to_server),
        relay(&conversation, Side::Server, from_server, to_client),
    );
    conversation.borrow_mut().end()?;
    ended.map(drop)
}

/// Passes on the bytes of one side until it ends the connection, also those that cannot be decoded.
async fn relay(
    conversation: &RefCell<Conversation>,
    side: Side,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let bytes = piece.get(..length).unwrap_or_default();
        conversation.borrow_mut().hear(side, bytes)?;
        if to.write_all(bytes).await.is_err() {
            break;
        }
    }
    // It may be closed.
    let _ = to.shutdown().await;
    Ok(())
}
