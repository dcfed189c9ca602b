//! The sockets of a client that has a thread of its own: `mio` says when one is ready.
//!
//! `mio` because it is the smallest crate that waits for sockets and can be woken without `unsafe`
//! here, and because tokio brings it anyway. Only the client's thread polls these sockets, and it
//! waits for events in between. So an event cannot come between a socket that would block and the
//! note of who waits for it.
//!
//! Not here: the thread (`own_thread`), when it sleeps (`parker`).

use std::{
    future::poll_fn,
    io::{self, ErrorKind, Read as _, Write as _},
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::BytesMut;
use mio::{Events, Interest, Poll as Selector, Registry, Token, event::Event, net::TcpStream};

use super::transport::{Connecting, Transport};
use crate::client::{
    parker::{Bed, Parker, Poke},
    sync::os::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
        lock,
    },
};

/// The token of the wake-up by other threads. Sockets have the others.
const WOKEN: Token = Token(usize::MAX);
/// How many events are taken at a time. A client has one socket, and few more while it connects.
const EVENTS: usize = 16;

/// What the sockets of a client share.
pub(crate) struct Reactor {
    registry: Registry,
    sources: Mutex<Vec<Option<Arc<Source>>>>,
}

/// Waits for the events of a reactor, or to be woken.
pub(crate) struct Waiter {
    selector: Selector,
    events: Events,
    reactor: Arc<Reactor>,
}

/// What is known of a socket.
#[derive(Default)]
struct Source {
    /// Whether another try to read is worth a system call.
    may_read: AtomicBool,
    /// The same for writing.
    may_write: AtomicBool,
    /// Whether the stream has an end, or an error, which is not told again.
    is_over: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Poke for mio::Waker {
    fn poke(&self) {
        // It fails only if the selector is gone; nobody sleeps then.
        let _ = self.wake();
    }
}

/// Makes a reactor, and what wakes the thread that waits for its events.
pub(crate) fn new() -> io::Result<(Waiter, Arc<Parker<mio::Waker>>)> {
    let selector = Selector::new()?;
    let waker = mio::Waker::new(selector.registry(), WOKEN)?;
    let reactor = Reactor {
        registry: selector.registry().try_clone()?,
        sources: Mutex::default(),
    };
    let waiter = Waiter {
        selector,
        events: Events::with_capacity(EVENTS),
        reactor: Arc::new(reactor),
    };
    Ok((waiter, Arc::new(Parker::new(waker))))
}

impl Waiter {
    pub(crate) fn reactor(&self) -> Arc<Reactor> {
        self.reactor.clone()
    }
}

impl Bed for Waiter {
    fn sleep(&mut self, limit: Option<Duration>) {
        // An interruption by a signal is a wake-up, too. No other error is possible.
        if self.selector.poll(&mut self.events, limit).is_err() {
            self.events.clear();
        }
    }

    fn tell(&mut self) {
        for event in &self.events {
            self.reactor.tell(event);
        }
    }
}

impl Reactor {
    /// Opens a TCP connection without Nagle's delay.
    pub(crate) fn connect(self: &Arc<Self>, address: SocketAddr) -> Connecting {
        let socket = TcpStream::connect(address).and_then(|stream| self.register(stream));
        Box::pin(async move {
            let socket = socket?;
            poll_fn(|cx| socket.poll_connected(cx)).await?;
            socket.stream.set_nodelay(true)?;
            Ok(Box::new(socket) as Box<dyn Transport>)
        })
    }

    fn register(self: &Arc<Self>, mut stream: TcpStream) -> io::Result<Socket> {
        let mut sources = lock(&self.sources);
        let source = Arc::<Source>::default();
        let free = sources.iter().position(Option::is_none);
        let number = free.unwrap_or(sources.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        (self.registry).register(&mut stream, Token(number), interest)?;
        match sources.get_mut(number) {
            Some(place) => *place = Some(source.clone()),
            None => sources.push(Some(source.clone())),
        }
        Ok(Socket {
            stream,
            source,
            number,
            reactor: self.clone(),
        })
    }

    /// Tells the socket of an event.
    fn tell(&self, event: &Event) {
        let sources = lock(&self.sources);
        let Some(Some(source)) = sources.get(event.token().0) else {
            return;
        };
        let source = source.clone();
        drop(sources);
        let is_over = event.is_error() || event.is_read_closed() || event.is_write_closed();
        source.is_over.fetch_or(is_over, Relaxed);
        (source.may_read).fetch_or(is_over || event.is_readable(), Relaxed);
        (source.may_write).fetch_or(is_over || event.is_writable(), Relaxed);
        let waker = lock(&source.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A TCP connection of the client's thread.
struct Socket {
    stream: TcpStream,
    source: Arc<Source>,
    number: usize,
    reactor: Arc<Reactor>,
}

impl Socket {
    /// Tries to do something that may block, if the socket is ready for it.
    fn attempt<T>(
        &self,
        cx: &Context<'_>,
        is_ready: &AtomicBool,
        mut work: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        while is_ready.load(Relaxed) {
            match work(&self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    is_ready.store(false, Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
        *lock(&self.source.waker) = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether the connection is accepted. A refusal is an error of the socket.
    fn poll_connected(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.attempt(cx, &self.source.may_write, |stream| {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            match stream.peer_addr() {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == ErrorKind::NotConnected => {
                    Err(ErrorKind::WouldBlock.into())
                }
                Err(error) => Err(error),
            }
        })
    }
}

impl Transport for Socket {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut BytesMut) -> Poll<io::Result<usize>> {
        let start = into.len();
        // A `Read` wants bytes to overwrite.
        into.resize(into.capacity(), 0);
        let room = into.get_mut(start..).unwrap_or_default();
        let size = room.len();
        let read = self.attempt(cx, &self.source.may_read, |mut stream| stream.read(room));
        match &read {
            Poll::Ready(Ok(read)) => {
                into.truncate(start + read);
                // The kernel has no more: the next event comes with the next bytes. It has come
                // already if they are the end.
                if *read < size && !self.source.is_over.load(Relaxed) {
                    self.source.may_read.store(false, Relaxed);
                }
            }
            _ => into.truncate(start),
        }
        read
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.attempt(cx, &self.source.may_write, |mut stream| stream.write(bytes))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = self.reactor.registry.deregister(&mut self.stream);
        if let Some(place) = lock(&self.reactor.sources).get_mut(self.number) {
            *place = None;
        }
    }
}
