//! Curator's mutex and ours on one path at the same time. They must exclude each other.
//!
//! Not here: Curator's other locks, and the mutexes of other implementations (`interop_recipes`).

use lockkeeper_test_support as support;
use support::{Arm, Ensemble, exclusion, programs};

mod needs_java {
    use super::{Arm, curator_and_we_exclude_each_other, support};

    #[tokio::test]
    #[ignore = "needs Java, Curator and a real ZooKeeper: tests/run.sh"]
    async fn curator_and_we_exclude_each_other_on_a_real_zookeeper() {
        support::run(Arm::Real, curator_and_we_exclude_each_other).await;
    }

    #[tokio::test]
    #[ignore = "needs Java and Curator: tests/run.sh"]
    async fn curator_and_we_exclude_each_other_on_the_embedded_server() {
        support::run(Arm::Embedded, curator_and_we_exclude_each_other).await;
    }
}

async fn curator_and_we_exclude_each_other(ensemble: &Ensemble) {
    let curator = programs::java("CuratorContender");
    exclusion::they_and_we_exclude_each_other(ensemble, curator, &[]).await;
}
