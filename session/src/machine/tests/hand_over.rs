//! A session that one machine leaves, and another one goes on with.
//!
//! Not here: locks that are handed over (`recipes/tests/locks/hand_over.rs`).

use lockkeeper_proto::{OpCode, SessionId, Zxid};

use super::{
    pair::{ID, PASSWORD, Pair, SECOND, SIXTH, THIRD, TIMEOUT},
    proof::{answer, keep, lease, length, write},
    requests::get,
};
use crate::{ErrorKind, State, machine::SessionTicket};

/// The last request of a machine that leaves its session.
const LAST: u32 = 1000;

/// A machine that goes on with this session, with this seed.
fn successor(ticket: &SessionTicket, seed: u64) -> Pair {
    Pair::new(|config| {
        config.session = Some(Box::new(ticket.clone()));
        config.seed = seed;
    })
}

fn leave(pair: &mut Pair) -> Result<(), std::time::Duration> {
    let (now, request) = (pair.now, get("/", false));
    let left = pair.machine.submit_last(now, LAST, request);
    pair.pump();
    left.map_err(|until| until - now)
}

#[test]
fn a_session_is_left_when_all_is_answered_and_not_closed() {
    let mut pair = Pair::connected(|_| {});
    pair.see(0x77);
    pair.submit(get("/a", false));
    assert_eq!(leave(&mut pair), Ok(()));
    assert_eq!(pair.ops(), [OpCode::GET_DATA; 2]);
    let refused = pair.submit(get("/late", false));
    assert_eq!(*pair.error(refused).kind(), ErrorKind::Closed);
    let ticket = pair.machine.link().ticket();
    pair.machine.close(pair.now);
    pair.pump();
    assert_eq!(pair.ops(), [], "the session is not closed");
    assert_eq!(pair.states().last(), Some(&State::Closed));
    let handshake = successor(&ticket, 1).reach();
    let password = handshake.password.as_deref();
    assert_eq!((handshake.session_id, password), (ID, Some(PASSWORD)));
    assert_eq!(handshake.last_zxid_seen, Zxid(0x77));
}

/// The write may be applied when the session has moved, and a handshake makes it valid again.
#[test]
fn no_session_is_left_while_a_server_may_have_a_write() {
    let mut pair = Pair::connected(|_| {});
    write(&mut pair);
    pair.reconnect();
    let wait = leave(&mut pair).unwrap_err();
    assert!(wait > SECOND, "{wait:?}");
    let xid = write(&mut pair);
    answer(&mut pair, xid);
    assert_eq!(leave(&mut pair), Ok(()));
}

/// A proof is a write: a server could have it when the session has moved.
#[test]
fn no_proof_of_the_lease_follows_the_last_request() {
    let mut pair = Pair::connected(|_| {});
    let _token = keep(&mut pair);
    assert_eq!(leave(&mut pair), Ok(()));
    assert_eq!(pair.ops(), [OpCode::GET_DATA]);
    pair.wait(THIRD);
    let sent = pair.ops();
    assert!(sent.iter().all(|op| *op == OpCode::PING), "{sent:?}");
}

/// A machine that is to leave the session to others does so until the session is its own.
#[test]
fn a_machine_closes_only_a_session_of_its_own() {
    let ticket = {
        let pair = Pair::connected(|_| {});
        pair.machine.link().ticket()
    };
    for is_own in [false, true] {
        let mut pair = Pair::new(|config| {
            config.session = Some(Box::new(ticket.clone()));
            config.leaves_session = true;
        });
        pair.connect();
        if is_own {
            pair.machine.own_session();
        }
        pair.machine.close(pair.now);
        pair.pump();
        let closes: &[_] = if is_own {
            &[OpCode::CLOSE_SESSION]
        } else {
            &[]
        };
        assert_eq!(pair.ops(), closes);
    }
}

/// A follower finds the request that a commit answers by session and number.
#[test]
fn two_successors_number_their_requests_from_different_numbers() {
    let pair = Pair::connected(|_| {});
    let ticket = pair.machine.link().ticket();
    let mut firsts: Vec<_> = (0..100)
        .map(|seed| {
            let mut successor = successor(&ticket, seed);
            successor.connect();
            write(&mut successor).0
        })
        .collect();
    firsts.sort_unstable();
    assert!(firsts.iter().all(|first| *first > 0));
    assert!(firsts.windows(2).all(|two| two[0] + 100 < two[1]));
}

/// Nobody knows when the leader was last told of the session: it may have decided to end it.
#[test]
fn the_lease_of_a_successor_is_proved_by_a_write_a_sixth_later() {
    let ticket = Pair::connected(|_| {}).machine.link().ticket();
    let mut pair = Pair::new(|config| {
        config.session = Some(Box::new(ticket));
        config.session_timeout = TIMEOUT * 2;
    });
    pair.reach();
    let sent = pair.now;
    pair.accept(ID, TIMEOUT * 2);
    let written = |pair: &mut Pair| {
        let xid = write(pair);
        answer(pair, xid);
    };
    written(&mut pair);
    assert_eq!(lease(&pair), None);
    pair.now = sent + SIXTH;
    written(&mut pair);
    let granted = pair.machine.link().session_timeout();
    assert_eq!((lease(&pair), granted), (Some(sent + length()), TIMEOUT));
}

#[test]
fn a_successor_of_an_expired_session_has_a_new_one() {
    let ticket = Pair::connected(|_| {}).machine.link().ticket();
    let mut pair = successor(&ticket, 1);
    pair.reach();
    pair.refuse_session();
    assert_eq!(pair.reach().session_id, SessionId::NONE);
}

#[test]
fn bytes_that_are_no_ticket_are_refused() {
    let ticket = Pair::connected(|_| {}).machine.link().ticket();
    let bytes = ticket.to_bytes();
    assert_eq!(SessionTicket::from_bytes(&bytes), Ok(ticket.clone()));
    for length in 0..bytes.len() {
        assert!(SessionTicket::from_bytes(&bytes[..length]).is_err());
    }
    let longer = [&bytes[..], b"x"].concat();
    let error = SessionTicket::from_bytes(&longer).unwrap_err();
    assert!(
        error.to_string().contains("not what was asked for"),
        "{error}"
    );
    let other = [&[0, 0, 0, 2], &bytes[4..]].concat();
    let error = SessionTicket::from_bytes(&other).unwrap_err();
    assert_eq!(
        error.to_string(),
        "SessionTicket.format at byte 4: unknown type 2"
    );
    // The timeout stands behind the format, the id and the password.
    let at = 4 + 8 + 4 + PASSWORD.len();
    for millis in [-1, 0, 59] {
        let mut other = bytes.clone();
        other[at..at + 4].copy_from_slice(&i32::to_be_bytes(millis));
        let error = SessionTicket::from_bytes(&other).unwrap_err();
        assert_eq!(error.field, "SessionTicket.timeout", "{error}");
    }
    let shown = format!("{ticket:?}");
    assert!(!shown.contains("sixteen"), "{shown}");
}
