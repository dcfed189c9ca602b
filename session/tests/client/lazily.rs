//! A client that starts although no server is up.

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use lockkeeper_proto::CreateMode;
use lockkeeper_session::{Cause, Client, Connector, ErrorKind, LeasePolicy, State};
use tokio::net::{TcpListener, TcpStream};

use super::{
    servers::{builder, server},
    waiting::{soon, until},
};

#[tokio::test]
async fn requests_wait_for_a_server_that_starts_later() {
    let server = server().await;
    let is_up = Arc::new(AtomicBool::new(false));
    let asked = is_up.clone();
    let connector = Connector::new(move |endpoint| {
        let asked = asked.clone();
        async move {
            if !asked.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            TcpStream::connect((&*endpoint.host, endpoint.port)).await
        }
    });
    let client = builder(&server).connector(connector).connect_lazy();
    assert_eq!(client.snapshot().state, State::Connecting);
    let mut created = pin!(client.create("/a", "", CreateMode::Persistent));
    until("some attempts have failed", async || {
        assert!(created.as_mut().now_or_never().is_none());
        client.metrics().attempts > 2
    })
    .await;
    is_up.store(true, Ordering::Relaxed);
    assert_eq!(soon(created).await.unwrap().path, "/a");
    assert!(client.snapshot().state.is_connected());
}

#[tokio::test]
async fn requests_fail_while_no_server_is_up_and_the_client_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let servers = listener.local_addr().unwrap().to_string();
    let timeout = Duration::from_millis(200);
    let builder = Client::builder(&servers).unwrap().session_timeout(timeout);
    let client = builder.connect_lazy();
    // The listener accepts, and nobody answers.
    let error = soon(client.sync("/")).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unreachable { .. }),
        "{error:?}"
    );
    assert!(!client.is_closed());
}

#[tokio::test]
async fn refused_identities_are_reported_by_the_requests() {
    let server = server().await;
    let client = builder(&server).auth("no such scheme", "").connect_lazy();
    for _ in 0..2 {
        let error = soon(client.sync("/")).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::AuthFailed(_)),
            "{error:?}"
        );
    }
    assert!(client.is_closed());
}

/// A reason that lasts ends the client. The request is told at once, not after the session timeout.
#[tokio::test]
async fn a_failure_that_lasts_is_reported_at_once() {
    let server = server().await;
    let margin = Some(Duration::from_secs(3600));
    let policy = LeasePolicy::Assumed { margin };
    let client = builder(&server).lease_policy(policy).connect_lazy();
    let error = soon(client.sync("/")).await.unwrap_err();
    let ErrorKind::Unreachable { tried, .. } = error.kind() else {
        panic!("{error:?}");
    };
    let is_short = |cause: &Cause| matches!(cause, Cause::ShortSession { .. });
    assert!(is_short(&tried[0].cause) && client.is_closed(), "{error}");
}

/// The servers closed each connection, and no error said why.
#[tokio::test]
async fn an_identity_that_no_server_takes_is_named() {
    let server = server().await;
    let builder = builder(&server).max_request(100);
    let builder = builder.auth("digest", vec![b'a'; 100]);
    let refused = soon(builder.clone().connect()).await.unwrap_err();
    let lazy = builder.connect_lazy();
    let later = soon(lazy.sync("/")).await.unwrap_err();
    for error in [refused, later] {
        let ErrorKind::TooLarge { length, limit, .. } = *error.kind() else {
            panic!("{error}")
        };
        assert_eq!((length, limit), (126, 100));
    }
    assert!(lazy.is_closed());
}
