//! Correct certificates, and each kind of wrong certificate. Each kind has its own error, which the
//! client reports at once. A TLS proxy in front of the embedded server, the gate, encrypts.
//!
//! Not here: real servers with TLS (`tests/real/secure/` of the workspace).

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, mpsc},
    time::{Duration, SystemTime},
};

use lockkeeper_proto::CreateMode;
use lockkeeper_server::Server;
use lockkeeper_session::{Builder, Cause, Client, ErrorKind, State};
use lockkeeper_test_support::{
    certificates::{Authority, Identity},
    gate::{Gate, server_tls, server_tls_of},
    log::Log,
    waiting::{follow, until},
};
use lockkeeper_tls::{
    TlsConfig, TlsConfigError,
    rustls::{
        ServerConfig,
        version::{TLS12, TLS13},
    },
};
use tokio::{net::TcpListener, time::Instant};
use tracing::Level;

/// How long a client tries to connect. A wrong certificate must be reported in less than half of
/// this.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);
/// A certificate of version 1 of X.509, as `openssl x509 -req` makes it without a file of extensions.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBGDCBvwIUeqbwcG4OZBpXhAOH2zae9KMuNvMwCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDb2xkMCAXDTI2MTEyODIxNDczMFoYDzIxMjYxMTA0MjE0NzMwWjAOMQww
CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARD/P3hjsVHZ4NG
igNIMvP6eC1tYfH1BawrCNVSidi3VZNgC+Qulz/Pk4lZdvJGLrC6va/6qdCioEwi
JPjJ9/yVMAoGCCqGSM49BAMCA0gAMEUCIQD/CkOusXPqaymae6YPCvaqhwMfwq4J
NUQ0tSyq6OqsDgIgL3Piq8bFyYf+wf9h0eU7a/9qtTWCaCjykwwIyirJ4Wg=
-----END CERTIFICATE-----
";
const NAMES: &[&str] = &["localhost", "127.0.0.1"];

/// A server behind a gate with this certificate. With `clients`, the gate requires a client
/// certificate of that authority.
async fn gate(identity: &Identity, clients: Option<&Authority>) -> (Server, Gate) {
    gate_of(server_tls(identity, clients)).await
}

async fn gate_of(tls: ServerConfig) -> (Server, Gate) {
    let server = Server::builder().start().await.unwrap();
    let gate = Gate::new(&server, tls).await;
    (server, gate)
}

fn trusting(authority: &Authority) -> TlsConfig {
    TlsConfig::from_ca_pem(authority.certificate.as_bytes()).unwrap()
}

fn with_identity(config: TlsConfig, identity: &Identity) -> TlsConfig {
    let (certificate, key) = (identity.certificate.as_bytes(), identity.key.as_bytes());
    config.identity_pem(certificate, key).unwrap()
}

fn builder(gate: &Gate, config: TlsConfig) -> Builder {
    let servers = format!("localhost:{}", gate.address.port());
    let builder = Client::builder(&servers).unwrap();
    builder
        .connector(config.connector())
        .connect_timeout(PROBE_TIMEOUT)
}

/// Checks that a connect fails soon and for good, with these words.
async fn assert_fails(builder: Builder, words: &str) {
    let begin = Instant::now();
    let error = builder.connect().await.unwrap_err();
    assert!(begin.elapsed() < PROBE_TIMEOUT / 2, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    let ErrorKind::Unreachable { tried, .. } = error.kind() else {
        panic!("{error:?}")
    };
    let cause = &tried[0].cause;
    assert!(matches!(cause, Cause::Tls { .. }) && cause.is_permanent());
}

async fn assert_works(client: &Client) {
    // More data than all buffers on the way hold, so a buffer that is not flushed makes the test
    // hang.
    let data = vec![7; 900_000];
    client
        .create("/big", data.clone(), CreateMode::Persistent)
        .await
        .unwrap();
    let read = client.get_data("/big").await.unwrap().data.unwrap();
    assert!(read == data);
    client
        .delete("/big", lockkeeper_proto::Version::ANY)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_client_with_a_certificate_is_accepted_over_tls_1_2_and_1_3() {
    let authority = Authority::new("ours");
    let (server_side, client_side) = (authority.issue(NAMES), authority.issue(&["client"]));
    let (log, _guard) = Log::of_this_thread();
    for (version, name) in [(&TLS12, "TLSv1_2"), (&TLS13, "TLSv1_3")] {
        let tls = server_tls_of(&server_side, Some(&authority), &[version]);
        let (_server, gate) = gate_of(tls).await;
        let config = with_identity(trusting(&authority), &client_side);
        let told = config.clone();
        assert_eq!(told.version(), None);
        let client = builder(&gate, config).connect().await.unwrap();
        assert_works(&client).await;
        client.close().await;
        assert_eq!((gate.entered(), told.version()), (1, Some(name)));
        let told = format!("version=\"{name}\"");
        assert!(log.take().contains(&told), "{told}");
    }
}

#[tokio::test]
async fn the_end_of_the_servers_certificate_is_told() {
    let authority = Authority::new("ours");
    for end in [4_102_444_799, 2_524_608_000].map(Duration::from_secs) {
        let (_server, gate) = gate(&authority.issue_until(NAMES, end), None).await;
        let config = trusting(&authority);
        let told = config.clone();
        assert_eq!(told.certificate_end(), None);
        builder(&gate, config)
            .connect()
            .await
            .unwrap()
            .close()
            .await;
        assert_eq!(told.certificate_end(), Some(SystemTime::UNIX_EPOCH + end));
    }
}

#[tokio::test]
async fn every_connection_of_a_session_is_encrypted() {
    let authority = Authority::new("ours");
    let (_server, gate) = gate(&authority.issue(NAMES), None).await;
    let client = builder(&gate, trusting(&authority))
        .connect()
        .await
        .unwrap();
    let session = client.snapshot().session_id;
    for round in 1..4 {
        assert_works(&client).await;
        assert_eq!(gate.entered(), round);
        gate.throw_out();
        follow(&client, |now| now.connections > round as u64).await;
    }
    assert_eq!(client.snapshot().session_id, session);
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let (_server, gate) = gate(&other.issue(NAMES), None).await;
    for config in [trusting(&authority), trusting(&Authority::new("theirs"))] {
        let wanted = format!(
            "localhost:{}: the server's certificate is not signed by a trusted authority",
            gate.address.port()
        );
        assert_fails(builder(&gate, config), &wanted).await;
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_unless_the_name_is_given() {
    let authority = Authority::new("ours");
    let (_server, gate) = gate(&authority.issue(&["zk.example", "10.1.2.3"]), None).await;
    let wanted = "the server's certificate is not for localhost (but for zk.example, 10.1.2.3)";
    assert_fails(builder(&gate, trusting(&authority)), wanted).await;
    let named = trusting(&authority).server_name("zk.example").unwrap();
    builder(&gate, named).connect().await.unwrap();
    let addressed = trusting(&authority).server_name("10.1.2.3").unwrap();
    builder(&gate, addressed).connect().await.unwrap();
}

#[tokio::test]
async fn an_address_in_the_certificate_is_accepted() {
    let authority = Authority::new("ours");
    let (_server, gate) = gate(&authority.issue(&["127.0.0.1"]), None).await;
    let connector = trusting(&authority).connector();
    let builder = Client::builder(&gate.address.to_string()).unwrap();
    builder.connector(connector).connect().await.unwrap();
}

#[tokio::test]
async fn a_certificate_outside_its_validity_is_refused() {
    let authority = Authority::new("ours");
    let (old, early) = (authority.issue_expired(NAMES), authority.issue_early(NAMES));
    for (identity, words) in [
        (old, "the server's certificate has expired"),
        (
            early,
            "the server's certificate is not valid yet (or this computer's clock is wrong)",
        ),
    ] {
        let (_server, gate) = gate(&identity, None).await;
        assert_fails(builder(&gate, trusting(&authority)), words).await;
    }
}

/// The names of the checks in the library were told: `Other(OtherError(CaUsedAsEndEntity))`.
#[tokio::test]
async fn a_certificate_of_the_wrong_kind_is_refused_with_what_to_change() {
    let authority = Authority::new("ours");
    let itself = authority.issue_authority(NAMES);
    for (identity, words) in [
        (
            authority.issue_common("localhost"),
            "no name in its subjectAltName",
        ),
        (
            itself,
            "is that of an authority (CA:TRUE); issue one without",
        ),
    ] {
        let (_server, gate) = gate(&identity, None).await;
        assert_fails(builder(&gate, trusting(&authority)), words).await;
    }
}

/// In TLS 1.3 the client's handshake ends before the server has checked the client's certificate.
#[tokio::test]
async fn a_client_without_the_required_certificate_gets_that_error() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let server_side = authority.issue(NAMES);
    for version in [&TLS12, &TLS13] {
        let tls = server_tls_of(&server_side, Some(&authority), &[version]);
        let (_server, gate) = gate_of(tls).await;

        let words = "the server requires a client certificate, and none is configured";
        assert_fails(builder(&gate, trusting(&authority)), words).await;

        let wrong = with_identity(trusting(&authority), &other.issue(&["client"]));
        let words = "the server refused the client certificate (alert: ";
        assert_fails(builder(&gate, wrong), words).await;
    }
}

#[tokio::test]
async fn a_wrong_certificate_of_one_server_does_not_affect_the_others() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let (_bad, bad) = gate(&other.issue(NAMES), None).await;
    let (_good, good) = gate(&authority.issue(NAMES), None).await;
    let servers = format!(
        "localhost:{},localhost:{}",
        bad.address.port(),
        good.address.port()
    );
    for seed in 0..4 {
        let connector = trusting(&authority).connector();
        let builder = Client::builder(&servers).unwrap().seed(seed);
        let client = builder.connector(connector).connect().await.unwrap();
        let server = client.snapshot().server.unwrap();
        assert_eq!(server.port, good.address.port());
    }
}

#[tokio::test]
async fn a_port_for_plain_connections_is_recognised() {
    let server = Server::builder().start().await.unwrap();
    let connector = trusting(&Authority::new("ours")).connector();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let builder = builder
        .connector(connector)
        .connect_timeout(Duration::from_secs(3));
    let text = builder.connect().await.unwrap_err().to_string();
    assert!(
        text.contains("closed during the TLS handshake (the port may expect plain connections)"),
        "{text}"
    );

    // Another kind of server, which sends first and does not speak TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let greeter = tokio::spawn(async move {
        let mut guests = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example ESMTP\r\n")
                .await;
            guests.push(stream);
        }
    });
    let connector = trusting(&Authority::new("ours")).connector();
    let builder = Client::builder(&address).unwrap().connector(connector);
    let words = "the server does not speak TLS on this port";
    assert_fails(builder.connect_timeout(PROBE_TIMEOUT), words).await;
    greeter.abort();
}

#[tokio::test]
async fn no_key_is_printed_or_logged() {
    let authority = Authority::new("ours");
    let identity = authority.issue(NAMES);
    let (log, _guard) = Log::of_this_thread();
    let (_server, gate) = gate(&identity, Some(&authority)).await;
    let config = with_identity(trusting(&authority), &identity);
    let mut printed = format!("{config:?} {config:#?} {:?}", config.clone().connector());
    builder(&gate, config).connect().await.unwrap();
    printed += &log.take();
    assert!(printed.contains("connection encrypted"), "{printed}");
    for line in identity.key.lines().filter(|it| !it.starts_with('-')) {
        assert!(!printed.contains(line), "{printed}");
    }
}

/// A new folder for files of a test.
fn folder(name: &str) -> PathBuf {
    let name = format!("lockkeeper-{name}-{}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// A gate in place of this one, with the certificate of another authority.
async fn renew(gate: Gate, server: &Server, tls: ServerConfig) -> Gate {
    let (address, tls) = (gate.address, Arc::new(tls));
    drop(gate);
    loop {
        match Gate::at(address, server, tls.clone()).await {
            Ok(gate) => return gate,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// A client knew only the certificates of its start. When those of the servers were renewed, it lost
/// its session and its locks, while new clients with the same files connected.
#[tokio::test]
async fn renewed_certificates_are_read_for_the_next_connection() {
    let (log, _guard) = Log::of_this_thread();
    let dir = folder("renewed");
    let [ca, chain, key] = ["ca.pem", "client.pem", "client.key"].map(|name| dir.join(name));
    let write = |authority: &Authority| {
        let identity = authority.issue(&["client"]);
        fs::write(&ca, &authority.certificate).unwrap();
        fs::write(&chain, identity.certificate).unwrap();
        fs::write(&key, identity.key).unwrap();
    };
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    write(&old);
    let (server, gate) = gate(&old.issue(NAMES), Some(&old)).await;
    let config = TlsConfig::from_ca_file(&ca).unwrap();
    let config = config.identity_files(&chain, &key).unwrap();
    let builder = builder(&gate, config).session_timeout(Duration::from_secs(60));
    let client = builder.connect().await.unwrap();
    let session = client.snapshot().session_id;
    let connected = async |times| {
        let now = follow(&client, |now| now.connections == times).await;
        assert_eq!(now.session_id, session);
    };

    // Files that cannot be used do no harm: one without a certificate, and one that is missing.
    fs::write(&ca, "").unwrap();
    gate.throw_out();
    connected(2).await;
    assert!(log.lines(Level::WARN)[0].contains("ca.pem: no certificate found"));
    fs::remove_file(&key).unwrap();
    gate.throw_out();
    connected(3).await;
    assert!(log.lines(Level::WARN)[0].contains("client.key: No such file"));

    let _gate = renew(gate, &server, server_tls(&new.issue(NAMES), Some(&new))).await;
    // Meanwhile the certificate is named as the reason.
    let named = async || {
        let failures = client.failures();
        failures
            .last()
            .is_some_and(|lost| lost.cause.is_permanent())
    };
    write(&old);
    log.lines(Level::WARN);
    until("the client knows the reason", named).await;
    let attempts = client.metrics().attempts;
    until!(client.metrics().attempts > attempts + 1);
    let [said] = &log.lines(Level::WARN)[..] else {
        panic!("once");
    };
    assert!(said.contains("not signed by a trusted"), "{said}");
    write(&new);
    connected(4).await;
    assert_eq!(client.snapshot().state, State::Connected);
    assert_works(&client).await;
    fs::remove_dir_all(&dir).unwrap();
}

/// Reading the files again needs nothing of the program's runtime.
#[tokio::test]
async fn a_client_on_a_thread_of_its_own_reads_the_files() {
    let authority = Authority::new("ours");
    let (_server, gate) = gate(&authority.issue(NAMES), None).await;
    let dir = folder("own-thread");
    let ca = dir.join("ca.pem");
    fs::write(&ca, authority.certificate).unwrap();
    let config = TlsConfig::from_ca_file(&ca).unwrap();
    let client = builder(&gate, config).own_thread().connect().await.unwrap();
    assert_works(&client).await;
    client.close().await;
    fs::remove_dir_all(&dir).unwrap();
}

/// The files were read by a thread of the runtime's pool for blocking work. The session, and with it
/// the lock, was lost while a program kept all of these threads busy.
#[test]
fn the_files_are_read_while_the_runtime_is_full_of_blocking_work() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build();
    let runtime = runtime.unwrap();
    let (ends, work) = mpsc::channel::<()>();
    let dir = folder("full");
    runtime.block_on(async {
        let (old, new) = (Authority::new("old"), Authority::new("new"));
        let (server, gate) = gate(&old.issue(NAMES), None).await;
        let ca = dir.join("ca.pem");
        fs::write(&ca, old.certificate).unwrap();
        let config = TlsConfig::from_ca_file(&ca).unwrap();
        let builder = builder(&gate, config).session_timeout(Duration::from_secs(60));
        let client = builder.connect().await.unwrap();
        let before = client.snapshot().session_id;
        tokio::task::spawn_blocking(move || work.recv());
        fs::write(&ca, &new.certificate).unwrap();
        let _gate = renew(gate, &server, server_tls(&new.issue(NAMES), None)).await;
        let after = follow(&client, |now| now.connections == 2).await;
        assert_eq!(after.session_id, before);
    });
    drop(ends);
    fs::remove_dir_all(&dir).unwrap();
}

/// Each connection waited for the files, on a thread of its own. The session, and with it the lock, was
/// lost while a file system hung, although no file had changed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn files_that_cannot_be_read_now_hold_up_no_connection() {
    let (log, _guard) = Log::of_this_thread();
    let dir = folder("hung");
    let (authority, ca) = (Authority::new("ours"), dir.join("ca.pem"));
    fs::write(&ca, &authority.certificate).unwrap();
    let (_server, gate) = gate(&authority.issue(NAMES), None).await;
    let config = TlsConfig::from_ca_file(&ca).unwrap();
    let builder = builder(&gate, config).session_timeout(Duration::from_secs(120));
    let client = builder.connect().await.unwrap();
    let session = client.snapshot().session_id;
    // Whoever reads this file waits for somebody who writes it.
    fs::remove_file(&ca).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&ca).status();
    assert!(made.unwrap().success());
    for times in 2..4 {
        gate.throw_out();
        let now = follow(&client, |now| now.connections == times).await;
        assert_eq!(now.session_id, session);
        let said = &log.lines(Level::WARN)[0];
        assert!(said.contains("not read within 2 s"), "{said}");
    }
    // Those of other tests end soon.
    let is_reading = |thread: &PathBuf| {
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name == "lockkeeper-tls\n")
    };
    let threads = || fs::read_dir("/proc/self/task").unwrap();
    let threads = || threads().map(|thread| thread.unwrap().path());
    until!(threads().filter(is_reading).count() == 1);
    // Once the file can be read, the files are read again.
    drop(fs::OpenOptions::new().write(true).open(&ca).unwrap());
    fs::remove_file(&ca).unwrap();
    until("the files are read", async || {
        let connections = client.snapshot().connections;
        gate.throw_out();
        follow(&client, |now| now.connections > connections).await;
        let said = log.lines(Level::WARN).concat();
        said.contains("ca.pem: No such file")
    })
    .await;
    fs::remove_dir_all(&dir).unwrap();
}

/// Errors about the operator's files name the file and show nothing of its content.
#[test]
fn errors_name_unusable_files_and_not_their_contents() {
    let authority = Authority::new("ours");
    let (mine, yours) = (authority.issue(&["a"]), authority.issue(&["b"]));
    let dir = folder("tls");
    let file = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let ca = file("ca.pem", &authority.certificate);
    let (certificate, key) = (
        file("mine.pem", &mine.certificate),
        file("mine.key", &mine.key),
    );
    let other_key = file("yours.key", &yours.key);
    let broken_key = mine.key.replace('M', "?");
    let broken = file("broken.key", &broken_key);
    let empty = file("empty.pem", "");
    let nonsense = "-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n";
    let nonsense = file("nonsense.pem", nonsense);

    let config = || TlsConfig::from_ca_file(&ca).unwrap();
    let identity = |certificate, key| config().identity_files(certificate, key);
    let old = file("old.pem", VERSION_1);
    let rows: [(Result<TlsConfig, TlsConfigError>, &str, &str); 9] = [
        (identity(&old, &key), "old.pem", "issue it with version 3"),
        (
            TlsConfig::from_ca_file(dir.join("none")),
            "none",
            "No such file",
        ),
        (
            TlsConfig::from_ca_file(&empty),
            "empty.pem",
            "no certificate",
        ),
        (TlsConfig::from_ca_file(&nonsense), "nonsense.pem", "broken"),
        (identity(&empty, &key), "empty.pem", "no certificate"),
        (
            identity(&certificate, &empty),
            "empty.pem",
            "no private key",
        ),
        (
            identity(&certificate, &broken),
            "broken.key",
            "no private key",
        ),
        (
            identity(&certificate, &other_key),
            "yours.key",
            "does not belong to",
        ),
        (config().server_name("a b"), "a b", "neither"),
    ];
    for (result, name, what) in rows {
        let error = result.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(name) && text.contains(what), "{text}");
        for line in mine.key.lines().chain(yours.key.lines()) {
            assert!(line.starts_with('-') || !text.contains(line), "{text}");
        }
    }
    identity(&certificate, &key).unwrap();
    fs::remove_dir_all(&dir).unwrap();
}
