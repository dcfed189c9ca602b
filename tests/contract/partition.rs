//! A holder whose server is cut off from the others. It learns that it has lost the lock before
//! another contender has it.
//!
//! Not here: the same with real servers (`tests/real/partitions`), and servers that are silent to one
//! client (`loss`).

use std::time::Duration;

use futures::future::join_all;
use lockkeeper::Client;
use lockkeeper_server::{Cluster, ServerId};

use crate::{
    kinds::Kind,
    rig::{lose_to_a_rival, soon},
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
pub(crate) async fn a_holder_that_is_cut_off_is_told_before_another_contender_holds_it(kind: Kind) {
    let cuts = [Cut::Link, Cut::ToLeader, Cut::FromLeader, Cut::Leader];
    join_all(cuts.map(|cut| lose(kind, cut))).await;
}

async fn lose(kind: Kind, cut: Cut) {
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
    let path = format!("/partition-{cut:?}");
    let holder = connect(cluster, own, Duration::from_secs(2)).await;
    let other = connect(cluster, other, Duration::from_secs(60)).await;
    let held = kind.at(&holder, &path).lock().await.unwrap();
    let lose = || match cut {
        Cut::Link => cluster.cut_link(own, leader),
        Cut::ToLeader => cluster.cut_one_way(own, leader),
        Cut::FromLeader => cluster.cut_one_way(leader, own),
        Cut::Leader => {
            cluster.isolate(own);
            assert!(cluster.depose().is_some());
        }
    };
    let (_, rival) = lose_to_a_rival(kind, &*held, &other, &path, lose).await;
    drop((rival, held));
}

async fn connect(cluster: &Cluster, server: ServerId, timeout: Duration) -> Client {
    let builder = Client::builder(&cluster.connect_string_of(server)).unwrap();
    let builder = builder.session_timeout(timeout);
    soon(builder.connect()).await.unwrap()
}
