//! The watchers, which receive the events of watches.

use std::time::Duration;

use lockkeeper_proto::AddWatchMode;
use lockkeeper_session::{self as session, Error, WatchNotice, WatchedEvent};

use crate::{
    Client,
    methods::{gets, wrapped},
    wait,
};

/// Waits for the one event of a one-shot watch. Dropping it ends the watch.
///
/// See the async [`Watcher`](lockkeeper_session::Watcher).
#[derive(Debug)]
#[must_use = "dropping it gives up the watch"]
pub struct Watcher {
    inner: session::Watcher,
    /// Keeps the session open.
    _client: Client,
}

wrapped!(session::Watcher => Watcher, session::PersistentWatcher => PersistentWatcher);

impl Watcher {
    fn new(inner: session::Watcher, client: &Client) -> Self {
        Self {
            inner,
            _client: client.clone(),
        }
    }

    /// Waits for the event.
    ///
    /// # Errors
    /// The reason why the watch has ended, see [`lockkeeper_session::Watcher`]; and [`Error::InsideRuntime`].
    pub fn wait(self) -> Result<WatchedEvent, Error> {
        wait::block_on(self.inner)?
    }

    /// Waits for the event, for at most `limit`. `None` when there was no event: the method may be called again.
    ///
    /// The watch has one event. After that the method returns `None`.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<Option<WatchedEvent>, Error> {
        wait::block_for(limit, &mut self.inner)?.transpose()
    }
}

/// Receives the events of a persistent watch. Dropping it ends the watch.
///
/// It is an iterator, which blocks until the next event. The last item is the error that ended the watch. On a thread of a
/// tokio runtime each item is [`Error::InsideRuntime`].
///
/// See the async [`PersistentWatcher`](lockkeeper_session::PersistentWatcher).
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct PersistentWatcher {
    inner: session::PersistentWatcher,
    /// Why the watch has ended.
    ended: Option<Error>,
    /// Keeps the session open.
    _client: Client,
}

impl PersistentWatcher {
    fn new(inner: session::PersistentWatcher, client: &Client) -> Self {
        Self {
            inner,
            ended: None,
            _client: client.clone(),
        }
    }

    gets! { "lockkeeper_session::PersistentWatcher":
        /// The watched node.
        fn path() -> &str;
        /// The mode of the watch.
        fn mode() -> AddWatchMode;
    }

    /// Waits for the next notice, for at most `limit`. `None` when there was none: the method may be called again.
    ///
    /// # Errors
    /// The reason why the watch has ended, each time; and [`Error::InsideRuntime`].
    pub fn next_timeout(&mut self, limit: Duration) -> Result<Option<WatchNotice>, Error> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        let next = wait::block_for(limit, self.inner.next())?.flatten();
        self.note(next).transpose()
    }

    /// Keeps the error that ends the watch.
    fn note(
        &mut self,
        next: Option<Result<WatchNotice, Error>>,
    ) -> Option<Result<WatchNotice, Error>> {
        if let Some(Err(error)) = &next {
            self.ended = Some(error.clone());
        }
        next
    }
}

impl Iterator for PersistentWatcher {
    type Item = Result<WatchNotice, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match wait::block_on(self.inner.next()) {
            Ok(next) => self.note(next),
            Err(error) => Some(Err(error)),
        }
    }
}
