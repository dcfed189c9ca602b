//! The only place where the server reads a clock.
//!
//! The monotonic clock is tokio's. So a test that pauses tokio's time controls the server's
//! timeouts, too.

use std::time::SystemTime;

use crate::engine::Now;

/// The present moment on the monotonic clock and the wall clock.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place; everything else gets the time as an argument"
)]
pub(crate) fn now() -> Now {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let unix_ms = since_1970.map_or(0, |time| {
        i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
    });
    Now {
        instant: tokio::time::Instant::now().into_std(),
        unix_ms,
    }
}
