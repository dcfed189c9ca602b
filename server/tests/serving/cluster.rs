//! Several servers in one process, seen from their ports.
//!
//! Not here: when members give up and whom they elect, and what a cut link means
//! (`engine/stories`).

use lockkeeper_test_support::peer as common;
use std::{net::SocketAddr, pin::pin, time::Duration};

use common::{Peer, Raw, create, delete, exists, get_children, get_data, new_session, set_data};
use lockkeeper_proto::{
    CreateMode::{Ephemeral, Persistent},
    ErrorCode, EventType, Response, Version,
};
use lockkeeper_server::{Cluster, Server, ServerId};
use tokio::time::timeout;

fn address(cluster: &Cluster, server: ServerId) -> SocketAddr {
    cluster.connect_string_of(server).parse().unwrap()
}

async fn join(cluster: &Cluster, server: ServerId) -> Peer {
    Peer::join_at(address(cluster, server), 10_000).await
}

/// A cluster, its leader, and its two followers.
async fn three() -> (Cluster, ServerId, [ServerId; 2]) {
    let cluster = Cluster::start(3).await.unwrap();
    let leader = cluster.leader().unwrap();
    let followers = cluster.followers().try_into().unwrap();
    (cluster, leader, followers)
}

/// Whether the server accepts no connection, or closes it before the handshake is over.
async fn is_refused(cluster: &Cluster, server: ServerId) -> bool {
    let Ok(stream) = tokio::net::TcpStream::connect(address(cluster, server)).await else {
        return true;
    };
    drop(stream);
    let mut raw = Raw::connect(address(cluster, server)).await;
    raw.try_send(&common::framed(&new_session(10_000))).await;
    !raw.next_frame_or_end().await
}

#[tokio::test]
async fn every_member_serves_one_tree() {
    let cluster = Cluster::start(3).await.unwrap();
    let all: Vec<_> = cluster.servers().collect();
    assert_eq!(all, [ServerId(0), ServerId(1), ServerId(2)]);
    let addresses: Vec<_> = all
        .iter()
        .map(|it| cluster.connect_string_of(*it))
        .collect();
    assert_eq!(cluster.connect_string(), addresses.join(","));
    let mut watcher = join(&cluster, all[0]).await;
    watcher.call(&get_children("/", true)).await.unwrap();
    for server in all {
        let mut peer = join(&cluster, server).await;
        let path = format!("/{}", server.0);
        peer.create(&path, Persistent).await.unwrap();
        peer.call(&set_data(&path, b"x")).await.unwrap();
        peer.call(&get_data(&path, false)).await.unwrap();
        let moved = peer.resume_at(address(&cluster, ServerId(1))).await;
        let mut moved = moved.unwrap();
        moved.call(&exists(&path, false)).await.unwrap();
        moved.close().await;
    }
    assert_eq!(
        watcher.event().await.event_type,
        EventType::NODE_CHILDREN_CHANGED
    );
    watcher.close().await;
    assert_eq!(cluster.paths(), ["/0", "/1", "/2"]);
    cluster.assert_no_leaks();
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_member_that_is_cut_off_serves_for_the_sync_limit() {
    let half = Duration::from_secs(50);
    let settings = Server::builder().tick_time(2 * half).sync_limit(2);
    let cluster = settings.start_cluster(3).await.unwrap();
    let follower = cluster.followers()[0];
    cluster.cut_link(cluster.leader().unwrap(), follower);
    cluster.advance(3 * half);
    assert!(cluster.followers().contains(&follower));
    cluster.advance(half);
    assert!(!cluster.followers().contains(&follower));
}

/// The form is that of a real member: clients such as Curator's take the addresses from it.
#[tokio::test]
async fn each_member_lists_all_members() {
    let cluster = Cluster::start(3).await.unwrap();
    for server in cluster.servers() {
        let mut peer = join(&cluster, server).await;
        let read = peer.call(&get_data("/zookeeper/config", false)).await;
        let Ok(Response::GetData(read)) = read else {
            panic!("{read:?}");
        };
        let line = |it: ServerId| {
            let (number, address) = (it.0 + 1, cluster.connect_string_of(it));
            format!("server.{number}=127.0.0.1:0:0:participant;{address}\n")
        };
        let lines: String = cluster.servers().map(line).collect();
        let (stat, data) = (read.stat, read.data.unwrap());
        let expected = format!("{lines}version={:x}", stat.mzxid.0);
        assert_eq!(std::str::from_utf8(&data), Ok(&*expected));
        assert_eq!((stat.version, stat.aversion), (Version(-1), Version(-1)));
    }
}

/// The answer of a member to a four-letter word.
async fn ask(cluster: &Cluster, server: ServerId, word: &str) -> String {
    let mut raw = Raw::connect(address(cluster, server)).await;
    raw.send(word.as_bytes()).await;
    String::from_utf8(raw.rest().await).unwrap()
}

/// Another member that had the transaction answered for it, so the client read what was older than
/// its session.
#[tokio::test]
async fn a_member_that_lags_grants_no_session() {
    let (cluster, _, [one, _]) = three().await;
    cluster.lag(one);
    let mut joining = pin!(join(&cluster, one));
    let early = timeout(Duration::from_millis(100), joining.as_mut()).await;
    assert!(early.is_err());
    cluster.catch_up(one);
    joining.await;
}

/// The answers were about the connections and watches of all members, and about the leader's state.
#[tokio::test]
async fn each_member_answers_for_itself() {
    let (cluster, leader, [one, other]) = three().await;
    let mut peer = join(&cluster, one).await;
    let (mut busy, _quiet) = (join(&cluster, leader).await, join(&cluster, leader).await);
    peer.call(&get_children("/", true)).await.unwrap();
    cluster.lag(one);
    busy.create("/e", Ephemeral).await.unwrap();
    // The clients of each member, and the nodes that the member has learned of.
    for (server, clients, seen) in [(leader, 2, "6"), (one, 1, "5"), (other, 0, "6")] {
        let mode = if server == leader {
            "leader"
        } else {
            "follower"
        };
        let [srvr, stat, cons, mntr] =
            ["srvr", "stat", "cons", "mntr"].map(|word| ask(&cluster, server, word));
        let connections = clients + 1;
        for text in [srvr.await, stat.await] {
            assert!(
                text.contains(&format!("\nConnections: {connections}\n")),
                "{text}"
            );
            let end = format!("\nMode: {mode}\nNode count: {seen}\n");
            assert!(text.contains(&end), "{text}");
        }
        assert_eq!(cons.await.matches(",sid=").count(), clients);
        let (mntr, watches) = (mntr.await, usize::from(server == one));
        for (key, value) in [
            ("num_alive_connections", &*connections.to_string()),
            ("znode_count", seen),
            ("ephemerals_count", if server == one { "0" } else { "1" }),
            ("watch_count", &*watches.to_string()),
            ("quorum_size", "3"),
        ] {
            assert!(
                mntr.contains(&format!("\nzk_{key}\t{value}\n")),
                "{key}: {mntr}"
            );
        }
        let of_leader = "\nzk_learners\t2\nzk_synced_followers\t2\n";
        assert_eq!(mntr.contains(of_leader), server == leader, "{mntr}");
    }
    let zxid = |text: String| text.split_once("Zxid: ").unwrap().1.to_owned();
    let [at_one, at_other] = [one, other].map(|server| ask(&cluster, server, "srvr"));
    assert!(zxid(at_one.await) < zxid(at_other.await));
    // Frames count although the connections that brought them are gone.
    let received = async |server| {
        let text = ask(&cluster, server, "mntr").await;
        let (_, value) = text.split_once("zk_packets_received\t").unwrap();
        value.split_once('\n').unwrap().0.parse::<u64>().unwrap()
    };
    let (before, elsewhere) = (received(leader).await, received(other).await);
    join(&cluster, leader).await.close().await;
    assert_eq!(received(leader).await, before + 2);
    assert_eq!((received(one).await, received(other).await), (2, elsewhere));
}

#[tokio::test]
async fn each_member_shows_its_settings() {
    let cluster = Cluster::start(3).await.unwrap();
    for server in cluster.servers() {
        let port = address(&cluster, server).port();
        let mut peer = join(&cluster, server).await;
        let read = peer.call(&get_data("/zookeeper/config", false)).await;
        let Ok(Response::GetData(read)) = read else {
            panic!("{read:?}");
        };
        let members = String::from_utf8(read.data.unwrap().to_vec()).unwrap();
        let number = server.0 + 1;
        let expected = format!(
            "clientPort={port}\ntickTime=500\nminSessionTimeout=1000\nmaxSessionTimeout=60000\n\
             serverId={number}\nsyncLimit=5\npeerType=0\nmembership: \n{members}"
        );
        assert_eq!(ask(&cluster, server, "conf").await, expected);
    }
}

/// A real member that looks for a leader says the same.
#[tokio::test]
async fn a_member_without_a_majority_says_that_it_does_not_serve() {
    let (cluster, leader, [one, other]) = three().await;
    cluster.stop(leader).await;
    cluster.stop(other).await;
    for word in ["srvr", "stat", "mntr", "cons", "conf"] {
        let text = ask(&cluster, one, word).await;
        let expected = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(text, expected, "{word}");
    }
    assert_eq!(ask(&cluster, one, "isro").await, "null");
    assert_eq!(ask(&cluster, one, "ruok").await, "imok");
    assert!(ask(&cluster, one, "envi").await.starts_with("Environment:"));
    assert!(is_refused(&cluster, one).await);
    cluster.restart(other).await.unwrap();
    assert_eq!(ask(&cluster, one, "isro").await, "rw");
}

#[tokio::test]
async fn a_stopped_leader_is_replaced_and_follows_when_it_is_back() {
    let (cluster, leader, [one, other]) = three().await;
    let mut peer = join(&cluster, leader).await;
    peer.create("/e", Ephemeral).await.unwrap();
    cluster.stop(leader).await;
    peer.raw.assert_closed().await;
    assert!(is_refused(&cluster, leader).await);
    let next = cluster.leader().unwrap();
    assert!([one, other].contains(&next));
    let mut peer = peer.resume_at(address(&cluster, one)).await.unwrap();
    peer.call(&delete("/e")).await.unwrap();
    peer.create("/n", Persistent).await.unwrap();
    cluster.restart(leader).await.unwrap();
    assert_eq!(cluster.leader(), Some(next));
    let mut back = join(&cluster, leader).await;
    assert_eq!(back.children("/").await.unwrap(), ["n", "zookeeper"]);
    back.create("/m", Persistent).await.unwrap();
    // Without two of the three, nobody serves.
    cluster.stop(one).await;
    cluster.stop(other).await;
    assert_eq!(cluster.leader(), None);
    back.raw.assert_closed().await;
    assert!(is_refused(&cluster, leader).await);
    cluster.restart(other).await.unwrap();
    let mut back = back.resume_at(address(&cluster, leader)).await.unwrap();
    assert_eq!(back.children("/").await.unwrap(), ["m", "n", "zookeeper"]);
}

#[tokio::test]
async fn a_cut_link_is_silent_until_the_sync_limit_and_what_waits_arrives_when_it_is_healed() {
    let (cluster, leader, [one, _]) = three().await;
    let mut cut_off = join(&cluster, one).await;
    let mut other = join(&cluster, leader).await;
    cluster.cut_link(one, leader);
    let request = create("/late", b"", Persistent);
    let xid = cut_off.send(&request).await;
    other.create("/n", Persistent).await.unwrap();
    assert!(cut_off.raw.is_silent().await);
    cluster.heal_link(leader, one);
    cut_off.reply_to(xid, &request).await.unwrap().unwrap();
    // Once more, for longer than a follower waits: 5 ticks.
    cluster.cut_link(one, leader);
    cluster.advance(Duration::from_millis(2500));
    cut_off.raw.assert_closed().await;
    assert!(is_refused(&cluster, one).await);
    cluster.heal();
    let mut cut_off = cut_off.resume_at(address(&cluster, one)).await.unwrap();
    assert_eq!(
        cut_off.children("/").await.unwrap(),
        ["late", "n", "zookeeper"]
    );
}

#[tokio::test]
async fn clients_of_one_member_can_be_cut_and_refused() {
    let (cluster, leader, [one, _]) = three().await;
    let mut peer = join(&cluster, one).await;
    let mut other = join(&cluster, leader).await;
    cluster.refuse_clients(one).await;
    peer.create("/n", Persistent).await.unwrap();
    cluster.cut_clients(one);
    peer.raw.assert_closed().await;
    assert!(is_refused(&cluster, one).await && !is_refused(&cluster, leader).await);
    assert_eq!(cluster.followers().len(), 2);
    other.call(&exists("/n", false)).await.unwrap();
    cluster.accept_clients(one).await.unwrap();
    peer.resume_at(address(&cluster, one)).await.unwrap();
}

/// As by a loop over all servers. The leader got none of its own transactions, and nothing healed it.
#[tokio::test]
async fn a_member_is_never_cut_off_from_itself() {
    let (cluster, leader, _) = three().await;
    for server in cluster.servers() {
        cluster.cut_link(leader, server);
    }
    cluster.heal();
    let mut peer = join(&cluster, leader).await;
    peer.create("/n", Persistent).await.unwrap();
}

/// The leader has no such node, so that a delete of it fails everywhere. The member carried it out.
#[tokio::test]
async fn a_member_that_keeps_nodes_of_ended_sessions_keeps_them_when_others_delete_them() {
    let (cluster, leader, [keeper, _]) = three().await;
    let mut owner = join(&cluster, leader).await;
    let mut other = join(&cluster, leader).await;
    let mut reader = join(&cluster, keeper).await;
    owner.create("/e", Ephemeral).await.unwrap();
    cluster.keep_ended_sessions(keeper);
    owner.close().await;
    let refused = other.call(&delete("/e")).await.unwrap_err();
    assert_eq!(refused, ErrorCode::NO_NODE);
    assert_eq!(reader.children("/").await.unwrap(), ["e", "zookeeper"]);
}

/// One that does not become the leader. Its nodes were in the way of creates.
#[tokio::test]
async fn nodes_of_ended_sessions_that_a_follower_keeps_are_not_the_leaders() {
    let (cluster, first, _) = three().await;
    cluster.stop(first).await;
    let second = cluster.leader().unwrap();
    cluster.restart(first).await.unwrap();
    let mut owner = join(&cluster, second).await;
    owner.create("/e", Ephemeral).await.unwrap();
    cluster.keep_ended_sessions(first);
    cluster.lag(first);
    owner.close().await;
    cluster.stop(second).await;
    let third = cluster.leader().unwrap();
    assert_ne!(third, first);
    let mut other = join(&cluster, third).await;
    assert_eq!(other.children("/").await.unwrap(), ["zookeeper"]);
    other.create("/e", Ephemeral).await.unwrap();
}
