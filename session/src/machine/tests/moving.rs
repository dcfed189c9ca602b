//! Leaving a server for another one, and what else changes the state, or does not.

use lockkeeper_proto::{ErrorCode, OpCode};

use super::{
    pair::{ID, Pair, SECOND},
    requests::{delete, digest, get, servers, set_watches, sound_reply, sync},
};
use crate::{
    Endpoint, State,
    machine::{Input, Output},
};

impl Pair {
    fn disconnects(&mut self) -> usize {
        let is_it = |output: &&Output<u32>| matches!(output, Output::Disconnect);
        self.outputs.iter().filter(is_it).count()
    }
}

#[test]
fn a_client_that_leaves_a_server_keeps_its_session_and_watches() {
    let mut pair = Pair::connected(servers("zk1,zk2,zk3"));
    let before = pair.machine.link().endpoint().cloned();
    pair.watch(get("/a", true), ErrorCode::OK);
    let sent = pair.submit(sync("/sent"));
    pair.pump();
    pair.machine.leave_server(pair.now);
    let later = pair.submit(sync("/later"));
    let request = pair.connect();
    assert_eq!(pair.disconnects(), 1);
    assert_eq!(pair.states(), [State::Suspended, State::Connected]);
    let lost = pair.result(sent).unwrap_err();
    assert!(lost.is_transient(), "{lost}");
    assert_eq!(request.session_id, ID);
    assert_ne!(pair.machine.link().endpoint().cloned(), before);
    assert_eq!(pair.ops(), [OpCode::SET_WATCHES, OpCode::SYNC]);
    assert!(!pair.is_settled(later));
    assert_eq!((pair.machine.metrics().watches, pair.fired()), (1, vec![]));
    assert_eq!(pair.machine.metrics().servers_left, 1);
    // Nor does it come back soon.
    for _ in 0..4 {
        pair.reconnect();
        assert_ne!(pair.machine.link().endpoint().cloned(), before);
    }
}

/// It was not dialed for a minute, and the session ended for want of a server.
#[test]
fn a_server_that_was_left_is_dialed_when_all_others_have_failed() {
    for (list, failures) in [("zk1,zk2", 1), ("zk1,zk2,zk3", 2)] {
        let mut pair = Pair::connected(servers(list));
        let left = pair.server();
        pair.machine.leave_server(pair.now);
        pair.pump();
        for _ in 0..failures {
            pair.reach();
            assert_ne!(pair.dialed(), left, "the others come first");
            pair.cut();
        }
        pair.connect();
        assert_eq!(pair.server(), left);
    }
}

/// The connection that was made to it was dropped, and the silent server was dialed again.
#[test]
fn a_silent_server_is_left_for_one_that_is_avoided_if_there_is_no_other() {
    for (list, comes_back) in [("zk1,zk2", true), ("zk1,zk2,zk3", false)] {
        let mut pair = Pair::connected(servers(list));
        let left = pair.server();
        pair.machine.leave_server(pair.now);
        pair.connect();
        let silent = pair.server();
        let other = loop {
            pair.tick();
            let reach = pair.outputs.iter().find_map(|output| match output {
                Output::Reach(other) => other.clone(),
                _ => None,
            });
            if let Some(other) = reach {
                break other;
            }
        };
        pair.handle(Input::Reached(other.clone()));
        assert_eq!(pair.dialed().as_ref(), Some(&*other));
        assert_eq!(pair.dialed() == left, comes_back);
        assert_ne!(pair.dialed(), silent);
    }
}

/// The changes from the call on count, although the server is asked for them later.
#[test]
fn a_watch_that_is_set_between_two_servers_misses_no_change() {
    let mut pair = Pair::connected(servers("zk1,zk2,zk3"));
    let reply = |pair: &mut Pair, zxid| {
        let (xid, request) = pair.request().unwrap();
        pair.reply(xid, zxid, Ok(sound_reply(&request)));
    };
    pair.submit(sync("/"));
    reply(&mut pair, 100);
    pair.submit(sync("/"));
    let (xid, request) = pair.request().unwrap();
    let watches = pair.machine.watch_nodes(["/n"]);
    pair.reply(xid, 120, Ok(sound_reply(&request)));
    pair.machine.leave_server(pair.now);
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
fn a_server_is_not_left_without_another_one_a_connection_or_a_session_that_goes_on() {
    let mut alone = Pair::connected(servers("zk1"));
    alone.machine.leave_server(alone.now);
    alone.pump();
    assert_eq!(alone.disconnects(), 0);
    let mut pair = Pair::connected(servers("zk1,zk2"));
    pair.machine.leave_server(pair.now);
    pair.machine.leave_server(pair.now);
    pair.connect();
    assert_eq!(pair.disconnects(), 1);
    pair.submit(sync("/"));
    pair.machine.close(pair.now);
    pair.machine.leave_server(pair.now);
    pair.pump();
    assert_eq!(pair.ops(), [OpCode::SYNC, OpCode::CLOSE_SESSION]);
    assert_eq!(pair.disconnects(), 1);
}

type Act<'a> = &'a dyn Fn(&mut Pair);

impl Pair {
    fn server(&self) -> Option<Endpoint> {
        self.machine.link().endpoint().cloned()
    }

    /// The server that was dialed last.
    fn dialed(&self) -> Option<Endpoint> {
        let mut outputs = self.outputs.iter().rev();
        outputs.find_map(|output| match output {
            Output::Connect(endpoint) => Some((**endpoint).clone()),
            _ => None,
        })
    }

    /// The servers of the next connections, which are lost without a request under way.
    fn next_servers(&mut self, count: usize) -> Vec<Option<Endpoint>> {
        let next = (0..count).map(|_| {
            self.reconnect();
            self.wait(SECOND);
            self.server()
        });
        next.collect()
    }
}

/// Only a write that is not answered may be late.
#[test]
fn a_server_is_not_dialed_again_in_a_session_of_which_it_owes_a_write() {
    let own = |pair: &mut Pair| {
        let (directory, name) = ("/lock".into(), "n".into());
        let keeper = pair.machine.keep_lease(directory, name);
        let mut ops = Vec::new();
        while !ops.contains(&OpCode::MULTI) {
            pair.tick();
            for (xid, request) in pair.requests() {
                ops.push(request.op());
                if request.op() != OpCode::MULTI {
                    pair.reply(xid, 1, Ok(sound_reply(&request)));
                }
            }
        }
        drop(keeper);
    };
    let answered = |pair: &mut Pair| {
        pair.submit(delete("/n"));
        pair.answer_all(|_| Err(ErrorCode::NO_NODE));
    };
    let cases: [(Act<'_>, bool); 4] = [
        (&|pair| _ = pair.submit(delete("/n")), true),
        (&own, true),
        (&answered, false),
        (&|pair| _ = pair.submit(sync("/")), false),
    ];
    for (at, (act, owes)) in cases.into_iter().enumerate() {
        let mut pair = Pair::connected(servers("zk1,zk2,zk3"));
        let first = pair.server();
        act(&mut pair);
        assert_eq!(!pair.next_servers(50).contains(&first), owes, "{at}");
        // A write that is later than a minute never comes.
        assert!(pair.next_servers(20).contains(&first), "{at}");
        pair.cut();
        pair.reach();
        pair.refuse_session();
        pair.connect();
        assert!(pair.next_servers(3).contains(&first), "{at}");
    }
}

#[test]
fn a_server_owes_until_its_leader_has_answered_a_later_write() {
    for (code, owes) in [
        (ErrorCode::OK, false),
        (ErrorCode::NO_NODE, false),
        // The server itself says so, and may have the old write yet.
        (ErrorCode::THROTTLED_OP, true),
    ] {
        let mut pair = Pair::connected(servers("zk1,zk2"));
        pair.submit(delete("/n"));
        pair.reconnect();
        pair.submit(delete("/n"));
        // Both owe, so there is no better one.
        pair.reconnect();
        let again = pair.server();
        pair.submit(delete("/n"));
        pair.answer_all(|request| match code {
            ErrorCode::OK => Ok(sound_reply(request)),
            code => Err(code),
        });
        let next = pair.next_servers(4);
        assert_eq!(next.iter().any(|it| *it != again), owes, "{code:?}");
    }
}

#[test]
fn a_server_is_not_left_for_one_that_owes() {
    let mut pair = Pair::connected(servers("zk1,zk2"));
    pair.submit(delete("/n"));
    pair.reconnect();
    let before = pair.disconnects();
    pair.machine.leave_server(pair.now);
    pair.pump();
    assert_eq!(pair.disconnects(), before);
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
