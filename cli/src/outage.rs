//! Outages, for a command that goes on over them: what the user is told, and what is tried again.
//!
//! Not here: the waits of locks (the library repeats their attempts), exit statuses (`exit`).

use std::{convert::Infallible, fmt, future::pending, time::Duration};

use lockkeeper::{
    Client,
    client::{SessionId, Snapshot},
    raw::AsRaw,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    duration::Human,
    exit::{Failure, Level, print_at},
};

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
        never = tell(client, |line| print_at(Level::Usual, line)) => match never {},
        result = work => result,
    }
}

async fn tell(client: &Client, mut say: impl FnMut(fmt::Arguments<'_>)) -> Infallible {
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
                Ok(Ok(now)) if now.state.is_connected() => break now,
                // The work fails with what has ended the client.
                Ok(_) => return pending().await,
                Err(_) => {}
            }
            if let Some(why) = client.raw().outage() {
                say(format_args!("waiting for the servers: {why}"));
            }
            next = REMINDER.max(next * 2);
        };
        if next > SILENCE {
            let what = match session {
                SessionId::NONE => "connected",
                old if old == back.session_id => "connected again",
                _ => "connected again, in a new session",
            };
            say(format_args!("{what} after {}", Human(began.elapsed())));
        }
        session = back.session_id;
    }
}

/// Repeats the work while an outage is all that is in its way.
pub(crate) async fn persist<T>(
    work: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    persist_while(|| true, work).await
}

/// Repeats the work likewise, as long as it `may` be of use.
pub(crate) async fn persist_while<T>(
    may: impl Fn() -> bool,
    mut work: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        match work().await {
            Err(failure) if failure.is_of_outage && may() => sleep(PAUSE).await,
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use lockkeeper::client::{Clock, Connector};
    use tokio::io::DuplexStream;

    use super::*;

    /// A wait of a night must not fill the log.
    #[tokio::test(start_paused = true)]
    async fn an_outage_is_told_after_a_second_a_minute_and_then_ever_more_rarely() {
        let refused = || Err::<DuplexStream, _>(Error::from(ErrorKind::ConnectionRefused));
        let connector = Connector::new(move |_| async move { refused() });
        let client = Client::builder("localhost:1").unwrap().connector(connector);
        let client = client.clock(Clock::new(|| Instant::now().into_std()));
        let client = client.connect_lazy();
        let (began, mut told) = (Instant::now(), Vec::new());
        let mut say = |line: fmt::Arguments<'_>| {
            let line = line.to_string();
            assert!(
                line.starts_with("waiting for the servers: no server"),
                "{line}"
            );
            told.push(began.elapsed().as_secs());
        };
        let _ = timeout(Duration::from_secs(3600), tell(&client, &mut say)).await;
        assert_eq!(told, [1, 60, 120, 240, 480, 960, 1920]);
    }
}
