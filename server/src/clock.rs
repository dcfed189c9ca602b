//! The one place where the server looks at a clock.
//!
//! It is tokio's, so that a test with paused time moves the server's time too.

use std::time::SystemTime;

use crate::engine::Now;

/// The present moment on both clocks.
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
