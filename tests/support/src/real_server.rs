//! The process of one real server. It runs as long as a test wants, and never longer than the test.
//!
//! A shell is its parent. When the test process ends, for any reason, the shell kills the server
//! and deletes its files. Not here: configurations, and questions to a running server.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    io::{self, BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::from_environment;

/// The script of the shell: starts the server, prints its pid, and waits for a line or the end of
/// stdin.
///
/// Then it kills the server. Without a line it also deletes the directory. Only the server keeps
/// the pipe open on which the pid was printed, so the test sees the server's end as the end of that
/// pipe.
const SHELL: &str = r#"
trap : INT TERM HUP
dir=$1; shift
java "$@" 3>&1 </dev/null >>"$dir/log" 2>&1 &
echo $!
exec >/dev/null
read -r keep
kill -KILL $! 2>/dev/null
wait
[ -n "$keep" ] || rm -rf "$dir"
"#;

/// How long a server may take to end after a signal. Then it is killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A started server. Dropping this value kills the server and deletes its directory.
#[derive(Debug)]
pub struct RealServer {
    shell: Child,
    /// The stdin of the shell. The server lives as long as it is open.
    word: ChildStdin,
    /// The pid of the server. No other process can get it while the shell waits, because only the
    /// shell reaps the server.
    pid: String,
    /// Reads the server's pipe. The thread ends when the server ends.
    life: JoinHandle<io::Result<u64>>,
}

impl RealServer {
    /// Starts `class` with the class path of `tests/run.sh` and little memory. Its output goes to
    /// `log` in its directory.
    pub fn start(dir: &Path, options: &[String], class: &str, configuration: &Path) -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", SHELL, "sh"])
            .arg(dir)
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .args(options)
            .args(["-cp", &from_environment("LOCKKEEPER_TEST_SERVER_CLASSPATH")])
            .arg(class)
            .arg(configuration)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh on the PATH");
        let word = shell.stdin.take().expect("piped");
        let mut output = BufReader::new(shell.stdout.take().expect("piped"));
        let mut pid = String::new();
        output
            .read_line(&mut pid)
            .expect("the number of the server");
        Self {
            shell,
            word,
            pid: pid.trim().to_owned(),
            life: thread::spawn(move || io::copy(&mut output, &mut io::sink())),
        }
    }

    pub fn has_ended(&self) -> bool {
        self.life.is_finished()
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: &str) {
        let signal = format!("-{signal}");
        let status = Command::new("kill").args([&signal, &self.pid]).status();
        assert!(status.expect("kill on the PATH").success(), "kill {signal}");
    }

    /// Changes a limit of the server's process.
    pub fn limit(&self, resource: &str, to: &str) {
        let limit = format!("--{resource}={to}");
        let status = (Command::new("prlimit").args(["--pid", &self.pid, &limit])).status();
        assert!(status.expect("prlimit on the PATH").success(), "{limit}");
    }

    /// Ends the server by a signal, and keeps its directory.
    pub fn end(mut self, signal: &str) {
        self.signal(signal);
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        self.word.write_all(b"keep\n").expect("the shell listens");
        self.shell.wait().expect("the shell ends");
    }
}

/// Free ports, below the range from which the kernel takes ports for outgoing connections.
pub fn free_ports(count: usize) -> Vec<u16> {
    let random = RandomState::new();
    let candidates = (0_u64..).map(|number| {
        let offset = random.hash_one(number) % 12_000;
        20_000 + u16::try_from(offset).expect("below 12,000")
    });
    let mut tried = BTreeSet::new();
    candidates
        .filter(|port| tried.insert(*port))
        .filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .take(count)
        .collect()
}
