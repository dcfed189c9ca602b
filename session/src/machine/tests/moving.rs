//! Moves to another server on request, and what else changes the state, or does not.

use lockkeeper_proto::{ErrorCode, OpCode};

use super::{
    pair::{ID, Pair},
    requests::{digest, get, servers, set_watches, sound_reply, sync},
};
use crate::{State, machine::Output};

impl Pair {
    fn disconnects(&mut self) -> usize {
        let is_it = |output: &&Output<u32>| matches!(output, Output::Disconnect);
        self.outputs.iter().filter(is_it).count()
    }
}

#[test]
fn a_move_loses_no_request_and_no_watch() {
    let mut pair = Pair::connected(servers("zk1,zk2,zk3"));
    let before = pair.machine.link().endpoint().cloned();
    let watch = pair.watch(get("/a", true), ErrorCode::OK);
    let sent = pair.submit(sync("/sent"));
    pair.machine.move_to_next_server(pair.now);
    let later = pair.submit(sync("/later"));
    assert_eq!((pair.states(), pair.disconnects()), (vec![], 0));
    assert_eq!(
        pair.ops(),
        [OpCode::SYNC],
        "later requests wait for the next server"
    );
    let (xid, body) = (lockkeeper_proto::Xid(2), sound_reply(&sync("/sent")));
    pair.reply(xid, 5, Ok(body));
    assert!(pair.result(sent).is_ok());
    assert_eq!(
        (pair.states(), pair.disconnects()),
        (vec![State::Suspended], 1)
    );
    let left = pair.now;
    let request = pair.connect();
    assert_eq!(
        (request.session_id, pair.now),
        (ID, left),
        "the move has no pause"
    );
    assert_ne!(pair.machine.link().endpoint().cloned(), before);
    assert_eq!(pair.ops(), [OpCode::SET_WATCHES, OpCode::SYNC]);
    assert!(!pair.is_settled(later));
    assert_eq!((pair.machine.metrics().watches, pair.fired()), (1, vec![]));
    let _ = watch;
}

/// Regression: the new connection restored the watches from the newest transaction that a reply had
/// reported. But the changes from the call on count, and the server was never asked for those.
#[test]
fn a_watch_that_was_not_set_before_a_move_misses_no_change() {
    let mut pair = Pair::connected(servers("zk1,zk2,zk3"));
    let reply = |pair: &mut Pair, zxid| {
        let (xid, request) = pair.request().unwrap();
        pair.reply(xid, zxid, Ok(sound_reply(&request)));
    };
    pair.submit(sync("/"));
    reply(&mut pair, 100);
    pair.submit(sync("/"));
    pair.machine.move_to_next_server(pair.now);
    let watches = pair.machine.watch_nodes(["/n"]);
    reply(&mut pair, 120);
    pair.connect();
    assert_eq!(
        pair.request().unwrap().1,
        set_watches(100, &["/n"], &[], &[])
    );
    pair.submit(sync("/"));
    // Nor does it miss one if that connection is lost.
    pair.reconnect();
    let (xid, restored) = pair.request().unwrap();
    assert_eq!(restored, set_watches(100, &["/n"], &[], &[]));
    pair.reply(xid, 130, Ok(sound_reply(&restored)));
    pair.reconnect();
    assert_eq!(
        pair.request().unwrap().1,
        set_watches(130, &["/n"], &[], &[])
    );
    assert_eq!((pair.machine.metrics().watches, watches.len()), (1, 1));
}

#[test]
fn an_idle_client_moves_at_once() {
    let mut pair = Pair::connected(servers("zk1,zk2,zk3"));
    pair.machine.move_to_next_server(pair.now);
    pair.pump();
    assert_eq!(pair.disconnects(), 1);
    // Without a connection, the call does nothing.
    pair.machine.move_to_next_server(pair.now);
    pair.connect();
    assert_eq!(pair.machine.link().state(), State::Connected);
    assert_eq!(pair.disconnects(), 1);
}

#[test]
fn closing_during_a_move_ends_the_session() {
    let mut pair = Pair::connected(servers("zk1,zk2,zk3"));
    pair.submit(sync("/"));
    pair.machine.move_to_next_server(pair.now);
    pair.machine.close(pair.now);
    pair.pump();
    assert_eq!(pair.ops(), [OpCode::SYNC, OpCode::CLOSE_SESSION]);
    pair.machine.move_to_next_server(pair.now);
    assert_eq!(pair.disconnects(), 0);
}

#[test]
fn a_client_is_not_connected_before_the_server_accepts_its_identities() {
    let mut pair = Pair::new(|config| config.auth.push(digest("a:b")));
    let waiting = pair.submit(sync("/"));
    pair.connect();
    assert_eq!(pair.states(), []);
    let requests = pair.requests();
    let ops: Vec<_> = requests.iter().map(|(_, request)| request.op()).collect();
    assert_eq!(
        ops,
        [OpCode::AUTH, OpCode::SYNC],
        "requests do not wait for the answer"
    );
    let (xid, request) = &requests[0];
    pair.reply(*xid, 0, Ok(sound_reply(request)));
    assert_eq!(pair.states(), [State::Connected]);
    assert!(!pair.is_settled(waiting));
    pair.reconnect();
    assert_eq!(pair.states(), [State::Suspended]);
}
