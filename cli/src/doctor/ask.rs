//! What one server answers: by its four-letter words, and to a client that knows only this server.

use std::{process, time::Duration};

use lockkeeper::{
    Client, CreateMode, Error, Version,
    client::{Builder, Endpoint},
    error::ErrorKind,
    watch::AddWatchMode,
};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::DoctorArgs;
use crate::{refusal::Plain, text};

/// A session timeout that is longer than any server grants.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The number of round trips that are measured. The shortest counts.
const ROUNDS: usize = 5;
/// The longest answer to a word that is read.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// What is known of a server: the keys of `--json`. Only a session shows what has no value without one.
///
/// Invariant: later versions may add keys, but remove none.
#[derive(Debug, Default, Serialize)]
pub(super) struct Answer {
    pub(super) server: String,
    /// From the server's words, which it may not answer. The same goes for the next one.
    pub(super) version: Option<String>,
    pub(super) mode: Option<String>,
    /// Why there was no session.
    pub(super) error: Option<String>,
    pub(super) round_trip_ms: Option<f64>,
    pub(super) longest_session_ms: Option<u64>,
    pub(super) persistent_watches: Option<bool>,
    /// This and the next are known only if something was to be written.
    pub(super) containers: Option<bool>,
    /// How far the server's clock is ahead of ours.
    pub(super) clock_ms: Option<i64>,
    /// The identities of this client; none from servers before 3.7.
    pub(super) identities: Vec<String>,
    /// What was refused, and why.
    #[serde(skip)]
    pub(super) refused: Vec<(Refused, String)>,
}

/// What a server may refuse in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Watch,
    Container,
    Node,
}

pub(super) async fn server(endpoint: &Endpoint, settings: Builder, args: &DoctorArgs) -> Answer {
    let word = async {
        if args.servers.is_encrypted() {
            return String::new();
        }
        said(endpoint, "srvr", args.timeout).await
    };
    let settings = settings
        .connect_timeout(args.timeout)
        .deadline(args.timeout);
    let mut answer = Answer {
        server: endpoint.to_string(),
        ..Answer::default()
    };
    let examined = examine(&mut answer, settings, !args.no_write);
    let (srvr, examined) = tokio::join!(word, examined);
    answer.error = examined.err().map(|error| match error.kind() {
        ErrorKind::Unreachable { tried, .. } if !tried.is_empty() => tried[0].cause.to_string(),
        _ => Plain(&error).to_string(),
    });
    let version = after(&srvr, "Zookeeper version: ");
    answer.version = version.and_then(|text| Some(text.split(',').next()?.to_owned()));
    answer.mode = after(&srvr, "Mode: ");
    answer
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

/// Opens a session with the server, and notes what it does.
async fn examine(answer: &mut Answer, settings: Builder, writes: bool) -> Result<(), Error> {
    let client = settings.session_timeout(LONGEST).connect().await?;
    answer.longest_session_ms = Some(text::millis(client.snapshot().session_timeout));
    let done = examine_with(answer, &client, writes).await;
    client.close().await;
    done
}

async fn examine_with(answer: &mut Answer, client: &Client, writes: bool) -> Result<(), Error> {
    let mut round_trip = Duration::MAX;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        client.exists("/").await?;
        round_trip = round_trip.min(begin.elapsed());
    }
    answer.round_trip_ms = Some(round_trip.as_secs_f64() * 1e3);
    let identities = client.who_am_i().await.unwrap_or_default();
    let identities = identities.iter();
    answer.identities = identities
        .map(|id| format!("{}:{}", id.auth_scheme, id.user))
        .collect();
    let watch = client.add_watch("/", AddWatchMode::PERSISTENT).await;
    answer.persistent_watches = Some(watch.is_ok());
    let mut refused = |what, error: Option<Error>| {
        let error = error.map(|error| (what, Plain(&error).to_string()));
        answer.refused.extend(error);
    };
    refused(Refused::Watch, watch.err());
    if !writes {
        return Ok(());
    }
    let session = client.snapshot().session_id;
    let node = format!("/lockkeeper-doctor-{}-{session}", process::id());
    let before = text::now();
    let created = client.create(&node, "", CreateMode::Ephemeral).await;
    let between = before + (text::now().saturating_sub(before)) / 2;
    // By the time that the server notes for the new node.
    let clock = created
        .as_ref()
        .ok()
        .map(|it| ahead(it.stat.ctime, between));
    let container = async {
        let node = format!("{node}-container");
        client.create(&node, "", CreateMode::Container).await?;
        client.delete(&node, Version::ANY).await
    }
    .await;
    refused(Refused::Node, created.err());
    (answer.clock_ms, answer.containers) = (clock, Some(container.is_ok()));
    refused(Refused::Container, container.err());
    Ok(())
}

/// How far a server's timestamp is ahead of our clock, in milliseconds.
fn ahead(server_ms: i64, ours: Duration) -> i64 {
    server_ms.saturating_sub(i64::try_from(text::millis(ours)).unwrap_or(i64::MAX))
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
