//! A real server with a secure port that requires a certificate of every client.

use lockkeeper::{
    Client, CreateMode, LockError, Mutex,
    client::tls::TlsConfig,
    node::{Acl, Perms},
    proto::ErrorCode,
};

use crate::secure::{
    certificates::{Authority, Identity},
    server::{Demands, Server, refusal},
};

const NAMES: &[&str] = &["localhost", "127.0.0.1"];

fn trusting(authority: &Authority) -> TlsConfig {
    TlsConfig::from_ca_pem(authority.certificate.as_bytes()).expect("a certificate")
}

fn with_identity(config: TlsConfig, identity: &Identity) -> TlsConfig {
    let (certificate, key) = (identity.certificate.as_bytes(), identity.key.as_bytes());
    config.identity_pem(certificate, key).expect("an identity")
}

async fn assert_works(client: &Client) {
    let data = vec![7; 900_000];
    client
        .create("/big", data.clone(), CreateMode::Ephemeral)
        .await
        .unwrap();
    let read = client.get_data("/big").await.unwrap().data.unwrap();
    assert!(read == data);
}

async fn both_sides_check_certificates(more: &str) {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let identity = authority.issue(NAMES);
    let mut server = Server::start(&Demands {
        tls: Some((&identity, &authority)),
        more,
        ..Demands::default()
    })
    .await;
    let client_side = authority.issue(&["client"]);
    let with = |config: TlsConfig| server.secure().connector(config.connector());

    let right = || with_identity(trusting(&authority), &client_side);
    let client = with(right()).connect().await.unwrap();
    assert_works(&client).await;
    let identities = client.who_am_i().await.unwrap();
    let mut identities = identities.iter();
    let certified = identities.find(|identity| identity.scheme == "x509");
    let certified = certified.expect("an identity");
    assert!(certified.user.contains("CN=client"), "{certified:?}");

    let untrusted = with_identity(trusting(&other), &client_side);
    let text = refusal(with(untrusted)).await;
    assert!(
        text.contains("the server's certificate is not signed by a trusted authority"),
        "{text}"
    );

    let named = right().server_name("zk.example").unwrap();
    let text = refusal(with(named)).await;
    assert!(
        text.contains("the server's certificate is not for zk.example (but for "),
        "{text}"
    );

    let text = refusal(with(trusting(&authority))).await;
    assert!(
        text.contains("the server requires a client certificate, and none is configured (alert: "),
        "{text}"
    );

    let stranger = with_identity(trusting(&authority), &other.issue(&["client"]));
    let text = refusal(with(stranger)).await;
    assert!(
        text.contains("the server refused the client certificate (alert: "),
        "{text}"
    );

    // Without TLS at the secure port, with TLS at the plain port. Both clients retry, as the server
    // may change.
    let connect_timeout = std::time::Duration::from_secs(5);
    let plain = server.secure().connect_timeout(connect_timeout);
    let encrypted = server.plain().connector(right().connector());
    let (plain, encrypted) = tokio::join!(
        plain.connect(),
        encrypted.connect_timeout(connect_timeout).connect()
    );
    let text = plain.unwrap_err().to_string();
    assert!(
        text.contains("closed by the server during the handshake")
            && text.contains("the port expects TLS"),
        "{text}"
    );
    let text = encrypted.unwrap_err().to_string();
    assert!(
        text.contains("closed during the TLS handshake (the port may expect plain connections)"),
        "{text}"
    );

    let session = client.snapshot().session_id;
    server.restart_under(&client).await;
    assert_eq!(client.snapshot().session_id, session);
    assert!(client.get_data("/big").await.is_ok());
    client.close().await;
}

#[tokio::test]
#[ignore = "needs Java and a ZooKeeper with netty: tests/run.sh"]
async fn both_sides_check_certificates_in_tls_1_2() {
    both_sides_check_certificates("").await;
}

#[tokio::test]
#[ignore = "needs Java and a ZooKeeper with netty: tests/run.sh"]
async fn both_sides_check_certificates_in_tls_1_3() {
    // Servers before 3.9 enable no TLS 1.3 cipher by default.
    let more = "ssl.protocol=TLSv1.3\nssl.enabledProtocols=TLSv1.3\n\
                ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384";
    both_sides_check_certificates(more).await;
}

/// The name in the ACL is the whole subject, as the servers write it. A new certificate with the same subject is the same identity.
#[tokio::test]
#[ignore = "needs Java and a ZooKeeper with netty: tests/run.sh"]
async fn a_lock_for_the_subject_of_a_certificate_is_closed_to_other_subjects() {
    let authority = Authority::new("ours");
    let server_side = authority.issue(NAMES);
    let server = Server::start(&Demands {
        tls: Some((&server_side, &authority)),
        ..Demands::default()
    })
    .await;
    let connect = async |name: &str| {
        let config = with_identity(trusting(&authority), &authority.issue(&[name]));
        let acl = vec![Acl::new(Perms::ALL, "x509", "CN=ann")];
        let builder = server.secure().connector(config.connector());
        builder.default_acl(acl).connect().await.unwrap()
    };
    let (ann, bob, renewed) = (
        connect("ann").await,
        connect("bob").await,
        connect("ann").await,
    );
    let lock = async |client: &Client| Mutex::new(client, "/a")?.try_lock().await;
    let guard = lock(&ann).await.unwrap().expect("a free lock");
    let refused = lock(&bob).await.unwrap_err();
    let LockError::Session(refused) = refused else {
        panic!("{refused}");
    };
    assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH));
    assert!(lock(&renewed).await.unwrap().is_none(), "a second holder");
    guard.release().await.unwrap();
    assert!(lock(&renewed).await.unwrap().is_some());
}
