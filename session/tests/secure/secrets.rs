//! No password or credential is printed or logged.

use std::fmt::Write as _;

use lockkeeper_proto::{CreateMode, Perms};
use lockkeeper_server::Server;
use lockkeeper_session::{Client, Config, digest, machine::Auth, machine::Machine};
use lockkeeper_test_support::log::Log;

const PASSWORD: &str = "hunter2";

/// Checks that the text contains no password, as text or as a list of bytes.
fn assert_clean(text: &str) {
    let bytes: Vec<_> = PASSWORD.bytes().map(|byte| byte.to_string()).collect();
    assert!(!text.contains(PASSWORD), "{text}");
    assert!(!text.contains(&bytes.join(", ")), "{text}");
}

#[tokio::test]
async fn no_secret_is_printed_or_logged() {
    // The log lines of other tests must contain no secret either.
    let log = Log::of_all_threads();
    let server = Server::builder().super_user(PASSWORD);
    let mut printed = format!("{server:?} {server:#?}");
    let server = server.start().await.unwrap();
    write!(printed, "{server:?} {server:#?}").unwrap();
    let builder = |scheme| {
        let builder = Client::builder(&server.connect_string()).unwrap();
        builder.auth(scheme, format!("alice:{PASSWORD}"))
    };
    let (known, unknown) = (builder("digest"), builder("sesame"));
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

    assert_clean(&printed);
    let logged = log.take();
    assert!(
        logged.contains("connected") && logged.contains("authentication failed"),
        "{logged}"
    );
    assert_clean(&logged);
}
