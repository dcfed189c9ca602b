//! The only place where the server reads a clock.
//!
//! The monotonic clock is tokio's. So a test that pauses tokio's time controls the server's
//! timeouts, too.

use std::time::{Duration, SystemTime};

use crate::engine::Now;

/// The present moment on the monotonic clock and the wall clock.
#[allow(
    clippy::disallowed_methods,
    reason = "everything else gets the time as an argument"
)]
pub(crate) fn now() -> Now {
    Now {
        instant: tokio::time::Instant::now().into_std(),
        unix_ms: i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX),
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
