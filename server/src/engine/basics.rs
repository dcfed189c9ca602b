//! What the caller of an engine says and hears: ids, times, settings, and what to do with
//! connections.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use lockkeeper_proto::Zxid;

/// The settings of a server. Times as in ZooKeeper's `zoo.cfg`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// `tickTime`: sessions expire in steps of this.
    pub tick_time: Duration,
    /// `minSessionTimeout`; `None` means two ticks.
    pub min_session_timeout: Option<Duration>,
    /// `maxSessionTimeout`.
    pub max_session_timeout: Duration,
    /// How long a connection may take for its handshake.
    pub handshake_timeout: Duration,
    /// `znode.container.checkIntervalMs`: how often the server looks for containers and TTL nodes
    /// to delete.
    pub container_check_interval: Duration,
    /// The seed of session passwords and of the order of children.
    pub seed: u64,
    /// The transactions are numbered from here on.
    pub first_zxid: Zxid,
    /// For how long after its start the server creates no ephemeral node.
    pub no_ephemerals_for: Duration,
    /// The digest of the user `super`, for whom no ACL counts.
    pub(crate) super_digest: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tick_time: Duration::from_millis(500),
            min_session_timeout: None,
            max_session_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            container_check_interval: Duration::from_secs(60),
            seed: 0,
            first_zxid: Zxid::ZERO,
            no_ephemerals_for: Duration::ZERO,
            super_digest: None,
        }
    }
}

impl Config {
    /// The longest timeout that the server can grant.
    pub(crate) fn longest_timeout(&self) -> Duration {
        self.negotiate(i32::MAX)
    }

    /// The timeout that the server grants. Never zero, because a client takes zero as a refusal.
    pub(super) fn negotiate(&self, asked_ms: i32) -> Duration {
        let asked = Duration::from_millis(u64::try_from(asked_ms).unwrap_or(0));
        let two_ticks = self.tick_time.saturating_mul(2);
        let min = self.min_session_timeout.unwrap_or(two_ticks);
        let min = min.max(Duration::from_millis(1));
        asked.max(min).min(self.max_session_timeout.max(min))
    }
}

/// One moment on the monotonic clock and the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For timeouts.
    pub instant: Instant,
    /// Milliseconds since 1970: for `ctime`, `mtime` and times to live.
    pub unix_ms: i64,
}

impl Now {
    /// A later moment.
    pub(crate) fn later(self, time: Duration) -> Self {
        let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Self {
            instant: after(self.instant, time),
            unix_ms: self.unix_ms.saturating_add(ms),
        }
    }
}

/// The number that the caller of the engine gives a connection; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// One server of an ensemble. One engine plays all servers of it. They differ in how far they lag
/// behind, and in which connections are cut when one of them fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

impl ServerId {
    /// The only server, if there is just one.
    pub const FIRST: Self = Self(0);
}

/// Something that the caller of the engine must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send these bytes.
    Send(ConnId, BytesMut),
    /// Close the connection once everything is sent.
    Close(ConnId),
    /// Close it now and discard what is not sent yet.
    Cut(ConnId),
    /// Call [`received`](super::Engine::received) without bytes: input that waited can be handled.
    Resume(ConnId),
}

/// How much of the received input is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "after `Partly` the engine must be called again"]
pub enum Received {
    /// All whole requests in the input are done.
    Wholly,
    /// Some whole requests are left.
    Partly,
}

/// `now` plus `time`. Longer times than a century end with it: no clock can represent all of them.
pub(super) fn after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time.min(CENTURY)).unwrap_or(now)
}

/// The first moment that is not before `from`, of those from `due` on that are so far apart.
pub(super) fn round(due: Instant, apart: Duration, from: Instant) -> Instant {
    let late = from.saturating_duration_since(due).as_nanos();
    let rounds = late.next_multiple_of(apart.as_nanos().max(1));
    after(
        due,
        Duration::from_nanos(u64::try_from(rounds).unwrap_or(u64::MAX)),
    )
}

pub(crate) const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
