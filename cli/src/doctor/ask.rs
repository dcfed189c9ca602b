//! What one server answers: by its four-letter words, and to a client that knows only this server.

use std::{process, time::Duration};

use lockkeeper::{
    Client, CreateMode, Error, Version,
    client::{Builder, Endpoint},
    error::Cause,
    watch::AddWatchMode,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::DoctorArgs;
use crate::{refusal::Plain, text};

/// A session timeout that is longer than any server grants.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// A session timeout that is shorter than any server grants.
const SHORTEST: Duration = Duration::from_millis(1);
/// The number of round trips that are measured. The shortest counts.
const ROUNDS: usize = 5;
/// The longest answer to a word that is read.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// What is known of a server.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) server: String,
    /// What a session has shown, or why there was none.
    pub(super) told: Result<Told, String>,
    /// From the server's words, which it may not answer.
    pub(super) version: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) tick: Option<Duration>,
    /// In ticks. Only servers of an ensemble have one.
    pub(super) sync_limit: Option<u32>,
}

/// What a session has shown.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) round_trip: Duration,
    pub(super) shortest_session: Option<Duration>,
    pub(super) longest_session: Duration,
    pub(super) persistent_watches: Result<(), String>,
    /// `None` if nothing was to be written.
    pub(super) containers: Option<Result<(), String>>,
    /// How far the server's clock is ahead of ours, in milliseconds; or why that is not known.
    pub(super) clock_ms: Option<Result<i64, String>>,
    /// The identities of this client; none from servers before 3.7.
    pub(super) identities: Vec<String>,
}

pub(super) async fn server(endpoint: &Endpoint, settings: Builder, args: &DoctorArgs) -> Answer {
    let word = async |word: &str| {
        if args.servers.is_encrypted() {
            return String::new();
        }
        said(endpoint, word, args.timeout).await
    };
    let settings = settings
        .connect_timeout(args.timeout)
        .deadline(args.timeout);
    let (srvr, conf, told) =
        tokio::join!(word("srvr"), word("conf"), told(settings, !args.no_write));
    let version = after(&srvr, "Zookeeper version: ");
    Answer {
        server: endpoint.to_string(),
        told,
        version: version.map(|text| text.split(',').next().unwrap_or_default().to_owned()),
        mode: after(&srvr, "Mode: "),
        tick: after(&conf, "tickTime=")
            .and_then(|ms| Some(Duration::from_millis(ms.parse().ok()?))),
        sync_limit: after(&conf, "syncLimit=").and_then(|ticks| ticks.parse().ok()),
    }
}

/// The server's answer to a four-letter word; empty if it has none in time.
async fn said(endpoint: &Endpoint, word: &str, within: Duration) -> String {
    let ask = async {
        let mut stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(text::harmless_lines(&String::from_utf8_lossy(&answer)))
    };
    match timeout(within, ask).await {
        Ok(Ok(answer)) => answer,
        _ => String::new(),
    }
}

/// The rest of the line that begins like this.
fn after(answer: &str, start: &str) -> Option<String> {
    let line = answer.lines().find_map(|line| line.strip_prefix(start))?;
    Some(line.trim().to_owned())
}

async fn told(settings: Builder, writes: bool) -> Result<Told, String> {
    let in_words = |error: Error| match &error {
        Error::Unreachable { tried, .. } if !tried.is_empty() => tried[0].cause.to_string(),
        error => Plain(error).to_string(),
    };
    let shortest_session = match settings.clone().session_timeout(SHORTEST).connect().await {
        Ok(client) => {
            let granted = client.snapshot().session_timeout;
            client.close().await;
            Some(granted)
        }
        Err(error) => granted_but_too_short(&error),
    };
    let client = settings.session_timeout(LONGEST).connect().await;
    let client = client.map_err(in_words)?;
    let told = examine(&client, shortest_session, writes).await;
    client.close().await;
    told.map_err(in_words)
}

/// The session timeout of a server, if it was refused because it leaves no time for a lease.
fn granted_but_too_short(error: &Error) -> Option<Duration> {
    match error {
        Error::Unreachable { tried, .. } => tried.iter().find_map(|lost| match lost.cause {
            Cause::ShortSession { granted, .. } => Some(granted),
            _ => None,
        }),
        _ => None,
    }
}

async fn examine(
    client: &Client,
    shortest_session: Option<Duration>,
    writes: bool,
) -> Result<Told, Error> {
    let mut round_trip = Duration::MAX;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        client.exists("/").await?;
        round_trip = round_trip.min(begin.elapsed());
    }
    let works = |done: Result<(), Error>| done.map_err(|error| Plain(&error).to_string());
    let watch = client.add_watch("/", AddWatchMode::PERSISTENT).await;
    let persistent_watches = works(watch.map(drop));
    let identities = client.who_am_i().await.unwrap_or_default();
    let node = format!(
        "/lockkeeper-doctor-{}-{}",
        process::id(),
        client.snapshot().session_id
    );
    let (clock_ms, containers) = if writes {
        (
            Some(clock(client, &node).await),
            Some(works(container(client, &format!("{node}-container")).await)),
        )
    } else {
        (None, None)
    };
    Ok(Told {
        round_trip,
        shortest_session,
        longest_session: client.snapshot().session_timeout,
        persistent_watches,
        containers,
        clock_ms,
        identities: identities
            .iter()
            .map(|id| format!("{}:{}", id.auth_scheme, id.user))
            .collect(),
    })
}

/// How far the server's clock is ahead of ours, by the time that the server notes for a new node.
async fn clock(client: &Client, node: &str) -> Result<i64, String> {
    let before = text::now();
    let created = client.create(node, "", CreateMode::Ephemeral).await;
    let between = before + (text::now().saturating_sub(before)) / 2;
    let created = created.map_err(|error| Plain(&error).to_string())?;
    Ok(ahead(created.stat.ctime, between))
}

/// How far a server's timestamp is ahead of our clock, in milliseconds.
fn ahead(server_ms: i64, ours: Duration) -> i64 {
    server_ms.saturating_sub(i64::try_from(text::millis(ours)).unwrap_or(i64::MAX))
}

async fn container(client: &Client, node: &str) -> Result<(), Error> {
    client.create(node, "", CreateMode::Container).await?;
    client.delete(node, Version::ANY).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_have_any_time() {
        let ours = Duration::from_secs(1);
        for (server_ms, ahead_ms) in [
            (1_005, 5),
            (i64::MAX, i64::MAX - 1_000),
            (i64::MIN, i64::MIN),
        ] {
            assert_eq!(ahead(server_ms, ours), ahead_ms);
        }
    }
}
