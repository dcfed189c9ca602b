//! Outages, for a command that goes on over them: what the user is told, and what is tried again.
//!
//! Not here: the waits of locks (the library repeats their attempts), exit statuses (`exit`).

use std::{convert::Infallible, future::pending, time::Duration};

use lockkeeper::{
    Client,
    client::{SessionId, Snapshot},
};
use tokio::time::{Instant, sleep, timeout};

use crate::{duration::Human, exit::Failure};

/// A client that is connected again within this time has moved to another server, for example. Nobody is told.
const SILENCE: Duration = Duration::from_secs(1);

/// The second line about an outage comes after this time. Each further one comes when the outage has lasted twice as long.
const REMINDER: Duration = Duration::from_secs(60);

/// The pause before requests are repeated that an outage has ended.
const PAUSE: Duration = Duration::from_millis(200);

/// Does the work, and tells the user of each outage meanwhile: at its beginning, rarely while it lasts, and at its end.
pub(crate) async fn told<T>(client: &Client, work: impl Future<Output = T>) -> T {
    tokio::select! {
        // The end of an outage first: the work may end at the same moment.
        biased;
        never = tell(client) => match never {},
        result = work => result,
    }
}

async fn tell(client: &Client) -> Infallible {
    let mut snapshots = client.snapshots();
    let mut session = SessionId::NONE;
    loop {
        let is_out = |now: &Snapshot| !now.state.is_connected();
        let Ok(now) = snapshots.wait_for(is_out).await else {
            return pending().await;
        };
        if now.session_id != SessionId::NONE {
            session = now.session_id;
        }
        let (began, mut next) = (Instant::now(), SILENCE);
        let back = loop {
            let left = next.saturating_sub(began.elapsed());
            let is_over = |now: &Snapshot| now.state.is_connected() || now.state.is_final();
            match timeout(left, snapshots.wait_for(is_over)).await {
                // The work fails with what has ended the client.
                Ok(Err(_)) => return pending().await,
                Ok(Ok(now)) if now.state.is_final() => return pending().await,
                Ok(Ok(now)) => break now,
                Err(_) => {}
            }
            if let Some(why) = client.raw().outage() {
                say!("waiting for the servers: {why}");
            }
            next = REMINDER.max(next * 2);
        };
        if next > SILENCE {
            let what = match session {
                SessionId::NONE => "connected",
                old if old == back.session_id => "connected again",
                _ => "connected again, in a new session",
            };
            say!("{what} after {}", Human(began.elapsed()));
        }
        session = back.session_id;
    }
}

/// Repeats the work while an outage is all that is in its way.
pub(crate) async fn persist<T>(
    mut work: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        match work().await {
            Err(failure) if failure.is_of_outage() => sleep(PAUSE).await,
            done => return done,
        }
    }
}
