//! One real server's process, which lives as long as a test wants it to and never longer than the test.
//!
//! It is the child of a shell that kills it, and deletes its files, when this process is gone, however that came.
//! Not here: configurations, and what a server says of itself.

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

use super::from_environment;

/// Starts the server and tells its number; then waits for a word, or the end of the one who would say it. The server holds
/// the pipe on which its number came, so that the end of that pipe is its own.
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

/// How long a server may take to end when it is asked to. It is killed then.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that was started. It is killed, and its directory deleted, when this is dropped.
#[derive(Debug)]
pub(crate) struct RealServer {
    shell: Child,
    /// As long as it is open the server lives.
    word: ChildStdin,
    /// Not reaped before the shell is told: the number is nobody else's until then.
    pid: String,
    /// Ends with the server.
    life: JoinHandle<io::Result<u64>>,
}

impl RealServer {
    /// Starts `class` with the class path of `tests/run.sh`, as small as servers of tests may be. What it says is added to
    /// `log` in its directory.
    pub(crate) fn start(dir: &Path, options: &[String], class: &str, configuration: &Path) -> Self {
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

    pub(crate) fn has_ended(&self) -> bool {
        self.life.is_finished()
    }

    /// Sends it a signal, which may be its last.
    pub(crate) fn signal(&self, signal: &str) {
        let signal = format!("-{signal}");
        let status = Command::new("kill").args([&signal, &self.pid]).status();
        assert!(status.expect("kill on the PATH").success(), "kill {signal}");
    }

    /// Ends it by a signal; its directory stays.
    pub(crate) fn end(mut self, signal: &str) {
        self.signal(signal);
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        self.word.write_all(b"keep\n").expect("the shell listens");
        self.shell.wait().expect("the shell ends");
    }
}

/// Ports that nobody listens on, below the range from which the kernel gives ports to outgoing connections.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
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
