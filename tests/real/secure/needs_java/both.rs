//! A lock on a real server with TLS and SASL, through a restart of that server.

use lockkeeper::{
    Client, Mutex,
    client::{sasl::DigestMd5, tls::TlsConfig},
    locks::LockState,
};

use crate::secure::{
    certificates::Authority,
    server::{CONNECT_TIMEOUT, Demands, Server},
};

#[tokio::test]
#[ignore = "needs Java and a ZooKeeper with netty: tests/run.sh"]
async fn a_lock_over_tls_and_sasl_outlives_a_restart() {
    let authority = Authority::new("ours");
    let (server_side, client_side) = (
        authority.issue(&["localhost"]),
        authority.issue(&["client"]),
    );
    let mut server = Server::start(&Demands {
        tls: Some((&server_side, &authority)),
        users: &[("alice", "open sesame")],
        ..Demands::default()
    })
    .await;
    let tls = TlsConfig::from_ca_pem(authority.certificate.as_bytes()).unwrap();
    let tls = tls
        .identity_pem(
            client_side.certificate.as_bytes(),
            client_side.key.as_bytes(),
        )
        .unwrap();
    let builder = || {
        let builder = server.secure().sasl(DigestMd5::new("alice", "open sesame"));
        builder.connector(tls.clone().connector())
    };
    let (ours, theirs): (Client, Client) =
        tokio::try_join!(builder().connect(), builder().connect()).unwrap();

    let guard = Mutex::new(&ours, "/lock").unwrap().lock().await.unwrap();
    let waiting = Mutex::new(&theirs, "/lock").unwrap();
    let waiting = tokio::spawn(async move { waiting.lock().await });
    server.restart_under(&ours).await;
    assert_eq!(guard.state(), LockState::Held);
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    let next = tokio::time::timeout(CONNECT_TIMEOUT, waiting)
        .await
        .expect("the lock");
    next.unwrap().unwrap().release().await.unwrap();
}
