//! `lockkeeper doctor`: what is wrong with the servers, and what to do.

use std::{
    borrow::Cow,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::support::{
    Arm, Ended, LIMIT, Running, authority, ended, free_address, lockkeeper, namespace, objects,
    wait_for, without_variables,
};
use lockkeeper::{
    Client, CreateMode,
    client::tls::rustls::version::{TLS12, TLS13},
    error::ErrorCode,
    proto::OpCode,
};
use lockkeeper_server::{Cluster, Server, When};
use lockkeeper_test_support::{
    certificates::Authority,
    gate::{server_tls, server_tls_of},
    proxy::{Direction, Proxy, Tap},
    servers::{Members, ensemble},
};
use serde_json::Value;
use tokio::runtime::Runtime;

/// What a server that does not serve says to every word.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

on_both_arms!(the_doctor_finds_nothing_wrong_with_a_healthy_server);

/// The end of its session was waited for, 40 s: the doctor asks for the longest session that a server grants.
#[test]
fn a_server_that_falls_silent_is_not_waited_for_longer_than_its_time() {
    let arm = Arm::embedded();
    let sync = When::op(OpCode::SYNC);
    arm.server().faults().delay_reply(sync, LIMIT);
    let begin = Instant::now();
    let doctor = ended(&mut arm.on(&["doctor", "--timeout", "1s"]));
    assert!(begin.elapsed() < Duration::from_secs(20), "{doctor:?}");
    doctor.ends(69).shows("sync not answered within 1 s");
}

fn the_doctor_finds_nothing_wrong_with_a_healthy_server(arm: &Arm) {
    let text = arm.said(&["doctor"]);
    assert!(text.ends_with("no problem found\n"), "{text}");
    let report = &objects(&arm.said(&["doctor", "--json"]))[0];
    let server = &report["servers"][0];
    assert_eq!(server["server"], *arm.connect);
    for key in ["round_trip_ms", "longest_session_ms"] {
        assert!(server[key].as_f64() > Some(0.0), "{key}: {report}");
    }
    for key in ["containers", "persistent_watches"] {
        assert_eq!(server[key], true, "{key}: {report}");
    }
    let clock = server["clock_ms"].as_i64().unwrap();
    assert!(clock.abs() < 1000, "{report}");
    let version = server["version"].as_str().unwrap();
    assert!(version.starts_with("3."), "{report}");
    assert_eq!(server["encryption"], Value::Null);
    assert_eq!(report["problems"], Value::Array(Vec::new()));
    assert!(!arm.said(&["ls"]).contains("doctor"), "its nodes are gone");
    let no_write = objects(&arm.said(&["doctor", "--json", "--no-write"]));
    assert_eq!(no_write[0]["servers"][0]["containers"], Value::Null);
}

fn doctor(servers: &str) -> Ended {
    let arguments = ["doctor", "--timeout", "1s", "--connect", servers];
    ended(&mut lockkeeper(&arguments))
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let arm = Arm::embedded();
    let closed = free_address();
    let sick = doctor(&format!("{},{closed}", arm.connect)).ends(1);
    let problem = format!("(os error 111)\n\nproblems: 1\n- {closed}: ");
    let cure = "\n  start the server, or correct the port\n";
    sick.shows(&problem).shows(cure);
    // Servers with one problem are one line.
    let dead = doctor(&format!("{closed},127.0.0.1:1")).ends(69);
    dead.shows(&format!(
        "problems: 1\n- {closed}, 127.0.0.1:1: Connection refused (os error 111)\n"
    ));
    let lost = doctor(&format!("{}/missing", arm.connect)).ends(1);
    lost.shows("no such chroot: /missing\n")
        .shows("lockkeeper create --parents");
    ended(&mut arm.on(&["create", "--parents", "/missing"])).ends(0);
    doctor(&format!("{}/missing", arm.connect)).ends(0);
}

/// Only the log of the client said it.
#[test]
fn the_version_of_tls_is_told() {
    let (arm, (authority, _files, ca)) = (Arm::embedded(), authority());
    for (version, name) in [(&TLS12, "TLSv1_2"), (&TLS13, "TLSv1_3")] {
        let tls = server_tls_of(&authority.issue(&["127.0.0.1"]), None, &[version]);
        let (_gate, servers) = arm.behind_tls(tls);
        let mut doctor = lockkeeper(&["doctor", "--connect", &servers, "--tls-ca", &ca]);
        let report = ended(&mut doctor).ends(0).stdout;
        let told = |line: &str| line.split_whitespace().eq(["encryption", name]);
        assert!(report.lines().any(told), "{name}: {report}");
    }
}

#[test]
fn a_certificate_that_ends_soon_or_has_ended_is_told() {
    let (arm, (authority, _files, ca)) = (Arm::embedded(), authority());
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    for (hours, status, told) in [
        (31 * 24, 0, "\nno problem found"),
        (29 * 24, 0, "\nnotes: 1\n- "),
        (20, 1, "\nproblems: 1\n- "),
        (-1, 69, "expired\n  renew the server's certificate\n"),
    ] {
        let end = Duration::from_secs(now.checked_add_signed(hours * 3600 + 60).unwrap());
        let identity = authority.issue_until(&["127.0.0.1"], end);
        let (_gate, address) = arm.behind_tls(server_tls(&identity, None));
        let arguments = ["doctor", "--connect", &address, "--tls-ca", &ca];
        let text = ended(&mut lockkeeper(&arguments)).ends(status).shows(told);
        let is_note = text.stdout.contains("its certificate ends in ");
        assert_eq!(is_note, [29 * 24, 20].contains(&hours), "{text:?}");
        let json = ended(lockkeeper(&arguments).arg("--json"));
        let end = (status < 69).then(|| end.as_secs() * 1000);
        let server = &objects(&json.stdout)[0]["servers"][0];
        assert_eq!(server["certificate_ends_ms"].as_u64(), end, "{json:?}");
    }
}

#[test]
fn the_doctor_says_which_certificate_a_client_lacks() {
    let (arm, (authority, files, ca)) = (Arm::embedded(), authority());
    let tls = server_tls(&authority.issue(&["127.0.0.1"]), Some(&authority));
    let (_gate, address) = arm.behind_tls(tls);
    let other = Authority::new("theirs").issue(&["client"]);
    for (identity, cure) in [
        (None, "give --tls-cert and --tls-key\n"),
        (
            Some(other),
            "give --tls-cert and --tls-key of an authority that",
        ),
        (
            Some(authority.issue_expired(&["client"])),
            "renew the certificate of --tls-cert\n",
        ),
    ] {
        let mut doctor = lockkeeper(&["doctor", "--connect", &address, "--tls-ca", &ca]);
        if let Some(identity) = identity {
            let certificate = files.write("client.pem", &identity.certificate);
            let key = files.write("client.key", &identity.key);
            doctor.args(["--tls-cert", &certificate, "--tls-key", &key]);
        }
        let remedy = format!(")\n  {cure}");
        ended(&mut doctor).ends(69).shows(&remedy);
    }
}

/// The client needs one of the servers that a name stands for, and hides that another one is dead.
#[test]
fn each_address_of_a_name_is_asked() {
    if !namespace(&["true"]).status().is_ok_and(|it| it.success()) {
        return;
    }
    let (arm, (authority, files, ca)) = (Arm::embedded(), authority());
    let hosts = files.write("hosts", "127.0.0.1 every-zk\n127.0.0.2 every-zk\n");
    let tls = server_tls(&authority.issue(&["every-zk"]), None);
    let (_gate, secure) = arm.behind_tls(tls);
    for (address, options) in [(&arm.connect, &[][..]), (&secure, &["--tls-ca", &ca])] {
        let (_, port) = address.rsplit_once(':').unwrap();
        let mut doctor = namespace(&["sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""]);
        doctor.args([&hosts, env!("CARGO_BIN_EXE_lockkeeper"), "doctor"]);
        doctor
            .args(["--connect", &format!("every-zk:{port}")])
            .args(options);
        let told = ended(without_variables(&mut doctor)).ends(1);
        told.shows(&format!("every-zk:{port}\n"))
            .shows("\nproblems: 1\n")
            .shows(&format!("\n- 127.0.0.2:{port}: Connection refused"));
    }
}

#[test]
fn slow_answers_are_told_and_are_no_fault_of_a_clock() {
    for (op, told) in [
        (OpCode::MULTI, Some(": a write takes ")),
        (OpCode::SYNC, Some(": a sync takes ")),
        (OpCode::CREATE2, None),
    ] {
        let (arm, slow) = (Arm::embedded(), Duration::from_secs_f64(2.5));
        arm.server().faults().delay_reply(When::op(op), slow);
        let report = ended(&mut arm.on(&["doctor"]));
        match told {
            None => report.ends(0).shows("\nno problem found\n"),
            Some(told) => report
                .ends(1)
                .shows("\nproblems: 1\n")
                .shows(told)
                .shows(" s; a session timeout of 10 s cannot prove a lease; "),
        };
    }
}

/// It is no fault of the port, or of the network.
#[test]
fn a_server_that_is_slower_than_the_timeout_is_told() {
    let (arm, slow) = (Arm::embedded(), Duration::from_secs_f64(2.5));
    arm.server()
        .faults()
        .delay_reply(When::op(OpCode::SYNC), slow);
    doctor(&arm.connect)
        .ends(69)
        .shows(": sync not answered within ")
        .shows("\n  it is slow: give a longer --timeout");
}

#[test]
fn sessions_too_short_for_a_lease_are_told() {
    let runtime = Runtime::new().unwrap();
    for (ms, status) in [(1_400, 1), (1_500, 0)] {
        let server = Server::builder().tick_time(Duration::from_secs(1));
        let server = server.min_session_timeout(Duration::from_millis(ms));
        let server = runtime.block_on(server.start()).unwrap();
        let report = doctor(&server.connect_string()).ends(status);
        let problem = "it grants sessions of 1.40 s, with a tick of 1.00 s: ";
        assert_eq!(report.stdout.contains(problem), status == 1, "{report:?}");
    }
}

/// The first answers to these words come before the server serves.
struct Early(&'static [&'static str], Arc<Mutex<Vec<Vec<u8>>>>, bool);

impl Tap for Early {
    fn pass<'a>(&mut self, direction: Direction, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if direction == Direction::ToServer {
            let mut said = self.1.lock().unwrap();
            let is_word = self.0.iter().any(|word| word.as_bytes() == bytes);
            self.2 = is_word && !said.iter().any(|word| word == bytes);
            said.push(bytes.to_vec());
        } else if self.2 {
            return NOT_SERVING.as_bytes().into();
        }
        bytes.into()
    }
}

/// It said of such a server that nothing was wrong, although its settings are. By default, servers
/// answer only the first of these words.
#[test]
fn a_server_that_begins_to_serve_meanwhile_is_asked_again() {
    let runtime = Runtime::new().unwrap();
    for early in [&["srvr"][..], &["srvr", "mntr", "conf"]] {
        let server = Server::builder().tick_time(Duration::from_secs(1));
        let server = server.min_session_timeout(Duration::from_millis(1_400));
        let server = runtime.block_on(server.start()).unwrap();
        let said = Arc::default();
        let taps = Arc::new(move |_| Box::new(Early(early, Arc::clone(&said), false)) as _);
        let address = server.connect_string().parse().unwrap();
        let proxy = runtime.block_on(Proxy::tapped(&[address], taps));
        doctor(&proxy.connect_string())
            .ends(1)
            .shows("standalone")
            .shows("it grants sessions of 1.40 s, with a tick of 1.00 s: ");
    }
}

/// A server that answers words, and closes the connections of clients. Returns its address.
fn speaker(answer: impl Fn(&[u8; 4]) -> &'static str + Send + 'static) -> String {
    listener(answer, false)
}

/// One that keeps them, and does not answer their handshakes.
fn keeper(answer: impl Fn(&[u8; 4]) -> &'static str + Send + 'static) -> String {
    listener(answer, true)
}

fn listener(answer: impl Fn(&[u8; 4]) -> &'static str + Send + 'static, keeps: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let (mut stream, mut word) = (stream.unwrap(), [0; 4]);
            if stream.read_exact(&mut word).is_ok() && word[0] != 0 {
                let _ = stream.write_all(answer(&word).as_bytes());
            } else if keeps {
                kept.push(stream);
            }
        }
    });
    address
}

/// One that has this answer to one word, and this to all others.
fn answers(one: &'static str, answer: &'static str, others: &'static str) -> String {
    speaker(move |word| {
        if word == one.as_bytes() {
            answer
        } else {
            others
        }
    })
}

/// A server whose disk is full stays out: the others are a majority.
#[test]
fn a_server_that_is_not_with_the_majority_is_told() {
    let runtime = Runtime::new().unwrap();
    let cluster = Server::builder()
        .tick_time(Duration::from_millis(100))
        .sync_limit(2);
    let cluster = runtime.block_on(cluster.start_cluster(3)).unwrap();
    let alone = cluster.followers()[0];
    cluster.isolate(alone);
    wait_for("the limit", || !cluster.followers().contains(&alone));
    let address = cluster.connect_string_of(alone);
    let problem = format!("\nproblems: 1\n- {address}: the server says that it is not currently");
    doctor(&cluster.connect_string())
        .ends(1)
        .shows(&problem)
        .shows("requests: it is not with the majority, which serves\n  look at its log");
}

/// A leader that hangs, which accepts connections and says nothing, and a follower that waits for it.
#[test]
fn a_leader_that_hangs_is_told_from_its_followers() {
    let leader = TcpListener::bind("127.0.0.1:0").unwrap();
    let leader = leader.local_addr().map(|it| (leader, it)).unwrap();
    let follower = keeper(|_| "Zookeeper version: 3.9.3, built on x\nMode: follower\n");
    let ms = "handshake not answered within ";
    let told = doctor(&format!("{},{follower}", leader.1)).ends(69);
    told.shows(&format!("- {}: {ms}", leader.1))
        .shows("; it answers no word, either\n  stop its process")
        .shows(&format!("- {follower}: {ms}"))
        .shows(" ms: it answers words, so its leader does not answer it\n  stop the server that");
}

/// Each row: an answer to one word, the answer to all others, and parts of what is told.
#[test]
fn what_a_server_says_of_itself_is_told() {
    for (word, answer, others, parts) in [
        (
            "",
            "",
            NOT_SERVING,
            &["it has no quorum\n  start a majority of the ensemble's servers"][..],
        ),
        (
            "mntr",
            "zk_version\t3.8.0-5a02\nzk_digest_mismatches_count\t2\n",
            "Zookeeper version: 3.8.0-5a02, built on 2022-02-25 08:49 UTC\nMode: follower\n",
            &["ZOOKEEPER-4785", "(digest mismatches: 2)"],
        ),
        (
            "mntr",
            "zk_global_sessions\t1\nzk_local_sessions\t2\n",
            "",
            &["it has local sessions (2), in which no lock can live\n  look that localSessions"],
        ),
        (
            "conf",
            "clientPort=2181\nmaxClientCnxns=10\n",
            "",
            &[
                "max client connections  10\n",
                "it accepts 10 connections from one address\n  raise maxClientCnxns",
            ],
        ),
        (
            "conf",
            "maxClientCnxns=60\n",
            "",
            &["max client connections  60\n"],
        ),
        (
            "conf",
            "maxClientCnxns=0\n",
            "",
            &["max client connections  unlimited\n"],
        ),
    ] {
        let told = doctor(&answers(word, answer, others)).ends(69);
        let told = parts.iter().fold(told, |told, part| told.shows(part));
        let is_small = told.stdout.contains("from one address");
        assert_eq!(is_small, parts.len() > 1 && word == "conf", "{told:?}");
    }
}

/// Each of the leader, of a follower that has other data, and of one that lagged at the first question.
#[test]
fn a_server_that_has_more_or_fewer_nodes_or_sessions_than_its_leader_is_told() {
    static ASKED: AtomicBool = AtomicBool::new(false);
    let leader = answers(
        "mntr",
        "zk_znode_count\t9\nzk_ephemerals_count\t2\nzk_global_sessions\t4\n",
        "Mode: leader\n",
    );
    let other = answers(
        "mntr",
        "zk_znode_count\t9\nzk_ephemerals_count\t3\nzk_global_sessions\t5\n",
        "Mode: follower\n",
    );
    let late = speaker(|word| match word {
        b"mntr" if ASKED.swap(true, Ordering::Relaxed) => {
            "zk_znode_count\t9\nzk_ephemerals_count\t2\n"
        }
        b"mntr" => "zk_znode_count\t8\nzk_ephemerals_count\t2\n",
        _ => "Mode: follower\n",
    });
    let note = |what| format!("- {other}: it has {what}\n  compare");
    let told = doctor(&format!("{leader},{other},{late}")).ends(69);
    told.shows("notes: 2\n")
        .shows(&note(format!(
            "3 ephemeral nodes, and its leader {leader} has 2"
        )))
        .shows(&note(format!("5 sessions, and its leader {leader} has 4")));
}

#[test]
fn a_server_that_enforces_an_identity_is_told() {
    let (arm, demand) = (Arm::embedded(), ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH);
    arm.server().faults().refuse(When::any(), demand);
    doctor(&arm.connect)
        .ends(69)
        .shows("the server answers only authenticated clients\n  give an identity that it demands");
}

#[test]
fn a_server_that_grants_no_lock_yet_is_told() {
    let runtime = Runtime::new().unwrap();
    let server = Server::builder().no_ephemerals_for(LIMIT);
    let server = runtime.block_on(server.start()).unwrap();
    let early = doctor(&server.connect_string()).ends(1);
    early
        .shows("the server grants no lock yet")
        .shows("\n  wait");
}

/// `doctor` with these options, which ends with this status both if it writes and if it does not.
fn in_both_ways(servers: &str, status: i32) -> [Ended; 2] {
    [&[][..], &["--no-write"]].map(|options| {
        let mut doctor = lockkeeper(&["doctor", "--connect", servers]);
        ended(doctor.args(options)).ends(status)
    })
}

#[test]
fn servers_that_are_not_one_ensemble_are_told() {
    let (one, other) = (Arm::embedded(), Arm::embedded());
    let (a, b) = (&one.connect, &other.connect);
    for report in in_both_ways(&format!("{a},{b}"), 1) {
        report
            .shows("problems: 2\n")
            .shows(&format!("- {a}: it is not of one ensemble with {b}\n"))
            .shows(&format!("- {b}: it is not of one ensemble with {a}\n"))
            .shows("two clients can hold one lock at once");
    }
    let runtime = Runtime::new().unwrap();
    let cluster = runtime.block_on(Cluster::start(3)).unwrap();
    let members = cluster.connect_string();
    let one = cluster.servers().next().unwrap();
    doctor(&cluster.connect_string_of(one))
        .ends(1)
        .shows("--connect lacks members: the ensemble has 3 (");
    for report in in_both_ways(&members, 0) {
        report.shows("no problem found");
    }
    for report in in_both_ways(&format!("{members},{a}"), 1) {
        let others = members.replace(',', ", ");
        let problem = format!("- {a}: it is not of one ensemble with {others}\n");
        let members = format!("- {others}: it is not of one ensemble with {a}\n");
        report
            .shows("problems: 2\n")
            .shows(&problem)
            .shows(&members);
    }
}

#[test]
fn the_doctor_waits_until_nothing_is_wrong() {
    let address = free_address();
    let arguments = ["doctor", "--timeout", "1s", "--connect", &address];
    let wait = |time| Running::start(lockkeeper(&arguments).args(["--wait", time]));
    wait("700ms").end().ends(69).shows("problems: 1\n");
    let doctor = wait("30s");
    let builder = Server::builder().listen(address.parse().unwrap());
    let builder = builder.no_ephemerals_for(Duration::from_secs(2));
    let runtime = Runtime::new().unwrap();
    let _server = runtime.block_on(builder.start()).unwrap();
    let ended = doctor.end().ends(0);
    assert!(ended.stdout.starts_with(&address), "one report: {ended:?}");
    assert!(
        ended.stdout.ends_with("\n\nno problem found\n"),
        "{ended:?}"
    );
}

/// A follower lags behind the leader in each moment of a busy ensemble, which is no reason for a note.
#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_real_servers_are_sound_until_one_is_missing() {
    let mut ensemble = ensemble(Members::Fixed);
    let servers = ensemble.as_mut().unwrap();
    let all = servers.connect_string();
    let runtime = Runtime::new().unwrap();
    let connected = Client::builder(&all).unwrap().connect();
    let client = runtime.block_on(connected).unwrap();
    let busy = runtime.spawn({
        let client = client.clone();
        async move {
            let created = client.create_all("/busy/directory", "", CreateMode::Persistent);
            created.await.unwrap();
            for number in 0.. {
                let node = format!("/busy/directory/{number}");
                client
                    .create(&node, "", CreateMode::Ephemeral)
                    .await
                    .unwrap();
            }
        }
    });
    for _ in 0..3 {
        let mut doctor = lockkeeper(&["doctor", "--json", "--connect", &all]);
        let report = objects(&ended(&mut doctor).ends(0).stdout).remove(0);
        let of = |key: &str| report[key].as_array().unwrap().clone();
        assert_eq!(of("problems"), [] as [Value; 0], "{report}");
        let answers = of("servers");
        let mut modes: Vec<_> = answers.iter().map(|it| it["mode"].as_str()).collect();
        modes.sort_unstable();
        assert_eq!(modes, [Some("follower"), Some("follower"), Some("leader")]);
        for note in of("notes") {
            let answer = answers.iter().find(|it| it["server"] == note["server"]);
            let (answer, what) = (answer.unwrap(), note["what"].as_str().unwrap());
            let version = answer["version"].as_str().unwrap();
            let is_true = if what.contains("ZOOKEEPER-4785") {
                ["3.8.0-", "3.8.1-", "3.8.2-", "3.8.3-", "3.9.0-", "3.9.1-"]
                    .iter()
                    .any(|it| version.starts_with(it))
            } else {
                what.contains("digest mismatches") && answer["digest_mismatches"].as_u64() > Some(0)
            };
            assert!(is_true, "{note}: {report}");
        }
    }
    busy.abort();
    runtime.block_on(client.close());
    let follower = servers.followers()[0];
    servers.shut_down(follower);
    servers.wait_until_serving(2);
    let problem = format!("problems: 1\n- {}: ", servers.address(follower));
    let cure = "\n  start the server, or correct the port\n";
    doctor(&all).ends(1).shows(&problem).shows(cure);
}
