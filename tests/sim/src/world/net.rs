//! Connections, as the client sees them: bytes come late, in pieces, or never.
//!
//! Not here: what a server does with the bytes (`servers`), when a connection breaks (`faults`).

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::BytesMut;
use lockkeeper_server::engine::ServerId;
use lockkeeper_session::{Connector, Endpoint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Blow, Coming, Sim, World, ops::Ops};
use crate::{
    plan::{FaultKind, Trigger},
    rng::Rng,
};

/// One connection.
#[allow(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(super) struct Link {
    pub(super) client: u32,
    pub(super) server: u32,
    /// Whether the client is connected; `None` until it has been told.
    opened: Option<bool>,
    /// The bytes that the client may read.
    inbox: BytesMut,
    /// How the stream ends for the client, once the inbox is read.
    end: Option<End>,
    waker: Option<Waker>,
    /// Whether the socket takes no bytes for now.
    is_full: bool,
    /// The task that waits until the socket takes bytes again.
    writer: Option<Waker>,
    /// Whether the client has closed its end.
    client_gone: bool,
    /// Whether the engine has this connection.
    pub(super) served: bool,
    /// Set when the client has vanished: by how much later the server's bytes arrive. The client's
    /// later bytes never arrive.
    vanished: Option<u64>,
    /// Whether the bytes that the server sends from now on are lost.
    mute: bool,
    /// Whether all bytes in transit are lost, in both directions.
    broken: bool,
    /// When the last bytes of each direction arrive.
    up_last: u64,
    down_last: u64,
    pub(super) rng: Rng,
    /// What a slow server has not handled yet, and whether it handles something.
    pub(super) backlog: BytesMut,
    pub(super) is_handled: bool,
    /// How many bytes are on their way to the client.
    pub(super) on_their_way: usize,
    /// Finds the operations in the client's bytes.
    ops: Ops,
    /// Decides how much of a write the socket takes; `None` if it always takes everything.
    short: Option<Rng>,
    /// For the log: the bytes of incomplete messages, and the xid and operation of each request.
    pub(super) up_log: BytesMut,
    pub(super) down_log: BytesMut,
    pub(super) asked: Vec<(i32, i32)>,
}

/// How the stream ends for the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

/// The client's end of a connection.
struct Wire {
    sim: Sim,
    link: u64,
}

impl Sim {
    /// The connector of a client: it connects to the servers `s0`, `s1` and so on.
    pub(crate) fn connector(&self, client: u32) -> Connector {
        let sim = self.clone();
        Connector::new(move |endpoint| {
            let sim = sim.clone();
            async move { connect(sim, client, &endpoint).await }
        })
    }
}

async fn connect(sim: Sim, client: u32, endpoint: &Endpoint) -> io::Result<Wire> {
    let server = endpoint.host.trim_start_matches('s').parse();
    let server = server.map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    let link = sim.lock().open(client, server);
    let wire = Wire { sim, link };
    let taken = poll_fn(|cx| {
        let mut world = wire.sim.lock();
        let Some(link) = world.links.get_mut(&wire.link) else {
            return Poll::Ready(false);
        };
        if let Some(taken) = link.opened {
            return Poll::Ready(taken);
        }
        link.waker = Some(cx.waker().clone());
        Poll::Pending
    });
    if taken.await {
        Ok(wire)
    } else {
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

impl World {
    fn open(&mut self, client: u32, server: u32) -> u64 {
        let id = self.next_link;
        self.next_link += 1;
        let now = self.now();
        let mut link = Link {
            client,
            server,
            opened: None,
            inbox: BytesMut::new(),
            end: None,
            waker: None,
            is_full: false,
            writer: None,
            client_gone: false,
            served: false,
            vanished: None,
            mute: false,
            broken: false,
            up_last: now,
            down_last: now,
            backlog: BytesMut::new(),
            is_handled: false,
            on_their_way: 0,
            ops: Ops::default(),
            short: (self.plan.short_writes && client > 0)
                .then(|| Rng::of(self.plan.seed, ("short", client, id))),
            rng: Rng::of(self.plan.seed, ("link", client, id)),
            up_log: BytesMut::new(),
            down_log: BytesMut::new(),
            asked: Vec::new(),
        };
        let at = now + self.delay(client, &mut link.rng);
        link.up_last = at;
        // Who is to be cut off from the others has some clients.
        let faults = &self.plan.faults;
        let isolates = faults
            .iter()
            .any(|it| matches!(it.kind, FaultKind::Isolate(..)));
        if let Some(leader) = self
            .engine
            .leader()
            .filter(|_| isolates && link.rng.chance(500))
        {
            link.server = leader.0;
        }
        let server = link.server;
        self.links.insert(id, link);
        self.line(client, || {
            format!("connects to s{server} (connection {id})")
        });
        self.at(at, Coming::Accept(id));
        id
    }

    /// The server of this client's newest connection; the first server if there is none.
    pub(super) fn server_of(&self, client: u32) -> u32 {
        let mut links = self.links.values().rev();
        let own = links.find(|link| link.client == client && link.served && !link.broken);
        own.map_or(0, |link| link.server)
    }

    /// Draws how long a message takes, in microseconds.
    fn delay(&self, client: u32, rng: &mut Rng) -> u64 {
        let usual = self.plan.delay_ms * 1000;
        let delay = match rng.within(0, 99) {
            0..70 => rng.within(0, usual / 4),
            70..97 => rng.within(0, usual),
            _ => rng.within(0, 5 * usual),
        };
        let process = self.clients.get(&client);
        let slow = process.filter(|process| process.slow_until > self.now());
        delay + slow.map_or(0, |process| process.slow_by)
    }

    /// Draws how many bytes of a write the socket takes; `None` if it takes none for now.
    fn takes(&mut self, id: u64, wanted: usize, cx: &Context<'_>) -> Option<usize> {
        let Some(link) = self.links.get_mut(&id) else {
            return Some(wanted);
        };
        if link.is_full {
            link.writer = Some(cx.waker().clone());
            return None;
        }
        let Some(rng) = link.short.as_mut().filter(|_| wanted > 1) else {
            return Some(wanted);
        };
        if rng.chance(500) {
            return Some(wanted);
        }
        let some = rng.within(1, wanted as u64 - 1);
        let pause = rng.within(0, 20_000);
        link.is_full = true;
        self.figures.count("writes accepted only in part");
        let at = self.now() + pause;
        self.at(at, Coming::Room(id));
        Some(usize::try_from(some).unwrap_or(wanted))
    }

    /// The socket takes bytes again.
    pub(super) fn has_room(&mut self, id: u64) {
        if let Some(link) = self.links.get_mut(&id) {
            link.is_full = false;
            if let Some(waker) = link.writer.take() {
                waker.wake();
            }
        }
    }

    /// The client writes bytes. Returns whether the connection was alive.
    fn written(&mut self, id: u64, bytes: &[u8]) -> bool {
        let now = self.now();
        let Some(mut link) = self.links.remove(&id) else {
            return false;
        };
        let alive = link.end.is_none() && !link.broken;
        if alive && link.vanished.is_none() {
            let client = link.client;
            let mut bytes = self.hidden(client, bytes);
            self.log_up(id, &mut link, &bytes);
            self.look_at_capacity(client);
            let ops = link.ops.in_these(&bytes);
            let blow = self.strike(client, |trigger| match trigger {
                Trigger::Ping => ops.contains(&PING),
                Trigger::Any => ops.iter().any(|op| *op != PING),
                Trigger::Create => ops.contains(&CREATE),
                Trigger::Delete => ops.contains(&DELETE),
                Trigger::Multi => ops.contains(&MULTI),
            });
            if blow == Some(Blow::CutWrite) {
                let keep = link.rng.within(0, bytes.len() as u64);
                bytes.truncate(usize::try_from(keep).unwrap_or(0));
            }
            // The bytes travel in pieces, and each piece has its own delay.
            while !bytes.is_empty() {
                let piece = if link.rng.chance(150) {
                    let length = link.rng.within(1, bytes.len() as u64);
                    bytes.split_to(usize::try_from(length).unwrap_or(1))
                } else {
                    std::mem::take(&mut bytes)
                };
                let at = now + self.delay(client, &mut link.rng);
                link.up_last = at.max(link.up_last + 1);
                self.at(link.up_last, Coming::Up(id, piece));
            }
            match blow {
                Some(Blow::CutWrite) => {
                    let at = link.up_last + 1;
                    self.at(at, Coming::UpEnd(id));
                    let at = now + self.delay(client, &mut link.rng);
                    self.at(at, Coming::DownEnd(id));
                    link.mute = true;
                }
                Some(Blow::LoseReply) => {
                    link.mute = true;
                    // The client may learn of the loss before the server has the write, or long
                    // after that.
                    let late = if link.rng.chance(500) {
                        0
                    } else {
                        link.up_last - now
                    };
                    let at = now + late + self.delay(client, &mut link.rng) + 1;
                    self.at(at, Coming::DownEnd(id));
                }
                Some(Blow::Vanish(vanish)) => {
                    link.vanished = Some(vanish.late_ms * 1000);
                    let process = self.clients.entry(client).or_default();
                    let until = now + (vanish.late_ms + vanish.ms) * 1000;
                    process.silent_until = process.silent_until.max(until);
                    if let Some(after) = vanish.fails_after_ms {
                        self.at(
                            link.up_last + after * 1000,
                            Coming::Fail(ServerId(link.server)),
                        );
                    }
                }
                _ => {}
            }
        }
        self.links.insert(id, link);
        alive
    }

    /// The server sends bytes.
    pub(super) fn send_down(&mut self, id: u64, bytes: &[u8]) {
        let now = self.now();
        let Some(mut link) = self.links.remove(&id) else {
            return;
        };
        if !link.mute && !link.broken {
            let client = link.client;
            self.log_down(id, &mut link, bytes);
            link.on_their_way += bytes.len();
            let mut bytes = self.lied(&mut link, bytes);
            let blow = self.strike_reply(client);
            if blow {
                let keep = link.rng.within(0, bytes.len() as u64);
                bytes.truncate(usize::try_from(keep).unwrap_or(0));
            }
            while !bytes.is_empty() {
                let piece = if link.rng.chance(100) {
                    let length = link.rng.within(1, bytes.len() as u64);
                    bytes.split_to(usize::try_from(length).unwrap_or(1))
                } else {
                    std::mem::take(&mut bytes)
                };
                let late = link.vanished.unwrap_or(0);
                let at = now + late + self.delay(client, &mut link.rng);
                link.down_last = at.max(link.down_last + 1);
                self.at(link.down_last, Coming::Down(id, piece));
            }
            if blow {
                link.mute = true;
                let at = link.down_last + 1;
                self.at(at, Coming::DownEnd(id));
            }
        }
        let server = link.server;
        self.links.insert(id, link);
        self.look_at_memory(server);
    }

    /// The server closes the connection: after everything that it has sent has arrived, or at once.
    pub(super) fn end_down(&mut self, id: u64, at_once: bool) {
        let now = self.now();
        if let Some(link) = self.links.get_mut(&id) {
            link.served = false;
            if at_once {
                link.mute = true;
            }
            let last = if at_once { now } else { link.down_last };
            let at = last.max(now) + link.rng.within(1, 2000);
            link.down_last = at;
            self.at(at, Coming::DownEnd(id));
        }
    }

    pub(super) fn opened(&mut self, id: u64, taken: bool) {
        if let Some(link) = self.links.get_mut(&id) {
            link.opened = Some(taken);
            link.wake();
        }
    }

    pub(super) fn arrives_down(&mut self, id: u64, bytes: &[u8]) {
        if let Some(link) = self.links.get_mut(&id)
            && {
                link.on_their_way = link.on_their_way.saturating_sub(bytes.len());
                !link.broken
            }
            && link.end.is_none()
        {
            link.inbox.extend_from_slice(bytes);
            link.wake();
        }
    }

    pub(super) fn client_loses(&mut self, id: u64) {
        if let Some(link) = self.links.get_mut(&id) {
            let end = if link.mute { End::Reset } else { End::Closed };
            link.end.get_or_insert(end);
            link.opened.get_or_insert(false);
            link.wake();
        }
    }

    /// Cuts the open connections that `which` selects. Each end learns of it after a random time.
    pub(super) fn cut_links(&mut self, which: impl Fn(&Link) -> bool) {
        let now = self.now();
        let cut: Vec<u64> = self
            .links
            .iter()
            .filter(|(_, link)| which(link) && !link.broken && !link.client_gone)
            .map(|(id, _)| *id)
            .collect();
        for id in cut {
            let Some(link) = self.links.get_mut(&id) else {
                continue;
            };
            link.broken = true;
            link.mute = true;
            let client_learns = now + link.rng.within(0, 100_000);
            let server_learns = if link.rng.chance(300) {
                now + link.rng.within(0, 5_000_000)
            } else {
                now + link.rng.within(0, 100_000)
            };
            self.at(client_learns, Coming::DownEnd(id));
            self.at(server_learns, Coming::UpEnd(id));
        }
    }

    /// What this client writes from now on is lost.
    pub(super) fn mute_client(&mut self, client: u32) {
        for link in self.links.values_mut().filter(|link| link.client == client) {
            link.vanished.get_or_insert(0);
        }
    }

    /// The client closes its end. The bytes that it has written still arrive.
    fn client_gone(&mut self, id: u64) {
        if let Some(link) = self.links.get_mut(&id) {
            link.client_gone = true;
            link.mute = true;
            link.waker = None;
            let at = link.up_last + 1 + link.rng.within(0, 5000);
            self.at(at, Coming::UpEnd(id));
        }
    }

    /// Whether the connection is cut or gone, so that bytes which arrive now are lost.
    pub(super) fn is_broken(&self, id: u64) -> bool {
        self.links.get(&id).is_none_or(|link| link.broken)
    }
}

impl Link {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Whether the client has vanished on this connection. Bytes in transit still arrive then.
    pub(super) fn vanishing(&self) -> bool {
        self.vanished.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.client_gone && !self.served
    }
}

const PING: i32 = 11;
const CREATE: i32 = 15;
const DELETE: i32 = 2;
const MULTI: i32 = 14;

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut world = self.sim.lock();
        let Some(link) = world.links.get_mut(&self.link) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        if !link.inbox.is_empty() && link.end != Some(End::Reset) {
            let length = link.inbox.len().min(buf.remaining());
            buf.put_slice(&link.inbox.split_to(length));
            return Poll::Ready(Ok(()));
        }
        match link.end {
            Some(End::Closed) => Poll::Ready(Ok(())),
            Some(End::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => {
                link.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut world = self.sim.lock();
        let Some(taken) = world.takes(self.link, bytes.len(), cx) else {
            return Poll::Pending;
        };
        let bytes = bytes.get(..taken).unwrap_or(bytes);
        Poll::Ready(if world.written(self.link, bytes) {
            Ok(bytes.len())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.sim.lock().client_gone(self.link);
    }
}
