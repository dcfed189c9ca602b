//! A holder whose server is cut off from the others. It learns that it has lost the lock before another contender has it.
//!
//! Not here: the same with real servers (`tests/partitions`), and servers that are silent to one client (`loss`).

use std::time::{Duration, Instant};

use futures::future::join_all;
use lockkeeper::Client;
use lockkeeper_server::{Cluster, ServerId};

use crate::{
    kinds::{Held, Kind},
    rig::{nodes, soon, until},
    support::builder,
};

/// What is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The link between the holder's server and the leader.
    Link,
    /// One direction of it.
    ToLeader,
    FromLeader,
    /// The holder's server leads, and the others elect another leader.
    Leader,
}

/// Each cut, in a cluster of its own. Every server goes on answering its clients.
pub(crate) async fn a_holder_that_is_cut_off_is_told_before_another_contender_holds_it<K: Kind>() {
    let cuts = [Cut::Link, Cut::ToLeader, Cut::FromLeader, Cut::Leader];
    join_all(cuts.map(lose::<K>)).await;
}

async fn lose<K: Kind>(cut: Cut) {
    let cluster = &builder().start_cluster(3).await.unwrap();
    let leader = cluster.leader().expect("a leader");
    let [follower, other] = cluster.followers()[..] else {
        panic!("{cut:?}: a follower is missing");
    };
    let own = if matches!(cut, Cut::Leader) {
        leader
    } else {
        follower
    };
    let path = "/partition".to_owned();
    let holder = connect(cluster, own, Duration::from_secs(2)).await;
    let other = connect(cluster, other, Duration::from_secs(60)).await;
    let held = K::at(&holder, &path).lock().await.unwrap();
    let told = tokio::spawn({
        let lost = held.lost();
        async move {
            lost.await;
            Instant::now()
        }
    });
    let before = nodes::<K>(&other, &path).await.len();
    let granted = tokio::spawn({
        let (other, path) = (other.clone(), path.clone());
        async move { (K::rival(&other, &path).await.unwrap(), Instant::now()) }
    });
    until("the rival waits", async || {
        if K::HAS_QUEUE {
            nodes::<K>(&other, &path).await.len() > before
        } else {
            other.metrics().watches > 0
        }
    })
    .await;
    match cut {
        Cut::Link => cluster.cut_link(own, leader),
        Cut::ToLeader => cluster.cut_one_way(own, leader),
        Cut::FromLeader => cluster.cut_one_way(leader, own),
        Cut::Leader => {
            cluster.isolate(own);
            assert!(cluster.depose().is_some());
        }
    }
    let told = soon(told).await.unwrap();
    let (rival, granted) = soon(granted).await.unwrap();
    assert!(
        told < granted,
        "{cut:?}: told {:?} too late",
        told - granted
    );
    drop((rival, held));
}

async fn connect(cluster: &Cluster, server: ServerId, timeout: Duration) -> Client {
    let builder = Client::builder(&cluster.connect_string_of(server)).unwrap();
    let builder = builder.session_timeout(timeout);
    soon(builder.connect()).await.unwrap()
}
