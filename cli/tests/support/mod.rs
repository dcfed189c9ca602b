//! Shared by the tests of the command: servers to run against, and the command as a process.
//!
//! Each scenario is a function with an [`Arm`] as its argument; [`on_both_arms`] makes two tests of it. Nothing here
//! sleeps for a fixed time. Functions wait for a condition, and give up after [`CONNECT_TIMEOUT`].

#![allow(dead_code, reason = "each test file uses only a part")]

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::net::UnixDatagram,
    path::PathBuf,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use lockkeeper::{Client, CreateMode, Guard, client::SessionId, node::Acl};
use lockkeeper_server::Server;
use rustix::process::{Pid, Signal};
use tokio::runtime::Runtime;

/// The limit of each wait: far longer than any step takes, even on a busy machine.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes two tests of each scenario: one against the embedded server, one against a real ZooKeeper.
#[macro_export]
macro_rules! on_both_arms {
    ($($scenario:ident),+ $(,)?) => {
        mod embedded {
            $(#[test] fn $scenario() { super::$scenario(&$crate::support::Arm::embedded()); })+
        }
        mod real {
            $(
                #[test]
                #[ignore = "needs a real ZooKeeper: tests/run.sh"]
                fn $scenario() { super::$scenario(&$crate::support::Arm::real()); }
            )+
        }
    };
}

/// A server, and a client that checks the effects of the command on the server.
pub(crate) struct Arm {
    runtime: Runtime,
    pub(crate) connect: String,
    pub(crate) server: Option<Server>,
    client: Client,
}

impl Arm {
    /// The embedded server, in this process.
    pub(crate) fn embedded() -> Self {
        let runtime = Runtime::new().unwrap();
        let tick = Duration::from_millis(100);
        let server = Server::builder().tick_time(tick).start();
        let server = runtime.block_on(server).unwrap();
        let connect = server.connect_string();
        Self::new(runtime, connect, Some(server))
    }

    /// The real ZooKeeper that `tests/run.sh` has found or started.
    pub(crate) fn real() -> Self {
        let connect = std::env::var("LOCKKEEPER_TEST_ZOOKEEPER")
            .expect("LOCKKEEPER_TEST_ZOOKEEPER names no server: use tests/run.sh");
        Self::new(Runtime::new().unwrap(), connect, None)
    }

    fn new(runtime: Runtime, connect: String, server: Option<Server>) -> Self {
        let client = runtime.block_on(Client::connect(&connect)).unwrap();
        Self {
            runtime,
            connect,
            server,
            client,
        }
    }

    /// A path that no other test uses.
    pub(crate) fn path(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let arm = self.server.as_ref().map_or("real", |_| "embedded");
        let pid = std::process::id();
        format!("/lockkeeper-cli-test/{arm}-{pid}-{next}-{now}")
    }

    /// The names of the children of a path; none if the path does not exist.
    pub(crate) fn nodes(&self, path: &str) -> Vec<String> {
        match self.runtime.block_on(self.client.get_children(path)) {
            Ok(children) => children,
            Err(error) if error.is_no_node() => Vec::new(),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until a path has this number of children.
    pub(crate) fn until_nodes(&self, path: &str, count: usize) {
        wait_for("the nodes", || self.nodes(path).len() == count);
    }

    /// Creates the node `top`, ten children, and `nodes` nodes below these children.
    pub(crate) fn create_many(&self, top: &str, nodes: usize) {
        let create = |path: String| {
            let created = self.client.create(&path, "", CreateMode::Persistent);
            self.runtime.block_on(created).unwrap();
        };
        create(top.to_owned());
        (0..10).for_each(|number| create(format!("{top}/{number}")));
        (0..nodes).for_each(|number| create(format!("{top}/{}/{number}", number % 10)));
    }

    /// Creates a node and the nodes above it.
    pub(crate) fn create(&self, path: &str) {
        let created = self.client.create_all(path, "", CreateMode::Persistent);
        self.runtime.block_on(created).unwrap();
    }

    pub(crate) fn set_data(&self, path: &str, data: &str) {
        let data = data.to_owned();
        let set = self.client.set_data(path, data, lockkeeper::Version::ANY);
        self.runtime.block_on(set).unwrap();
    }

    /// The data of a node.
    pub(crate) fn data(&self, path: &str) -> String {
        let node = self.runtime.block_on(self.client.get_data(path)).unwrap();
        String::from_utf8(node.data.unwrap().to_vec()).unwrap()
    }

    pub(crate) fn delete(&self, path: &str) {
        let version = lockkeeper::Version::ANY;
        let deleted = self.runtime.block_on(self.client.delete(path, version));
        deleted.unwrap();
    }

    pub(crate) fn create_with_acl(&self, path: &str, mode: CreateMode, acl: Vec<Acl>) {
        let created = self.client.create_with_acl(path, "", mode, acl);
        self.runtime.block_on(created).unwrap();
    }

    /// Takes the lock with the client of this arm.
    pub(crate) fn hold(&self, path: &str) -> Guard {
        let mutex = lockkeeper::Mutex::new(&self.client, path).unwrap();
        self.runtime.block_on(mutex.lock()).unwrap()
    }

    pub(crate) fn release(&self, guard: Guard) {
        self.runtime.block_on(guard.release()).unwrap();
    }

    /// `lockkeeper run OPTIONS PATH -- COMMAND` on this server.
    pub(crate) fn run(&self, options: &[&str], path: &str, command: &[&str]) -> Command {
        let mut run = lockkeeper(&["run", "--connect", &self.connect]);
        run.args(options).arg(path).arg("--").args(command);
        run
    }
}

/// A service manager, to which a `run` with `--notify` tells how far it is.
pub(crate) struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    pub(crate) fn of(arm: &Arm, run: &mut Command) -> Self {
        let name = format!("{}-notify", arm.path().replace('/', "_"));
        let path = std::env::temp_dir().join(name);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(CONNECT_TIMEOUT)).unwrap();
        run.env("NOTIFY_SOCKET", &path);
        Self { socket, path }
    }

    pub(crate) fn heard(&self) -> String {
        let mut text = [0; 500];
        let length = self.socket.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    /// Waits until the `run` knows that its command has begun. If its watchdog is killed before, it ends the command. The
    /// command itself may have come far by then.
    pub(crate) fn until_begun(&self) {
        while !self.heard().starts_with("READY=1") {}
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The program `lockkeeper`, without the variables that name servers and identities.
pub(crate) fn lockkeeper<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.args(arguments);
    command.env_remove("LOCKKEEPER_CONNECT");
    command.env_remove("LOCKKEEPER_AUTH");
    command
}

/// The exit status and the output of a command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Ended {
        status: code(output.status),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| panic!("ended by a signal: {status}"))
}

/// A running command. Dropping this value kills it.
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::with_stdin(command, Stdio::null())
    }

    /// Starts a command that reads what is written to the result.
    pub(crate) fn start_to_write(command: &mut Command) -> (Self, ChildStdin) {
        let mut running = Self::with_stdin(command, Stdio::piped());
        let stdin = running.child.stdin.take().unwrap();
        (running, stdin)
    }

    fn with_stdin(command: &mut Command, stdin: Stdio) -> Self {
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// The next line of stdout without its newline; empty at the end of stdout.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads stdout up to the first line that `is_wanted`. Panics if it ends before.
    pub(crate) fn line_that(&mut self, mut is_wanted: impl FnMut(&str) -> bool) {
        let mut line = String::new();
        while line.is_empty() || !is_wanted(line.trim_end()) {
            line.clear();
            let length = self.stdout.read_line(&mut line).unwrap();
            assert!(length > 0, "stdout has ended before this line");
        }
    }

    /// The next line of stderr without its newline.
    pub(crate) fn error_line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn pid(&self) -> Pid {
        pid_of(&self.child.id().to_string())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of the command. Stderr is read to its end, so every process that inherited it must have ended.
    pub(crate) fn end(mut self) -> Ended {
        let mut status = None;
        wait_for("the end of the command", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Ended {
            status: code(status.unwrap()),
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn pid_of(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

/// Whether a process with this pid exists and is not a zombie.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < CONNECT_TIMEOUT,
            "timed out after {CONNECT_TIMEOUT:?}: waited for {what}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// The watchdog that a `run` has started. For a moment, a new process has no arguments.
pub(crate) fn watchdog_of(run: Pid) -> Pid {
    let is_watchdog = |pid: &&str| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        command.is_ok_and(|command| command.contains("--watchdog"))
    };
    let mut watchdog = None;
    wait_for("the watchdog", || {
        let children = std::fs::read_to_string(format!("/proc/{run}/task/{run}/children")).unwrap();
        watchdog = children.split_whitespace().find(is_watchdog).map(pid_of);
        watchdog.is_some()
    });
    watchdog.unwrap()
}

/// The session that holds the lock.
pub(crate) fn session_of(server: &Server, path: &str) -> Option<SessionId> {
    let holds = |node: &String| node.starts_with(path);
    let mut sessions = server.report().sessions.into_iter();
    let holder = sessions.find(|(_, session)| session.ephemerals.iter().any(holds));
    holder.map(|(id, _)| id)
}

/// Whether this process ignores the signal, as background jobs of scripts do. The commands that it starts inherit that.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    is_in("self", "SigIgn:", signal)
}

/// Whether this process does not end by the signal.
pub(crate) fn handles(pid: Pid, signal: Signal) -> bool {
    ["SigIgn:", "SigCgt:"]
        .iter()
        .any(|set| is_in(&pid.to_string(), set, signal))
}

/// Whether the signal is in a set of this process.
fn is_in(pid: &str, set: &str, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix(set))
        .map_or(0, |set| u64::from_str_radix(set.trim(), 16).unwrap());
    set >> (signal.as_raw() - 1) & 1 == 1
}
