//! Starts real servers for one test: plain, encrypted, or with required passwords.
//!
//! A server keeps its data when a test kills it and starts it again, as after a crash.

use std::{
    fmt::Write as _,
    fs,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    time::Duration,
};

use lockkeeper::{Client, client::Builder};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{
    certificates::{Authority, Identity},
    programs::scratch,
    real_server::{RealServer, free_ports},
};

/// How long a server may take to start, and a client to connect or to fail. Both need far less, but
/// several Java virtual machines start at the same time.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);
/// Sessions must survive a restart of their server, even on a busy machine. This is the longest
/// timeout that the servers grant.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
/// A server that has just opened its port may never serve a connection that it accepts
/// (ZOOKEEPER-5051).
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// What a server requires of its clients.
#[derive(Default)]
pub struct Demands<'a> {
    /// The server's identity, and the authority of its clients. Every client must have a
    /// certificate.
    pub tls: Option<(&'a Identity, &'a Authority)>,
    /// SASL users and their passwords. Every client must log in.
    pub users: &'a [(&'a str, &'a str)],
    /// Further lines of the server's configuration.
    pub more: &'a str,
}

/// A running server. `Drop` kills it.
pub struct Server {
    /// `None` only while the server is being restarted.
    process: Option<RealServer>,
    dir: PathBuf,
    has_users: bool,
    plain_port: u16,
    secure_port: u16,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub async fn start(demands: &Demands<'_>) -> Self {
        for _ in 0..3 {
            let dir = directory();
            let ports = free_ports(2);
            let (plain_port, secure_port) = (ports[0], ports[1]);
            configure(&dir, demands, plain_port, secure_port);
            let has_users = !demands.users.is_empty();
            let server = Self {
                process: Some(launch(&dir, has_users)),
                dir,
                has_users,
                plain_port,
                secure_port,
            };
            if server.serves().await {
                return server;
            }
            // Another process may have taken a port before the server bound it.
            server.complain();
        }
        panic!("no ZooKeeper server started in 3 attempts: see the ends of their logs above");
    }

    /// Kills the server, like a crash, and starts it again with the same data and ports.
    pub async fn restart(&mut self) {
        let process = self.process.take();
        process.expect("a server that runs").end("KILL");
        self.process = Some(launch(&self.dir, self.has_users));
        if !self.serves().await {
            self.complain();
            panic!("ZooKeeper did not start again: see the end of its log above");
        }
    }

    /// As [`restart`](Self::restart), with these users from then on.
    pub async fn restart_with(&mut self, users: &[(&str, &str)]) {
        write_users(&self.dir, users);
        self.restart().await;
    }

    /// Restarts the server under a client that has one connection. Returns when the client has the
    /// next one.
    pub async fn restart_under(&mut self, client: &Client) {
        self.restart().await;
        let mut snapshots = client.snapshots();
        let again = snapshots.wait_for(|now| now.connections == 2);
        let again = timeout(CONNECT_TIMEOUT, again).await;
        again.expect("a connection").expect("a client that goes on");
    }

    /// A builder of clients for the plain port.
    pub fn plain(&self) -> Builder {
        builder(&self.connect_string())
    }

    /// The plain port.
    pub fn connect_string(&self) -> String {
        format!("localhost:{}", self.plain_port)
    }

    /// A builder of clients for the encrypted port.
    pub fn secure(&self) -> Builder {
        builder(&self.secure_connect_string())
    }

    /// The encrypted port.
    pub fn secure_connect_string(&self) -> String {
        format!("localhost:{}", self.secure_port)
    }

    /// Waits until the server answers `srvr`: its port opens earlier than that. Returns false when
    /// the process has ended.
    async fn serves(&self) -> bool {
        let end = Instant::now() + CONNECT_TIMEOUT;
        while Instant::now() < end {
            if self.process.as_ref().is_none_or(RealServer::has_ended) {
                return false;
            }
            if let Ok(Ok(true)) = timeout(Duration::from_secs(5), answers(self.plain_port)).await {
                return true;
            }
            sleep(Duration::from_millis(50)).await;
        }
        false
    }

    fn complain(&self) {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(20).collect();
        for line in lines.into_iter().rev() {
            eprintln!("{line}");
        }
    }
}

fn builder(servers: &str) -> Builder {
    let builder = Client::builder(servers).expect("a list of servers");
    builder
        .session_timeout(SESSION_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .server_timeout(SERVER_TIMEOUT)
}

async fn answers(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"srvr").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.contains("Zookeeper version: "))
}

fn directory() -> PathBuf {
    let name = format!("secure-{:016x}", RandomState::new().hash_one(0));
    let dir = scratch().join(name);
    fs::create_dir_all(&dir).expect("a new directory");
    dir
}

fn configure(dir: &Path, demands: &Demands<'_>, plain_port: u16, secure_port: u16) {
    let mut config = format!(
        "tickTime=500\nminSessionTimeout=500\nmaxSessionTimeout=60000\nclientPort={plain_port}\n\
         clientPortAddress=127.0.0.1\ndataDir={}\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{}\n",
        dir.join("data").display(),
        demands.more,
    );
    if let Some((identity, clients)) = demands.tls {
        config.push_str(&with_tls(dir, secure_port, identity, clients));
    }
    if !demands.users.is_empty() {
        config.push_str(
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n",
        );
        config.push_str("sessionRequireClientSASLAuth=true\n");
        write_users(dir, demands.users);
    }
    fs::write(dir.join("zoo.cfg"), config).expect("our directory");
}

/// The lines for a port that demands a certificate of every client, and the files that they name.
pub fn with_tls(dir: &Path, port: u16, identity: &Identity, clients: &Authority) -> String {
    let write = |name: &str, text: &str| {
        fs::write(dir.join(name), text).expect("our directory");
        dir.join(name).display().to_string()
    };
    let server = format!("{}{}", identity.certificate, identity.key);
    format!(
        "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location={}\nssl.keyStore.type=PEM\n\
         ssl.trustStore.location={}\nssl.trustStore.type=PEM\nssl.clientAuth=need\n",
        write("server.pem", &server),
        write("clients.pem", &clients.certificate),
    )
}

fn write_users(dir: &Path, users: &[(&str, &str)]) {
    let mut jaas =
        "Server {\n org.apache.zookeeper.server.auth.DigestLoginModule required".to_owned();
    for (user, password) in users {
        let _ = write!(jaas, "\n user_{user}=\"{password}\"");
    }
    jaas.push_str(";\n};\n");
    fs::write(dir.join("jaas.conf"), jaas).expect("our directory");
}

fn launch(dir: &Path, has_users: bool) -> RealServer {
    let mut options = vec![
        "-Dfile.encoding=UTF-8".to_owned(),
        "-Dzookeeper.forceSync=no".to_owned(), // no test simulates a power failure
    ];
    if has_users {
        let jaas = dir.join("jaas.conf");
        options.push(format!(
            "-Djava.security.auth.login.config={}",
            jaas.display()
        ));
    }
    let class = "org.apache.zookeeper.server.ZooKeeperServerMain";
    RealServer::start(dir, &options, class, &dir.join("zoo.cfg"))
}

/// Connects, expects an error and returns its text. The error must come well before the connect
/// timeout.
pub async fn refusal(builder: Builder) -> String {
    let begin = Instant::now();
    let error = builder.connect().await.expect_err("a refusal");
    assert!(begin.elapsed() < CONNECT_TIMEOUT / 2, "{error}");
    error.to_string()
}
