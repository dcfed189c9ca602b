//! A session survives a lost connection. The client reports an expiry.
//!
//! Not here: watches and identities after a lost connection (`tests/operations/reconnect.rs`).

use std::sync::mpsc;

use lockkeeper_proto::CreateMode;
use lockkeeper_session::{AsRaw, Client};

use super::{
    servers::{client, follow, server},
    waiting::soon,
};

#[tokio::test]
async fn events_carry_the_paths_that_the_client_uses() {
    let server = server().await;
    let root = client(&server).await;
    root.create("/app", "", CreateMode::Persistent)
        .await
        .unwrap();
    let servers = format!("{}/app", server.connect_string());
    let client = soon(Client::connect(&servers)).await.unwrap();
    let (_, own_root) = client.get_children_and_watch("/").await.unwrap();
    let (_, missing) = client.exists_and_watch("/a").await.unwrap();
    server.faults().cut(client.snapshot().session_id);
    follow(&client, |now| now.connections == 2).await;
    let armed = client.raw().watch_group();
    armed.watch("/app", vec!["a".into()]);
    // There is no such node, so the group reports a deletion.
    assert_eq!(&*soon(armed.next()).await.unwrap().name, "a");
    let mode = CreateMode::Persistent;
    root.create("/app/a", "", mode).await.unwrap();
    assert_eq!(soon(own_root).await.unwrap().path, "/");
    assert_eq!(soon(missing).await.unwrap().path, "/a");
}

/// The name was resolved by a thread of the runtime's pool for blocking work. The session, and with
/// it the lock, was lost while a program kept all of these threads busy.
#[test]
fn a_name_is_resolved_while_the_runtime_is_full_of_blocking_work() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1);
    let runtime = runtime.build().unwrap();
    let (ends, work) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || work.recv());
    runtime.block_on(async {
        let server = server().await;
        let name = format!("localhost:{}", server.local_addr().port());
        let client = soon(Client::connect(&name)).await.unwrap();
        let before = client.snapshot().session_id;
        server.faults().cut_all();
        let after = follow(&client, |now| now.connections == 2).await;
        assert_eq!(after.session_id, before);
        soon(client.sync("/")).await.unwrap();
    });
    drop(ends);
}
