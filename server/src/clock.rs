//! The only place where the server reads a clock.
//!
//! The monotonic clock is tokio's. So a test that pauses tokio's time controls the server's
//! timeouts, too. The wall clock is ahead by as much as tokio's time is: times to live go by it.

use std::time::{Duration, Instant, SystemTime};

use crate::engine::Now;

/// The present moment on the monotonic clock and the wall clock.
#[allow(
    clippy::disallowed_methods,
    reason = "everything else gets the time as an argument"
)]
pub(crate) fn now() -> Now {
    let instant = tokio::time::Instant::now().into_std();
    let real = Instant::now();
    let wall = since_1970()
        .saturating_add(instant.saturating_duration_since(real))
        .saturating_sub(real.saturating_duration_since(instant));
    Now {
        instant,
        unix_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
    }
}

/// The wall clock.
#[allow(
    clippy::disallowed_methods,
    reason = "everything else gets the time as an argument"
)]
pub(crate) fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}
