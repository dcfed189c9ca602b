//! The log lines of locks for an operator: which client holds a lock, since when, and how the hold
//! ended.
//!
//! This file has only one test, because the subscriber of the log is global for the process.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex as StdMutex},
    time::Duration,
};

use lockkeeper_proto::Version;
use lockkeeper_recipes::{Loss, Mutex, inspect};
use lockkeeper_server::Server;
use lockkeeper_session::Client;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

const SOON: Duration = Duration::from_secs(30);

/// Keeps the log lines of this crate: level, fields of the span, fields of the event.
#[derive(Clone, Default)]
struct Log {
    lines: Arc<StdMutex<Vec<String>>>,
    spans: Arc<StdMutex<Vec<String>>>,
}

impl Log {
    /// Removes and returns the lines with this message.
    fn take(&self, message: &str) -> Vec<String> {
        let wanted = format!("message={message} ");
        let mut lines = self.lines.lock().unwrap();
        let (taken, kept) = lines.drain(..).partition(|line| line.contains(&wanted));
        *lines = kept;
        taken
    }

    fn only(&self, message: &str) -> String {
        let taken = self.take(message);
        assert_eq!(taken.len(), 1, "{message}: {taken:?}");
        taken.into_iter().next().unwrap()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lockkeeper_recipes") && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut line = Line(format!("{} ", attributes.metadata().name()));
        attributes.record(&mut line);
        let mut spans = self.spans.lock().unwrap();
        spans.push(line.0);
        span::Id::from_u64(u64::try_from(spans.len()).unwrap())
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().level()));
        if let Some(id) = event.parent() {
            let index = usize::try_from(id.into_u64()).unwrap() - 1;
            line.0 += &self.spans.lock().unwrap()[index];
        }
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

/// A lock is granted, waited for, released and lost, and each of these steps is in the log.
#[tokio::test]
async fn a_hold_is_logged_as_a_span_with_its_grant_and_its_end() {
    let log = Log::default();
    let server = Server::builder().start().await.unwrap();
    let one = Client::connect(&server.connect_string()).await.unwrap();
    let older_than_the_log = Mutex::new(&one, "/older").unwrap();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let two = Client::connect(&server.connect_string()).await.unwrap();
    let (mine, yours) = (
        Mutex::new(&one, "/m").unwrap(),
        Mutex::new(&two, "/m").unwrap(),
    );

    let guard = mine.lock().await.unwrap();
    let granted = log.only("granted");
    assert!(
        granted.starts_with("DEBUG lock path=\"/m\" kind=\"mutex\" "),
        "{granted}"
    );
    let token = format!("token={} ", guard.fencing_token());
    assert!(
        granted.contains(&token) && granted.contains("waited="),
        "{granted}"
    );

    assert!(yours.try_lock().await.unwrap().is_none());
    log.only("held by another contender, not waiting");
    yours
        .try_lock_for(Duration::from_millis(1))
        .await
        .unwrap_err();
    assert!(log.only("given up").contains("waited="));
    log.take("waiting for contenders ahead");

    let (waiter, released) = tokio::join!(yours.lock(), async {
        // The holder waits until the other client is in the queue.
        while inspect(&one, "/m").await.unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        guard.release().await
    });
    released.unwrap();
    let guard = waiter.unwrap();
    assert!(log.only("released").contains("held="));
    log.only("granted");

    // An operator deletes the holder's node.
    let lost = guard.lost();
    one.delete(&guard.path(), Version::ANY).await.unwrap();
    let lost = tokio::time::timeout(SOON, lost).await.unwrap();
    assert_eq!(lost, Some(Loss::Deleted));
    let line = log.only("lock lost");
    let token = format!("token={} ", guard.fencing_token());
    assert!(
        line.starts_with("WARN lock path=\"/m\" kind=\"mutex\" "),
        "{line}"
    );
    assert!(
        line.contains(&token) && line.contains("loss=the lock node was deleted"),
        "{line}"
    );
    drop(guard);
    assert_eq!(log.take("released"), [""; 0], "a lost hold is not released");
    assert_eq!(log.take("lock lost"), [""; 0], "the loss is logged once");

    // Whoever turns the log on at night must see which lock is lost.
    let guard = older_than_the_log.lock().await.unwrap();
    let lost = guard.lost();
    one.delete(&guard.path(), Version::ANY).await.unwrap();
    tokio::time::timeout(SOON, lost).await.unwrap();
    let line = log.only("lock lost");
    assert!(line.contains("path=\"/older\" "), "{line}");
}
