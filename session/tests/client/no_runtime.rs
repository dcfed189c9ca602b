//! The futures of a client on a thread that has no runtime. The client's own task gets one where
//! there is none.
//!
//! Not here: the futures of the locks. They await nothing but these: the crate of the locks depends on
//! no runtime.

use std::{thread, time::Duration};

use futures::{StreamExt, executor::block_on};
use lockkeeper_proto::{
    Acl, AddWatchMode, CreateMode, Request, Version, WatcherType, records::SyncRequest,
};
use lockkeeper_session::{AsRaw, Client, Connector, Error, ErrorKind, Read};
use tokio::runtime::{Builder, Runtime};

use super::servers::{builder, server};

/// Runs a test on a thread that has no runtime. Its clients have one elsewhere.
fn far_from_a_runtime(test: impl FnOnce(&Client, &Client) + Send) {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(server());
    let connect = || runtime.block_on(builder(&server).connect()).unwrap();
    let (one, other) = (connect(), connect());
    thread::scope(|scope| {
        scope.spawn(|| test(&one, &other));
    });
}

#[test]
fn every_request_is_answered() {
    far_from_a_runtime(|one, _| {
        let mode = CreateMode::Persistent;
        let all = async {
            one.create("/a", "1", mode).await?;
            one.create_with_acl("/b", "", mode, Acl::OPEN_UNSAFE)
                .await?;
            one.create_without_stat("/c", "", mode).await?;
            one.create_all("/d/e/f", "", mode).await?;
            one.delete("/c", Version::ANY).await?;
            assert!(one.exists("/c").await?.is_none());
            one.get_data("/a").await?;
            one.set_data("/a", "2", Version::ANY).await?;
            one.get_children("/d").await?;
            one.get_children_with_stat("/d").await?;
            one.get_all_children_number("/d").await?;
            one.get_ephemerals("/").await?;
            one.get_acl("/a").await?;
            one.set_acl("/a", Acl::OPEN_UNSAFE, Version::ANY).await?;
            one.add_auth("digest", "ann:secret").await?;
            one.who_am_i().await?;
            one.sync("/").await?;
            one.get_config().await?;
            assert!(one.reconfig("server.9=a:1:2;3", "", None).await.is_err());
            assert!(
                one.reconfig_to_members("server.9=a:1:2;3", None)
                    .await
                    .is_err()
            );
            one.transaction()
                .set_data("/a", "3", Version::ANY)
                .commit()
                .await?;
            one.multi_read(&[Read::Data("/a")]).await?;
            let deadline = one.with_deadline(Duration::from_secs(3600));
            deadline.get_data("/a").await?;
            let sync = || Request::Sync(SyncRequest { path: "/".into() }).into();
            let [reply] = one.raw().submit([sync()]);
            reply.await?;
            let [reply] = one.raw().submit_with_backpressure([sync()]).await;
            reply.await?;
            for reply in one.raw().submit_all_with_backpressure(vec![sync()]).await {
                reply.await?;
            }
            one.raw().sleep(Duration::from_millis(1)).await;
            one.raw()
                .keep_lease("/".into(), "a".into())
                .renewed(one.snapshot().session_id)
                .await;
            Ok::<_, Error>(())
        };
        block_on(all).unwrap();
        block_on(one.clone().close());
    });
}

#[test]
fn every_watch_reports() {
    far_from_a_runtime(|one, other| {
        let mode = CreateMode::Persistent;
        let all = async {
            let (_, created) = one.exists_and_watch("/a").await?;
            let (_, children) = one.get_children_and_watch("/").await?;
            let (_, config) = one.get_config_and_watch().await?;
            let mut tree = one
                .add_watch("/tree", AddWatchMode::PERSISTENT_RECURSIVE)
                .await?;
            other.create("/a", "1", mode).await?;
            other.create("/tree", "1", mode).await?;
            created.await?;
            children.await?;
            tree.next().await.unwrap()?;
            let (_, changed) = one.get_data_and_watch("/a").await?;
            let group = one.raw().watch_group();
            group.watch("/", vec!["a".into()]);
            other.set_data("/a", "2", Version::ANY).await?;
            other.set_data("/tree", "2", Version::ANY).await?;
            changed.await?;
            group.next().await?;
            StreamExt::next(&mut tree).await.unwrap()?;
            assert!(!one.check_watches("/b", WatcherType::DATA).await?);
            drop(config);
            Ok::<_, Error>(())
        };
        block_on(all).unwrap();
    });
}

/// Where there is no runtime, a client gets a thread of its own.
#[test]
fn connecting_without_a_runtime_takes_a_thread() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(server());
    let client = block_on(builder(&server).connect()).unwrap();
    block_on(client.sync("/")).unwrap();
    let lazy = builder(&server).connect_lazy();
    block_on(lazy.sync("/")).unwrap();
    drop((client, lazy));
    let closed = Client::builder("127.0.0.1:1").unwrap();
    let refused = closed.connect_timeout(Duration::from_millis(50));
    let error = block_on(refused.connect()).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unreachable { .. }),
        "{error}"
    );
}

/// The client's task panics there, and its callers hear of it.
#[test]
fn connecting_in_a_runtime_without_time_fails() {
    let without_time = Builder::new_current_thread().enable_io().build().unwrap();
    let builder = Client::builder("127.0.0.1:1").unwrap();
    let error = without_time.block_on(builder.connect()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error}");
}

/// Another transport may work in a runtime without I/O. TCP ends the client's task.
#[test]
fn connecting_over_tcp_without_the_runtime_s_io_fails() {
    let without_io = Builder::new_current_thread().enable_time().build().unwrap();
    let builder = Client::builder("127.0.0.1:1")
        .unwrap()
        .connector(Connector::tcp());
    let failed = without_io.block_on(builder.connect()).unwrap_err();
    assert_eq!(failed, Error::from(ErrorKind::Closed));
}

/// The runtime's only thread is to run the client, and waits for it. That was a hang without a word.
#[test]
fn a_block_on_inside_a_runtime_with_one_thread_is_an_error_that_names_the_way_out() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(server());
    let one_thread = Builder::new_current_thread().enable_all().build().unwrap();
    one_thread.block_on(async {
        let blocked = block_on(builder(&server).connect()).unwrap_err();
        assert!(matches!(blocked.kind(), ErrorKind::NoThread(_)));
        assert!(blocked.to_string().contains("Builder::own_thread"));
        let client = block_on(builder(&server).own_thread().connect()).unwrap();
        assert!(block_on(client.exists("/")).unwrap().is_some());
        // Awaited, it runs where it is.
        let client = builder(&server).connect().await.unwrap();
        assert!(client.exists("/").await.unwrap().is_some());
    });
}
