//! Sessions: ids, passwords, negotiated timeouts, and expiry in buckets of one tick.
//!
//! Invariant: a live session is in exactly one bucket. The bucket follows from its last activity at
//! `now`: `(floor((now + timeout) / tick) + 1) * tick`. So it expires between `timeout` and
//! `timeout + tick` after that.
//!
//! Not here: the deletion of its nodes (`Engine::end_session`).
//!
//! Source: `SessionTrackerImpl`, `ExpiryQueue.roundToNextInterval`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bytes::Bytes;
use lockkeeper_proto::{SessionId, connect::PASSWORD_LEN};
use sha1::{Digest, Sha1};

use super::basics::{ConnId, ServerId};

/// A live session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) timeout: Duration,
    /// The connection that the session is attached to.
    pub(crate) connection: Option<ConnId>,
    /// The server that began or resumed the session last.
    pub(crate) owner: ServerId,
    /// Whether the session ends as soon as its client knows of the end.
    pub(crate) is_ending: bool,
    bucket: u64,
}

/// All live sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    live: BTreeMap<SessionId, Session>,
    /// All sessions, by the end of their buckets in ticks since `epoch`.
    buckets: BTreeSet<(u64, SessionId)>,
    epoch: Instant,
    tick: Duration,
    next_id: i64,
    seed: u64,
}

impl Sessions {
    /// No sessions. The first id depends on the wall clock, as on the real server with server id 1.
    ///
    /// Source: `SessionTrackerImpl.initializeNextSessionId`.
    pub(crate) fn new(epoch: Instant, unix_ms: i64, tick: Duration, seed: u64) -> Self {
        Self {
            live: BTreeMap::new(),
            buckets: BTreeSet::new(),
            epoch,
            tick: tick.max(Duration::from_millis(1)),
            next_id: unix_ms << 24 >> 8 & 0x00ff_ffff_ffff_ffff | 1 << 56,
            seed,
        }
    }

    /// Starts a session.
    pub(crate) fn create(&mut self, at: ServerId, timeout: Duration, now: Instant) -> SessionId {
        let id = SessionId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.insert(id, at, timeout, now);
        id
    }

    /// Adds a live session, new or brought back, without a connection.
    pub(crate) fn insert(
        &mut self,
        id: SessionId,
        owner: ServerId,
        timeout: Duration,
        now: Instant,
    ) {
        let bucket = self.bucket(now, timeout);
        let session = Session {
            timeout,
            connection: None,
            owner,
            is_ending: false,
            bucket,
        };
        self.live.insert(id, session);
        self.buckets.insert((bucket, id));
    }

    /// The session, if it lives.
    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.live.get(&id)
    }

    /// Like [`get`](Self::get), mutable.
    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.live.get_mut(&id)
    }

    /// Panics if the invariant is broken.
    #[cfg(debug_assertions)]
    pub(crate) fn assert_sound(&self) {
        assert_eq!(self.buckets.len(), self.live.len());
        for (id, session) in &self.live {
            assert!(self.buckets.contains(&(session.bucket, *id)), "{id}");
        }
    }

    /// All live sessions.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (SessionId, &Session)> {
        self.live.iter().map(|(id, session)| (*id, session))
    }

    /// The password for resuming a session: 16 bytes that depend on the id and the engine's seed.
    pub(crate) fn password(&self, id: SessionId) -> Bytes {
        let mut hash = Sha1::new();
        hash.update(self.seed.to_be_bytes());
        hash.update(id.0.to_be_bytes());
        let mut password = hash.finalize().to_vec();
        password.truncate(PASSWORD_LEN);
        Bytes::from(password)
    }

    /// Notes activity of a session.
    pub(crate) fn touch(&mut self, id: SessionId, now: Instant) {
        let bucket = self.get(id).map(|own| self.bucket(now, own.timeout));
        if let (Some(session), Some(bucket)) = (self.live.get_mut(&id), bucket) {
            if session.bucket != bucket {
                self.buckets.remove(&(session.bucket, id));
                self.buckets.insert((bucket, id));
                session.bucket = bucket;
            }
        }
    }

    /// A server resumes a session.
    pub(crate) fn own(&mut self, id: SessionId, server: ServerId, now: Instant) {
        if let Some(session) = self.live.get_mut(&id) {
            session.owner = server;
        }
        self.touch(id, now);
    }

    /// A leader begins: every session gets its whole timeout again.
    pub(crate) fn touch_all(&mut self, now: Instant) {
        let all: Vec<SessionId> = self.live.keys().copied().collect();
        for id in all {
            self.touch(id, now);
        }
    }

    /// A connection has ended.
    pub(crate) fn detach(&mut self, id: SessionId, connection: ConnId) {
        if let Some(session) = self.live.get_mut(&id) {
            session.connection.take_if(|own| *own == connection);
        }
    }

    pub(crate) fn remove(&mut self, id: SessionId) {
        if let Some(session) = self.live.remove(&id) {
            self.buckets.remove(&(session.bucket, id));
        }
    }

    /// The sessions whose timeout is over.
    pub(crate) fn expired(&self, now: Instant) -> Vec<SessionId> {
        let ticks = ticks(now.saturating_duration_since(self.epoch), self.tick);
        let over = self.buckets.iter().take_while(|(end, _)| *end <= ticks);
        over.map(|(_, id)| *id).collect()
    }

    /// The earliest moment at which [`expired`](Self::expired) can return a session.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let (bucket, _) = self.buckets.first()?;
        let nanos = self.tick.as_nanos().checked_mul(u128::from(*bucket))?;
        // 2^64 ns are 584 years.
        let since_epoch = Duration::from_nanos(u64::try_from(nanos).ok()?);
        self.epoch.checked_add(since_epoch)
    }

    fn bucket(&self, now: Instant, timeout: Duration) -> u64 {
        let elapsed = now.saturating_duration_since(self.epoch);
        ticks(elapsed.saturating_add(timeout), self.tick).saturating_add(1)
    }
}

/// The number of whole ticks in a time.
fn ticks(time: Duration, tick: Duration) -> u64 {
    let ticks = time.as_nanos().checked_div(tick.as_nanos()).unwrap_or(0);
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(
        clippy::disallowed_methods,
        reason = "an origin; nothing measures with it"
    )]
    fn now() -> Instant {
        Instant::now()
    }

    const MS: Duration = Duration::from_millis(1);

    /// The count of ticks stopped at 2^32, after 50 days, and the timer fired all the time.
    #[test]
    fn the_next_expiry_is_known_after_any_number_of_ticks() {
        let epoch = now();
        let mut sessions = Sessions::new(epoch, 0, MS, 1);
        let year = epoch + Duration::from_secs(365 * 24 * 3600);
        sessions.create(ServerId::FIRST, 5 * MS, year);
        assert_eq!(sessions.next_expiry(), Some(year + 6 * MS));
        sessions.create(ServerId::FIRST, Duration::MAX, year);
        assert_eq!(sessions.next_expiry(), Some(year + 6 * MS));
    }

    #[test]
    fn ids_are_distinct_and_passwords_depend_on_seed_and_id() {
        let epoch = now();
        let mut sessions = Sessions::new(epoch, 1_795_164_078_763, MS, 1);
        let (a, b) = (
            sessions.create(ServerId::FIRST, MS, epoch),
            sessions.create(ServerId::FIRST, MS, epoch),
        );
        assert_eq!(a.0 >> 56, 1);
        assert_eq!(b.0, a.0 + 1);
        assert_eq!(sessions.password(a).len(), PASSWORD_LEN);
        assert_ne!(sessions.password(a), sessions.password(b));
        let other = Sessions::new(epoch, 0, MS, 2);
        assert_ne!(sessions.password(a), other.password(a));
    }
}
