//! What an operator sees of a client: log lines and metrics.

use std::time::Duration;

use lockkeeper_proto::{CreateMode, OpCode, Version};
use lockkeeper_server::When;
use lockkeeper_session::{AsRaw, State};
use lockkeeper_test_support::log::Log;
use tracing::Level;

use super::{
    servers::{builder, client, follow, server},
    waiting::{soon, until},
};

/// In an earlier version 40 attempts to reconnect wrote 40 lines, which told an operator nothing
/// new.
#[tokio::test]
async fn a_reconnect_is_one_log_line_for_any_number_of_attempts() {
    let (log, _guard) = Log::of_this_thread();
    let server = server().await;
    let builder = builder(&server).session_timeout(Duration::from_secs(30));
    let client = soon(builder.connect()).await.unwrap();
    let of_client = format!("session={}", client.snapshot().session_id);
    let of_server = format!("server={}", server.local_addr());
    // The session, the server, and the others.
    let only_line = |words: &[&str]| {
        let lines = log.lines(Level::INFO);
        let [line] = &lines[..] else {
            panic!("{lines:#?}");
        };
        for word in words
            .iter()
            .chain(&[&*of_client, &*of_server, "zookeeper: "])
        {
            assert!(line.contains(word), "{line}");
        }
    };
    only_line(&["connected"]);

    server.faults().refuse_handshakes(true);
    server.faults().cut_all();
    follow(&client, |now| now.state == State::Suspended).await;
    until!(client.metrics().attempts >= 5);
    let attempts = log.lines(Level::DEBUG);
    assert!(!attempts.iter().any(|line| line.contains("INFO")));
    let attempts = attempts.iter().filter(|line| line.contains("connecting"));
    assert!(attempts.count() >= 4);
    server.faults().refuse_handshakes(false);
    follow(&client, |now| now.connections == 2).await;
    only_line(&["reconnected", "closed by the server", "outage="]);

    // Requests write no lines at these levels.
    for _ in 0..100 {
        client.sync("/").await.unwrap();
        let _ = client.delete("/missing", Version::ANY).await.unwrap_err();
    }
    assert_eq!(log.lines(Level::INFO), [""; 0]);
}

#[tokio::test]
async fn an_expiry_is_one_warning_and_the_new_session_is_one_line() {
    let (log, _guard) = Log::of_this_thread();
    let server = server().await;
    let client = client(&server).await;
    let before = client.snapshot().session_id;
    log.take();
    server.faults().expire_early(before);
    let after = follow(&client, |now| {
        now.state == State::Connected && now.session_id != before
    })
    .await;
    let lines = log.lines(Level::INFO);
    let [over, new] = &lines[..] else {
        panic!("{lines:#?}");
    };
    for (line, words, session) in [
        (over, ["WARN", "session expired"], before),
        (new, ["INFO", "connected"], after.session_id),
    ] {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
        assert!(line.contains(&format!("session={session}")), "{line}");
    }
}

#[tokio::test]
async fn every_request_is_counted_by_its_result() {
    let server = server().await;
    let client = client(&server).await;
    let start = client.metrics();
    assert_eq!((start.attempts, start.connections), (1, 1));
    assert_eq!(start.round_trips.count(), 0);
    for _ in 0..5 {
        client.sync("/").await.unwrap();
    }
    client.delete("/missing", Version::ANY).await.unwrap_err();
    let long = "x".repeat(2 << 20);
    let mode = CreateMode::Persistent;
    client.create("/long", long, mode).await.unwrap_err();
    server.faults().lose_reply(When::create());
    client.create("/lost", "", mode).await.unwrap_err();
    let (_, _watcher) = soon(client.get_data_and_watch("/lost")).await.unwrap();
    client.set_data("/lost", "new", Version::ANY).await.unwrap();
    let (_, _watcher) = soon(client.get_data_and_watch("/lost")).await.unwrap();

    let metrics = client.metrics();
    assert_eq!(metrics.succeeded, 8);
    assert_eq!(metrics.refused, 1);
    assert_eq!(metrics.not_sent, 1);
    assert_eq!(metrics.unknown, 1);
    assert_eq!(metrics.round_trips.count(), 9);
    assert!(metrics.round_trips.total() > Duration::ZERO);
    assert_eq!(metrics.connections, 2);
    assert_eq!((metrics.events, metrics.watches), (1, 1));
    assert_eq!((metrics.in_flight, metrics.queued), (0, 0));
    assert_eq!(metrics.expired_sessions, 0);
}

#[tokio::test]
async fn bytes_and_requests_under_way_are_counted() {
    let server = server().await;
    let builder = builder(&server).session_timeout(Duration::from_secs(3));
    let client = soon(builder.connect()).await.unwrap();
    let before = client.metrics();
    // Each direction: frame length, header, path.
    client.sync("/").await.unwrap();
    let after = client.metrics();
    assert_eq!(after.bytes_sent - before.bytes_sent, 4 + 8 + 5);
    assert_eq!(after.bytes_received - before.bytes_received, 4 + 16 + 5);

    let late = Duration::from_secs(60);
    server.faults().delay_reply(When::op(OpCode::SYNC), late);
    let waiting = futures::future::join_all((0..3).map(|_| client.sync("/")));
    let close = async {
        until!(client.metrics().in_flight == 3);
        assert_eq!(client.metrics().queued, 0);
        client.raw().downgrade().close().await;
    };
    let (answers, ()) = soon(futures::future::join(waiting, close)).await;
    assert!(answers.iter().all(Result::is_err));
    let metrics = client.metrics();
    assert_eq!((metrics.in_flight, metrics.unknown), (0, 3));
}

/// For an operator who asks why a request took long. The data of nodes are not logged.
#[tokio::test]
async fn each_request_is_two_lines_at_trace_level() {
    let (log, _guard) = Log::of_this_thread();
    let server = server().await;
    let client = client(&server).await;
    log.take();
    client
        .create("/a", "hunter2", CreateMode::Persistent)
        .await
        .unwrap();
    let _ = client.get_data("/missing").await.unwrap_err();
    let mut lines = log.lines(Level::TRACE);
    lines.retain(|line| line.contains("lockkeeper_session"));
    let xid = |line: &str| {
        let mut words = line.split(' ');
        words
            .find(|word| word.starts_with("xid="))
            .map(str::to_owned)
    };
    let expected = [
        ["request sent", "op=create2 (15) path=\"/a\""],
        ["", "op=create2 (15) code=0 latency="],
        ["request sent", "op=getData (4) path=\"/missing\""],
        ["", "code=-101 latency="],
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, words) in lines.iter().zip(expected) {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
        assert!(xid(line).is_some() && !line.contains("hunter2"), "{line}");
    }
    assert_eq!(xid(&lines[0]), xid(&lines[1]));
    assert_eq!(xid(&lines[2]), xid(&lines[3]));
}
