//! Servers of older releases: their operations work, and the client reports missing ones without
//! asking for them each time.
//!
//! An old server is the embedded one, which refuses an operation as unimplemented. Not here: servers
//! that close the connection instead (`session/src/machine/tests/probation.rs`).

use std::fmt::Debug;

use lockkeeper_proto::{CreateMode, ErrorCode, EventType, OpCode, Version};
use lockkeeper_server::When;
use lockkeeper_session::{Effect, Error, ErrorKind};

use super::{
    counting::Tally,
    servers::{builder, client, follow, server},
    waiting::soon,
};

/// Checks that the request failed because the server is too old for this operation.
fn unsupported<T: Debug>(result: Result<T, Error>, op: OpCode) {
    let error = result.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unsupported(it) if *it == op),
        "{error:?}"
    );
    assert_eq!(error.effect(), Effect::NotApplied);
    let since = op.since().unwrap();
    assert!(error.to_string().contains(since), "{error}");
}

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
    assert_eq!(listed.children.len(), 2);
    let asked = tally.writes().concat();
    assert!(
        asked.iter().all(|op| op.since() <= Some("3.4.0")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn an_unknown_operation_is_sent_once_and_to_an_upgraded_server_again() {
    let server = server().await;
    let client = client(&server).await;
    let asked = || server.counters().requests_of(OpCode::WHO_AM_I);
    let unknown = When::op(OpCode::WHO_AM_I);
    server.faults().refuse(unknown, ErrorCode::UNIMPLEMENTED);
    for _ in 0..3 {
        unsupported(soon(client.who_am_i()).await, OpCode::WHO_AM_I);
    }
    assert_eq!((asked(), server.faults().pending()), (1, 0));
    // The client tries the operation again after at most two connections.
    for connections in 2..=3 {
        server.faults().cut_all();
        follow(&client, |now| {
            now.connections == connections && now.state.is_connected()
        })
        .await;
    }
    soon(client.who_am_i()).await.unwrap();
    assert_eq!(asked(), 2);
}
