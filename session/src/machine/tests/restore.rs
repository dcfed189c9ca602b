//! What a new connection restores of the watches, and what is held back meanwhile.

use lockkeeper_proto::{ErrorCode, EventType, OpCode, Request};

use super::{
    pair::Pair,
    requests::{children, exists, get, set_watches, sound_reply, sync},
};
use crate::{
    Cause, Error, State,
    machine::{Output, WatchId},
};

const OK: ErrorCode = ErrorCode::OK;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;

fn ids(fired: &[(WatchId, Result<crate::machine::Event, Error>)]) -> Vec<WatchId> {
    fired.iter().map(|(id, _)| *id).collect()
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
    let watches = pair.machine.watch_nodes(paths);
    pair.pump();
    pair.cut();
    for _ in 0..2 {
        let frames: Vec<_> = std::iter::from_fn(|| pair.frame()).collect();
        assert!(frames.iter().all(|frame| frame.len() <= 1000));
        pair.cut();
        pair.connect();
    }
    let mut paths = 0;
    // Two connections were closed on it: the first piece goes alone.
    pair.request_sign_of_life();
    while let Some((xid, request)) = pair.request() {
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

/// The request that left the watch was just short enough, the one that restores it is not: who waits for it is told, and
/// the others go on.
#[test]
fn a_watch_too_long_to_be_restored_ends_and_does_not_hold_the_others_up() {
    let mut pair = Pair::connected(|config| config.max_request = 100);
    let short = pair.watch(get("/a", true), OK);
    let long = pair.watch(get(&format!("/{}", "x".repeat(80)), true), OK);
    pair.cut();
    pair.connect();
    assert_eq!(pair.ops(), [OpCode::SET_WATCHES]);
    let ended = pair.fired();
    assert_eq!(ids(&ended), [long]);
    assert!(matches!(ended[0].1, Err(Error::TooLarge { .. })));
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
    assert!(matches!(pair.last_cause(), Cause::TooManyEvents { .. }));
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
        pair.machine.cancel(*id);
    }
    for path in paths {
        pair.event(CHANGED, path);
    }
    pair.serve();
    assert_eq!(pair.states(), []);
    assert_eq!(ids(&pair.fired()), [watches[0]]);
}
