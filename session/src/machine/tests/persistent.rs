//! Persistent watches: whom an event concerns, what the server is asked for, what a new connection restores.
//!
//! Servers before 3.9 keep one kind of watch for a path and connection: the last one that was asked for. What is promised
//! here holds on them and on later ones.

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
    Effect, Error, State, UnsupportedReason,
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

/// What the server gets, without the numbers.
fn sent(pair: &mut Pair) -> Vec<Request> {
    pair.requests().into_iter().map(|(_, r)| r).collect()
}

/// What the server gets when a watch is given up.
fn cancel(pair: &mut Pair, id: WatchId) -> Vec<Request> {
    pair.machine.cancel(id);
    pair.pump();
    let requests = pair.requests();
    for (xid, request) in &requests {
        // As 3.8 answers the types of 3.9.
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
fn a_persistent_watch_hears_of_everything_about_its_node_again_and_again() {
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
fn a_recursive_watch_hears_of_all_that_is_below_and_of_no_list_of_children() {
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
fn all_listeners_of_a_kind_share_one_watch_and_the_last_one_takes_it_away() {
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
fn a_persistent_watch_given_up_before_it_is_left_is_removed_when_it_is() {
    let mut pair = Pair::connected(|_| {});
    let (_, id) = pair.submit_watching(add_watch("/a", PERSISTENT));
    let (xid, request) = pair.request().unwrap();
    assert_eq!(cancel(&mut pair, id), []);
    pair.reply(xid, 1, Ok(sound_reply(&request)));
    assert_eq!(sent(&mut pair), [removal("/a", WatcherType::ANY)]);
}

/// Before 3.9, `getData` with a watch on a node that is watched persistently makes a one-shot watch of that: the persistent
/// one would end with the next event, and nobody would know.
#[test]
fn reading_with_a_watch_does_not_end_a_persistent_one() {
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
fn a_recursive_watch_stands_for_one_shot_watches_on_data_and_not_on_children() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(add_watch("/a", RECURSIVE), OK);
    pair.submit(get("/a", true));
    pair.submit(children("/a", true));
    pair.submit(get("/a/b", true));
    let expected = [get("/a", false), children("/a", true), get("/a/b", true)];
    assert_eq!(sent(&mut pair), expected);
}

/// Before 3.9 a recursive watch takes the place of a child watch on the node, and says nothing in its stead.
#[test]
fn a_recursive_watch_does_not_end_one_on_children() {
    let mut pair = Pair::connected(|_| {});
    let list = pair.watch(children("/a", true), OK);
    pair.submit(add_watch("/a", RECURSIVE));
    let set_again = set_watches(1, &[], &[], &["/a"]);
    assert_eq!(sent(&mut pair), [add_watch("/a", RECURSIVE), set_again]);
    pair.event(CHILDREN, "/a");
    assert_eq!(ids(&pair.fired()), [list]);
}

/// `setWatches` for a data watch does what `getData` does: see above. In one request with the lasting ones it does not.
#[test]
fn watching_a_known_node_does_not_end_a_lasting_watch() {
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
fn one_shot_watches_that_relied_on_a_persistent_one_are_set_when_it_goes() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    let missing = pair.watch(exists("/a", true), ErrorCode::NO_NODE);
    // In this order, as a server that finds a change in between tells it and sets nothing.
    let expected = [
        removal("/a", WatcherType::ANY),
        set_watches(1, &[], &["/a"], &[]),
    ];
    assert_eq!(cancel(&mut pair, persistent), expected);
    // From here on it is a watch like others.
    assert_eq!(
        cancel(&mut pair, missing),
        [removal("/a", WatcherType::DATA)]
    );
}

#[test]
fn a_read_on_its_way_is_waited_for_before_what_it_relies_on_goes() {
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

/// The request is refused when it has waited too long on a busy server. A read sent behind it relied on it.
#[test]
fn a_read_that_relied_on_a_refused_watch_gets_one_of_its_own() {
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

#[test]
fn who_watches_a_node_both_ways_hears_of_children_once_for_each_from_any_server() {
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
                // 3.9 keeps both watches, and says the same of the other one, next.
                if echoes {
                    pair.event(CHILDREN, "/a");
                }
            }
        }
        assert_eq!(pair.told(), expected, "{echoes}");
        pair.event(CHANGED, "/of/nobody");
        // Of a child that may not be read, 3.9 tells the persistent one alone.
        pair.event(CHILDREN, "/a");
        pair.event(CHILDREN, "/a");
        assert_eq!(
            pair.told(),
            [1, 2].map(|_| told(persistent, CHILDREN, "/a"))
        );
    }
}

#[test]
fn the_recursive_watch_is_asked_for_last_and_gives_way_to_the_persistent_one() {
    let mut pair = Pair::connected(|_| {});
    let recursive = pair.watch(add_watch("/a", RECURSIVE), OK);
    let (_, persistent) = pair.submit_watching(add_watch("/a", PERSISTENT));
    let (xid, request) = pair.request().unwrap();
    assert_eq!(
        request,
        add_watch("/a", RECURSIVE),
        "or 3.8 forgets that one"
    );
    pair.reply(xid, 1, Ok(sound_reply(&request)));
    let expected = [
        set_watches2(1, [&[], &[], &[], &["/a"], &[]]),
        removal("/a", WatcherType::PERSISTENT_RECURSIVE),
    ];
    assert_eq!(cancel(&mut pair, recursive), expected);
    // What 3.8 says before it has come to these requests.
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

/// A persistent watch was told of a child by the recursive one, just before that gave way; what the server itself said of
/// the next child was then taken for an echo of the first.
#[test]
fn an_echo_is_the_next_thing_that_a_server_says() {
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
fn the_persistent_watch_goes_and_the_recursive_one_stays() {
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
fn lasting_watches_are_restored_and_say_that_something_may_be_missing() {
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
        // Behind the recursive one, or 3.8 forgets it.
        set_watches(1, &[], &[], &["/r"]),
    ];
    assert_eq!(restored, expected);
    pair.event(CHANGED, "/p");
    pair.event(CHILDREN, "/r");
    assert_eq!((pair.told(), pair.fired()), (vec![], vec![]), "not in part");
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
    assert_eq!(sent(&mut pair), [get("/p", false)], "it is covered again");
}

#[test]
fn many_lasting_watches_are_restored_in_pieces_that_a_server_takes() {
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
fn events_of_lasting_watches_that_are_held_back_have_a_bound() {
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
    assert!(events > 10_000, "an honest server may send many");
}

#[test]
fn on_a_server_that_cannot_restore_lasting_watches_they_end_and_others_go_on() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    let once = pair.watch(get("/a", true), OK);
    pair.cut();
    pair.connect();
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, -1, Err(ErrorCode::UNIMPLEMENTED));
    let op = OpCode::ADD_WATCH;
    let unsupported = Error::Unsupported {
        op,
        reason: UnsupportedReason::Answered,
        effect: Effect::NotApplied,
        peer: peer(),
    };
    assert_eq!(pair.fired(), [(persistent, Err(unsupported.clone()))]);
    assert_eq!(pair.states().last(), Some(&State::Suspended));
    pair.connect();
    assert_eq!(sent(&mut pair), [set_watches(1, &["/a"], &[], &[])]);
    let again = pair.submit(add_watch("/a", PERSISTENT));
    assert_eq!(pair.error(again), unsupported);
    assert_eq!(pair.machine.watch_count(), 1);
    let _ = once;
}

#[test]
fn removing_by_kind_ends_every_listener_of_it_and_says_so() {
    let mut pair = Pair::connected(|_| {});
    let persistent = pair.watch(add_watch("/a", PERSISTENT), OK);
    let data = pair.watch(get("/a", true), OK);
    let other = pair.watch(get("/b", true), OK);
    let removed = Err(Error::WatchRemoved);
    assert_eq!(pair.machine.remove_watches("/a", WatcherType::DATA), 1);
    assert_eq!(pair.machine.remove_watches("/a", WatcherType::DATA), 0);
    pair.pump();
    assert_eq!(sent(&mut pair), [], "the persistent one is still needed");
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
fn a_watch_of_an_unknown_mode_is_a_request_like_others() {
    let mut pair = Pair::connected(|_| {});
    let (token, id) = pair.submit_quietly(add_watch("/a", AddWatchMode(7)));
    assert_eq!(id, None);
    pair.pump();
    pair.answer_all(|_| Err(ErrorCode::MARSHALLING_ERROR));
    assert_eq!(pair.error(token).code(), Some(ErrorCode::MARSHALLING_ERROR));
}
