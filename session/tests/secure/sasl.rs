//! DIGEST-MD5 over real connections, and again on each of them.

use std::time::Duration;

use lockkeeper_proto::CreateMode;
use lockkeeper_server::Server;
use lockkeeper_session::{AuthFailure, Builder, Client, DigestMd5, Error, State};

use tokio::time::Instant;

use super::{
    gate::{Demands, Gate},
    tls::PATIENCE,
};

async fn gate(is_impostor: bool) -> (Server, Gate) {
    let server = Server::builder().start().await.unwrap();
    let demands = Demands {
        sasl: Some(("alice", "open sesame")),
        is_impostor,
        ..Demands::default()
    };
    let gate = Gate::new(&server, demands).await;
    (server, gate)
}

fn builder(gate: &Gate, user: &str, password: &str) -> Builder {
    let builder = Client::builder(&gate.address.to_string()).unwrap();
    builder
        .sasl(DigestMd5::new(user, password))
        .patience(PATIENCE)
}

async fn refusal(builder: Builder) -> (AuthFailure, String) {
    let begin = Instant::now();
    let error = builder.connect().await.unwrap_err();
    assert!(begin.elapsed() < PATIENCE / 2, "{error}");
    let text = error.to_string();
    match error {
        Error::AuthFailed { reason, .. } => (reason, text),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_right_password_opens_every_connection() {
    let (_server, gate) = gate(false).await;
    let client = builder(&gate, "alice", "open sesame")
        .connect()
        .await
        .unwrap();
    let session = client.snapshot().session_id;
    let watcher = client.exists_and_watch("/a").await.unwrap().1;
    for round in 1..4 {
        assert_eq!(gate.entered(), round);
        let mut snapshots = client.snapshots();
        gate.throw_out();
        let reconnected = snapshots.wait_for(|now| now.connections > round as u64);
        tokio::time::timeout(PATIENCE, reconnected)
            .await
            .unwrap()
            .unwrap();
    }
    client
        .create("/a", "", CreateMode::Ephemeral)
        .await
        .unwrap();
    assert_eq!(watcher.await.unwrap().path, "/a");
    assert_eq!(client.snapshot().session_id, session);
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_user_are_told_at_once() {
    let (_server, gate) = gate(false).await;
    for (user, password) in [("alice", "hunter2"), ("bob", "open sesame")] {
        let (why, text) = refusal(builder(&gate, user, password)).await;
        assert!(matches!(why, AuthFailure::Sasl { .. }));
        let wanted = format!(
            "authentication failed: {}: user {user} was refused: wrong password, or no such user",
            gate.address
        );
        assert!(text.starts_with(&wanted), "{text}");
    }
    assert_eq!(gate.entered(), 0);
}

#[tokio::test]
async fn an_impostor_is_not_trusted() {
    let (_server, gate) = gate(true).await;
    let (why, text) = refusal(builder(&gate, "alice", "open sesame")).await;
    assert_eq!(why, AuthFailure::ServerNotProven);
    assert!(
        text.ends_with("the server did not show that it knows the password"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_without_sasl_is_not_trusted() {
    let server = Server::builder().start().await.unwrap();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let (why, text) = refusal(builder.sasl(DigestMd5::new("alice", "open sesame"))).await;
    assert_eq!(why, AuthFailure::SaslNotOffered);
    assert!(text.ends_with("the server knows no SASL"), "{text}");
}

/// The password was changed while the client lived: it ends at the next connection, and whoever waits is told.
#[tokio::test]
async fn a_client_whose_password_was_changed_ends() {
    let (server, gate) = gate(false).await;
    let client = builder(&gate, "alice", "open sesame")
        .connect()
        .await
        .unwrap();
    let address = gate.address;
    gate.throw_out();
    drop(gate);
    let changed = loop {
        let demands = Demands {
            sasl: Some(("alice", "another one")),
            ..Demands::default()
        };
        match Gate::at(address, &server, demands).await {
            Ok(gate) => break gate,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let error = client.get_data("/").await;
    let error = match error {
        // What was under way when the connection went.
        Err(Error::ConnectionLost(_)) => client.get_data("/").await.unwrap_err(),
        other => other.unwrap_err(),
    };
    assert!(matches!(error, Error::AuthFailed { .. }), "{error:?}");
    assert_eq!(client.snapshot().state, State::AuthFailed);
    assert_eq!(changed.entered(), 0);
}
