//! The pauses before a request is repeated that a server has not carried out: throttled, or refused.
//!
//! After a lost connection no pause is needed here: the client itself pauses between connections.

use std::time::Duration;

use lockkeeper_proto::ErrorCode;
use lockkeeper_session::{Client, Error as SessionError, Sleep};

/// The first pause. Each further one is twice as long.
const FIRST: Duration = Duration::from_millis(20);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// The pauses of one request that is repeated.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    pauses: u32,
    /// The pause that comes next.
    pause: Option<Sleep>,
}

impl Backoff {
    /// A pause comes next. A random part of it, up to half, is left out: many clients are throttled at the same time.
    pub(crate) fn begin(&mut self, client: &Client) {
        let whole = FIRST.saturating_mul(1 << self.pauses.min(10)).min(LONGEST);
        self.pauses += 1;
        let part = u32::try_from(client.raw().random_u64() % 512).unwrap_or(0);
        let left_out = whole * part / 1024;
        self.pause = Some(client.raw().sleep(whole.saturating_sub(left_out)));
    }

    /// Whether a pause comes next.
    pub(crate) fn is_due(&self) -> bool {
        self.pause.is_some()
    }

    /// Waits for the end of the pause.
    ///
    /// # Cancel safety
    /// The rest of the pause comes with the next call.
    pub(crate) async fn pause(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.await;
            self.pause = None;
        }
    }

    /// A request failed with this error: waits if the server has throttled it.
    pub(crate) async fn after(&mut self, client: &Client, error: &SessionError) {
        if error.code() == Some(ErrorCode::THROTTLED_OP) {
            self.begin(client);
            self.pause().await;
        }
    }
}
