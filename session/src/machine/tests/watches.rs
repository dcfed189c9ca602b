//! What a new connection restores, what is held back meanwhile, and what is taken off the server.

use lockkeeper_proto::{
    ErrorCode, EventType, OpCode, Request, WatcherType, records::RemoveWatchesRequest,
};

use super::{
    pair::{Pair, SECOND},
    requests::{children, exists, get, set_watches, sound_reply, sync},
};
use crate::{
    Cause, Effect, Error, State,
    machine::{Output, WatchId},
};

const OK: ErrorCode = ErrorCode::OK;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;

fn ids(fired: &[(WatchId, Result<crate::machine::Event, Error>)]) -> Vec<WatchId> {
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

#[test]
fn every_kind_of_watch_is_restored_before_anything_else_is_asked() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/data", true), OK);
    pair.watch(exists("/there", true), OK);
    pair.watch(exists("/missing", true), ErrorCode::NO_NODE);
    pair.watch(children("/list", true), OK);
    pair.watch(get("/no watch", true), ErrorCode::NO_NODE);
    pair.watch(children("/no watch", true), ErrorCode::NO_NODE);
    pair.watch(exists("/no watch", true), ErrorCode::NO_AUTH);
    pair.watch(get("/fired", true), OK);
    pair.event(CHANGED, "/fired");
    pair.submit(sync("/"));
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, 42, Err(ErrorCode::NO_NODE));
    pair.submit(get("/never answered", true));
    pair.cut();
    pair.submit(sync("/waiting"));
    pair.connect();
    let restored = set_watches(42, &["/data", "/there"], &["/missing"], &["/list"]);
    assert_eq!(sent(&mut pair), [restored, sync("/waiting")]);
}

#[test]
fn where_nothing_is_watched_nothing_is_restored() {
    let mut pair = Pair::connected(|_| {});
    pair.cut();
    pair.connect();
    assert_eq!(pair.requests(), []);
}

#[test]
fn what_happened_meanwhile_is_told_when_all_of_it_is_known() {
    let mut pair = Pair::connected(|_| {});
    let data = pair.watch(get("/a", true), OK);
    let list = pair.watch(children("/a", true), OK);
    let gone = pair.watch(exists("/b", true), OK);
    pair.cut();
    let read = pair.submit_quietly(get("/a", false)).0;
    pair.connect();
    let (xid, request) = pair.request().unwrap();
    pair.event(CHANGED, "/a");
    pair.event(EventType::NODE_DELETED, "/b");
    assert_eq!(pair.fired(), [], "nobody may act on one of two changes");
    pair.outputs.clear();
    pair.reply(xid, 2, Ok(sound_reply(&request)));
    pair.serve();
    let told_last = pair.outputs.pop();
    assert!(matches!(told_last, Some(Output::Completed(token, Ok(_))) if token == read));
    assert_eq!(ids(&pair.fired()), [data, gone]);
    pair.event(EventType::NODE_CHILDREN_CHANGED, "/a");
    assert_eq!(ids(&pair.fired()), [list], "from now on at once");
}

/// Watches on so many nodes that they take three requests.
fn many(pair: &mut Pair) -> Vec<WatchId> {
    let long = "x".repeat(1000);
    let path = |n| format!("/{n:03}{long}");
    (0..300)
        .map(|n| pair.watch(get(&path(n), true), OK))
        .collect()
}

#[test]
fn many_watches_are_restored_in_pieces_that_a_server_takes() {
    let mut pair = Pair::connected(|_| {});
    many(&mut pair);
    pair.cut();
    pair.connect();
    let mut restored = 0;
    for request in sent(&mut pair) {
        let Request::SetWatches(batch) = request else {
            panic!("{request:?}");
        };
        let bytes: usize = batch.data_watches.iter().map(|path| path.len() + 4).sum();
        assert!(bytes <= 128 * 1024 + 1100, "{bytes}");
        restored += batch.data_watches.len();
    }
    assert_eq!(restored, 300);
}

/// The reply to the first of several `setWatches` tells how far the server is. A client that took this for what it has
/// seen itself, and lost the connection before the others were answered, would not hear what it missed of their nodes.
#[test]
fn a_connection_lost_while_watches_are_restored_costs_no_event() {
    let mut pair = Pair::connected(|_| {});
    many(&mut pair);
    pair.cut();
    pair.connect();
    let (first, request) = pair.request().unwrap();
    pair.event(CHANGED, "/of no interest");
    pair.reply(first, 1000, Ok(sound_reply(&request)));
    pair.cut();
    assert_eq!(pair.connect().last_zxid_seen.0, 1);
    let batches = sent(&mut pair);
    assert_eq!(batches.len(), 3);
    for batch in batches {
        let Request::SetWatches(batch) = batch else {
            panic!("{batch:?}");
        };
        assert_eq!(batch.relative_zxid.0, 1);
    }
}

#[test]
fn what_was_held_back_on_a_lost_connection_is_told_when_the_next_one_says_it() {
    let mut pair = Pair::connected(|_| {});
    let data = pair.watch(get("/a", true), OK);
    pair.watch(get("/b", true), OK);
    for path in ["/b", "/a"] {
        pair.cut();
        pair.connect();
        pair.event(CHANGED, path);
    }
    assert_eq!(pair.fired(), []);
    pair.serve();
    assert_eq!(ids(&pair.fired()), [data]);
}

#[test]
fn when_all_watches_are_restored_the_newest_zxid_counts() {
    let mut pair = Pair::connected(|_| {});
    many(&mut pair);
    pair.cut();
    pair.connect();
    for (index, (xid, request)) in pair.requests().into_iter().enumerate() {
        let zxid = 1000 + i64::try_from(index).unwrap();
        pair.reply(xid, zxid, Ok(sound_reply(&request)));
    }
    pair.cut();
    assert_eq!(pair.connect().last_zxid_seen.0, 1002);
}

/// A server with a small `jute.maxbuffer` closes the connection on more, for ever.
#[test]
fn pieces_are_no_longer_than_the_longest_request() {
    let mut pair = Pair::connected(|config| config.max_request = 1000);
    let names: Vec<_> = (0..500).map(|n| format!("/{n}")).collect();
    let paths = names.iter().map(String::as_str);
    let watches = pair.machine.watch_nodes(pair.now, paths);
    pair.pump();
    pair.cut();
    for _ in 0..2 {
        let frames: Vec<_> = std::iter::from_fn(|| pair.frame()).collect();
        assert!(frames.iter().all(|frame| frame.len() <= 1000));
        pair.cut();
        pair.connect();
    }
    let mut paths = 0;
    for (xid, request) in pair.requests() {
        let Request::SetWatches(batch) = &request else {
            panic!("{request:?}");
        };
        paths += batch.data_watches.len();
        pair.reply(xid, 2, Ok(sound_reply(&request)));
    }
    assert_eq!(paths, 500);
    pair.event(CHANGED, "/7");
    assert_eq!(ids(&pair.fired()), [watches[7]]);
}

/// The request that left the watch was just short enough, the one that restores it is not: the others go on.
#[test]
fn a_watch_too_long_to_be_restored_does_not_hold_the_others_up() {
    let mut pair = Pair::connected(|config| config.max_request = 100);
    let short = pair.watch(get("/a", true), OK);
    pair.watch(get(&format!("/{}", "x".repeat(80)), true), OK);
    pair.cut();
    pair.connect();
    assert_eq!(pair.ops(), [OpCode::SET_WATCHES]);
    pair.reply(
        lockkeeper_proto::Xid(3),
        2,
        Ok(sound_reply(&set_watches(1, &[], &[], &[]))),
    );
    pair.event(CHANGED, "/a");
    assert_eq!(ids(&pair.fired()), [short]);
}

#[test]
fn a_server_that_does_not_restore_watches_is_left() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/a", true), OK);
    pair.cut();
    pair.connect();
    pair.answer_all(|_| Err(ErrorCode::MARSHALLING_ERROR));
    let why = Cause::WatchesRefused(ErrorCode::MARSHALLING_ERROR);
    assert_eq!(pair.last_cause(), why);
    assert_eq!(pair.states().last(), Some(&State::Suspended));
    assert_eq!(pair.machine.watch_count(), 1);
}

#[test]
fn events_that_are_held_back_have_a_bound() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/a", true), OK);
    pair.cut();
    pair.connect();
    let mut events = 0;
    while pair.machine.state().is_connected() {
        pair.event(CHANGED, "/a");
        events += 1;
        assert!(events < 10);
    }
    assert!(matches!(pair.last_cause(), Cause::WatchesRefused(_)));
}

/// The bound followed the number of watches, and those that were given up meanwhile made an honest server a flood.
#[test]
fn giving_up_watches_while_they_are_restored_costs_no_connection() {
    let mut pair = Pair::connected(|_| {});
    let paths = ["/a", "/b", "/c", "/d", "/e", "/f"];
    let watches = paths.map(|path| pair.watch(get(path, true), OK));
    pair.cut();
    pair.connect();
    pair.outputs.clear();
    for id in &watches[1..] {
        pair.machine.cancel(pair.now, *id);
    }
    for path in paths {
        pair.event(CHANGED, path);
    }
    pair.serve();
    assert_eq!(pair.states(), []);
    assert_eq!(ids(&pair.fired()), [watches[0]]);
}

#[test]
fn one_event_reaches_all_who_watch_the_node_and_nobody_twice() {
    let mut pair = Pair::connected(|_| {});
    let first = pair.watch(get("/a", true), OK);
    let second = pair.watch(exists("/a", true), OK);
    let list = pair.watch(children("/a", true), OK);
    let (read, third) = pair.submit_watching(get("/a", true));
    pair.event(CHANGED, "/a");
    assert_eq!(ids(&pair.fired()), [first, second]);
    pair.serve();
    assert!(pair.result(read).is_ok());
    pair.event(EventType::NODE_DELETED, "/a");
    assert_eq!(ids(&pair.fired()), [third, list]);
    pair.event(EventType::NODE_DELETED, "/a");
    assert_eq!(pair.fired(), []);
    assert_eq!(pair.machine.watch_count(), 0);
}

#[test]
fn what_happens_to_a_node_itself_does_not_concern_who_watches_its_children() {
    let mut pair = Pair::connected(|_| {});
    let list = pair.watch(children("/a", true), OK);
    pair.event(EventType::NODE_CREATED, "/a");
    pair.event(CHANGED, "/a");
    assert_eq!(pair.fired(), []);
    pair.event(EventType::NODE_DELETED, "/a");
    assert_eq!(ids(&pair.fired()), [list]);
}

#[test]
fn known_nodes_are_watched_with_one_request() {
    let mut pair = Pair::connected(|_| {});
    pair.submit(sync("/"));
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, 42, Err(ErrorCode::NO_NODE));
    let paths = ["/b", "/a", "/b"];
    let watches = pair.machine.watch_nodes(pair.now, paths);
    pair.pump();
    assert_eq!(sent(&mut pair), [set_watches(42, &paths, &[], &[])]);
    pair.event(EventType::NODE_DELETED, "/b");
    assert_eq!(ids(&pair.fired()), [watches[0], watches[2]]);
    assert_eq!(pair.machine.watch_nodes(pair.now, []), []);
    pair.pump();
    assert_eq!(pair.requests(), []);
}

#[test]
fn nodes_watched_without_a_connection_are_watched_on_the_next_one() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/a", true), OK);
    pair.cut();
    pair.machine.watch_nodes(pair.now, ["/b"]);
    pair.connect();
    assert_eq!(sent(&mut pair), [set_watches(1, &["/a", "/b"], &[], &[])]);
    pair.cut();
    pair.connect();
    let again = set_watches(1, &["/a", "/b"], &[], &[]);
    assert_eq!(
        sent(&mut pair),
        [again],
        "the request itself is not repeated"
    );
}

#[test]
fn the_last_one_of_its_kind_to_go_takes_the_watch_off_the_server() {
    let mut pair = Pair::connected(|_| {});
    let data = pair.watch(get("/a", true), OK);
    let missing = pair.watch(exists("/a", true), ErrorCode::NO_NODE);
    let list = pair.watch(children("/a", true), OK);
    for (id, request) in [
        (data, None),
        (list, Some(removal("/a", WatcherType::CHILDREN))),
        (missing, Some(removal("/a", WatcherType::DATA))),
        (missing, None),
    ] {
        pair.machine.cancel(pair.now, id);
        pair.pump();
        assert_eq!(sent(&mut pair), Vec::from_iter(request));
    }
    assert_eq!(pair.machine.watch_count(), 0);
    pair.event(CHANGED, "/a");
    assert_eq!(pair.fired(), []);
}

#[test]
fn a_watch_given_up_before_it_is_left_is_removed_when_it_is() {
    let mut pair = Pair::connected(|_| {});
    let (token, id) = pair.submit_watching(get("/a", true));
    pair.machine.cancel(pair.now, id);
    pair.pump();
    let (xid, request) = pair.request().unwrap();
    assert_eq!(pair.requests(), []);
    pair.reply(xid, 1, Ok(sound_reply(&request)));
    assert!(pair.result(token).is_ok());
    assert_eq!(sent(&mut pair), [removal("/a", WatcherType::DATA)]);
}

#[test]
fn a_watch_given_up_without_a_connection_is_not_restored() {
    let mut pair = Pair::connected(|_| {});
    let id = pair.watch(get("/a", true), OK);
    let kept = pair.watch(get("/b", true), OK);
    pair.cut();
    pair.machine.cancel(pair.now, id);
    pair.connect();
    assert_eq!(sent(&mut pair), [set_watches(1, &["/b"], &[], &[])]);
    pair.machine.cancel(pair.now, kept);
    pair.machine.handle(
        pair.now,
        crate::machine::Input::Disconnected(Cause::ByClient),
    );
    pair.connect();
    assert_eq!(pair.requests(), []);
}

#[test]
fn a_server_that_cannot_remove_watches_is_not_asked_again() {
    let mut pair = Pair::connected(|_| {});
    for expected in [1, 0] {
        let id = pair.watch(get("/a", true), OK);
        pair.machine.cancel(pair.now, id);
        pair.pump();
        let mut asked = 0;
        pair.answer_all(|request| {
            assert_eq!(request.op(), OpCode::REMOVE_WATCHES);
            asked += 1;
            Err(ErrorCode::UNIMPLEMENTED)
        });
        assert_eq!(asked, expected);
    }
}

#[test]
fn watches_end_with_the_session() {
    let mut pair = Pair::connected(|_| {});
    let read = pair.watch(get("/b", true), OK);
    let listed = pair.watch(children("/a", true), OK);
    let armed = pair.machine.watch_nodes(pair.now, ["/c"])[0];
    pair.pump();
    let (coming, _) = pair.submit_watching(get("/d", true));
    pair.cut();
    pair.wait(SECOND);
    pair.reach();
    pair.refuse_session();
    let over = Err(Error::SessionExpired(Effect::NotApplied));
    let told = [listed, read, armed].map(|id| (id, over.clone()));
    assert_eq!(pair.fired(), told);
    assert!(pair.error(coming).effect() == Effect::Unknown);
    assert_eq!(pair.machine.watch_count(), 0);
    pair.connect();
    assert_eq!(pair.requests(), []);
}
