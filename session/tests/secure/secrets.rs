//! No password, credential or key is printed or logged.

use std::fmt::Write as _;

use lockkeeper_proto::{CreateMode, Perms};
use lockkeeper_server::Server;
use lockkeeper_session::{
    Client, Config, Connector, digest, machine::Auth, machine::Machine, tls::TlsConfig,
};
use lockkeeper_test_support::log::Log;

use super::{
    certificates::Authority,
    gate::{Gate, server_tls},
};

const PASSWORD: &str = "hunter2";

/// Checks that the text contains neither the password, as text or as a list of bytes, nor the key.
fn assert_clean(text: &str, key: &str) {
    let bytes: Vec<_> = PASSWORD.bytes().map(|byte| byte.to_string()).collect();
    assert!(!text.contains(PASSWORD), "{text}");
    assert!(!text.contains(&bytes.join(", ")), "{text}");
    for line in key.lines().filter(|line| !line.starts_with('-')) {
        assert!(!text.contains(line), "{text}");
    }
}

#[tokio::test]
async fn no_secret_is_printed_or_logged() {
    // The log lines of other tests must contain no secret either.
    let log = Log::of_all_threads();
    let authority = Authority::new("ours");
    let identity = authority.issue(&["localhost"]);
    let server = Server::builder().super_user(PASSWORD);
    let mut printed = format!("{server:?} {server:#?}");
    let server = server.start().await.unwrap();
    write!(printed, "{server:?} {server:#?}").unwrap();
    let gate = Gate::new(&server, server_tls(&identity, Some(&authority))).await;

    let config = TlsConfig::from_ca_pem(authority.certificate.as_bytes()).unwrap();
    let (certificate, key) = (identity.certificate.as_bytes(), identity.key.as_bytes());
    let config = config.identity_pem(certificate, key).unwrap();
    let connector = Connector::tls(config.clone());
    let builder = |scheme| {
        let servers = format!("localhost:{}", gate.address.port());
        let builder = Client::builder(&servers).unwrap();
        let builder = builder.auth(scheme, format!("alice:{PASSWORD}"));
        builder.connector(connector.clone())
    };
    let (known, unknown) = (builder("digest"), builder("sesame"));
    write!(printed, "{config:?} {config:#?} {connector:?}").unwrap();
    write!(printed, "{known:?} {known:#?} {unknown:?}").unwrap();
    let mut machine = Config::new(&"localhost".parse().unwrap(), 1);
    machine.auth.push(Auth {
        scheme: "digest".to_owned(),
        credentials: format!("alice:{PASSWORD}").into(),
    });
    write!(printed, "{machine:?} {machine:#?}").unwrap();
    let machine = Machine::<()>::new(machine, tokio::time::Instant::now().into_std());
    write!(printed, "{machine:?} {machine:#?}").unwrap();
    let acl = vec![digest::acl(Perms::ALL, "alice", PASSWORD)];
    write!(printed, "{acl:?}").unwrap();

    let client = known.connect().await.unwrap();
    client
        .create_with_acl("/hers", "", CreateMode::Persistent, acl)
        .await
        .unwrap();
    client.get_data("/hers").await.unwrap();
    write!(printed, "{client:?} {:?}", client.snapshot()).unwrap();
    client.close().await;
    let error = match unknown.connect().await {
        Ok(client) => client.get_data("/").await.unwrap_err(),
        Err(error) => error,
    };
    write!(printed, "{error} {error:?} {error:#?}").unwrap();

    assert_clean(&printed, &identity.key);
    let logged = log.take();
    assert!(
        logged.contains("connected") && logged.contains("authentication failed"),
        "{logged}"
    );
    assert_clean(&logged, &identity.key);
}
