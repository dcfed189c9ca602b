//! DIGEST-MD5 over real connections, repeated on each of them.

use std::time::Duration;

use lockkeeper_proto::CreateMode;
use lockkeeper_server::Server;
use lockkeeper_session::{AuthFailure, Builder, Client, DigestMd5, ErrorKind, State};
use lockkeeper_test_support::waiting::follow;
use tokio::time::Instant;

use super::{
    gate::{Demands, Gate},
    tls::PROBE_TIMEOUT,
};

/// A server that knows alice and her password, and requires every client to authenticate.
fn server(password: &str) -> lockkeeper_server::Builder {
    Server::builder().user("alice", password).require_sasl()
}

async fn with_alice() -> Server {
    server("open sesame").start().await.unwrap()
}

fn builder(servers: &str, user: &str, password: &str) -> Builder {
    let builder = Client::builder(servers).unwrap();
    builder
        .sasl(DigestMd5::new(user, password))
        .connect_timeout(PROBE_TIMEOUT)
}

async fn refusal(builder: Builder) -> (AuthFailure, String) {
    let begin = Instant::now();
    let error = builder.connect().await.unwrap_err();
    assert!(begin.elapsed() < PROBE_TIMEOUT / 2, "{error}");
    let text = error.to_string();
    match error.kind() {
        ErrorKind::AuthFailed(reason) => (reason.clone(), text),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_right_password_opens_every_connection() {
    let server = with_alice().await;
    let client = builder(&server.connect_string(), "alice", "open sesame");
    let client = client.connect().await.unwrap();
    let session = client.snapshot().session_id;
    let watcher = client.exists_and_watch("/a").await.unwrap().1;
    for round in 1..4 {
        server.faults().cut_all();
        follow(&client, |now| now.connections > round).await;
    }
    client
        .create("/a", "", CreateMode::Ephemeral)
        .await
        .unwrap();
    assert_eq!(watcher.await.unwrap().path, "/a");
    assert_eq!(client.snapshot().session_id, session);
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_user_are_reported_at_once() {
    let server = with_alice().await;
    for (user, password) in [("alice", "hunter2"), ("bob", "open sesame")] {
        let (why, text) = refusal(builder(&server.connect_string(), user, password)).await;
        assert!(matches!(why, AuthFailure::Sasl { .. }));
        let wanted = format!("authentication failed: {}, session ", server.local_addr());
        assert!(text.starts_with(&wanted), "{text}");
        let why = format!(": user {user} was refused: wrong password, or no such user");
        assert!(text.contains(&why), "{text}");
    }
}

#[tokio::test]
async fn an_impostor_is_not_trusted() {
    let server = Server::start().await.unwrap();
    let demands = Demands {
        is_impostor: true,
        ..Demands::default()
    };
    let gate = Gate::new(&server, demands).await;
    let impostor = gate.address.to_string();
    let (why, text) = refusal(builder(&impostor, "alice", "open sesame")).await;
    assert_eq!(why, AuthFailure::ServerNotProven);
    assert!(
        text.ends_with("the server did not prove that it knows the password"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_without_sasl_is_not_trusted() {
    let server = Server::builder().start().await.unwrap();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let (why, text) = refusal(builder.sasl(DigestMd5::new("alice", "open sesame"))).await;
    assert_eq!(why, AuthFailure::SaslNotOffered);
    assert!(text.ends_with("the server does not support SASL"), "{text}");
}

/// The password is changed while the client is connected. The client ends at the next connection,
/// and its callers get that error.
#[tokio::test]
async fn a_client_whose_password_was_changed_ends() {
    let server = with_alice().await;
    let address = server.local_addr();
    let client = builder(&server.connect_string(), "alice", "open sesame");
    let client = client.connect().await.unwrap();
    server.shutdown().await;
    let _changed = loop {
        match self::server("another one").listen(address).start().await {
            Ok(server) => break server,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let error = loop {
        let error = client.get_data("/").await.unwrap_err();
        match error.kind() {
            // The lost connection fails requests that were under way. The new server does not know
            // the session, so the client reports it as expired.
            ErrorKind::ConnectionLost(_) | ErrorKind::SessionExpired => {}
            _ => break error,
        }
    };
    assert!(
        matches!(error.kind(), ErrorKind::AuthFailed(_)),
        "{error:?}"
    );
    assert_eq!(client.snapshot().state, State::AuthFailed);
}
