//! F9, by a write that waits on the link to the leader while its session moves to another server.
//!
//! Not here: that a handshake with the first server makes such a write valid again. Nothing relies on
//! that.

use lockkeeper_test_support::{contention::client, proxy::Direction::ToServer};
use tokio::time::sleep;

use super::{Client, Ensemble, Sent, TICK};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
async fn needs_ensemble_a_write_of_a_session_that_has_moved_is_refused() {
    let ensemble = Ensemble::start().await;
    let [first, second] = ensemble.servers.followers()[..] else {
        panic!("two of three servers follow");
    };
    let to_leader = &ensemble.proxies[first][ensemble.servers.leader()];
    let beside = client(&ensemble.servers.address(first).to_string(), TICK * 20).await;
    let version = async || beside.exists("/").await.unwrap().unwrap().version.0;
    for (moves, applied) in [(false, 1), (true, 0)] {
        let opened = Client::open(&ensemble.recorder, ensemble.address(first), TICK * 20);
        let mut writer = opened.await.expect("a session");
        let before = version().await;
        to_leader.hold(Some(ToServer));
        writer.send(Sent::Write, 0).await;
        // Until the server has read it.
        sleep(TICK / 2).await;
        if moves {
            assert!(writer.connect(ensemble.address(second)).await);
        }
        to_leader.pass();
        // The link keeps its order: the answer comes when the leader has had the write.
        beside.sync("/").await.unwrap();
        assert_eq!(version().await - before, applied, "moves: {moves}");
    }
}
