//! Persistent watches: who receives an event, what the machine requests of the server, what a new
//! connection restores, and which watches may not be on one path.

use lockkeeper_proto::{AddWatchMode, ErrorCode, EventType, OpCode, Request, WatcherType};

use super::{
    pair::Pair,
    requests::{
        add_watch, children, exists, get, ids, peer, removal, set_watches, set_watches2,
        sound_reply,
    },
};
use crate::{
    Error, ErrorKind, State,
    machine::{Event, Notice, WatchId},
};

const OK: ErrorCode = ErrorCode::OK;
const PERSISTENT: AddWatchMode = AddWatchMode::PERSISTENT;
const RECURSIVE: AddWatchMode = AddWatchMode::PERSISTENT_RECURSIVE;
const DELETED: EventType = EventType::NODE_DELETED;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;

fn told(id: WatchId, event_type: EventType, path: &str) -> (WatchId, Notice) {
    let path = path.to_owned();
    (id, Notice::Event(Event { event_type, path }))
}

/// Gives up a watch. Returns the requests that the server receives, and answers them.
fn cancel(pair: &mut Pair, id: WatchId) -> Vec<Request> {
    pair.machine.cancel(id);
    pair.pump();
    let requests = pair.requests();
    for (xid, request) in &requests {
        // 3.8 answers the types of 3.9 like this.
        let reply = match request {
            Request::RemoveWatches(removal) if removal.watcher_type.0 > 3 => {
                Err(ErrorCode::MARSHALLING_ERROR)
            }
            request => Ok(sound_reply(request)),
        };
        pair.reply(*xid, 1, reply);
    }
    requests.into_iter().map(|(_, request)| request).collect()
}

/// Before 3.9, the server would keep only the later of the two.
#[test]
fn a_persistent_watch_is_refused_beside_another_kind_and_nothing_is_sent() {
    for (mode, first) in [
        (PERSISTENT, get("/a", true)),
        (RECURSIVE, children("/a", true)),
        (PERSISTENT, add_watch("/a", RECURSIVE)),
        (RECURSIVE, add_watch("/a", PERSISTENT)),
    ] {
        let mut pair = Pair::connected(|_| {});
        let (_, id) = pair.submit_watching(first);
        let early = pair.submit(add_watch("/a", mode));
        pair.answer_all(|request| Ok(sound_reply(request)));
        let late = pair.submit(add_watch("/a", mode));
        for refused in [early, late] {
            assert_eq!(pair.error(refused), ErrorKind::WatchConflict.into());
        }
        assert_eq!(pair.sent(), []);
        assert_eq!((pair.fired(), pair.machine.metrics().watches), (vec![], 1));
        pair.watch(add_watch("/a/b", mode), OK);
        pair.watch(add_watch("/", mode), OK);
        // Once the first is gone, the way is free.
        assert_eq!(cancel(&mut pair, id).len(), 1);
        pair.watch(add_watch("/a", mode), OK);
    }
}

#[test]
fn a_watch_whose_request_fails_leaves_the_way_free() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(add_watch("/a", PERSISTENT), ErrorCode::THROTTLED_OP);
    pair.watch(get("/a", true), ErrorCode::NO_NODE);
    pair.watch(add_watch("/a", RECURSIVE), OK);
}

/// Locks wait with one-shot watches, which no watch of a user may keep away.
#[test]
fn a_one_shot_watch_ends_a_persistent_one() {
    for mode in [PERSISTENT, RECURSIVE] {
        for read in [get("/a", true), exists("/a", true), children("/a", true)] {
            let mut pair = Pair::connected(|_| {});
            let persistent = pair.watch(add_watch("/a", mode), OK);
            let (_, once) = pair.submit_watching(read.clone());
            let requests = [removal("/a", WatcherType::ANY), read];
            assert_eq!(pair.sent(), requests);
            let ended = (persistent, Err(ErrorKind::WatchConflict.into()));
            assert_eq!(pair.fired(), [ended]);
            assert_eq!(cancel(&mut pair, persistent), []);
            let _ = once;
        }
        let mut pair = Pair::connected(|_| {});
        let persistent = pair.watch(add_watch("/a", mode), OK);
        let once = pair.watch_nodes(["/a", "/b"]);
        assert_eq!(
            pair.fired(),
            [(persistent, Err(ErrorKind::WatchConflict.into()))]
        );
        let set = set_watches(1, &["/a", "/b"], &[], &[]);
        for (expected, (xid, request)) in [removal("/a", WatcherType::ANY), set]
            .iter()
            .zip(pair.requests())
        {
            assert_eq!(*expected, request);
            pair.reply(xid, 1, Ok(sound_reply(&request)));
        }
        pair.event(DELETED, "/a");
        assert_eq!((ids(&pair.fired()), pair.told()), (vec![once[0]], vec![]));
    }
}

#[test]
fn a_one_shot_watch_ends_a_persistent_one_whose_request_is_pending() {
    let mut pair = Pair::connected(|_| {});
    let (_, persistent) = pair.submit_watching(add_watch("/a", PERSISTENT));
    let once = pair.watch_nodes(["/a"]);
    let requests = pair.requests();
    let expected = [
        add_watch("/a", PERSISTENT),
        removal("/a", WatcherType::ANY),
        set_watches(0, &["/a"], &[], &[]),
    ];
    assert_eq!(
        requests
            .iter()
            .map(|(_, it)| it.clone())
            .collect::<Vec<_>>(),
        expected
    );
    for (xid, request) in requests {
        pair.reply(xid, 1, Ok(sound_reply(&request)));
    }
    assert_eq!(
        pair.fired(),
        [(persistent, Err(ErrorKind::WatchConflict.into()))]
    );
    pair.event(DELETED, "/a");
    assert_eq!((ids(&pair.fired()), pair.told()), (once, vec![]));
    assert_eq!(pair.machine.metrics().watches, 0);
}

/// Both requests waited for the connection. The persistent watch stayed on the server.
#[test]
fn a_persistent_watch_whose_request_waits_does_not_stay_beside_the_one_shot_watch_that_ended_it() {
    for (mode, watcher_type) in [
        (PERSISTENT, WatcherType::PERSISTENT),
        (RECURSIVE, WatcherType::PERSISTENT_RECURSIVE),
    ] {
        let mut pair = Pair::new(|_| {});
        let (_, persistent) = pair.submit_watching(add_watch("/a", mode));
        let (_, once) = pair.submit_watching(get("/a", true));
        pair.connect();
        for (xid, request) in pair.requests() {
            pair.reply(xid, 1, Ok(sound_reply(&request)));
        }
        let ended = (persistent, Err(ErrorKind::WatchConflict.into()));
        assert_eq!(pair.fired(), [ended]);
        assert_eq!(pair.sent(), [removal("/a", watcher_type)]);
        pair.event(CHANGED, "/a");
        assert_eq!(ids(&pair.fired()), [once]);
    }
}

#[test]
fn restored_persistent_watches_report_that_events_may_be_missing() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/p", PERSISTENT), OK);
    let recursive = pair.watch(add_watch("/r", RECURSIVE), OK);
    let once = pair.watch(get("/o", true), OK);
    pair.cut();
    assert_eq!(pair.told(), []);
    pair.connect();
    let requests = pair.requests();
    let (xid, request) = requests[0].clone();
    let lists: [&[&str]; 5] = [&["/o"], &[], &[], &["/p"], &["/r"]];
    assert_eq!((requests.len(), &request), (1, &set_watches2(1, lists)));
    pair.event(CHANGED, "/p");
    pair.event(CHANGED, "/o");
    assert_eq!(
        (pair.told(), pair.fired()),
        (vec![], vec![]),
        "events are kept back until all watches are restored"
    );
    pair.reply(xid, 2, Ok(sound_reply(&request)));
    let expected = [
        (persistent, Notice::Reconnected),
        (recursive, Notice::Reconnected),
        told(persistent, CHANGED, "/p"),
    ];
    assert_eq!(pair.told(), expected);
    assert_eq!(ids(&pair.fired()), [once]);
}

#[test]
fn persistent_watches_end_on_a_server_that_does_not_know_them_and_others_go_on() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    pair.watch(get("/b", true), OK);
    pair.reconnect();
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, -1, Err(ErrorCode::UNIMPLEMENTED));
    let op = OpCode::ADD_WATCH;
    let unsupported = Error::unsupported(op, peer());
    assert_eq!(pair.fired(), [(persistent, Err(unsupported.clone()))]);
    assert_eq!(pair.states().last(), Some(&State::Suspended));
    pair.connect();
    assert_eq!(pair.sent(), [set_watches(1, &["/b"], &[], &[])]);
    let again = pair.submit(add_watch("/a", PERSISTENT));
    assert_eq!(pair.error(again), unsupported);
    assert_eq!(pair.machine.metrics().watches, 1);
}
