//! Shared by the tests of the command: servers to run against, and the command as a process.
//!
//! Each scenario is a function with an [`Arm`] as its argument; [`on_both_arms`] makes two tests of it. Nothing here
//! sleeps for a fixed time. Functions wait for a condition, and give up after [`LIMIT`].

#![allow(dead_code, reason = "each test file uses only a part")]

mod contained;
mod processes;

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixDatagram},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use lockkeeper::{
    Client, CreateMode, Guard, Version,
    client::{SessionId, tls::rustls::ServerConfig},
    node::Acl,
};
use lockkeeper_server::Server;
use lockkeeper_test_support::{certificates::Authority, gate::Gate, real_server::free_ports};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::runtime::Runtime;

#[allow(unused_imports, reason = "each test file uses only a part")]
pub(crate) use contained::{contained, freely, namespace};
#[allow(unused_imports, reason = "each test file uses only a part")]
pub(crate) use processes::{
    children, comm_of, is_alive, is_ignored, is_in, launcher_of, marked, pid_of, state_of,
    until_dead, watchdog_of,
};

/// The limit of each wait: far longer than any step takes, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Makes two tests of each scenario: one against the embedded server, one against a real ZooKeeper. `contained:` runs each as
/// [`contained`] does.
#[macro_export]
macro_rules! on_both_arms {
    (contained: $($scenario:ident),+ $(,)?) => { $crate::on_both_arms!(@contained $($scenario)+); };
    ($($scenario:ident),+ $(,)?) => { $crate::on_both_arms!(@freely $($scenario)+); };
    (@$how:ident $($scenario:ident)+) => {
        mod embedded {
            use $crate::support::{$how, Arm};
            $(#[test] fn $scenario() { $how(|| super::$scenario(&Arm::embedded())); })+
        }
        mod real {
            use $crate::support::{$how, Arm};
            $(
                #[test]
                #[ignore = "needs a real ZooKeeper: tests/run.sh"]
                fn $scenario() { $how(|| super::$scenario(&Arm::real())); }
            )+
        }
    };
}

/// A server, and a client that checks the effects of the command on the server.
pub(crate) struct Arm {
    runtime: Runtime,
    pub(crate) connect: String,
    server: Option<Server>,
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

    pub(crate) fn is_embedded(&self) -> bool {
        self.server.is_some()
    }

    /// The embedded server.
    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// A path that no other test uses.
    pub(crate) fn path(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let arm = self.server.as_ref().map_or("real", |_| "embedded");
        format!(
            "/lockkeeper-cli-test/{arm}-{}-{next}-{now}",
            std::process::id()
        )
    }

    /// A way to the embedded server by TLS, and its address.
    pub(crate) fn behind_tls(&self, tls: ServerConfig) -> (Gate, String) {
        let gate = self.runtime.block_on(Gate::new(self.server(), tls));
        let address = gate.address.to_string();
        (gate, address)
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

    /// Creates a node and the nodes above it.
    pub(crate) fn create(&self, path: &str) {
        let created = self.client.create_all(path, "", CreateMode::Persistent);
        self.runtime.block_on(created).unwrap();
    }

    pub(crate) fn create_with_acl(&self, path: &str, mode: CreateMode, acl: Vec<Acl>) {
        let created = self.client.create_with_acl(path, "", mode, acl);
        self.runtime.block_on(created).unwrap();
    }

    pub(crate) fn create_ephemeral(&self, path: &str) {
        self.create_with_acl(path, CreateMode::Ephemeral, Acl::OPEN_UNSAFE.to_vec());
    }

    pub(crate) fn set_data(&self, path: &str, data: &str) {
        let set = self.client.set_data(path, data.to_owned(), Version::ANY);
        self.runtime.block_on(set).unwrap();
    }

    /// The data of a node.
    pub(crate) fn data(&self, path: &str) -> String {
        let node = self.runtime.block_on(self.client.get_data(path)).unwrap();
        String::from_utf8(node.data.unwrap().to_vec()).unwrap()
    }

    pub(crate) fn delete(&self, path: &str) {
        let deleted = self.client.delete(path, Version::ANY);
        self.runtime.block_on(deleted).unwrap();
    }

    /// Takes the lock with the client of this arm.
    pub(crate) fn hold(&self, path: &str) -> Guard {
        let mutex = lockkeeper::Mutex::new(&self.client, path).unwrap();
        self.runtime.block_on(mutex.lock()).unwrap()
    }

    pub(crate) fn release(&self, guard: Guard) {
        self.runtime.block_on(guard.release()).unwrap();
    }

    /// `lockkeeper ARGUMENTS --connect ..`, on this server.
    pub(crate) fn on(&self, arguments: &[&str]) -> Command {
        let mut lockkeeper = lockkeeper(arguments);
        lockkeeper.args(["--connect", &self.connect]);
        lockkeeper
    }

    /// Runs such a command, which must succeed, and returns its stdout.
    pub(crate) fn said(&self, arguments: &[&str]) -> String {
        let ended = ended(&mut self.on(arguments));
        assert_eq!((ended.status, &*ended.stderr), (0, ""), "{arguments:?}");
        ended.stdout
    }

    /// Runs such a command, which the server must refuse, and returns its stderr.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        ended(&mut self.on(arguments)).is(1, "").stderr
    }

    /// `lockkeeper run OPTIONS PATH -- COMMAND` on this server.
    pub(crate) fn run(&self, options: &[&str], path: &str, command: &[&str]) -> Command {
        let mut run = lockkeeper(&["run", "--connect", &self.connect]);
        run.args(options).arg(path).arg("--").args(command);
        run
    }

    /// Such a run to its end.
    pub(crate) fn ran(&self, options: &[&str], path: &str, command: &[&str]) -> Ended {
        ended(&mut self.run(options, path, command))
    }

    /// Such a run of a script.
    pub(crate) fn start(&self, options: &[&str], path: &str, script: &str) -> Running {
        Running::start(&mut self.run(options, path, &["sh", "-c", script]))
    }
}

/// A directory of one test. Dropping this value deletes the directory.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new(test: &str) -> Self {
        // Process ids are the same in each PID namespace.
        loop {
            let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
            let directory = std::env::temp_dir().join(format!("lockkeeper-{test}-{now}"));
            match fs::create_dir(&directory) {
                Ok(()) => return Self(directory),
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
        }
    }

    /// The path of a file, which need not exist.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes a file that other users may not read.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        path
    }

    pub(crate) fn fifo(&self, name: &str) -> String {
        let path = self.path(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An authority for certificates, and a file with its own one.
pub(crate) fn authority() -> (Authority, Files, String) {
    let (authority, files) = (Authority::new("ours"), Files::new("authority"));
    let ca = files.write("ca.pem", &authority.certificate);
    (authority, files, ca)
}

/// An address on which nobody listens.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", free_ports(1)[0])
}

/// A service manager, to which a `run` with `--notify` tells how far it is.
pub(crate) struct Manager(UnixDatagram, Files);

impl Manager {
    pub(crate) fn of(run: &mut Command) -> Self {
        let files = Files::new("notify");
        let path = files.path("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        run.env("NOTIFY_SOCKET", &path);
        Self(socket, files)
    }

    /// Lets a `run` of another user tell it.
    pub(crate) fn hears_everybody(self) -> Self {
        for (name, mode) in [("", 0o755), ("socket", 0o777)] {
            fs::set_permissions(self.1.path(name), Permissions::from_mode(mode)).unwrap();
        }
        self
    }

    pub(crate) fn heard(&self) -> String {
        let mut text = [0; 500];
        let length = self.0.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    /// Waits until the `run` knows that its command has begun. The command itself may have come far by then.
    pub(crate) fn until_begun(&self) {
        while !self.heard().starts_with("READY=1") {}
    }
}

/// The program `lockkeeper`, without the variables that name servers and identities.
pub(crate) fn lockkeeper<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    without_variables(command.args(arguments));
    command
}

/// A command without these variables.
pub(crate) fn without_variables(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"LOCKKEEPER_") {
            command.env_remove(name);
        }
    }
    command
}

/// The exit status and the output of a command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    fn of(status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Self {
        Self {
            status: code(status),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    /// It had this status, and wrote this to stdout.
    #[track_caller]
    pub(crate) fn is(self, status: i32, stdout: &str) -> Self {
        assert_eq!((self.status, &*self.stdout), (status, stdout), "{self:?}");
        self
    }

    /// It had this status.
    #[track_caller]
    pub(crate) fn ends(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// It wrote nothing to stderr.
    #[track_caller]
    pub(crate) fn silently(self) -> Self {
        assert_eq!(self.stderr, "", "{self:?}");
        self
    }

    /// Stderr contains this.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} is missing: {self:?}");
        self
    }

    /// Stdout contains this.
    #[track_caller]
    pub(crate) fn shows(self, text: &str) -> Self {
        let stdout = &self.stdout;
        assert!(stdout.contains(text), "{text:?} is missing: {self:?}");
        self
    }
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Ended::of(output.status, output.stdout, output.stderr)
}

/// Runs a command with this stdin to its end.
pub(crate) fn fed(command: &mut Command, input: &[u8]) -> Ended {
    let (running, mut stdin) = Running::start_to_write(command);
    stdin.write_all(input).unwrap();
    drop(stdin);
    running.end()
}

fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| panic!("ended by a signal: {status}"))
}

/// Runs a shell command in a terminal of its own. script(1), of util-linux, makes the terminal.
pub(crate) fn in_a_terminal(command: &str) -> Ended {
    let mut script = Command::new("script");
    let mut ended = ended(script.args(["--quiet", "--return", "--command", command, "/dev/null"]));
    ended.stdout = ended.stdout.replace('\r', "");
    ended.ends(0)
}

/// A shell in a new terminal, which types what the test writes to stdin. `$RUN` is `lockkeeper run OPTIONS -- sh -c`, where these
/// options end with the path.
pub(crate) fn terminal(arm: &Arm, options: &str, command: &str, script: &str) -> Command {
    let binary = env!("CARGO_BIN_EXE_lockkeeper");
    // env(1), of GNU coreutils, lets Ctrl-C through if the caller of the test ignores it: a shell cannot undo that.
    let mut env = Command::new("env");
    env.args(["--default-signal=INT,QUIT,TSTP,TTIN", "script", "--quiet"])
        .args(["--return", "--flush", "--echo", "never"])
        .args(["--command", command, "/dev/null"])
        .env("RUN", format!("{binary} run {options} -- sh -c"))
        .envs([("LOCKKEEPER_CONNECT", &*arm.connect), ("SCRIPT", script)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    env
}

/// A JSON object in each line.
pub(crate) fn objects(lines: &str) -> Vec<Value> {
    let object = |line| serde_json::from_str(line).expect(line);
    lines.lines().map(object).collect()
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
        let command = command.stdin(stdin).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Starts `lockkeeper serve` on a free port, and returns its address, too.
    pub(crate) fn serve(options: &[&str]) -> (Self, String) {
        Self::serve_at("127.0.0.1:0", options)
    }

    pub(crate) fn serve_at(address: &str, options: &[&str]) -> (Self, String) {
        let mut serve = lockkeeper(&["serve", "--listen", address]);
        let mut serve = Self::start(serve.args(options));
        let line = serve.line();
        let address = line.strip_prefix("listening on ");
        (serve, address.expect(&line).to_owned())
    }

    /// The next line of stdout without its newline; empty at the end of stdout.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The process ids and other words of the next line.
    pub(crate) fn words<const N: usize>(&mut self) -> [String; N] {
        let line = self.line();
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        words.try_into().unwrap()
    }

    /// The process id in the next line.
    pub(crate) fn pid_in_line(&mut self) -> Pid {
        pid_of(&self.line())
    }

    /// Reads stdout up to the first line that `is_wanted`. Panics if it ends before.
    pub(crate) fn line_that(&mut self, mut is_wanted: impl FnMut(&str) -> bool) -> String {
        loop {
            let mut line = String::new();
            let length = self.stdout.read_line(&mut line).unwrap();
            assert!(length > 0, "stdout has ended before this line");
            if is_wanted(line.trim_end()) {
                return line.trim_end().to_owned();
            }
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
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Closes the reading end of stdout, as `head` does.
    pub(crate) fn read_no_more(&mut self) {
        let (reader, _) = std::io::pipe().unwrap();
        self.stdout = BufReader::new(ChildStdout::from(std::os::fd::OwnedFd::from(reader)));
    }

    /// Waits for the end of the command. Stderr is read to its end, so every process that inherited it must have ended.
    pub(crate) fn end(mut self) -> Ended {
        wait_for("the end of the command", || !self.is_running());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.stdout.read_to_end(&mut stdout).unwrap();
        self.stderr.read_to_end(&mut stderr).unwrap();
        Ended::of(self.child.wait().unwrap(), stdout, stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a condition.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        let waited = start.elapsed();
        assert!(waited < LIMIT, "waited {waited:?} for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The session that holds the lock.
pub(crate) fn session_of(server: &Server, path: &str) -> Option<SessionId> {
    let holds = |node: &String| node.starts_with(path);
    let mut sessions = server.report().sessions.into_iter();
    let holder = sessions.find(|(_, session)| session.ephemerals.iter().any(holds));
    holder.map(|(id, _)| id)
}

/// The workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
