//! `wire decode` and `wire spy`: where the bytes come from. The rest is the same for both.

use std::{cell::RefCell, fs, path::Path};

use futures::{TryStreamExt as _, stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{
    DecodeArgs, SpyArgs,
    conversation::{Conversation, Side},
};
use crate::{
    exit::{self, Failure},
    signals::{ENDING, Signals},
};

/// The comment after which a recording goes on with another connection.
const CLOSED: &str = "# server closes the connection (EOF)";

/// The bytes that are read at a time.
const PIECE: usize = 64 * 1024;

pub(super) fn decode(args: &DecodeArgs) -> Result<u8, Failure> {
    let is_stdin = args.file == Path::new("-");
    let file = Some(Path::new("/dev/stdin")).filter(|_| is_stdin);
    let file = file.unwrap_or(&args.file);
    let recording = fs::read(file).map_err(|error| Failure::file(file, &error))?;
    let mut conversation = Conversation::new(args.json, false, 1);
    for (number, line) in (1..).zip(String::from_utf8_lossy(&recording).lines()) {
        let line = line.trim();
        if line == CLOSED {
            conversation.end()?;
        } else if !line.is_empty() && !line.starts_with('#') {
            let (side, bytes) = spoken(line).ok_or_else(|| {
                let what = "neither C> nor S> with hexadecimal digits, nor a comment";
                failure!(USAGE, "{}, line {number}: {what}", file.display())
            })?;
            conversation.hear(side, &bytes)?;
        }
    }
    conversation.end().map(|()| exit::OK)
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

pub(super) async fn spy(args: &SpyArgs) -> Result<u8, Failure> {
    let mut signals = Signals::catch(&ENDING)?;
    let refused = |error| Failure::system(format_args!("listen on {}", args.listen))(error);
    let listener = &TcpListener::bind(&args.listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    say!("listening on {address}, relaying to {}", args.connect);
    let clients = stream::try_unfold(1, |number| async move {
        let (client, _) = listener.accept().await?;
        Ok(Some(((number, client), number + 1)))
    });
    let relayed =
        clients.try_for_each_concurrent(None, |(number, client)| connection(args, number, client));
    signals.or_end(relayed).await.map(|()| exit::OK)
}

/// Relays one connection until one side ends it.
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
    let ended = tokio::select! {
        ended = relay(&conversation, Side::Client, from_client, to_server) => ended,
        ended = relay(&conversation, Side::Server, from_server, to_client) => ended,
    };
    conversation.borrow_mut().end()?;
    ended
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
    Ok(())
}
