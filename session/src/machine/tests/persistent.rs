//! Persistent watches: who receives an event, what the machine requests of the server, what a new
//! connection restores.
//!
//! Servers before 3.9 keep one kind of watch for a path and connection: the last one that was
//! requested. The machine must behave the same on these servers and on later ones.

use lockkeeper_proto::{
    AddWatchMode, ErrorCode, EventType, OpCode, Request, WatcherType, records::RemoveWatchesRequest,
};

use super::{
    pair::Pair,
    requests::{
        add_watch, children, exists, get, peer, set_watches, set_watches2, sound_reply, sync,
    },
};
use crate::{
    Error, State,
    machine::{Event, Notice, WatchId},
};

const OK: ErrorCode = ErrorCode::OK;
const PERSISTENT: AddWatchMode = AddWatchMode::PERSISTENT;
const RECURSIVE: AddWatchMode = AddWatchMode::PERSISTENT_RECURSIVE;
const CREATED: EventType = EventType::NODE_CREATED;
const DELETED: EventType = EventType::NODE_DELETED;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;
const CHILDREN: EventType = EventType::NODE_CHILDREN_CHANGED;

fn told(id: WatchId, event_type: EventType, path: &str) -> (WatchId, Notice) {
    let path = path.to_owned();
    (id, Notice::Event(Event { event_type, path }))
}

fn ids(fired: &[(WatchId, Result<Event, Error>)]) -> Vec<WatchId> {
    fired.iter().map(|(id, _)| *id).collect()
}

fn removal(path: &str, watcher_type: WatcherType) -> Request {
    let path = path.to_owned();
    Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type })
}

/// The requests that the server receives, without their numbers.
fn sent(pair: &mut Pair) -> Vec<Request> {
    pair.requests().into_iter().map(|(_, r)| r).collect()
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

#[test]
fn a_persistent_watch_reports_every_event_of_its_node() {
    let mut pair = Pair::connected(|_| {});
    let id = pair.watch(add_watch("/a", PERSISTENT), OK);
    let events = [CREATED, CHANGED, CHANGED, CHILDREN, DELETED, EventType(99)];
    for event in events {
        pair.event(event, "/a");
    }
    pair.event(CHANGED, "/a/b");
    pair.event(CHANGED, "/");
    assert_eq!(pair.told(), events.map(|event| told(id, event, "/a")));
    assert_eq!(pair.fired(), []);
    assert_eq!(pair.machine.watch_count(), 1);
}

#[test]
fn a_recursive_watch_reports_all_descendants_and_no_child_list() {
    let mut pair = Pair::connected(|_| {});
    let root = pair.watch(add_watch("/", RECURSIVE), OK);
    let id = pair.watch(add_watch("/a", RECURSIVE), OK);
    pair.event(CREATED, "/a/b/c");
    pair.event(CHILDREN, "/a/b");
    pair.event(CHILDREN, "/a");
    pair.event(DELETED, "/a");
    pair.event(CHANGED, "/ab");
    let both = |event, path| [told(id, event, path), told(root, event, path)];
    let expected = [both(CREATED, "/a/b/c"), both(DELETED, "/a")].concat();
    assert_eq!(
        pair.told(),
        [expected, vec![told(root, CHANGED, "/ab")]].concat()
    );
}

#[test]
fn all_listeners_of_a_kind_share_one_watch_and_the_last_one_removes_it() {
    for (mode, other) in [(PERSISTENT, RECURSIVE), (RECURSIVE, PERSISTENT)] {
        let mut pair = Pair::connected(|_| {});
        let listeners = [1, 2, 3].map(|_| pair.watch(add_watch("/a", mode), OK));
        pair.watch(add_watch("/b", other), OK);
        pair.event(CHANGED, "/a");
        assert_eq!(pair.told(), listeners.map(|id| told(id, CHANGED, "/a")));
        assert_eq!(cancel(&mut pair, listeners[1]), []);
        assert_eq!(cancel(&mut pair, listeners[0]), []);
        let last = cancel(&mut pair, listeners[2]);
        assert_eq!(last, [removal("/a", WatcherType::ANY)]);
        assert_eq!(cancel(&mut pair, listeners[2]), []);
        assert_eq!(pair.machine.watch_count(), 1);
    }
}

#[test]
fn a_persistent_watch_given_up_while_its_request_is_pending_is_removed_later() {
    let mut pair = Pair::connected(|_| {});
    let (_, id) = pair.submit_watching(add_watch("/a", PERSISTENT));
    let (xid, request) = pair.request().unwrap();
    assert_eq!(cancel(&mut pair, id), []);
    pair.reply(xid, 1, Ok(sound_reply(&request)));
    assert_eq!(sent(&mut pair), [removal("/a", WatcherType::ANY)]);
}

/// Before 3.9, `getData` with a watch replaces the persistent watch of the node by a one-shot
/// watch. The persistent watch would end with the next event, and no listener would learn of that.
#[test]
fn a_read_with_a_watch_does_not_end_a_persistent_watch() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    let reads = [get("/a", true), exists("/a", true), children("/a", true)];
    let unwatched = [get("/a", false), exists("/a", false), children("/a", false)];
    let once = reads.map(|read| pair.submit_watching(read).1);
    assert_eq!(pair.machine.outstanding(), 3);
    let requests = pair.requests();
    assert_eq!(
        requests.iter().map(|(_, r)| r.clone()).collect::<Vec<_>>(),
        unwatched
    );
    for (xid, request) in requests {
        pair.reply(xid, 1, Ok(sound_reply(&request)));
    }
    pair.event(CHANGED, "/a");
    pair.event(CHILDREN, "/a");
    pair.event(CHANGED, "/a");
    assert_eq!(ids(&pair.fired()), once);
    let expected = [CHANGED, CHILDREN, CHANGED].map(|event| told(persistent, event, "/a"));
    assert_eq!(pair.told(), expected);
}

#[test]
fn a_recursive_watch_covers_data_watches_and_not_child_watches() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(add_watch("/a", RECURSIVE), OK);
    pair.submit(get("/a", true));
    pair.submit(children("/a", true));
    pair.submit(get("/a/b", true));
    let expected = [get("/a", false), children("/a", true), get("/a/b", true)];
    assert_eq!(sent(&mut pair), expected);
}

/// Before 3.9, a recursive watch replaces a child watch on the node, but does not report what the
/// child watch would.
#[test]
fn a_recursive_watch_does_not_end_a_child_watch() {
    let mut pair = Pair::connected(|_| {});
    let list = pair.watch(children("/a", true), OK);
    pair.submit(add_watch("/a", RECURSIVE));
    let set_again = set_watches(1, &[], &[], &["/a"]);
    assert_eq!(sent(&mut pair), [add_watch("/a", RECURSIVE), set_again]);
    pair.event(CHILDREN, "/a");
    assert_eq!(ids(&pair.fired()), [list]);
}

/// `setWatches` for a data watch replaces a persistent watch, as `getData` does. If the same
/// request also sets the persistent watch again, both are there.
#[test]
fn watching_a_known_node_does_not_end_a_persistent_watch() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(add_watch("/a", PERSISTENT), OK);
    pair.watch(add_watch("/b", RECURSIVE), OK);
    pair.machine.watch_nodes(["/a", "/b", "/c"]);
    pair.pump();
    let lists: [&[&str]; 5] = [&["/a", "/b", "/c"], &[], &[], &["/a"], &["/b"]];
    assert_eq!(sent(&mut pair), [set_watches2(1, lists)]);
    pair.machine.watch_nodes(["/c"]);
    pair.pump();
    assert_eq!(sent(&mut pair), [set_watches(1, &["/c"], &[], &[])]);
}

#[test]
fn one_shot_watches_covered_by_a_persistent_one_are_set_when_it_is_removed() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    let missing = pair.watch(exists("/a", true), ErrorCode::NO_NODE);
    // In this order: if a change happens in between, the server reports it when it processes the
    // second request.
    let expected = [
        removal("/a", WatcherType::ANY),
        set_watches(1, &[], &["/a"], &[]),
    ];
    assert_eq!(cancel(&mut pair, persistent), expected);
    // From now on it is a usual one-shot watch.
    assert_eq!(
        cancel(&mut pair, missing),
        [removal("/a", WatcherType::DATA)]
    );
}

#[test]
fn a_persistent_watch_is_not_removed_while_a_pending_read_relies_on_it() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    let (_, list) = pair.submit_watching(children("/a", true));
    let (xid, request) = pair.request().unwrap();
    assert_eq!(request, children("/a", false));
    assert_eq!(cancel(&mut pair, persistent), []);
    pair.reply(xid, 5, Ok(sound_reply(&request)));
    let expected = [
        removal("/a", WatcherType::ANY),
        set_watches(5, &[], &[], &["/a"]),
    ];
    assert_eq!(sent(&mut pair), expected);
    pair.event(CHILDREN, "/a");
    assert_eq!(ids(&pair.fired()), [list]);
}

/// A busy server refuses an `addWatch` that has waited too long. A read that was sent behind it
/// relied on that watch.
#[test]
fn a_read_that_relied_on_a_refused_watch_gets_a_watch_of_its_own() {
    let mut pair = Pair::connected(|_| {});
    pair.submit(sync("/"));
    pair.answer_all(|request| Ok(sound_reply(request)));
    let refused = pair.submit(add_watch("/a", PERSISTENT));
    let (_, once) = pair.submit_watching(get("/a", true));
    let (first, _) = pair.request().unwrap();
    let (second, read) = pair.request().unwrap();
    assert_eq!(read, get("/a", false));
    pair.reply(first, 7, Err(ErrorCode::THROTTLED_OP));
    assert!(pair.error(refused).is_transient());
    pair.reply(second, 8, Ok(sound_reply(&read)));
    let since_it_was_sent = set_watches(1, &["/a"], &[], &[]);
    assert_eq!(sent(&mut pair), [since_it_was_sent]);
    pair.event(CHANGED, "/a");
    assert_eq!((ids(&pair.fired()), pair.told()), (vec![once], vec![]));
}

/// The watch of the listener before it is still there. A one-shot watch would replace it on servers
/// before 3.9.
#[test]
fn a_second_listener_that_is_refused_does_not_end_the_watch_of_the_first() {
    let mut pair = Pair::connected(|_| {});
    let first = pair.watch(add_watch("/a", PERSISTENT), OK);
    pair.watch(add_watch("/a", PERSISTENT), ErrorCode::THROTTLED_OP);
    let (_, once) = pair.submit_watching(get("/a", true));
    let (xid, request) = pair.request().unwrap();
    assert_eq!(request, get("/a", false));
    pair.reply(xid, 1, Ok(sound_reply(&request)));
    pair.fired();
    pair.event(CHANGED, "/a");
    assert_eq!(pair.told(), [told(first, CHANGED, "/a")]);
    assert_eq!(ids(&pair.fired()), [once]);
}

#[test]
fn a_listener_of_each_persistent_kind_learns_of_a_child_once() {
    for echoes in [false, true] {
        let mut pair = Pair::connected(|_| {});
        let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
        let recursive = pair.watch(add_watch("/a", RECURSIVE), OK);
        let mut expected = Vec::new();
        for (event, path) in [(CREATED, "/a/b"), (CHANGED, "/a/b"), (DELETED, "/a/b")] {
            pair.event(event, path);
            expected.push(told(recursive, event, path));
            if event != CHANGED {
                expected.push(told(persistent, CHILDREN, "/a"));
                // 3.9 keeps both watches. Its next event reports the same change for the persistent
                // watch.
                if echoes {
                    pair.event(CHILDREN, "/a");
                }
            }
        }
        assert_eq!(pair.told(), expected, "{echoes}");
        pair.event(CHANGED, "/not/watched");
        // If the client may not read the child, 3.9 reports it to the persistent watch only.
        pair.event(CHILDREN, "/a");
        pair.event(CHILDREN, "/a");
        assert_eq!(
            pair.told(),
            [1, 2].map(|_| told(persistent, CHILDREN, "/a"))
        );
    }
}

#[test]
fn the_recursive_watch_is_requested_last_and_then_replaced_by_the_persistent_one() {
    let mut pair = Pair::connected(|_| {});
    let recursive = pair.watch(add_watch("/a", RECURSIVE), OK);
    let (_, persistent) = pair.submit_watching(add_watch("/a", PERSISTENT));
    let (xid, request) = pair.request().unwrap();
    assert_eq!(
        request,
        add_watch("/a", RECURSIVE),
        "otherwise 3.8 forgets the recursive watch"
    );
    pair.reply(xid, 1, Ok(sound_reply(&request)));
    let expected = [
        set_watches2(1, [&[], &[], &[], &["/a"], &[]]),
        removal("/a", WatcherType::PERSISTENT_RECURSIVE),
    ];
    assert_eq!(cancel(&mut pair, recursive), expected);
    // An event of 3.8 before it has processed these requests.
    pair.event(CREATED, "/a/b");
    assert_eq!(pair.told(), [told(persistent, CHILDREN, "/a")]);
    pair.event(CHANGED, "/a");
    pair.event(CHILDREN, "/a");
    let expected = [CHANGED, CHILDREN].map(|event| told(persistent, event, "/a"));
    assert_eq!(pair.told(), expected);
    assert_eq!(
        cancel(&mut pair, persistent),
        [removal("/a", WatcherType::ANY)]
    );
}

/// Once, a persistent watch reported a child that came through the recursive watch, just before
/// that was replaced. The machine took the server's own event of the next child for an echo of the
/// first one.
#[test]
fn only_the_next_frame_can_be_an_echo() {
    let mut pair = Pair::connected(|_| {});
    let recursive = pair.watch(add_watch("/a", RECURSIVE), OK);
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    pair.machine.cancel(recursive);
    pair.pump();
    pair.event(CREATED, "/a/b");
    assert_eq!(pair.told(), [told(persistent, CHILDREN, "/a")]);
    pair.answer_all(|request| Ok(sound_reply(request)));
    pair.event(CHILDREN, "/a");
    assert_eq!(pair.told(), [told(persistent, CHILDREN, "/a")]);
}

#[test]
fn the_persistent_watch_is_removed_and_the_recursive_one_stays() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    let recursive = pair.watch(add_watch("/a", RECURSIVE), OK);
    let expected = [removal("/a", WatcherType::PERSISTENT)];
    assert_eq!(cancel(&mut pair, persistent), expected);
    pair.event(CREATED, "/a/b");
    assert_eq!(pair.told(), [told(recursive, CREATED, "/a/b")]);
    assert_eq!(
        cancel(&mut pair, recursive),
        [removal("/a", WatcherType::ANY)]
    );
}

#[test]
fn restored_persistent_watches_report_that_events_may_be_missing() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/p", PERSISTENT), OK);
    let recursive = pair.watch(add_watch("/r", RECURSIVE), OK);
    let once = pair.watch(get("/p", true), OK);
    let list = pair.watch(children("/r", true), OK);
    pair.cut();
    assert_eq!(pair.told(), []);
    pair.connect();
    let requests = pair.requests();
    let restored: Vec<_> = requests
        .iter()
        .map(|(_, request)| request.clone())
        .collect();
    let expected = [
        set_watches2(1, [&["/p"], &[], &[], &["/p"], &["/r"]]),
        // Behind the recursive watch: otherwise 3.8 forgets the child watch.
        set_watches(1, &[], &[], &["/r"]),
    ];
    assert_eq!(restored, expected);
    pair.event(CHANGED, "/p");
    pair.event(CHILDREN, "/r");
    assert_eq!(
        (pair.told(), pair.fired()),
        (vec![], vec![]),
        "events are kept back until all watches are restored"
    );
    for (xid, request) in requests {
        pair.reply(xid, 2, Ok(sound_reply(&request)));
    }
    let expected = [
        (persistent, Notice::Reconnected),
        (recursive, Notice::Reconnected),
        told(persistent, CHANGED, "/p"),
    ];
    assert_eq!(pair.told(), expected);
    assert_eq!(ids(&pair.fired()), [once, list]);
    pair.submit(get("/p", true));
    assert_eq!(
        sent(&mut pair),
        [get("/p", false)],
        "the persistent watch covers the read again"
    );
}

#[test]
fn many_persistent_watches_are_restored_in_requests_that_a_server_accepts() {
    let mut pair = Pair::connected(|_| {});
    let long = "x".repeat(1000);
    for number in 0..300 {
        let mode = [PERSISTENT, RECURSIVE][number % 2];
        pair.watch(add_watch(&format!("/{number:03}{long}"), mode), OK);
    }
    pair.cut();
    pair.connect();
    let mut restored = 0;
    for request in sent(&mut pair) {
        let Request::SetWatches2(batch) = request else {
            panic!("{request:?}");
        };
        let paths = batch.persistent_watches.iter();
        let paths: Vec<_> = paths.chain(&batch.persistent_recursive_watches).collect();
        let bytes: usize = paths.iter().map(|path| path.len() + 4).sum();
        assert!(bytes <= 128 * 1024, "{bytes}");
        restored += paths.len();
    }
    assert_eq!(restored, 300);
}

#[test]
fn events_kept_back_for_persistent_watches_have_a_bound() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(add_watch("/a", PERSISTENT), OK);
    pair.cut();
    pair.connect();
    let mut events = 0;
    while pair.machine.state().is_connected() {
        pair.event(CHANGED, "/a");
        events += 1;
        assert!(events < 70_000);
    }
    assert!(events > 10_000, "a correct server may send many");
}

#[test]
fn persistent_watches_end_on_a_server_that_does_not_know_them_and_others_go_on() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    let once = pair.watch(get("/a", true), OK);
    pair.cut();
    pair.connect();
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, -1, Err(ErrorCode::UNIMPLEMENTED));
    let op = OpCode::ADD_WATCH;
    let unsupported = Error::Unsupported { op, peer: peer() };
    assert_eq!(pair.fired(), [(persistent, Err(unsupported.clone()))]);
    assert_eq!(pair.states().last(), Some(&State::Suspended));
    pair.connect();
    assert_eq!(sent(&mut pair), [set_watches(1, &["/a"], &[], &[])]);
    let again = pair.submit(add_watch("/a", PERSISTENT));
    assert_eq!(pair.error(again), unsupported);
    assert_eq!(pair.machine.watch_count(), 1);
    // No persistent watch reports to a reader any more.
    pair.submit_watching(get("/a", true));
    assert_eq!(sent(&mut pair), [get("/a", true)]);
    let _ = once;
}

#[test]
fn removing_watches_by_kind_tells_every_listener() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    let data = pair.watch(get("/a", true), OK);
    let other = pair.watch(get("/b", true), OK);
    let removed = Err(Error::WatchRemoved);
    assert_eq!(pair.machine.remove_watches("/a", WatcherType::DATA), 1);
    assert_eq!(pair.machine.remove_watches("/a", WatcherType::DATA), 0);
    pair.pump();
    assert_eq!(sent(&mut pair), [], "the persistent watch is still needed");
    assert_eq!(pair.machine.remove_watches("/a", WatcherType::ANY), 1);
    assert_eq!(pair.machine.remove_watches("/b", WatcherType(99)), 0);
    pair.pump();
    assert_eq!(sent(&mut pair), [removal("/a", WatcherType::ANY)]);
    let ended = [(data, removed.clone()), (persistent, removed)];
    assert_eq!(pair.fired(), ended);
    pair.event(CHANGED, "/b");
    assert_eq!(ids(&pair.fired()), [other]);
}

#[test]
fn an_add_watch_with_an_unknown_mode_is_a_plain_request() {
    let mut pair = Pair::connected(|_| {});
    let (token, id) = pair.submit_quietly(add_watch("/a", AddWatchMode(7)));
    assert_eq!(id, None);
    pair.pump();
    pair.answer_all(|_| Err(ErrorCode::MARSHALLING_ERROR));
    assert_eq!(pair.error(token).code(), Some(ErrorCode::MARSHALLING_ERROR));
}
