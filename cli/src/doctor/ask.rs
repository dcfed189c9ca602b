//! What the servers answer: by their four-letter words, and to clients that know only one server each.

use std::{
    io,
    iter::zip,
    net::SocketAddr,
    process,
    str::FromStr,
    time::{Duration, SystemTime},
};

use futures::future::{join_all, try_join_all};
use lockkeeper::{
    Client, CreateMode, Error, Version,
    client::{Builder, tls::TlsConfig},
    error::{ErrorCode, ErrorKind},
    watch::AddWatchMode,
};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{DoctorArgs, target::Target};
use crate::{
    client::{GOODBYE, open},
    escape,
    refusal::plain,
    text,
};

/// A session timeout that is longer than any server grants.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The number of answers that are timed, and after what time no further one is. The shortest counts.
const ROUNDS: usize = 5;
const LONG: Duration = Duration::from_secs(1);
/// What a server that is no member of a quorum says to every word. Source: `AbstractFourLetterCommand`.
pub(super) const NOT_SERVING: &str = "not currently serving requests";
/// What a server with `enforce.auth.enabled` or `sessionRequireClientSASLAuth` means by its error. The client's own error has the
/// same words.
pub(super) const ENFORCED: &str = "the server answers only authenticated clients";
/// What to do about local sessions.
pub(super) const UPGRADE: &str =
    "look that localSessionsUpgradingEnabled=true is set: a session needs it for a lock";
/// The longest answer to a word that is read.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// What is known of a server: the keys of `--json`. Only a session shows what has no value without one.
///
/// Invariant: later versions may add keys, but remove none.
#[derive(Debug, Default, Serialize)]
pub(super) struct Answer {
    pub(super) server: String,
    /// The name of which this is one of the addresses.
    pub(super) name: Option<String>,
    /// From the server's words, which it may not answer. The same goes for the next one.
    pub(super) version: Option<String>,
    pub(super) mode: Option<String>,
    /// How many times its data differed from those of its leader. From `mntr`, which few servers answer unless they are told to.
    pub(super) digest_mismatches: Option<u64>,
    /// How many connections it accepts from one address; 0 for any number. From `conf`, as rare as `mntr`.
    pub(super) max_client_connections: Option<usize>,
    /// From `conf`, too.
    pub(super) tick_ms: Option<u64>,
    pub(super) shortest_session_ms: Option<u64>,
    /// Whether it answers a word, if it was asked.
    #[serde(skip)]
    pub(super) has_spoken: Option<bool>,
    /// How much it has of each of [`SIZES`], each time that it was asked for. From `mntr`.
    #[serde(skip)]
    pub(super) sizes: [Vec<u64>; SIZES.len()],
    /// How many sessions only this server knows. From `mntr`; no word tells whether `localSessionsEnabled` is set.
    #[serde(skip)]
    pub(super) local_sessions: u64,
    /// The version of TLS.
    pub(super) encryption: Option<&'static str>,
    pub(super) certificate_ends_ms: Option<u64>,
    /// Why there was no session.
    pub(super) error: Option<String>,
    pub(super) round_trip_ms: Option<f64>,
    pub(super) sync_ms: Option<f64>,
    pub(super) longest_session_ms: Option<u64>,
    pub(super) persistent_watches: Option<bool>,
    /// This and the next two are known only if something was to be written.
    pub(super) write_ms: Option<f64>,
    pub(super) containers: Option<bool>,
    /// How far the server's clock is ahead of ours, at least.
    pub(super) clock_ms: Option<i64>,
    /// The identities of this client; none from servers before 3.7.
    pub(super) identities: Vec<String>,
    /// What was refused and why, and what to do.
    #[serde(skip)]
    pub(super) refused: Vec<(String, &'static str)>,
    /// The node that was created through this server, which is there until the client is closed.
    #[serde(skip)]
    pub(super) node: Option<String>,
    /// The servers whose nodes this one does not show.
    #[serde(skip)]
    pub(super) strangers: Vec<String>,
    /// The configuration of the ensemble; empty from a server that runs alone, or is older than 3.5.
    #[serde(skip)]
    pub(super) config: String,
}

/// What every server of an ensemble has as much of as its leader, and its line in `mntr`. Servers before 3.6 do not count sessions.
pub(super) const SIZES: [(&str, &str); 3] = [
    ("nodes", "zk_znode_count\t"),
    ("ephemeral nodes", "zk_ephemerals_count\t"),
    ("sessions", "zk_global_sessions\t"),
];

impl Answer {
    fn read_counters(&mut self, mntr: &str) {
        self.digest_mismatches = counter(mntr, "zk_digest_mismatches_count\t");
        self.local_sessions = counter(mntr, "zk_local_sessions\t").unwrap_or(0);
        for (sizes, (_, key)) in zip(&mut self.sizes, SIZES) {
            match counter(mntr, key) {
                Some(count) => sizes.push(count),
                None => sizes.clear(),
            }
        }
    }
}

/// Asks each server for its counters again.
pub(super) async fn count_again(answers: &mut [Answer], of: &[Target], within: Duration) {
    join_all(zip(answers, of).map(async |(answer, target)| {
        answer.read_counters(&said(&target.addresses, "mntr", within).await);
    }))
    .await;
}

/// Asks one server. The client is the open session with it.
pub(super) async fn server(
    number: usize,
    target: &Target,
    settings: Builder,
    tls: Option<TlsConfig>,
    args: &DoctorArgs,
) -> (Answer, Option<Client>) {
    let say = async |word| {
        if tls.is_some() {
            return String::new();
        }
        said(&target.addresses, word, args.timeout).await
    };
    let settings = settings.deadline(args.timeout).session_timeout(LONGEST);
    let mut answer = Answer {
        server: target.endpoint.to_string(),
        name: target.name.as_ref().map(ToString::to_string),
        ..Answer::default()
    };
    let mut client = None;
    let examined = async {
        let client = client.insert(open(settings, args.timeout).await?);
        examine(&mut answer, number, client, args).await
    };
    let words = async || tokio::join!(say("srvr"), say("mntr"), say("conf"));
    let ((mut srvr, mut mntr, mut conf), examined) = tokio::join!(words(), examined);
    // It has begun to serve since. Few servers answer the other two words.
    if examined.is_ok() && [&srvr, &conf].iter().any(|it| it.contains(NOT_SERVING)) {
        (srvr, mntr, conf) = words().await;
    }
    let is_waiting = client.is_none() && srvr.contains(NOT_SERVING);
    let waiting = || format!("the server says that it is {NOT_SERVING}");
    let waiting = is_waiting.then(waiting);
    answer.error = examined
        .err()
        .map(|error| waiting.unwrap_or_else(|| why(&error)));
    let version = after(&srvr, "Zookeeper version: ");
    answer.version = version.and_then(|text| Some(text.split(',').next()?.to_owned()));
    answer.mode = after(&srvr, "Mode: ");
    answer.has_spoken = tls.is_none().then_some(!srvr.is_empty());
    answer.encryption = tls.as_ref().and_then(TlsConfig::version);
    let end = tls.and_then(|it| it.certificate_end());
    let end = end.and_then(|it| it.duration_since(SystemTime::UNIX_EPOCH).ok());
    answer.certificate_ends_ms = end.map(text::millis);
    answer.read_counters(&mntr);
    answer.max_client_connections = counter(&conf, "maxClientCnxns=");
    answer.tick_ms = counter(&conf, "tickTime=");
    answer.shortest_session_ms = counter(&conf, "minSessionTimeout=");
    (answer, client)
}

/// Looks through each server for the nodes that were created through the others, and closes the sessions. Every node has been
/// created, so a server of the same ensemble shows it after `sync`.
pub(super) async fn compare(answers: &mut [Answer], clients: Vec<Option<Client>>) {
    let named = |it: &Answer| Some((it.server.clone(), it.node.clone()?));
    let nodes: Vec<_> = answers.iter().filter_map(named).collect();
    let looks = answers.iter_mut().zip(&clients);
    join_all(looks.map(async |(answer, client)| {
        if let (Some(client), None) = (client, &answer.error) {
            match strangers(client, &nodes).await {
                Ok(strangers) => answer.strangers = strangers,
                Err(error) => answer.error = Some(why(&error)),
            }
        }
    }))
    .await;
    let goodbyes = clients.into_iter().flatten().map(Client::close);
    join_all(goodbyes.map(|it| timeout(GOODBYE, it))).await;
    // A node that its own server does not show is gone, and says nothing of the others.
    let is_sure = |it: &&Answer| it.error.is_none() && !it.strangers.contains(&it.server);
    let sure = answers.iter().filter(is_sure);
    let sure: Vec<_> = sure.map(|it| it.server.clone()).collect();
    for answer in answers {
        answer.strangers.retain(|it| sure.contains(it));
    }
}

async fn strangers(client: &Client, nodes: &[(String, String)]) -> Result<Vec<String>, Error> {
    client.sync("/").await?;
    let looks = nodes.iter().map(|(_, node)| client.exists(node));
    let looks = nodes.iter().zip(try_join_all(looks).await?);
    let missing = looks.filter(|(_, found)| found.is_none());
    Ok(missing.map(|((server, _), _)| server.clone()).collect())
}

fn why(error: &Error) -> String {
    if error.code() == Some(ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH) {
        return ENFORCED.to_owned();
    }
    match error.kind() {
        // Without the server, whose line this is.
        ErrorKind::Unreachable { tried, .. } if !tried.is_empty() => {
            let lost = tried[0].to_string();
            let why = lost.split_once(": ").map(|(_, why)| why.to_owned());
            why.unwrap_or(lost)
        }
        _ => plain(error),
    }
}

/// The server's answer to a four-letter word; empty if it has none in time. A long answer is cut.
async fn said(of: &[SocketAddr], word: &str, within: Duration) -> String {
    let ask = async {
        let mut stream = TcpStream::connect(of).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(escape::harmless_lines(&String::from_utf8_lossy(&answer)))
    };
    let answer = timeout(within, ask).await;
    answer.ok().and_then(Result::ok).unwrap_or_default()
}

/// The rest of the line that begins like this.
fn after(answer: &str, start: &str) -> Option<String> {
    let line = answer.lines().find_map(|line| line.strip_prefix(start))?;
    Some(line.trim().to_owned())
}

/// The number behind this at the begin of a line.
fn counter<T: FromStr>(answer: &str, start: &str) -> Option<T> {
    after(answer, start)?.parse().ok()
}

/// Notes what the server does in a session.
async fn examine(
    answer: &mut Answer,
    number: usize,
    client: &Client,
    args: &DoctorArgs,
) -> Result<(), Error> {
    answer.longest_session_ms = Some(text::millis(client.snapshot().session_timeout));
    let (round_trip, root) = shortest(async || client.exists("/").await).await?;
    answer.round_trip_ms = Some(round_trip);
    if root.is_none() {
        let chroot = args.servers.servers().ok().and_then(|it| it.chroot());
        let what = format!("no such chroot: {}", chroot.unwrap_or_default());
        let cure =
            "create it with `lockkeeper create --parents` and --connect without it, or correct it";
        answer.refused.push((what, cure));
        return Ok(());
    }
    let (sync, ()) = shortest(async || client.sync("/").await).await?;
    answer.sync_ms = Some(sync);
    let config = client.get_config().await.ok().and_then(|it| it.data);
    answer.config = String::from_utf8_lossy(&config.unwrap_or_default()).into_owned();
    let identities = client.who_am_i().await.unwrap_or_default();
    let identities = identities.iter();
    answer.identities = identities
        .map(|id| format!("{}:{}", id.scheme, id.user))
        .collect();
    let watch = client.add_watch("/", AddWatchMode::PERSISTENT).await;
    answer.persistent_watches = Some(watch.is_ok());
    let mut refused = |what, cure, error: Option<Error>| {
        let error = error.map(|error| (format!("{what}: {}", plain(&error)), cure));
        answer.refused.extend(error);
    };
    let cure = "use ZooKeeper 3.6 or later for queue --follow";
    refused("no persistent watches", cure, watch.err());
    if args.no_write {
        return Ok(());
    }
    let write = async || match client.transaction().check("/", Version::ANY).commit().await {
        Err(error) if error.code().is_none() => Err(error),
        // It changes nothing, and is a write also if it is refused.
        _ => Ok(()),
    };
    let (write, ()) = shortest(write).await?;
    answer.write_ms = Some(write);
    let session = client.snapshot().session_id;
    // Servers that know nothing of each other may give equal ids to their sessions.
    let node = format!("/lockkeeper-doctor-{}-{number}-{session}", process::id());
    let before = text::now();
    let created = client.create(&node, "", CreateMode::Ephemeral).await;
    let after = text::now();
    // By the time that the server notes for the new node.
    let clock = created.as_ref().ok();
    let clock = clock.map(|it| ahead(it.stat.ctime, before, after));
    let container = async {
        let node = format!("{node}-container");
        client.create(&node, "", CreateMode::Container).await?;
        client.delete(&node, Version::ANY).await
    }
    .await;
    let error = created.err();
    let cure = match error.as_ref().and_then(Error::code) {
        Some(ErrorCode::THROTTLED_OP) => "wait, for example with --wait 1m",
        Some(ErrorCode::EPHEMERAL_ON_LOCAL_SESSION) => UPGRADE,
        _ => "give an identity that may, or a chroot, or --no-write",
    };
    refused("no node was created below /", cure, error);
    answer.node = clock.is_some().then_some(node);
    (answer.clock_ms, answer.containers) = (clock, Some(container.is_ok()));
    let cure = "use ZooKeeper 3.5.1 or later, or create the directories of locks yourself";
    refused("no container was created below /", cure, container.err());
    Ok(())
}

/// How far a server's timestamp is ahead of our clock, in milliseconds. The server made it at any moment between these two.
fn ahead(server_ms: i64, before: Duration, after: Duration) -> i64 {
    let [before, after] =
        [before, after].map(|it| i64::try_from(text::millis(it)).unwrap_or(i64::MAX));
    let nearest = server_ms.max(before).min(after.max(before));
    server_ms.saturating_sub(nearest)
}

/// How long this takes at the least, in milliseconds, and the last answer.
async fn shortest<T>(ask: impl AsyncFn() -> Result<T, Error>) -> Result<(f64, T), Error> {
    let (first, mut shortest, mut rounds) = (Instant::now(), Duration::MAX, 0);
    loop {
        let begin = Instant::now();
        let answer = ask().await?;
        shortest = shortest.min(begin.elapsed());
        rounds += 1;
        if rounds == ROUNDS || first.elapsed() > LONG {
            return Ok((shortest.as_secs_f64() * 1e3, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_have_any_time() {
        let [before, after] = [1, 5].map(Duration::from_secs);
        for (server_ms, ahead_ms) in [
            (995, -5),
            (1_000, 0),
            (5_000, 0),
            (5_005, 5),
            (i64::MAX, i64::MAX - 5_000),
            (i64::MIN, i64::MIN),
        ] {
            assert_eq!(ahead(server_ms, before, after), ahead_ms);
        }
        let second = Duration::from_secs(1);
        assert_eq!(ahead(1_005, second, Duration::ZERO), 5, "our clock was set");
    }
}
