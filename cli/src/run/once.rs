//! `--once-per`: at most one start of the command in each period, by the servers' time alone.
//!
//! Periods are counted from 1970 on, so `15m` begins at each quarter of an hour in UTC. Two nodes beside the lock keep the time:
//! - `PATH.once` has the time of the last start, in milliseconds since 1970. It is written under the lock, in a transaction that
//!   fails if the lock is lost.
//! - `PATH.once/clock` is written by everyone. The server notes the time of each write, and answers it. That is what time it is.
//!
//! Invariant: no clock of this machine decides anything. If the servers' clock goes back, no period is run again.
//! Nothing of this is below `PATH`: some clients take every child of a lock's directory for a contender.

use std::{mem, time::Duration};

use lockkeeper::{Error, Guard, Version, proto::path};

use super::Run;
use crate::{
    duration::Human,
    exit::{self, Failure},
    outage::persist_while,
    text::{moment, quoted},
};

/// A record that is so far ahead is none of another server whose clock is a little behind.
const SKEW_MS: i64 = 60_000;

/// The nodes of the record and of the clock.
pub(super) fn nodes(path: &str) -> [String; 2] {
    let record = format!("{path}.once");
    let clock = path::join(&record, "clock");
    [record, clock]
}

impl Run {
    /// Looks whether the command has run in this period. Returns the servers' time, the record, and its version.
    ///
    /// # Errors
    /// [`exit::ALREADY_DONE`] if it has.
    pub(super) async fn check_period(
        &self,
        period: Duration,
    ) -> Result<(i64, String, Version), Failure> {
        // The clock makes both nodes if they are missing. A start behind it is one of this period or a later one.
        let now_ms = self.servers_time().await?;
        let [name, _] = nodes(&self.args.path);
        let record = self.client.get_data(&name).await?;
        let data = record.data.unwrap_or_default();
        let text = String::from_utf8_lossy(&data);
        let text = text.trim();
        let remedy = format!("empty it if the command may run: lockkeeper set {name} ''");
        let last_ms = match text.parse::<i64>() {
            Err(_) if !text.is_empty() => {
                let text = quoted(text);
                return Err(failure!(
                    USAGE,
                    "{name} says \"{text}\" in place of the time of the last start; {remedy}"
                ));
            }
            last => last.ok(),
        };
        let length = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
        let period_of = |ms: i64| ms.div_euclid(length.max(1));
        match last_ms {
            Some(last) if period_of(now_ms) < period_of(last) && now_ms < last - SKEW_MS => {
                let at = |ms: i64| moment(Duration::from_millis(ms.unsigned_abs()));
                let (last, now) = (at(last), at(now_ms));
                Err(failure!(
                    USAGE,
                    "{name} has a start at {last}, and the servers have {now}: a clock was wrong; {remedy}"
                ))
            }
            Some(last) if period_of(now_ms) <= period_of(last) => {
                let (path, period) = (&self.args.path, Human(period));
                let message = format!("{path}: it has run in this period of {period}");
                Err(Failure::new(exit::ALREADY_DONE, message))
            }
            _ => Ok((now_ms, text.to_owned(), record.stat.version)),
        }
    }

    /// Checks again, and notes the start of the command, all under the lock. Returns the record of before. Without `--once-per`,
    /// nothing is noted. While the lock is held, a lost connection costs only time.
    pub(super) async fn note_start(&self, guard: &Guard) -> Result<Option<String>, Failure> {
        let Some(period) = self.args.once_per else {
            return Ok(None);
        };
        let is_held = || guard.is_valid();
        let look = persist_while(is_held, async || self.check_period(period).await);
        let (now_ms, before, version) = look.await?;
        let (start, mut is_repeated) = (now_ms.to_string(), false);
        let noted = persist_while(is_held, async || {
            let noted = self.note(guard, start.clone(), version).await;
            let may_be_ours = mem::replace(&mut is_repeated, true) && is_held();
            match noted {
                // The answer to the former one was lost, and its version is gone.
                Err(failure) if may_be_ours && !failure.is_of_outage => {
                    let [name, _] = nodes(&self.args.path);
                    let record = self.client.get_data(&name).await?;
                    let is_ours = record.data.as_deref() == Some(start.as_bytes());
                    is_ours.then_some(()).ok_or(failure)
                }
                noted => noted,
            }
        });
        noted.await?;
        Ok(Some(before))
    }

    /// Writes the record, if the lock is still held.
    pub(super) async fn note(
        &self,
        guard: &Guard,
        text: String,
        version: Version,
    ) -> Result<(), Failure> {
        let path = &self.args.path;
        let [record, _] = nodes(path);
        let noted = guard.transaction().set_data(&record, text, version);
        let noted = noted.commit().await.map(drop);
        noted.map_err(|error| Failure::lock(path, error))
    }

    /// The servers' time, in milliseconds since 1970.
    async fn servers_time(&self) -> Result<i64, Failure> {
        let [_, clock] = nodes(&self.args.path);
        let write = || self.client.set_data(&clock, "", Version::ANY);
        let mut written = write().await;
        if written.as_ref().is_err_and(Error::is_no_node) {
            self.client.ensure_path(&clock).await?;
            written = write().await;
        }
        Ok(written?.mtime)
    }
}
