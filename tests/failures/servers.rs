//! Three real ZooKeeper servers, one ensemble, on loopback: started, killed, stopped and started again.
//!
//! All tests of this binary use one ensemble, one after the other. A server is the child of a shell that kills it, and
//! deletes its files, when this process is gone, however that came.
//! Not here: clients.

use std::{
    fmt::Write as _,
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

use lockkeeper::Client;

use crate::support::from_environment;

/// How many servers there are: one may fail.
pub(crate) const COUNT: usize = 3;

/// The servers' unit of time. Elections and timeouts are multiples of it.
const TICK_MS: u32 = 200;

/// How many ticks a follower may be behind, or a leader silent: after that they part. One second.
const SYNC_TICKS: u32 = 5;

/// In an election, a vote that was lost is sent again after at most so long. By default the time grows to a minute: of fifty
/// elections one took 24 s then, and one 54 s.
const VOTE_AGAIN: &str = "-Dzookeeper.fastleader.maxNotificationInterval=500";

/// How long servers may take to start, to elect and to serve, on a machine with other things to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the server and tells its number; then waits for a word, or the end of the one who would say it.
const SHELL: &str = r#"
trap : INT TERM HUP
dir=$1; shift
java "$@" </dev/null >>"$dir/log" 2>&1 &
echo $!
read -r keep
kill -KILL $! 2>/dev/null
wait
[ -n "$keep" ] || rm -rf "$dir"
"#;

/// What a server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Leader,
    Follower,
    /// It does not answer, or does not serve.
    None,
}

/// The ensemble.
#[derive(Debug)]
pub(crate) struct Servers {
    each: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    dir: PathBuf,
    port: u16,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    shell: Child,
    /// As long as it is open the server lives.
    word: ChildStdin,
    /// Not reaped before the shell is told: the number is nobody else's until then.
    pid: String,
}

/// The ensemble, for one test alone: all three serve.
pub(crate) fn ensemble() -> MutexGuard<'static, Option<Servers>> {
    static ENSEMBLE: Mutex<Option<Servers>> = Mutex::new(None);
    let mut ensemble = ENSEMBLE.lock().unwrap_or_else(PoisonError::into_inner);
    let servers = ensemble.get_or_insert_with(Servers::new);
    for number in 0..COUNT {
        // A test that failed may have left it stopped.
        servers.signal(number, "CONT");
        servers.start(number);
    }
    servers.wait_until_all_serve();
    ensemble
}

impl Servers {
    fn new() -> Self {
        let ports = free_ports(3 * COUNT);
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failures");
        let run = format!("{:016x}", RandomState::new().hash_one(0));
        let mut quorum = String::new();
        for (number, ports) in ports.chunks(3).enumerate() {
            let (peer, election) = (ports[1], ports[2]);
            writeln!(quorum, "server.{number}=127.0.0.1:{peer}:{election}").expect("a string");
        }
        let each = ports.chunks(3).enumerate().map(|(number, ports)| {
            let dir = scratch.join(format!("{run}-{number}"));
            let (data, port) = (dir.join("data"), ports[0]);
            fs::create_dir_all(&data).expect("a directory below target/");
            fs::write(data.join("myid"), number.to_string()).expect("a file in it");
            let config = format!(
                "tickTime={TICK_MS}\ninitLimit=50\nsyncLimit={SYNC_TICKS}\n\
                 minSessionTimeout=400\nmaxSessionTimeout=60000\n\
                 clientPort={port}\nclientPortAddress=127.0.0.1\ndataDir={}\n\
                 maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{quorum}",
                data.display()
            );
            fs::write(dir.join("zoo.cfg"), config).expect("a file in it");
            Server {
                dir,
                port,
                process: None,
            }
        });
        Self {
            each: each.collect(),
        }
    }

    /// `host:port` of each, for any client.
    pub(crate) fn connect_string(&self) -> String {
        let each = self.each.iter();
        let each: Vec<_> = each.map(|server| server.address().to_string()).collect();
        each.join(",")
    }

    /// Where each serves.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.each.iter().map(Server::address).collect()
    }

    pub(crate) fn address(&self, number: usize) -> SocketAddr {
        self.each[number].address()
    }

    /// The one that a client is connected to, without anything in between.
    pub(crate) fn of(&self, client: &Client) -> Option<usize> {
        let snapshot = client.snapshot();
        let connected = snapshot.state.is_connected();
        let server = snapshot.server.filter(|_| connected)?;
        let mut each = self.each.iter();
        each.position(|each| each.port == server.port)
    }

    pub(crate) fn leader(&self) -> usize {
        *self.with(Role::Leader).first().expect("a leader")
    }

    pub(crate) fn followers(&self) -> Vec<usize> {
        self.with(Role::Follower)
    }

    fn with(&self, role: Role) -> Vec<usize> {
        let each = self.each.iter().enumerate();
        let those = each.filter(|(_, server)| server.role() == role);
        those.map(|(number, _)| number).collect()
    }

    /// Ends a server with no warning, as a power cut would, but for the page cache.
    pub(crate) fn kill(&mut self, number: usize) {
        self.end(number, "KILL");
    }

    /// Asks a server to end.
    pub(crate) fn shut_down(&mut self, number: usize) {
        self.end(number, "TERM");
    }

    fn end(&mut self, number: usize, signal: &str) {
        self.signal(number, signal);
        let address = self.each[number].address();
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_ok() {
            assert!(Instant::now() < deadline, "{address} still listens");
            sleep(Duration::from_millis(5));
        }
        let Process {
            mut shell,
            mut word,
            ..
        } = self.each[number]
            .process
            .take()
            .expect("a server that runs");
        word.write_all(b"keep\n").expect("the shell listens");
        shell.wait().expect("the shell ends");
    }

    /// Stops a server's process; nothing is closed.
    pub(crate) fn stop(&self, number: usize) {
        self.signal(number, "STOP");
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self, number: usize) {
        self.signal(number, "CONT");
    }

    fn signal(&self, number: usize, signal: &str) {
        if let Some(process) = &self.each[number].process {
            let signal = format!("-{signal}");
            let status = Command::new("kill").args([&signal, &process.pid]).status();
            assert!(status.expect("kill on the PATH").success(), "kill {signal}");
        }
    }

    /// Starts a server that does not run, with the data that it has.
    pub(crate) fn start(&mut self, number: usize) {
        let server = &mut self.each[number];
        if server.process.is_some() {
            return;
        }
        let mut shell = Command::new("sh")
            .args(["-c", SHELL, "sh"])
            .arg(&server.dir)
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .args([
                "-Dzookeeper.forceSync=no",
                "-Dzookeeper.extendedTypesEnabled=true",
            ])
            .args([
                VOTE_AGAIN,
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp",
            ])
            .arg(from_environment("LOCKKEEPER_TEST_SERVER_CLASSPATH"))
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(server.dir.join("zoo.cfg"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh on the PATH");
        let word = shell.stdin.take().expect("piped");
        let mut pid = String::new();
        let output = shell.stdout.take().expect("piped");
        let mut output = BufReader::new(output);
        output
            .read_line(&mut pid)
            .expect("the number of the server");
        let pid = pid.trim().to_owned();
        server.process = Some(Process { shell, word, pid });
    }

    /// Waits until there is a leader, and all others follow it.
    pub(crate) fn wait_until_all_serve(&self) {
        self.wait_until_serving(COUNT);
    }

    /// Waits until there is a leader, and so many serve with it.
    pub(crate) fn wait_until_serving(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let roles: Vec<_> = self.each.iter().map(Server::role).collect();
            let serving = roles.iter().filter(|role| **role != Role::None).count();
            if serving >= count && roles.contains(&Role::Leader) {
                return;
            }
            let is_late = Instant::now() > deadline;
            assert!(
                !is_late,
                "the servers do not serve: {roles:?}\n{}",
                self.logs()
            );
            sleep(Duration::from_millis(20));
        }
    }

    fn logs(&self) -> String {
        let mut logs = String::new();
        for server in &self.each {
            let mut log = String::new();
            let _ =
                File::open(server.dir.join("log")).map(|mut file| file.read_to_string(&mut log));
            let tail = log.lines().rev().take(15).collect::<Vec<_>>();
            for line in tail.into_iter().rev() {
                let _ = writeln!(logs, "{}: {line}", server.port);
            }
        }
        logs
    }
}

impl Server {
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// What it says to the four-letter word `srvr`.
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

/// Ports that nobody listens on, below the range from which the kernel gives ports to outgoing connections.
fn free_ports(count: usize) -> Vec<u16> {
    let random = RandomState::new();
    let candidates = (0_u64..).map(|number| {
        let offset = random.hash_one(number) % 12_000;
        20_000 + u16::try_from(offset).expect("below 12,000")
    });
    let mut free = Vec::new();
    for port in candidates {
        let is_free = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if is_free && !free.contains(&port) {
            free.push(port);
        }
        if free.len() == count {
            break;
        }
    }
    free
}
