//! An ensemble of three real ZooKeeper servers on loopback: starts, kills, stops and restarts them.
//!
//! All tests of a binary use the same ensemble, one after the other.
//!
//! Not here: clients; the processes themselves (`real_server`).

use std::{
    fmt::Write as _,
    fs,
    hash::{BuildHasher, RandomState},
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

use lockkeeper::Client;

use crate::{
    programs::scratch,
    real_server::{RealServer, free_ports},
};

/// How many servers there are. One of them may fail.
pub const COUNT: usize = 3;

/// The servers' unit of time. Elections and timeouts are multiples of it.
pub const TICK_MS: u32 = 200;

/// Ticks that a follower and a new leader have to agree on their state before they vote again:
/// three seconds.
const INIT_TICKS: u32 = 15;

/// Ticks that a follower may lag, or a leader be silent, before they part: one second.
const SYNC_TICKS: u32 = 5;

/// Ticks that a member may lag where servers are only ended, which the others notice at once: no
/// pause of a slow machine parts them.
const LONG_SYNC_TICKS: u32 = 50;

/// Limits the time after which a server sends a lost vote again. By default that time grows to a
/// minute: of fifty elections, one took 24 s and one 54 s.
const VOTE_AGAIN: &str = "-Dzookeeper.fastleader.maxNotificationInterval=500";

/// Makes the servers log each vote with its time, so that an election without an end can be
/// understood afterwards.
const ELECTIONS_IN_LOG: [&str; 3] = [
    "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.quorum=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
];

/// How long the servers may take to start, to elect a leader and to serve, on a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A server's role, as the server reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    Follower,
    /// The server does not answer, or does not serve.
    None,
}

/// Which servers may be in the ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// Always the same three.
    Fixed,
    /// All three at first, later those that a `reconfig` names. Only the user with this digest may
    /// reconfigure.
    Dynamic { super_digest: String },
    /// Always the same three. Each reaches the others through ports of a test: `[from][to]`, for
    /// followers and for votes.
    Relayed([[[u16; 2]; COUNT]; COUNT]),
}

/// The ensemble.
#[derive(Debug)]
pub struct Servers {
    each: Vec<Server>,
    members: Members,
}

#[derive(Debug)]
struct Server {
    dir: PathBuf,
    port: u16,
    /// The server's line in configurations.
    line: String,
    process: Option<RealServer>,
    /// Whether the server was restarted in this test.
    came_back: bool,
}

/// Runs a test on the ensemble. No other test uses the ensemble at the same time.
pub fn on_ensemble(members: Members, test: impl AsyncFnOnce(&mut Servers)) {
    let mut ensemble = ensemble(members);
    let servers = ensemble.as_mut().expect("started");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads");
    runtime.block_on(test(servers));
}

/// The ensemble, locked for one test, with all three servers serving. A test that needs other
/// members than the one before gets servers of its own.
pub fn ensemble(members: Members) -> MutexGuard<'static, Option<Servers>> {
    static ENSEMBLE: Mutex<Option<Servers>> = Mutex::new(None);
    let mut ensemble = ENSEMBLE.lock().unwrap_or_else(PoisonError::into_inner);
    ensemble.take_if(|servers| servers.members != members);
    let servers = ensemble.get_or_insert_with(|| Servers::new(members));
    for number in 0..COUNT {
        // A test that failed may have left the server stopped.
        servers.signal(number, "CONT");
        servers.start(number);
        servers.each[number].came_back = false;
    }
    servers.wait_until_all_serve();
    ensemble
}

impl Servers {
    fn new(members: Members) -> Self {
        Self::at(&free_ports(3 * COUNT), members)
    }

    /// An ensemble with three ports for each server: for clients, for followers, for votes.
    pub fn at(ports: &[u16], members: Members) -> Self {
        let scratch = scratch().join("ensembles");
        let run = format!("{:016x}", RandomState::new().hash_one(0));
        let each = ports.chunks(3).enumerate().map(|(number, ports)| {
            let (port, peer, election) = (ports[0], ports[1], ports[2]);
            let mut line = line(number, [peer, election]);
            if let Members::Dynamic { .. } = members {
                write!(line, ":participant;127.0.0.1:{port}").expect("a string");
            }
            Server {
                dir: scratch.join(format!("{run}-{number}")),
                port,
                line,
                process: None,
                came_back: false,
            }
        });
        let each = each.collect();
        let servers = Self { each, members };
        for (number, server) in servers.each.iter().enumerate() {
            let data = server.dir.join("data");
            fs::create_dir_all(&data).expect("a directory below target/");
            fs::write(data.join("myid"), number.to_string()).expect("a file in it");
            servers.configure(number);
        }
        servers
    }

    /// Writes the configuration that a server starts with. It names all three servers.
    pub fn configure(&self, number: usize) {
        let Server { dir, port, .. } = &self.each[number];
        let sync_ticks = match self.members {
            Members::Dynamic { .. } => LONG_SYNC_TICKS,
            Members::Fixed | Members::Relayed(_) => SYNC_TICKS,
        };
        let mut config = format!(
            "tickTime={TICK_MS}\ninitLimit={INIT_TICKS}\nsyncLimit={sync_ticks}\n\
             minSessionTimeout=400\nmaxSessionTimeout=60000\ndataDir={}\n\
             maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
            dir.join("data").display()
        );
        let line_of = |(other, each): (usize, &Server)| match &self.members {
            Members::Relayed(ports) if other != number => line(other, ports[number][other]),
            _ => each.line.clone(),
        };
        let lines: Vec<_> = self.each.iter().enumerate().map(line_of).collect();
        let lines = lines.join("\n");
        match self.members {
            Members::Fixed | Members::Relayed(_) => {
                write!(config, "clientPort={port}\nclientPortAddress=127.0.0.1\n")
                    .expect("a string");
                config.push_str(&lines);
            }
            Members::Dynamic { .. } => {
                let members = dir.join("members");
                fs::write(&members, lines).expect("a file of ours");
                let members = members.display();
                write!(
                    config,
                    "reconfigEnabled=true\nstandaloneEnabled=false\ndynamicConfigFile={members}\n"
                )
                .expect("a string");
            }
        }
        fs::write(dir.join("zoo.cfg"), config).expect("a file of ours");
    }

    /// Whether a server was ended and started again in this test.
    pub fn came_back(&self, number: usize) -> bool {
        self.each[number].came_back
    }

    /// A server's line in configurations, `server.ID=...`.
    pub fn line(&self, number: usize) -> &str {
        &self.each[number].line
    }

    /// `host:port` of all servers, for any client.
    pub fn connect_string(&self) -> String {
        let each = self.each.iter();
        let each: Vec<_> = each.map(|server| server.address().to_string()).collect();
        each.join(",")
    }

    /// The client addresses of all servers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.each.iter().map(Server::address).collect()
    }

    pub fn address(&self, number: usize) -> SocketAddr {
        self.each[number].address()
    }

    /// The server that a client is connected to. The client must not use a proxy.
    pub fn of(&self, client: &Client) -> Option<usize> {
        let port = port_of(client)?;
        self.each.iter().position(|each| each.port == port)
    }

    /// The leader, as soon as there is one.
    pub fn leader(&self) -> usize {
        self.wait_for(Role::Leader, 1)[0]
    }

    /// The followers, as soon as all servers but one are.
    pub fn followers(&self) -> Vec<usize> {
        self.wait_for(Role::Follower, COUNT - 1)
    }

    fn wait_for(&self, role: Role, count: usize) -> Vec<usize> {
        let mut those = Vec::new();
        self.wait_until(|roles| {
            let each = (0..).zip(roles);
            those = each
                .filter(|(_, it)| **it == role)
                .map(|(number, _)| number)
                .collect();
            those.len() >= count
        });
        those
    }

    /// Kills a server without warning. Unlike in a power failure, the page cache survives.
    pub fn kill(&mut self, number: usize) {
        self.end(number, "KILL");
    }

    /// Asks a server to shut down.
    pub fn shut_down(&mut self, number: usize) {
        self.end(number, "TERM");
    }

    fn end(&mut self, number: usize, signal: &str) {
        let process = self.each[number].process.take();
        process.expect("a server that runs").end(signal);
        self.each[number].came_back = true;
    }

    /// Fills the disk of a server, and waits until the server does not serve: its process can write
    /// no byte to a file from now on. What is written already stays.
    pub fn fill_disk(&mut self, number: usize) {
        let process = self.each[number].process.as_ref();
        process.expect("a server that runs").limit("fsize", "1");
        self.wait_until(|roles| roles[number] == Role::None);
    }

    /// Stops a server's process. Its connections stay open.
    pub fn stop(&self, number: usize) {
        self.signal(number, "STOP");
    }

    /// Lets a stopped process go on.
    pub fn go_on(&self, number: usize) {
        self.signal(number, "CONT");
    }

    fn signal(&self, number: usize, signal: &str) {
        if let Some(process) = &self.each[number].process {
            process.signal(signal);
        }
    }

    /// Starts a server that does not run, with its old data.
    pub fn start(&mut self, number: usize) {
        let server = &mut self.each[number];
        if server.process.is_some() {
            return;
        }
        // Not `forceSync=no`: a follower that writes its log too fast acknowledges the old leader's
        // last write before it acknowledges the new leader. The new leader then waits in vain for
        // as long as `initLimit`, in every new try, too (ZOOKEEPER-4685).
        let mut options = vec!["-Dzookeeper.extendedTypesEnabled=true".to_owned()];
        options.push(VOTE_AGAIN.to_owned());
        options.extend(ELECTIONS_IN_LOG.map(str::to_owned));
        if let Members::Dynamic { super_digest } = &self.members {
            let property = "-Dzookeeper.DigestAuthenticationProvider.superDigest";
            options.push(format!("{property}={super_digest}"));
        }
        server.process = Some(RealServer::start(
            &server.dir,
            &options,
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            &server.dir.join("zoo.cfg"),
        ));
    }

    /// Waits until there is a leader and all others follow it.
    pub fn wait_until_all_serve(&self) {
        self.wait_until_serving(COUNT);
    }

    /// Waits until there is a leader and `count` servers serve, the leader included.
    pub fn wait_until_serving(&self, count: usize) {
        self.wait_until(|roles| do_serve(roles, count));
    }

    /// Whether so many servers serve now, with a leader.
    pub fn serve(&self, count: usize) -> bool {
        do_serve(&self.roles(), count)
    }

    fn roles(&self) -> Vec<Role> {
        self.each.iter().map(Server::role).collect()
    }

    fn wait_until(&self, mut is_so: impl FnMut(&[Role]) -> bool) {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let roles = self.roles();
            if is_so(&roles) {
                return;
            }
            let is_late = Instant::now() > deadline;
            assert!(
                !is_late,
                "the servers do not serve: {roles:?}; {}",
                self.keep_logs()
            );
            sleep(Duration::from_millis(20));
        }
    }

    /// Copies the servers' logs and returns where they are.
    pub fn keep_logs(&self) -> String {
        let mut kept = "their logs:".to_owned();
        for server in &self.each {
            let run = server.dir.file_name().unwrap_or_default();
            let log = scratch().join(run).with_extension("log");
            match fs::copy(server.dir.join("log"), &log) {
                Ok(_) => write!(kept, " {}", log.display()),
                Err(error) => write!(kept, " {error}"),
            }
            .expect("a string");
        }
        kept
    }
}

/// A server's line in configurations, with its ports for followers and for votes.
/// The port that a client is connected to.
pub fn port_of(client: &Client) -> Option<u16> {
    let snapshot = client.snapshot();
    let connected = snapshot.state.is_connected();
    Some(snapshot.server.filter(|_| connected)?.port)
}

/// Whether so many of the servers serve, with a leader.
fn do_serve(roles: &[Role], count: usize) -> bool {
    let serving = roles.iter().filter(|role| **role != Role::None);
    serving.count() >= count && roles.contains(&Role::Leader)
}

fn line(number: usize, [peer, election]: [u16; 2]) -> String {
    format!("server.{number}=127.0.0.1:{peer}:{election}")
}

impl Server {
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The role that the server reports in its answer to the four-letter word `srvr`.
    fn role(&self) -> Role {
        const SOON: Duration = Duration::from_millis(500);
        let ask = || {
            let mut socket = TcpStream::connect_timeout(&self.address(), SOON)?;
            socket.set_read_timeout(Some(SOON))?;
            socket.write_all(b"srvr")?;
            let mut answer = String::new();
            socket.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = ask().unwrap_or_default();
        if answer.contains("Mode: leader") {
            Role::Leader
        } else if answer.contains("Mode: follower") {
            Role::Follower
        } else {
            Role::None
        }
    }
}
