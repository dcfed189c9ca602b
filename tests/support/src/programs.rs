//! Compiles and runs the programs in tests/foreign, and reads their output line by line.
//!
//! Not here: what the programs do (tests/foreign/README.md).

use std::{
    env,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::OnceLock,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::from_environment;

/// A Java program with its class path. The first call compiles all Java programs.
pub fn java(class: &str) -> Command {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    let classes = CLASSES.get_or_init(compile);
    let libraries = from_environment("LOCKKEEPER_TEST_CLASSPATH");
    let mut command = Command::new("java");
    command
        // These options suit many short programs on a small machine.
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
        .arg(format!("{libraries}:{}", classes.display()))
        .arg(class);
    command
}

/// A Python program, run by the Python that has kazoo.
pub fn python(program: &str) -> Command {
    let mut command = Command::new(from_environment("LOCKKEEPER_TEST_PYTHON"));
    // Otherwise programs that import each other would leave compiled files between the sources.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.arg(sources().join(program));
    command
}

/// The Go program. The first call builds it.
pub fn go_contender() -> Command {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    Command::new(BINARY.get_or_init(build))
}

/// Builds the Go program into a directory that only this test binary uses.
fn build() -> PathBuf {
    let scratch = scratch();
    let binary = own_scratch().join("go_contender");
    let output = std::process::Command::new("go")
        .args(["build", "-o"])
        .args([&binary, &sources().join("go_contender.go")])
        .env("GO111MODULE", "off")
        .env("GOPATH", from_environment("LOCKKEEPER_TEST_GOPATH"))
        .env("GOCACHE", scratch.join("go-cache"))
        .output()
        .expect("go on the PATH");
    assert_succeeded("go build", &output);
    binary
}

/// A directory for files of tests: `tmp`, beside the profile's directory that has this program.
pub(crate) fn scratch() -> PathBuf {
    let program = env::current_exe().expect("the path of this program");
    let target = program.ancestors().nth(3).expect("target/debug/deps/NAME");
    target.join("tmp")
}

/// A part of it that only this test program uses.
fn own_scratch() -> PathBuf {
    let program = env::current_exe().expect("the path of this program");
    scratch().join(program.file_name().expect("a name"))
}

/// The directory of the programs.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../foreign")
}

/// Compiles all Java programs into a directory that only this test binary uses.
fn compile() -> PathBuf {
    let classes = own_scratch();
    let entries = sources().read_dir().expect("tests/foreign");
    let files = entries.map(|entry| entry.expect("a file").path());
    let output = std::process::Command::new("javac")
        .args(["-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1"])
        .args(["-cp", &from_environment("LOCKKEEPER_TEST_CLASSPATH"), "-d"])
        .arg(&classes)
        .args(files.filter(|file| file.extension().is_some_and(|kind| kind == "java")))
        .output()
        .expect("a JDK on the PATH");
    assert_succeeded("javac", &output);
    classes
}

/// Runs a program to its end, and returns its stdout.
pub async fn output(mut command: Command) -> String {
    let name = format!("{:?}", command.as_std());
    let run = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(PATIENCE, run).await;
    let output = output
        .unwrap_or_else(|_| panic!("no end after {PATIENCE:?}: {name}"))
        .unwrap_or_else(|error| panic!("{error}: {name}"));
    assert_succeeded(&name, &output);
    String::from_utf8(output.stdout).expect("text")
}

fn assert_succeeded(name: &str, output: &Output) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}: {name}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// A running program that a test talks to through stdin and stdout. Dropping this value kills the
/// program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{error}: {:?}", command.as_std()));
        let stdout = child.stdout.take().expect("a pipe");
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The next line of its stdout.
    pub async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        if let Some(line) = line.expect("the program is silent").expect("text") {
            return line;
        }
        let mut errors = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut errors).await;
        }
        panic!("the program ended early: {errors}");
    }

    pub async fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .expect("the program reads stdin");
    }

    /// Waits until the program ends, which must be with status 0.
    pub async fn end(mut self) {
        let status = timeout(PATIENCE, self.child.wait()).await;
        let status = status.expect("the program does not end").expect("a status");
        assert!(status.success(), "{status}");
    }
}

/// How long a program may take for one step. The slowest step is the wait for a server's reaper.
const PATIENCE: Duration = Duration::from_secs(100);
