//! `lockkeeper wire spy`: relays between clients and a server, and prints each message.
//!
//! The bytes are passed on as they come, before they are decoded. So a message that cannot be decoded passes, too.

use std::{cell::RefCell, future::pending};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time::{Instant, sleep},
};

use super::{
    Side, SpyArgs,
    conversation::{Conversation, Message},
    show,
};
use crate::{
    duration::until,
    exit::{self, Failure},
    signals::{ENDING, Signals},
    text,
};

/// The bytes that are read at a time.
const PIECE: usize = 64 * 1024;

pub(super) async fn run(args: &SpyArgs) -> Result<u8, Failure> {
    let mut signals = Signals::catch(&ENDING)?;
    let refused = |error| Failure::listen(&args.listen, &error);
    let listener = TcpListener::bind(&args.listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    say!("listening on {address}, relaying to {}", args.connect);
    let mut connections = FuturesUnordered::new();
    let mut number = 0;
    loop {
        tokio::select! {
            biased;
            signal = signals.ending() => return Ok(exit::of_signal(signal.as_raw())),
            client = listener.accept() => {
                let (client, _) = client?;
                number += 1;
                connections.push(connection(args, number, client));
            }
            Some(ended) = connections.next() => ended?,
        }
    }
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
    let spy = Spy {
        args,
        number,
        conversation: RefCell::default(),
        drop_at: args.drop_after.map(|after| Instant::now() + after),
    };
    // Without Nagle's delay, as clients and servers have it.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let cut = until(args.cut_after.map(|after| Instant::now() + after));
    let ended = tokio::select! {
        ended = spy.relay(Side::Client, from_client, to_server) => ended,
        ended = spy.relay(Side::Server, from_server, to_client) => ended,
        () = cut => Ok(()),
    };
    let rest = spy.conversation.borrow_mut().end();
    spy.print(&rest)?;
    ended
}

struct Spy<'a> {
    args: &'a SpyArgs,
    number: usize,
    conversation: RefCell<Conversation>,
    drop_at: Option<Instant>,
}

impl Spy<'_> {
    /// Passes on the bytes of one side until it ends the connection.
    async fn relay(
        &self,
        side: Side,
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
    ) -> Result<(), Failure> {
        let mut piece = vec![0; PIECE];
        loop {
            let length = match from.read(&mut piece).await {
                Ok(0) | Err(_) => return Ok(()),
                Ok(length) => length,
            };
            let bytes = piece.get(..length).unwrap_or_default();
            let messages = self.conversation.borrow_mut().hear(side, bytes);
            self.print(&messages)?;
            if self.drop_at.is_some_and(|at| at <= Instant::now()) {
                pending::<()>().await;
            }
            sleep(self.args.delay).await;
            if to.write_all(bytes).await.is_err() {
                return Ok(());
            }
        }
    }

    fn print(&self, messages: &[Message]) -> Result<(), Failure> {
        let now = text::now();
        let shown = |message: &Message| {
            if self.args.json {
                let mut object = show::json(message, self.args.secrets);
                object["time_ms"] = text::millis(now).into();
                object["connection"] = self.number.into();
                format!("{object}\n")
            } else {
                let line = show::line(message, self.args.secrets);
                format!("{}  {}  {line}\n", text::moment(now), self.number)
            }
        };
        messages.iter().map(shown).try_for_each(text::print)
    }
}
