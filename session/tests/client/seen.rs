//! What an operator sees of a client: log lines and metrics.

use std::{
    fmt::{Debug, Write},
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockkeeper_proto::{CreateMode, OpCode, Version};
use lockkeeper_server::When;
use lockkeeper_session::State;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::DefaultGuard,
};

use super::{
    servers::{builder, client, follow, server},
    waiting::soon,
};

/// Keeps the log lines of this crate: level and text.
#[derive(Clone)]
struct Log {
    lines: Arc<Mutex<Vec<(Level, String)>>>,
    keeps: bool,
    /// The number of spans that are entered.
    depth: Arc<AtomicUsize>,
}

impl Log {
    /// Removes and returns the lines of this level.
    fn take(&self, level: Level) -> Vec<String> {
        let mut lines = self.lines.lock().unwrap();
        let (taken, kept) = lines.drain(..).partition(|(at, _)| *at == level);
        *lines = kept;
        Vec::into_iter(taken).map(|(_, line)| line).collect()
    }

    /// Removes all lines and returns those of the levels that are usually on.
    fn loud(&self) -> Vec<(Level, String)> {
        let mut lines = self.lines.lock().unwrap();
        let loud = lines.iter().filter(|(level, _)| *level <= Level::INFO);
        let loud = loud.cloned().collect();
        lines.clear();
        loud
    }
}

/// Keeps the log lines that this thread writes from now on.
///
/// `tracing` decides once for each line of code whether a subscriber wants it. If there is only one
/// subscriber, the thread that reaches the line first decides for all threads. So that no other
/// test decides, all threads have a subscriber that keeps nothing.
fn log() -> (Log, DefaultGuard) {
    static ALL_THREADS: Once = Once::new();
    ALL_THREADS.call_once(|| {
        let ignoring = Log {
            lines: Arc::default(),
            keeps: false,
            depth: Arc::default(),
        };
        let _ = tracing::subscriber::set_global_default(ignoring);
    });
    let log = Log {
        lines: Arc::default(),
        keeps: true,
        depth: Arc::default(),
    };
    (log.clone(), tracing::subscriber::set_default(log))
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lockkeeper_session")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        if !self.keeps {
            return;
        }
        let mut line = Line(match self.depth.load(Ordering::Relaxed) {
            0 => "outside of any span ".to_owned(),
            _ => String::new(),
        });
        event.record(&mut line);
        let level = *event.metadata().level();
        self.lines.lock().unwrap().push((level, line.0));
    }

    fn enter(&self, _: &span::Id) {
        self.depth.fetch_add(1, Ordering::Relaxed);
    }

    fn exit(&self, _: &span::Id) {
        self.depth.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

/// In an earlier version 40 attempts to reconnect wrote 40 lines, which told an operator nothing
/// new.
#[tokio::test]
async fn a_reconnect_is_one_log_line_for_any_number_of_attempts() {
    let (log, _guard) = log();
    let server = server().await;
    let builder = builder(&server).session_timeout(Duration::from_secs(30));
    let client = soon(builder.connect()).await.unwrap();
    let session = client.snapshot().session_id;
    let [(Level::INFO, line)] = &log.loud()[..] else {
        panic!("the log has not exactly one line");
    };
    let id = format!("session={session}");
    let address = format!("server={}", server.local_addr());
    assert!(line.contains("message=connected"), "{line}");
    assert!(line.contains(&id) && line.contains(&address), "{line}");

    server.faults().refuse_handshakes(true);
    server.faults().cut_all();
    follow(&client, |now| now.state == State::Suspended).await;
    while client.metrics().attempts < 5 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(log.take(Level::INFO), [""; 0]);
    server.faults().refuse_handshakes(false);
    follow(&client, |now| now.connections == 2).await;
    let attempts = log.take(Level::DEBUG);
    let attempts = attempts.iter().filter(|line| line.contains("connecting"));
    assert!(attempts.count() >= 4);
    let [(Level::INFO, line)] = &log.loud()[..] else {
        panic!("the log has not exactly one line");
    };
    assert!(line.contains("message=reconnected"), "{line}");
    assert!(!line.contains("outside of any span"), "{line}");
    assert!(line.contains(&id) && line.contains(&address), "{line}");
    assert!(line.contains("closed by the server"), "{line}");
    assert!(line.contains("outage="), "{line}");

    // Requests write no lines at these levels.
    for _ in 0..100 {
        client.sync("/").await.unwrap();
        let _ = client.delete("/missing", Version::ANY).await.unwrap_err();
    }
    assert_eq!(log.loud(), []);
}

#[tokio::test]
async fn an_expiry_is_one_warning_and_the_new_session_is_one_line() {
    let (log, _guard) = log();
    let server = server().await;
    let client = client(&server).await;
    let before = client.snapshot().session_id;
    log.loud();
    server.faults().expire(before);
    let after = follow(&client, |now| {
        now.state == State::Connected && now.session_id != before
    })
    .await;
    let [(Level::WARN, over), (Level::INFO, new)] = &log.loud()[..] else {
        panic!("the log has not exactly two lines");
    };
    assert!(over.contains("message=session expired"), "{over}");
    assert!(over.contains(&format!("session={before}")), "{over}");
    assert!(new.contains("message=connected"), "{new}");
    let id = format!("session={}", after.session_id);
    assert!(new.contains(&id), "{new}");
}

#[tokio::test]
async fn every_request_is_counted_by_its_result() {
    let server = server().await;
    let client = client(&server).await;
    let start = client.metrics();
    assert_eq!(
        (start.attempts, start.connections, start.reconnects()),
        (1, 1, 0)
    );
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
    assert_eq!((metrics.connections, metrics.reconnects()), (2, 1));
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
    let slow = When::op(OpCode::SYNC);
    server.faults().delay_reply(slow, late);
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.sync("/").await })
        })
        .collect();
    while client.metrics().in_flight < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.metrics().queued, 0);
    soon(client.raw().downgrade().close()).await;
    for waiting in waiting {
        assert!(soon(waiting).await.unwrap().is_err());
    }
    let metrics = client.metrics();
    assert_eq!((metrics.in_flight, metrics.unknown), (0, 3));
}

/// For an operator who asks why a request took long. The data of nodes are not logged.
#[tokio::test]
async fn each_request_is_two_lines_at_trace_level() {
    let (log, _guard) = log();
    let server = server().await;
    let client = client(&server).await;
    log.take(Level::TRACE);
    client
        .create("/a", "hunter2", CreateMode::Persistent)
        .await
        .unwrap();
    let _ = client.get_data("/missing").await.unwrap_err();
    let lines = log.take(Level::TRACE);
    let [sent, answered, other_sent, refused] = &lines[..] else {
        panic!("{lines:#?}");
    };
    assert!(sent.contains("op=create2 (15) path=\"/a\" "), "{sent}");
    assert!(sent.contains("message=request sent"), "{sent}");
    assert!(
        answered.contains("op=create2 (15) code=0 latency="),
        "{answered}"
    );
    assert!(
        other_sent.contains("op=getData (4) path=\"/missing\" "),
        "{other_sent}"
    );
    assert!(refused.contains("code=-101 latency="), "{refused}");
    let xid = |line: &str| {
        line.split(' ')
            .find(|word| word.starts_with("xid="))
            .map(str::to_owned)
    };
    assert!(xid(sent).is_some());
    assert_eq!((xid(sent), xid(other_sent)), (xid(answered), xid(refused)));
    assert!(!lines.iter().any(|line| line.contains("hunter2")));
}
