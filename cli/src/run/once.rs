//! `--once-per`: at most one start of the command in each period, by the servers' time alone.
//!
//! Periods are counted from 1970 on, so `15m` begins at each quarter of an hour in UTC. Two nodes beside the lock keep the time:
//! - `PATH.once` has the time of the last start, in milliseconds since 1970. It is written under the lock, in a transaction that
//!   fails if the lock is lost.
//! - `PATH.once/clock` is written by everyone. The server notes the time of each write, and answers it. That is what time it is.
//!
//! Invariant: no clock of this machine decides anything. If the servers' clock goes back, no period is run again.
//! Nothing of this is below `PATH`: some clients take every child of a lock's directory for a contender.

use std::time::Duration;

use lockkeeper::{Client, Error, Guard, Version, proto::path};

use crate::{
    client::create_all,
    duration::Human,
    exit::{self, Failure},
    text::quoted,
};

/// The record of one lock.
#[derive(Debug)]
pub(super) struct Once<'a> {
    pub(super) client: &'a Client,
    pub(super) path: &'a str,
    pub(super) period: Duration,
}

impl Once<'_> {
    /// The nodes of the record and of the clock.
    pub(super) fn nodes(path: &str) -> [String; 2] {
        let record = format!("{path}.once");
        let clock = path::join(&record, "clock");
        [record, clock]
    }

    /// Looks whether the command has run in this period. Returns the servers' time, and the version of the record.
    ///
    /// # Errors
    /// [`exit::ALREADY_DONE`] if it has.
    pub(super) async fn check(&self) -> Result<(i64, Version), Failure> {
        // The clock makes both nodes if they are missing. A start behind it is one of this period or a later one.
        let now_ms = self.now().await?;
        let [name, _] = Self::nodes(self.path);
        let record = self.client.get_data(&name).await?;
        let data = record.data.unwrap_or_default();
        let text = String::from_utf8_lossy(&data);
        let text = text.trim();
        let last_ms = match text.parse::<i64>() {
            Err(_) if !text.is_empty() => {
                let text = quoted(text);
                return Err(failure!(
                    USAGE,
                    "{name} says \"{text}\" in place of the time of the last start; delete it if the command may run"
                ));
            }
            last => last.ok(),
        };
        if last_ms.is_some_and(|last| self.period_of(now_ms) <= self.period_of(last)) {
            let (path, period) = (self.path, Human(self.period));
            let message = format_args!("{path}: it has run in this period of {period}");
            return Err(Failure::new(exit::ALREADY_DONE, message));
        }
        Ok((now_ms, record.stat.version))
    }

    /// Checks again, and notes the start of the command, all under the lock.
    pub(super) async fn begin(&self, guard: &Guard) -> Result<(), Failure> {
        let (now_ms, version) = self.check().await?;
        let [record, _] = Self::nodes(self.path);
        let noted = guard.transaction();
        let noted = noted.set_data(&record, now_ms.to_string(), version);
        let noted = noted.commit().await.map(drop);
        noted.map_err(|error| Failure::lock(self.path, error))
    }

    /// The servers' time, in milliseconds since 1970.
    async fn now(&self) -> Result<i64, Failure> {
        let [_, clock] = Self::nodes(self.path);
        let write = || self.client.set_data(&clock, "", Version::ANY);
        let mut written = write().await;
        if written.as_ref().is_err_and(Error::is_no_node) {
            create_all(self.client, &clock).await?;
            written = write().await;
        }
        Ok(written?.mtime)
    }

    fn period_of(&self, ms: i64) -> i64 {
        let length = i64::try_from(self.period.as_millis()).unwrap_or(i64::MAX);
        ms.div_euclid(length.max(1))
    }
}
