//! Servers of older releases: their operations are enough.
//!
//! Not here: operations that a server does not know (`session/src/machine/tests/unsupported.rs`).

use lockkeeper_proto::{CreateMode, EventType, Version};

use super::{
    counting::Tally,
    servers::{builder, server},
    waiting::soon,
};

#[tokio::test]
async fn a_client_can_do_with_the_operations_of_a_3_4_server() {
    let server = server().await;
    let tally = Tally::default();
    let client = builder(&server).connector(tally.connector()).connect();
    let client = soon(client).await.unwrap();
    let path = client.create_without_stat("/a", "1", CreateMode::Persistent);
    assert_eq!(soon(path).await.unwrap(), "/a");
    let (node, changed) = soon(client.get_data_and_watch("/a")).await.unwrap();
    let stat = soon(client.set_data("/a", "2", node.stat.version)).await;
    assert_eq!(stat.unwrap().version, Version(1));
    let event = soon(changed).await.unwrap();
    assert_eq!(event.event_type, EventType::NODE_DATA_CHANGED);
    let multi = client.transaction().set_data("/a", "3", Version(1));
    assert_eq!(soon(multi.commit()).await.unwrap().len(), 1);
    soon(client.add_auth("digest", "ann:secret")).await.unwrap();
    let listed = soon(client.get_children_with_stat("/")).await.unwrap();
    assert_eq!(listed.names.len(), 2);
    let asked = tally.writes().concat();
    assert!(
        asked.iter().all(|op| op.since() <= Some("3.4.0")),
        "{asked:?}"
    );
}
