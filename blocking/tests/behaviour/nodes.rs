//! Operations on nodes, transactions, watches.

use std::{thread, time::Duration};

use lockkeeper_blocking::Client;
use lockkeeper_proto::{Acl, AddWatchMode, CreateMode, EventType, Version, WatcherType};
use lockkeeper_session::{
    Error, OpResult, ReadResult, State, WatchNotice, WatchedEvent, WhenDisconnected,
};

use crate::{Ensemble, LONG, SHORT};

#[test]
fn nodes_are_made_read_changed_and_deleted() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let made = client.create("/a", "1", CreateMode::Persistent).unwrap();
    assert_eq!(made.path, "/a");
    let read_only = Acl::READ_UNSAFE;
    let fixed = client.create_with_acl("/a/b", "", CreateMode::Ephemeral, read_only);
    assert_eq!(fixed.unwrap().path, "/a/b");
    let plain = client.create_without_stat("/a/c", "", CreateMode::Persistent);
    assert_eq!(plain.unwrap(), "/a/c");
    let stat = client.set_data("/a", "2", Version(0)).unwrap();
    assert_eq!(
        client.exists("/a").unwrap(),
        Some(client.get_data("/a").unwrap().stat)
    );
    assert_eq!(stat.version, Version(1));
    let deep = client.create_all("/d/e/f", "1", CreateMode::Persistent);
    assert_eq!(deep.unwrap().path, "/d/e/f");
    assert!(client.exists("/d/e").unwrap().is_some());
    let mut children = client.get_children("/a").unwrap();
    children.sort();
    assert_eq!(children, ["b", "c"]);
    assert_eq!(
        client.get_children_with_stat("/a").unwrap().children.len(),
        2
    );
    assert_eq!(client.get_all_children_number("/a").unwrap(), 2);
    assert_eq!(client.get_ephemerals("/").unwrap(), ["/a/b"]);
    client.sync("/").unwrap();
    assert_eq!(client.get_acl("/a/c").unwrap().acl, Acl::OPEN_UNSAFE);
    assert_eq!(
        client
            .set_acl("/a/c", Acl::READ_UNSAFE, Version(0))
            .unwrap()
            .aversion,
        Version(1)
    );
    client.add_auth("digest", "user:password").unwrap();
    assert!(
        client
            .who_am_i()
            .unwrap()
            .iter()
            .any(|who| who.auth_scheme == "digest")
    );
    client.delete("/a/c", Version::ANY).unwrap();
    assert!(client.get_data("/a/c").unwrap_err().is_no_node());
    assert_eq!(client.exists("/a/c").unwrap(), None);
    assert!(
        client.reconfig("", "1", None).is_err() && client.reconfig_to_members("", None).is_err()
    );
    assert!(client.get_config().is_ok());
    assert!(
        client
            .lease()
            .valid_until
            .is_some_and(|until| until > client.now())
    );
    assert!(client.metrics().connections >= 1);
}

#[test]
fn transactions_are_applied_whole() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let written = client
        .transaction()
        .within(client.snapshot().session_id)
        .create("/a", "", CreateMode::Persistent)
        .create_with_acl("/b", "1", CreateMode::Persistent, Acl::OPEN_UNSAFE)
        .set_data("/a", "2", Version(0))
        .check("/b", Version(0))
        .commit();
    assert!(matches!(written.unwrap().last(), Some(OpResult::Checked)));
    let refused = client
        .transaction()
        .delete("/a", Version(1))
        .delete("/c", Version::ANY);
    assert!(matches!(
        refused.commit(),
        Err(Error::TransactionRefused { index: 1, .. })
    ));
    let read = client
        .read_transaction()
        .get_children("/")
        .get_data("/a")
        .get_data("/c");
    let read = read.commit().unwrap();
    assert!(matches!(&read[1], Ok(ReadResult::Data(node)) if node.data.as_deref() == Some(b"2")));
    assert!(matches!(&read[0], Ok(ReadResult::Children(all)) if all.len() == 3));
    assert!(read[2].as_ref().unwrap_err().is_no_node());
}

#[test]
fn a_watcher_waits_for_its_event() {
    let ensemble = Ensemble::start();
    let (client, other) = (ensemble.client(), ensemble.client());
    let (none, created) = client.exists_and_watch("/a").unwrap();
    assert_eq!(none, None);
    let waiting = thread::spawn(move || created.wait());
    other.create("/a", "", CreateMode::Persistent).unwrap();
    let told = waiting.join().unwrap().unwrap();
    assert_eq!(
        (told.event_type, &*told.path),
        (EventType::NODE_CREATED, "/a")
    );

    let (_, mut changed) = client.get_data_and_watch("/a").unwrap();
    let (_, mut listed) = client.get_children_and_watch("/a").unwrap();
    let (_, mut reconfigured) = client.get_config_and_watch().unwrap();
    assert_eq!(changed.wait_timeout(SHORT).unwrap(), None);
    other.set_data("/a", "1", Version::ANY).unwrap();
    let of = |event: Option<WatchedEvent>| event.map(|event| event.event_type);
    let told = changed.wait_timeout(LONG).unwrap();
    assert_eq!(of(told), Some(EventType::NODE_DATA_CHANGED));
    assert_eq!(
        changed.wait_timeout(SHORT).unwrap(),
        None,
        "it has one event"
    );
    assert!(client.check_watches("/a", WatcherType::CHILDREN).unwrap());
    assert_eq!(
        client.remove_watches("/a", WatcherType::CHILDREN).unwrap(),
        1
    );
    assert_eq!(listed.wait_timeout(LONG), Err(Error::WatchRemoved));
    assert_eq!(reconfigured.wait_timeout(SHORT).unwrap(), None);
}

#[test]
fn a_persistent_watcher_is_an_iterator() {
    let ensemble = Ensemble::start();
    let (client, other) = (ensemble.client(), ensemble.client());
    let mut watcher = client
        .add_watch("/", AddWatchMode::PERSISTENT_RECURSIVE)
        .unwrap();
    assert_eq!(
        (watcher.path(), watcher.mode()),
        ("/", AddWatchMode::PERSISTENT_RECURSIVE)
    );
    assert_eq!(watcher.next_timeout(SHORT).unwrap(), None);
    for path in ["/a", "/b"] {
        other.create(path, "", CreateMode::Persistent).unwrap();
        let notice = watcher.next_timeout(LONG).unwrap();
        assert!(matches!(notice, Some(WatchNotice::Event(event)) if event.path == path));
    }
    let small = client
        .add_watch_with_queue("/", AddWatchMode::PERSISTENT, 1)
        .unwrap();
    drop(small);
    let following = thread::spawn(move || {
        let notices: Vec<_> = watcher.by_ref().collect();
        (notices, watcher.next_timeout(SHORT))
    });
    other.delete("/a", Version::ANY).unwrap();
    // The last request before the end shows the event.
    client.sync("/").unwrap();
    client.close();
    let (notices, ended) = following.join().unwrap();
    assert!(matches!(&notices[0], Ok(WatchNotice::Event(event)) if event.path == "/a"));
    assert!(matches!(&notices[1..], [Err(Error::Closed(_))]));
    assert!(matches!(ended, Err(Error::Closed(_))), "again each time");
}

#[test]
fn handles_and_settings_are_those_of_the_async_client() {
    let ensemble = Ensemble::start();
    let bad = Client::connect("host:99999").unwrap_err();
    assert!(matches!(bad, Error::BadConnectString(_)));
    let nobody = Client::builder("127.0.0.1:1").unwrap();
    let nobody = nobody.connect_timeout(Duration::from_millis(100)).connect();
    assert!(matches!(nobody, Err(Error::Unreachable { .. })));

    let client = Client::connect(&ensemble.servers()).unwrap();
    let before = client.snapshot();
    assert_eq!(before.state, State::Connected);
    let hasty = client.with_deadline(SHORT);
    ensemble.server.faults().stall();
    assert!(matches!(
        hasty.sync("/"),
        Err(Error::DeadlineExceeded { .. })
    ));
    ensemble.server.faults().resume();
    hasty.without_deadline().sync("/").unwrap();
    client.move_to_next_server();
    client.sync("/").unwrap();
    assert_eq!(client.snapshot().session_id, before.session_id);
    let eager = client.when_disconnected(WhenDisconnected::Fail);
    ensemble
        .runtime
        .block_on(ensemble.server.faults().close_port());
    ensemble.server.faults().cut_all();
    while eager.snapshot().state.is_connected() {
        thread::yield_now();
    }
    assert!(matches!(eager.sync("/"), Err(Error::NotConnected(_))));
    ensemble
        .runtime
        .block_on(ensemble.server.faults().open_port())
        .unwrap();
}
