//! Which listeners receive an event, and which watches the machine removes from the server.

use lockkeeper_proto::{ErrorCode, EventType, OpCode, WatcherType};

use super::{
    pair::{Pair, SECOND},
    requests::{children, exists, expired, get, ids, removal, set_watches, sound_reply},
};
use crate::{Cause, Effect};

const OK: ErrorCode = ErrorCode::OK;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;

#[test]
fn one_event_reaches_every_listener_of_the_node_once() {
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
    assert_eq!(pair.machine.metrics().watches, 0);
}

/// Otherwise a waiter could hear of the release of the node ahead before anybody watches its own
/// node.
#[test]
fn listeners_hear_of_nothing_before_their_watches_are_set() {
    let mut pair = Pair::connected(|_| {});
    let older = pair.watch(get("/ahead", true), OK);
    let watches = pair.machine.watch_nodes(["/own", "/ahead"]);
    let later = pair.watch_nodes(["/own", "/other"]);
    pair.event(EventType::NODE_DELETED, "/ahead");
    assert_eq!(ids(&pair.fired()), [older]);
    pair.event(EventType::NODE_DELETED, "/own");
    assert_eq!(pair.fired(), []);
    let mut requests = pair.requests().into_iter();
    let mut serve = |pair: &mut Pair| {
        let (xid, request) = requests.next().unwrap();
        pair.reply(xid, 42, Ok(sound_reply(&request)));
    };
    serve(&mut pair);
    assert_eq!(ids(&pair.fired()), watches, "in the order of the paths");
    serve(&mut pair);
    assert_eq!(ids(&pair.fired()), later[..1]);
    assert_eq!(pair.machine.metrics().watches, 1);
}

#[test]
fn the_end_of_a_connection_releases_the_events_that_were_kept() {
    let mut pair = Pair::connected(|_| {});
    let older = pair.watch(get("/a", true), OK);
    let watches = pair.watch_nodes(["/a", "/b"]);
    pair.event(CHANGED, "/a");
    assert_eq!(ids(&pair.fired()), [older]);
    pair.cut();
    assert_eq!(ids(&pair.fired()), [watches[0]]);
    // The other one is restored, and waits for no request any more.
    pair.connect();
    pair.serve();
    pair.event(CHANGED, "/b");
    assert_eq!(ids(&pair.fired()), [watches[1]]);
}

#[test]
fn nodes_watched_without_a_connection_are_watched_on_the_next_one() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/a", true), OK);
    pair.cut();
    pair.machine.watch_nodes(["/b"]);
    pair.connect();
    assert_eq!(pair.sent(), [set_watches(1, &["/a", "/b"], &[], &[])]);
    pair.reconnect();
    let again = set_watches(1, &["/a", "/b"], &[], &[]);
    assert_eq!(
        pair.sent(),
        [again],
        "there is one request for both watches"
    );
}

#[test]
fn a_watch_given_up_without_a_connection_is_not_restored() {
    let mut pair = Pair::connected(|_| {});
    let id = pair.watch(get("/a", true), OK);
    let kept = pair.watch(get("/b", true), OK);
    pair.cut();
    pair.machine.cancel(id);
    pair.connect();
    assert_eq!(pair.sent(), [set_watches(1, &["/b"], &[], &[])]);
    pair.machine.cancel(kept);
    pair.machine.handle(
        pair.now,
        crate::machine::Input::Disconnected(Cause::ByClient),
    );
    pair.connect();
    assert_eq!(pair.requests(), []);
}

#[test]
fn a_read_without_a_watch_leaves_none() {
    let mut pair = Pair::connected(|_| {});
    for read in [get, exists, children] {
        let [plain, watching] = [false, true].map(|watch| read("/a", watch));
        assert_eq!(pair.submit_quietly(plain).1, None);
        assert!(pair.submit_quietly(watching).1.is_some());
    }
}

#[test]
fn the_kinds_of_one_node_are_removed_one_by_one() {
    let mut pair = Pair::connected(|_| {});
    let data = pair.watch(get("/a", true), OK);
    let children = pair.watch(children("/a", true), OK);
    for (id, watcher_type) in [(data, WatcherType::DATA), (children, WatcherType::CHILDREN)] {
        pair.machine.cancel(id);
        pair.pump();
        assert_eq!(pair.sent(), [removal("/a", watcher_type)]);
    }
}

#[test]
fn a_server_that_cannot_remove_watches_is_not_asked_again() {
    let mut pair = Pair::connected(|_| {});
    for expected in [1, 0] {
        let id = pair.watch(get("/a", true), OK);
        pair.machine.cancel(id);
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
    let armed = pair.watch_nodes(["/c"])[0];
    let (coming, _) = pair.submit_watching(get("/d", true));
    pair.cut();
    pair.wait(SECOND);
    pair.reach();
    pair.refuse_session();
    let over = Err(expired());
    let told = [listed, read, armed].map(|id| (id, over.clone()));
    assert_eq!(pair.fired(), told);
    assert!(pair.error(coming).effect() == Effect::NotApplied);
    assert_eq!(pair.machine.metrics().watches, 0);
    pair.connect();
    assert_eq!(pair.requests(), []);
}
