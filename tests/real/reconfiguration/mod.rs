//! A client's `reconfig` removes servers from an ensemble of three real servers, and adds them
//! again.
//!
//! Not here: servers that fail (`failures`); a standalone server, or one that does not allow
//! `reconfig` (`operations/ensemble`).

use lockkeeper_test_support as support;
use lockkeeper_test_support::servers;
use std::time::Duration;

use lockkeeper::{
    Client, CreateMode, Error, Mutex, Version,
    client::digest,
    error::ErrorCode,
    locks::LockState,
    node::NodeData,
    watch::{EventType, Watcher},
};

use servers::{COUNT, Members, Servers, on_ensemble};
use support::waiting::{soon, until};

/// The user who may reconfigure, and the password.
const SUPER: (&str, &str) = ("super", "open sesame");

/// Longer than any step here takes: no session may expire.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// The node in which servers keep their configuration.
const NODE: &str = "/zookeeper/config";

/// The test must leave all three servers as members.
fn members() -> Members {
    let (user, password) = SUPER;
    let super_digest = digest::id(user, password);
    Members::Dynamic { super_digest }
}

/// A client that is connected to the given server and also knows the others.
async fn client_of(servers: &Servers, number: usize) -> Client {
    let client = client(servers).await;
    until("the client is at that server", async || {
        let now = servers.of(&client);
        if now.is_some_and(|now| now != number) {
            client.raw().leave_server();
            let moved = async || servers.of(&client).is_some_and(|then| Some(then) != now);
            until("the client moves", moved).await;
        }
        now == Some(number)
    })
    .await;
    client
}

async fn client(servers: &Servers) -> Client {
    let builder = Client::builder(&servers.connect_string()).expect("a list of servers");
    let builder = builder.session_timeout(SESSION_TIMEOUT);
    builder.connect().await.expect("servers that serve")
}

async fn operator(servers: &Servers) -> Client {
    let (user, password) = SUPER;
    let builder = Client::builder(&servers.connect_string()).expect("a list of servers");
    let builder = builder.session_timeout(SESSION_TIMEOUT);
    let builder = builder.auth("digest", format!("{user}:{password}"));
    builder.connect().await.expect("servers that serve")
}

/// What the servers say of themselves.
#[derive(Debug, PartialEq)]
struct Config {
    /// The lines of the servers, in order.
    lines: Vec<String>,
    version: Option<i64>,
}

/// The configuration in a reply. Its length must match the reply's metadata.
fn config(found: &NodeData) -> Config {
    let data = found.data.as_deref().expect("an ensemble");
    assert_eq!(usize::try_from(found.stat.data_length), Ok(data.len()));
    let text = std::str::from_utf8(data).expect("text");
    let lines = text.lines().filter(|line| line.starts_with("server."));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort();
    let version = text.lines().find_map(|line| line.strip_prefix("version="));
    let version = version.map(|version| i64::from_str_radix(version, 16).expect("a version"));
    Config { lines, version }
}

/// The lines of the given servers, as a configuration has them.
fn lines(servers: &Servers, numbers: &[usize]) -> Vec<String> {
    let numbers = numbers.iter();
    numbers
        .map(|number| servers.line(*number).to_owned())
        .collect()
}

async fn seen_with_watch(client: &Client) -> (Config, Watcher) {
    let (found, watcher) = client.get_config_and_watch().await.unwrap();
    (config(&found), watcher)
}

async fn is_told(watcher: Watcher) {
    let event = soon(watcher).await.expect("the session lives");
    let told = (event.event_type, event.path.as_str());
    assert_eq!(told, (EventType::NODE_DATA_CHANGED, NODE));
}

fn refusal(result: Result<NodeData, Error>) -> Option<ErrorCode> {
    result.expect_err("a refusal").code()
}

/// One server leaves, is stopped, comes back and joins. Every watcher of the configuration gets an
/// event each time. A client of that server moves to another server and keeps its session, nodes,
/// watch and lock.
#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_a_server_leaves_and_joins_again() {
    on_ensemble(members(), async |servers: &mut Servers| {
        let all = [0, 1, 2];
        // A follower, because a leader would first hand over the lead.
        let [leaving, staying] = servers.followers()[..] else {
            panic!("two followers");
        };
        let two: Vec<_> = all
            .into_iter()
            .filter(|number| *number != leaving)
            .collect();
        let operator = operator(servers).await;
        let theirs = client_of(servers, leaving).await;
        let others = client_of(servers, staying).await;
        let session = theirs.snapshot().session_id;
        let path = format!("/reconfiguration-{:016x}", theirs.raw().random_u64());
        let own = format!("{path}-own");
        theirs
            .create(&own, "", CreateMode::Ephemeral)
            .await
            .unwrap();
        let lock = Mutex::new(&theirs, &path).unwrap().lock().await.unwrap();
        let (_, changed) = theirs.get_data_and_watch(&own).await.unwrap();

        let (first, watch_theirs) = seen_with_watch(&theirs).await;
        let (same, watch_others) = seen_with_watch(&others).await;
        assert_eq!(first, same);
        assert_eq!(first.lines, lines(servers, &all));

        let left = operator
            .reconfig("", &leaving.to_string(), first.version)
            .await;
        let left = left.unwrap();
        let without = config(&left);
        assert_eq!(without.lines, lines(servers, &two));
        assert!(
            without.version > first.version,
            "{without:?} after {first:?}"
        );
        // The version is the zxid of the transaction that made the configuration.
        assert_eq!(without.version, Some(left.stat.mzxid.0));
        for watcher in [watch_theirs, watch_others] {
            is_told(watcher).await;
        }
        let (seen, watch_theirs) = seen_with_watch(&theirs).await;
        assert_eq!(
            seen, without,
            "the server that has left shows the new configuration"
        );
        let (seen, watch_others) = seen_with_watch(&others).await;
        assert_eq!(seen, without);

        // The clients of the stopped server continue on another server.
        servers.shut_down(leaving);
        until!(servers.of(&theirs).is_some_and(|now| now != leaving));
        let stat = soon(theirs.exists(&own)).await.unwrap().expect("its node");
        assert_eq!(
            (stat.ephemeral_owner, theirs.snapshot().session_id),
            (session, session)
        );
        assert_eq!(lock.state(), LockState::Held);
        operator.set_data(&own, "x", Version::ANY).await.unwrap();
        let event = soon(changed).await.unwrap();
        assert_eq!(event.event_type, EventType::NODE_DATA_CHANGED);

        servers.configure(leaving);
        servers.start(leaving);
        servers.wait_until_serving(COUNT);
        let joined = operator
            .reconfig(servers.line(leaving), "", without.version)
            .await;
        let with = config(&joined.unwrap());
        assert_eq!(with.lines, lines(servers, &all));
        assert!(with.version > without.version, "{with:?} after {without:?}");
        for watcher in [watch_theirs, watch_others] {
            is_told(watcher).await;
        }
        soon(lock.release()).await.unwrap();
        // The server is a full member again: together with one other server it is a majority.
        servers.shut_down(staying);
        servers.wait_until_serving(COUNT - 1);
        until("the two write", async || {
            let written = operator.set_data(&own, "y", Version::ANY).await;
            // Its server may be the one that was stopped.
            written
                .inspect_err(|error| assert!(error.is_transient(), "{error}"))
                .is_ok()
        })
        .await;
        for client in [operator, theirs, others] {
            client.close().await;
        }
    });
}

/// Replaces the whole list at once. A refused request changes nothing, and the client keeps its
/// connection.
#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_members_are_replaced_and_a_refused_request_changes_nothing() {
    on_ensemble(members(), async |servers: &mut Servers| {
        let operator = operator(servers).await;
        let follower = servers.followers()[0];
        let two: Vec<_> = (0..COUNT).filter(|number| *number != follower).collect();
        let list = |numbers: &[usize]| lines(servers, numbers).join(",");
        let before = config(&operator.get_config().await.unwrap());

        let replaced = operator
            .reconfig_to_members(&list(&two), before.version)
            .await;
        let replaced = config(&replaced.unwrap());
        assert_eq!(replaced.lines, lines(servers, &two));
        assert!(replaced.version > before.version);
        let restored = operator.reconfig_to_members(&list(&[0, 1, 2]), None).await;
        let restored = config(&restored.unwrap());
        assert_eq!(restored.lines, lines(servers, &[0, 1, 2]));

        // Both name an old version: another change came first.
        let late = operator
            .reconfig("", &follower.to_string(), replaced.version)
            .await;
        assert_eq!(refusal(late), Some(ErrorCode::BAD_VERSION));
        let late = operator
            .reconfig_to_members(&list(&two), before.version)
            .await;
        assert_eq!(refusal(late), Some(ErrorCode::BAD_VERSION));
        // Two unknown servers and one of the three: most of them cannot be reached.
        let strangers = "server.8=127.0.0.1:1:2;127.0.0.1:3,server.9=127.0.0.1:4:5;127.0.0.1:6";
        let alone = format!("{},{strangers}", servers.line(0));
        let no_quorum = operator.reconfig_to_members(&alone, None).await;
        assert_eq!(refusal(no_quorum), Some(ErrorCode::NEW_CONFIG_NO_QUORUM));
        let nonsense = operator.reconfig("server.9=nonsense", "", None).await;
        assert_eq!(refusal(nonsense), Some(ErrorCode::BAD_ARGUMENTS));
        // Any client may read the configuration, but only the super user may write it.
        let guest = client(servers).await;
        guest.sync(NODE).await.unwrap();
        assert_eq!(config(&guest.get_config().await.unwrap()), restored);
        let refused = guest.reconfig("", &follower.to_string(), None).await;
        assert_eq!(refusal(refused), Some(ErrorCode::NO_AUTH));

        operator.sync(NODE).await.unwrap();
        assert_eq!(config(&operator.get_config().await.unwrap()), restored);
        for client in [operator, guest] {
            assert_eq!(client.snapshot().connections, 1);
            client.close().await;
        }
    });
}
