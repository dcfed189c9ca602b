//! Which watches a new connection restores, and which events it keeps back meanwhile.

use lockkeeper_proto::{AddWatchMode, ErrorCode, EventType, OpCode, Request};

use super::{
    pair::Pair,
    requests::{add_watch, children, exists, get, ids, set_watches, sound_reply, sync},
};
use crate::{
    Cause, ErrorKind, State,
    machine::{Output, WatchId},
};

const OK: ErrorCode = ErrorCode::OK;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;

#[test]
fn every_kind_of_watch_is_restored_before_any_other_request() {
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
    pair.see(42);
    pair.submit(get("/never answered", true));
    pair.cut();
    pair.submit(sync("/waiting"));
    pair.connect();
    let restored = set_watches(42, &["/data", "/there"], &["/missing"], &["/list"]);
    assert_eq!(pair.sent(), [restored, sync("/waiting")]);
}

#[test]
fn events_are_kept_back_until_all_watches_are_restored() {
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
    assert_eq!(
        pair.fired(),
        [],
        "no listener may act on one of two changes"
    );
    pair.outputs.clear();
    pair.reply(xid, 2, Ok(sound_reply(&request)));
    pair.serve();
    let told_last = pair.outputs.pop();
    assert!(matches!(told_last, Some(Output::Completed(token, Ok(_))) if token == read));
    assert_eq!(ids(&pair.fired()), [data, gone]);
    pair.event(EventType::NODE_CHILDREN_CHANGED, "/a");
    assert_eq!(
        ids(&pair.fired()),
        [list],
        "from now on, events are reported at once"
    );
}

/// Watches so many nodes that restoring them takes three requests.
fn many(pair: &mut Pair) -> Vec<WatchId> {
    let long = "x".repeat(1000);
    let path = |n| format!("/{n:03}{long}");
    (0..300)
        .map(|n| pair.watch(get(&path(n), true), OK))
        .collect()
}

#[test]
fn many_watches_are_restored_in_requests_that_a_server_accepts() {
    let mode = |n: usize| [AddWatchMode::PERSISTENT, AddWatchMode::PERSISTENT_RECURSIVE][n % 2];
    for (is_persistent, slack) in [(false, 1100), (true, 0)] {
        let mut pair = Pair::connected(|_| {});
        if is_persistent {
            let long = "x".repeat(1000);
            let path = |n| format!("/{n:03}{long}");
            for n in 0..300 {
                pair.watch(add_watch(&path(n), mode(n)), OK);
            }
        } else {
            many(&mut pair);
        }
        pair.reconnect();
        let mut restored = 0;
        for request in pair.sent() {
            let paths = match request {
                Request::SetWatches(batch) => batch.data_watches,
                Request::SetWatches2(batch) => {
                    [batch.persistent_watches, batch.persistent_recursive_watches].concat()
                }
                other => panic!("{other:?}"),
            };
            let bytes: usize = paths.iter().map(|path| path.len() + 4).sum();
            assert!(bytes <= 128 * 1024 + slack, "{bytes}");
            restored += paths.len();
        }
        assert_eq!(restored, 300);
    }
}

/// The reply to the first of several `setWatches` has the newest zxid of the server. Suppose that
/// the client loses the connection before the other replies, and restores its watches from that
/// zxid. The next connection would then not report the missed changes of their nodes.
#[test]
fn a_connection_lost_while_watches_are_restored_costs_no_event() {
    let mut pair = Pair::connected(|_| {});
    many(&mut pair);
    pair.reconnect();
    let (first, request) = pair.request().unwrap();
    pair.event(CHANGED, "/of no interest");
    pair.reply(first, 1000, Ok(sound_reply(&request)));
    assert_eq!(pair.reconnect().last_zxid_seen.0, 1000);
    let batches = pair.sent();
    assert_eq!(batches.len(), 3);
    for batch in batches {
        let Request::SetWatches(batch) = batch else {
            panic!("{batch:?}");
        };
        assert_eq!(batch.relative_zxid.0, 1);
    }
}

/// Of two requests that were not answered, the one that was sent later asks for later changes only.
#[test]
fn the_oldest_request_without_an_answer_says_from_where_to_restore() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/read", true), OK);
    pair.submit(sync("/"));
    pair.watch_nodes(["/a"]);
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, 42, Err(ErrorCode::NO_NODE));
    pair.watch_nodes(["/b"]);
    let watching = [
        set_watches(1, &["/a"], &[], &[]),
        set_watches(42, &["/b"], &[], &[]),
    ];
    assert_eq!(pair.sent(), watching);
    pair.reconnect();
    let restored = set_watches(1, &["/a", "/b", "/read"], &[], &[]);
    assert_eq!(pair.sent(), [restored]);
}

/// Nodes so many, or so long, that watching them takes several requests. No listener may act on
/// what the first one shows.
#[test]
fn events_are_kept_back_until_all_requests_of_new_watches_are_answered() {
    let mut pair = Pair::connected(|config| config.max_request = 100);
    let long = ["a", "b"].map(|name| format!("/{}", name.repeat(59)));
    let watches = pair.watch_nodes(long.clone());
    let [first, last] = &pair.requests()[..] else {
        panic!("two requests");
    };
    let answer = |pair: &mut Pair, (xid, request): &(_, Request)| {
        pair.reply(*xid, 1, Ok(sound_reply(request)));
    };
    answer(&mut pair, first);
    pair.event(CHANGED, &long[1]);
    assert_eq!(pair.fired(), []);
    answer(&mut pair, last);
    assert_eq!(ids(&pair.fired()), watches[1..]);
}

#[test]
fn a_new_watch_that_is_too_long_keeps_no_events_of_others() {
    let mut pair = Pair::connected(|config| config.max_request = 100);
    let watches = pair.watch_nodes(["/a".to_owned(), format!("/{}", "x".repeat(120))]);
    let ended = pair.fired();
    assert_eq!(ids(&ended), watches[1..]);
    let error = ended[0].1.as_ref().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }));
    let kept = format!("{:?}", pair.machine.watches);
    assert!(kept.contains("/a") && !kept.contains("/xx"), "{kept}");
    pair.serve();
    pair.event(CHANGED, "/a");
    assert_eq!(ids(&pair.fired()), watches[..1]);
}

#[test]
fn events_kept_back_on_a_lost_connection_are_dropped() {
    let mut pair = Pair::connected(|_| {});
    let data = pair.watch(get("/a", true), OK);
    pair.watch(get("/b", true), OK);
    for path in ["/b", "/a"] {
        pair.reconnect();
        pair.event(CHANGED, path);
    }
    assert_eq!(pair.fired(), []);
    pair.serve();
    assert_eq!(ids(&pair.fired()), [data]);
}

#[test]
fn the_newest_zxid_counts_when_all_watches_are_restored() {
    let mut pair = Pair::connected(|_| {});
    many(&mut pair);
    pair.reconnect();
    for (index, (xid, request)) in pair.requests().into_iter().enumerate() {
        let zxid = 1000 + i64::try_from(index).unwrap();
        pair.reply(xid, zxid, Ok(sound_reply(&request)));
    }
    assert_eq!(pair.reconnect().last_zxid_seen.0, 1002);
}

/// A server with a small `jute.maxbuffer` closes the connection on a longer request, each time.
#[test]
fn restore_requests_keep_to_the_request_limit() {
    let mut pair = Pair::connected(|config| config.max_request = 1000);
    let names: Vec<_> = (0..500).map(|n| format!("/{n}")).collect();
    let paths = names.iter().map(String::as_str);
    let watches = pair.watch_nodes(paths);
    pair.cut();
    for _ in 0..2 {
        let frames: Vec<_> = std::iter::from_fn(|| pair.frame()).collect();
        assert!(frames.iter().all(|frame| frame.len() <= 1000));
        pair.reconnect();
    }
    let mut paths = 0;
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

/// Once, the listener learned of it when the watch could not be restored.
#[test]
fn a_watch_that_could_not_be_restored_is_refused() {
    let mut pair = Pair::connected(|config| config.max_request = 100);
    let path = |length: usize| format!("/{}", "x".repeat(length - 1));
    let refused = pair.submit(get(&path(61), true));
    let length = 101;
    let limit = 100;
    assert_eq!(
        pair.error(refused),
        ErrorKind::TooLarge { length, limit }.into()
    );
    pair.watch(get(&path(60), true), OK);
    pair.submit(get(&path(61), false));
    pair.reconnect();
    assert_eq!(pair.ops(), [OpCode::SET_WATCHES]);
}

#[test]
fn a_server_that_does_not_restore_watches_is_given_up() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/a", true), OK);
    pair.reconnect();
    pair.answer_all(|_| Err(ErrorCode::MARSHALLING_ERROR));
    let why = Cause::WatchesRefused(ErrorCode::MARSHALLING_ERROR);
    assert_eq!(pair.last_cause(), why);
    assert_eq!(pair.states().last(), Some(&State::Suspended));
    assert_eq!(pair.machine.metrics().watches, 1);
}

/// Once, the zxid of the refusal counted as read. So a change that came before the refusal was
/// never reported.
#[test]
fn a_refused_restore_shows_nothing() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/a", true), OK);
    pair.see(42);
    for _ in 0..2 {
        pair.reconnect();
        let (xid, restored) = pair.request().unwrap();
        assert_eq!(restored, set_watches(42, &["/a"], &[], &[]));
        pair.reply(xid, 43, Err(ErrorCode::THROTTLED_OP));
    }
}

/// Once, the watches ended as if no server knew the operation, and each wait for a lock with them.
#[test]
fn watches_outlive_servers_that_throttle() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/a", true), OK);
    for _ in 0..20 {
        pair.reconnect();
        let (xid, _) = pair.request().unwrap();
        pair.reply(xid, 1, Err(ErrorCode::THROTTLED_OP));
        let why = Cause::WatchesRefused(ErrorCode::THROTTLED_OP);
        assert_eq!((pair.last_cause(), pair.fired()), (why, vec![]));
    }
    pair.reconnect();
    pair.serve();
    assert_eq!((pair.fired(), pair.machine.metrics().watches), (vec![], 1));
}

#[test]
fn events_kept_back_have_a_bound() {
    // A correct server may send many to a persistent watch.
    let persistent = add_watch("/a", AddWatchMode::PERSISTENT);
    for (watch, bound) in [(get("/a", true), 1..10), (persistent, 10_000..70_000)] {
        let mut pair = Pair::connected(|_| {});
        pair.watch(watch, OK);
        pair.reconnect();
        let mut events = 0;
        while pair.machine.link().state().is_connected() {
            pair.event(CHANGED, "/a");
            events += 1;
            assert!(events < bound.end);
        }
        assert!(bound.contains(&events), "{events}");
        assert!(matches!(pair.last_cause(), Cause::TooManyEvents { .. }));
    }
}

/// Of very many watches, each may report: the bound of the bytes that are kept follows the lengths
/// of their paths.
#[test]
fn every_watch_may_report_while_the_others_are_restored() {
    let mut pair = Pair::connected(|_| {});
    let long = "x".repeat(1000);
    let paths: Vec<_> = (0..6000).map(|n| format!("/{n}{long}")).collect();
    let watches = pair.watch_nodes(paths.iter().map(String::as_str));
    pair.serve();
    pair.reconnect();
    for path in &paths {
        pair.event(CHANGED, path);
    }
    assert_eq!(pair.fired(), []);
    pair.serve();
    assert_eq!(ids(&pair.fired()), watches);
}

/// Once, the bound followed the number of watches. It fell when watches were given up meanwhile,
/// and a correct server then exceeded it.
#[test]
fn giving_up_watches_while_they_are_restored_costs_no_connection() {
    let mut pair = Pair::connected(|_| {});
    let paths = ["/a", "/b", "/c", "/d", "/e", "/f"];
    let watches = paths.map(|path| pair.watch(get(path, true), OK));
    pair.reconnect();
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
