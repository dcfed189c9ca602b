//! A proxy between one client and the servers, or one server and another. A test can cut its
//! connections: silently, in one direction or both, or with a reset. It can also keep bytes back.
//!
//! Not here: the content of the bytes. A [`Tap`] may read and change them.

use std::{
    borrow::Cow,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use crate::{
    real_server::free_ports,
    servers::{COUNT, Members, Servers},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// What happens to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    /// Bytes in this direction, or in both, wait until the mode changes.
    Hold(Option<Direction>),
    /// Existing connections, and those made while this lasts, stay open but never again carry a
    /// byte in either direction.
    Swallow,
    /// Existing connections carry nothing in one direction. New connections carry nothing.
    SwallowOne(Direction),
}

impl Mode {
    fn holds(self, direction: Direction) -> bool {
        matches!(self, Self::Hold(held) if held.is_none_or(|held| held == direction))
    }
}

/// Which bytes are lost, or wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those to the server.
    ToServer,
    /// Those from the server.
    FromServer,
}

/// Sees the bytes of one connection, and says which bytes go on. It ends with the connection.
pub trait Tap: Send {
    fn pass<'a>(&mut self, direction: Direction, bytes: &'a [u8]) -> Cow<'a, [u8]>;
}

/// Makes the tap of a new connection to the server with this number.
pub type Taps = Arc<dyn Fn(usize) -> Box<dyn Tap> + Send + Sync>;

/// Passes everything on.
impl Tap for () {
    fn pass<'a>(&mut self, _: Direction, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        bytes.into()
    }
}

/// One client's connections to all servers.
#[derive(Debug)]
pub struct Proxy {
    ports: Vec<u16>,
    mode: watch::Sender<Mode>,
    /// How many resets of all connections the test has asked for.
    resets: watch::Sender<u64>,
    /// The listeners. They end with the proxy.
    _listeners: JoinSet<()>,
}

impl Proxy {
    pub async fn to(servers: &[SocketAddr]) -> Self {
        Self::tapped(servers, Arc::new(|_| Box::new(()))).await
    }

    /// A proxy with a tap for each connection.
    pub async fn tapped(servers: &[SocketAddr], taps: Taps) -> Self {
        let (mode, modes) = watch::channel(Mode::Pass);
        let (resets, reset) = watch::channel(0);
        let (mut listeners, mut ports) = (JoinSet::new(), Vec::new());
        for (number, server) in servers.iter().copied().enumerate() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
            let listener = listener.expect("a free port on loopback");
            ports.push(listener.local_addr().expect("it is bound").port());
            let (modes, reset, taps) = (modes.clone(), reset.clone(), taps.clone());
            listeners.spawn(async move {
                let mut wires = JoinSet::new();
                while let Ok((client, _)) = listener.accept().await {
                    let wire = wire(client, server, modes.clone(), reset.clone(), taps(number));
                    wires.spawn(wire);
                    while wires.try_join_next().is_some() {}
                }
            });
        }
        Self {
            ports,
            mode,
            resets,
            _listeners: listeners,
        }
    }

    /// The proxy's own `host:port` for each server.
    pub fn connect_string(&self) -> String {
        let ports = self.ports.iter();
        let ports: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        ports.join(",")
    }

    /// From now on no byte arrives, and neither side notices.
    pub fn swallow(&self) {
        self.mode.send_replace(Mode::Swallow);
    }

    /// From now on bytes in this direction, or in both, wait until [`pass`](Self::pass), and so does
    /// the end of a connection.
    pub fn hold(&self, direction: Option<Direction>) {
        self.mode.send_replace(Mode::Hold(direction));
    }

    /// Resets all connections. Until [`mend`](Self::mend), new connections carry nothing.
    pub fn cut(&self) {
        self.swallow();
        self.reset();
    }

    /// From now on no byte arrives in this direction, and neither side notices.
    pub fn swallow_one(&self, direction: Direction) {
        self.mode.send_replace(Mode::SwallowOne(direction));
    }

    /// The proxy's own port for each server.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// New connections work again, and bytes that wait go on. The swallowed bytes and their connections are lost.
    pub fn pass(&self) {
        self.mode.send_replace(Mode::Pass);
    }

    /// New connections work again, and those whose bytes were swallowed are reset: both sides
    /// notice.
    pub fn mend(&self) {
        if *self.mode.borrow() != Mode::Pass {
            self.pass();
            self.reset();
        }
    }

    /// Resets all connections. New connections work.
    pub fn reset(&self) {
        self.resets.send_modify(|resets| *resets += 1);
    }
}

/// Three servers that were started, and the proxies through which each reaches the others:
/// `[from][to]`.
pub async fn relayed(taps: impl Fn(usize, usize) -> Taps) -> (Servers, Vec<Vec<Proxy>>) {
    let ports = free_ports(3 * COUNT);
    let (mut proxies, mut relays) = (Vec::new(), [[[0; 2]; COUNT]; COUNT]);
    for (from, relays) in relays.iter_mut().enumerate() {
        let mut row = Vec::new();
        for (to, relay) in relays.iter_mut().enumerate() {
            let targets = [ports[3 * to + 1], ports[3 * to + 2]];
            let targets = targets.map(|port| (Ipv4Addr::LOCALHOST, port).into());
            let proxy = Proxy::tapped(&targets, taps(from, to)).await;
            relay.copy_from_slice(proxy.ports());
            row.push(proxy);
        }
        proxies.push(row);
    }
    let mut servers = Servers::at(&ports, Members::Relayed(relays));
    (0..COUNT).for_each(|number| servers.start(number));
    (servers, proxies)
}

/// Runs one connection.
async fn wire(
    mut client: TcpStream,
    server: SocketAddr,
    mut modes: watch::Receiver<Mode>,
    mut resets: watch::Receiver<u64>,
    mut tap: Box<dyn Tap>,
) {
    resets.mark_unchanged();
    let mut mode = *modes.borrow_and_update();
    if matches!(mode, Mode::Pass | Mode::Hold(_)) {
        let Ok(mut upstream) = TcpStream::connect(server).await else {
            let _ = client.set_zero_linger();
            return;
        };
        let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
        let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let passes = loop {
            // Read only as much as can be passed on at once. Bytes that are on the way when the
            // test cuts are lost.
            tokio::select! {
                biased;
                _ = modes.changed() => match *modes.borrow_and_update() {
                    passing @ (Mode::Pass | Mode::Hold(_)) => mode = passing,
                    Mode::Swallow => break None,
                    Mode::SwallowOne(Direction::ToServer) => break Some(Direction::FromServer),
                    Mode::SwallowOne(Direction::FromServer) => break Some(Direction::ToServer),
                },
                _ = resets.changed() => {
                    let _ = (client.set_zero_linger(), upstream.set_zero_linger());
                    return;
                }
                read = client.read(&mut up), if !mode.holds(Direction::ToServer) => match read {
                    Ok(count @ 1..) if upstream.write_all(&tap.pass(Direction::ToServer, &up[..count])).await.is_ok() => {}
                    _ => return,
                },
                read = upstream.read(&mut down), if !mode.holds(Direction::FromServer) => match read {
                    Ok(count @ 1..) if client.write_all(&tap.pass(Direction::FromServer, &down[..count])).await.is_ok() => {}
                    _ => return,
                },
            }
        };
        swallow(
            &mut client,
            Some(&mut upstream),
            passes,
            &mut resets,
            &mut *tap,
        )
        .await;
    } else {
        swallow(&mut client, None, None, &mut resets, &mut *tap).await;
    }
}

/// Keeps a connection open and reads everything that comes, until the client closes it. In the
/// direction `passes`, it passes on the bytes, and that a side has closed the connection.
async fn swallow(
    client: &mut TcpStream,
    mut upstream: Option<&mut TcpStream>,
    passes: Option<Direction>,
    resets: &mut watch::Receiver<u64>,
    tap: &mut dyn Tap,
) {
    use Direction::{FromServer, ToServer};
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let from_server = async {
            match &mut upstream {
                Some(upstream) => upstream.read(&mut down).await.unwrap_or(0),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = client.read(&mut up) => match read {
                Ok(count @ 1..) => if passes == Some(ToServer) && let Some(upstream) = &mut upstream {
                    let _ = upstream.write_all(&tap.pass(ToServer, &up[..count])).await;
                },
                _ => return,
            },
            count = from_server => match (count, passes) {
                (0, Some(FromServer)) => return,
                (0, _) => upstream = None,
                (_, Some(FromServer)) => {
                    let _ = client.write_all(&tap.pass(FromServer, &down[..count])).await;
                }
                _ => {}
            },
            _ = resets.changed() => return,
        }
    }
}
