//! `lockkeeper wire spy`: relays between clients and a server, and prints each message.
//!
//! The bytes are passed on as they come, before they are decoded. So a message that cannot be decoded passes, too.

use std::{cell::RefCell, future::pending, rc::Rc, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    time::{Instant, sleep, sleep_until},
};

use super::{
    Side, SpyArgs,
    conversation::{Conversation, Message},
    show,
};
use crate::{
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
        conversation: Rc::new(RefCell::default()),
        drop_at: args.drop_after.map(|after| Instant::now() + after),
    };
    // Without Nagle's delay, as clients and servers have it.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let cut = async {
        match args.cut_after {
            Some(after) => sleep(after).await,
            None => pending().await,
        }
    };
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
    conversation: Rc<RefCell<Conversation>>,
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
            if self.args.delay > Duration::ZERO {
                sleep_until(Instant::now() + self.args.delay).await;
            }
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
                object.insert("time_ms".to_owned(), text::millis(now).into());
                object.insert("connection".to_owned(), self.number.into());
                format!("{}\n", Value::Object(object))
            } else {
                let line = show::line(message, self.args.secrets);
                format!("{}  {}  {line}\n", text::moment(now), self.number)
            }
        };
        let lines: String = messages.iter().map(shown).collect();
        if lines.is_empty() {
            Ok(())
        } else {
            text::print(lines)
        }
    }
}
