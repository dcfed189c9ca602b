//! Each part of the machine by itself, without the others.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    ErrorCode, EventType, OpCode, Request, SessionId, Xid, Zxid,
    connect::ConnectResponse,
    header::ReplyHeader,
    jute::{Encode, Writer},
};

use super::{
    pair::{ID, PASSWORD, SECOND, TIMEOUT, birth},
    requests::{get, lost, sync},
};
use crate::{
    Cause, Config, Error, LeasePolicy, State,
    machine::{
        Encoded, Event, Notice, RequestOptions, WatchId,
        config::Timing,
        lease::Lease,
        link::{Change, Link},
        requests::{Overdue, Requests},
        watches::{Ask, Leaves, Tell, Watches},
    },
};

fn config() -> Config {
    let mut config = Config::new(&"zk1:2181".parse().unwrap(), 1);
    config.session_timeout = TIMEOUT;
    config
}

/// The answer of a server that grants this session.
fn granted(session_id: SessionId) -> Bytes {
    let mut frame = BytesMut::new();
    ConnectResponse {
        protocol_version: 0,
        timeout_ms: TIMEOUT.as_millis().try_into().unwrap(),
        session_id,
        password: Some(Bytes::from_static(PASSWORD)),
        read_only: Some(false),
    }
    .encode(&mut Writer::new(&mut frame));
    frame.freeze()
}

/// The changes of a link, each as a word.
fn changes(link: &mut Link) -> Vec<String> {
    let changes = std::iter::from_fn(|| link.poll_change());
    let words = changes.map(|change| match change {
        Change::State(snapshot) => format!("{:?} {}", snapshot.state, snapshot.session_id),
        Change::Opened { is_new, .. } => format!("opened, new: {is_new}"),
        Change::Closed(error) | Change::SessionOver(error) => error.to_string(),
        Change::Connect(_) => "connect".to_owned(),
        Change::Disconnect => "disconnect".to_owned(),
    });
    words.collect()
}

#[test]
fn a_link_says_that_a_session_is_over_before_it_opens_with_the_next_one() {
    let now = birth();
    let mut link = Link::new(config(), now);
    assert!(!link.tick(now, false));
    link.connected(now);
    assert!(link.has_unsent());
    assert_eq!(link.frame(now, granted(ID)), None);
    let connected = format!("Connected {ID}");
    assert_eq!(
        changes(&mut link),
        ["connect", "opened, new: true", &connected]
    );
    let frame = Bytes::from_static(b"for the requests");
    assert_eq!(link.frame(now, frame.clone()), Some(frame));

    link.disconnected(now, Cause::ClosedByServer);
    let suspended = format!("Suspended {ID}");
    let closed = Error::lost(lost("zk1", Cause::ClosedByServer)).to_string();
    assert_eq!(changes(&mut link), [suspended, closed]);
    let now = link.next_deadline(false).unwrap();
    link.tick(now, false);
    link.connected(now);
    let other = SessionId(0x200);
    link.frame(now, granted(other));
    let (over, expired) = (
        format!("session {ID} expired (reported by zk1:2181)"),
        format!("Expired {}", SessionId::NONE),
    );
    let (connecting, connected) = (
        format!("Connecting {}", SessionId::NONE),
        format!("Connected {other}"),
    );
    assert_eq!(
        changes(&mut link),
        [
            "connect",
            &expired,
            &over,
            &connecting,
            "opened, new: true",
            &connected
        ]
    );
}

#[test]
fn a_link_pings_and_gives_a_silent_server_up() {
    let mut now = birth();
    let mut link = Link::new(config(), now);
    link.tick(now, false);
    link.connected(now);
    link.frame(now, granted(ID));
    now += TIMEOUT / 6;
    assert_eq!(link.next_deadline(false), Some(now));
    assert!(link.tick(now, false) && link.has_unsent());
    link.transmit(&mut BytesMut::new());
    now += TIMEOUT / 2;
    assert_eq!(
        link.next_deadline(false),
        Some(now),
        "two thirds of the timeout"
    );
    changes(&mut link);
    link.tick(now, false);
    let silent = Error::lost(lost("zk1", Cause::Silent(TIMEOUT * 2 / 3)));
    assert_eq!(changes(&mut link)[2..], [silent.to_string()]);
    assert_eq!((link.state(), link.session_id()), (State::Suspended, ID));
}

/// A reply with this number.
fn reply(xid: i32) -> ReplyHeader {
    let (xid, zxid, err) = (Xid(xid), Zxid(7), ErrorCode::OK);
    ReplyHeader { xid, zxid, err }
}

#[test]
fn requests_are_answered_in_order_and_those_of_callers_outlive_a_connection() {
    let now = birth();
    let mut requests = Requests::new(&config(), now);
    let options = Some(RequestOptions::at(now));
    for name in ["a", "b", "c"] {
        requests.push(sync("/").into(), name, options);
    }
    requests.push(sync("/").into(), "own", None);
    let mut out = BytesMut::new();
    for xid in 1..=2 {
        assert_eq!(requests.next(false), Some(OpCode::SYNC));
        requests.send(now, Xid(xid), &mut out);
    }
    assert_eq!((requests.in_flight(), requests.queued()), (2, 2));
    assert!(
        requests
            .answered(now, Some(&reply(2)))
            .is_err_and(|expected| expected == Some(Xid(1)))
    );
    assert_eq!(
        requests.answered(now, Some(&reply(1))).unwrap().reply_to,
        "a"
    );
    let lost = requests.closed();
    assert_eq!(lost, [(OpCode::SYNC, "b"), (OpCode::SYNC, "own")]);
    assert_eq!((requests.in_flight(), requests.queued()), (0, 1));
    assert_eq!(requests.take_first(), Some((OpCode::SYNC, "c")));
}

#[test]
fn a_deadline_ends_a_request_that_waits_and_spares_one_that_was_sent() {
    let now = birth();
    let mut requests = Requests::new(&config(), now);
    let deadline = Some(now + SECOND);
    let options = RequestOptions {
        since: now,
        deadline,
    };
    for name in ["sent", "waits"] {
        requests.push(sync("/").into(), name, Some(options));
    }
    requests.send(now, Xid(1), &mut BytesMut::new());
    assert!(requests.overdue(now).is_none());
    let now = requests.next_deadline().unwrap();
    let (overdue, _) = requests.overdue(now).unwrap();
    assert!(matches!(overdue, Overdue::Sent(sent) if sent.reply_to == "sent"));
    let (overdue, _) = requests.overdue(now).unwrap();
    assert!(matches!(overdue, Overdue::Unsent((_, "waits"))));
    assert!(requests.overdue(now).is_none() && requests.next_deadline().is_none());
    assert_eq!((requests.in_flight(), requests.queued_bytes()), (1, 0));
}

/// What the watches say.
#[derive(Default)]
struct Words {
    told: Vec<(WatchId, Result<Event, Error>)>,
    sent: Vec<(OpCode, Ask)>,
}

impl Tell for Words {
    fn tell(&mut self, id: WatchId, last: Result<Event, Error>) {
        self.told.push((id, last));
    }

    fn notice(&mut self, id: WatchId, notice: Notice) {
        panic!("{id:?} is not persistent: {notice:?}");
    }

    fn send(&mut self, request: Request, ask: Ask) -> Result<u64, Error> {
        self.sent.push((request.op(), ask));
        Ok(u64::try_from(self.sent.len()).unwrap())
    }
}

#[test]
fn watches_keep_events_back_until_all_of_them_are_restored() {
    let (mut watches, mut words) = (Watches::default(), Words::default());
    let ids = watches.watch_nodes(["/a".to_owned()].into_iter(), Zxid(3), 1000, &mut words);
    assert!(words.sent.is_empty(), "there is no connection");
    let requests = watches.restore(Zxid(5), 1000);
    let [(request, ask)] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    assert_eq!(
        (request.op(), *ask),
        (OpCode::SET_WATCHES, Ask::Restore { since: Zxid(5) })
    );
    let (event_type, path) = (EventType::NODE_DELETED, "/a".to_owned());
    let event = Event { event_type, path };
    watches.event(event.clone(), &mut words).unwrap();
    assert_eq!(words.told, []);
    watches.answered(*ask, 0, &mut words);
    assert_eq!(words.told, [(ids[0], Ok(event))]);
    assert_eq!(watches.len(), 0);
}

#[test]
fn a_watch_whose_listener_has_gone_is_removed_when_its_request_is_answered() {
    let (mut watches, mut words) = (Watches::default(), Words::default());
    watches.restore(Zxid::ZERO, 1000);
    let mut request = Encoded::from(get("/a", true));
    let leaves: Leaves = request.take_leaves().unwrap();
    let pending = watches.announce(leaves, &mut words).unwrap();
    watches.cancel(pending.id(), &mut words);
    assert!(words.sent.is_empty());
    watches.settle(&pending, Some(ErrorCode::OK), &mut words);
    assert_eq!(words.sent, [(OpCode::REMOVE_WATCHES, Ask::Remove)]);
}

#[test]
fn two_writes_prove_a_lease_and_the_end_of_the_session_ends_it() {
    let born = birth();
    let timing = Timing::new(&config(), TIMEOUT);
    let mut lease = Lease::new(LeasePolicy::Proved);
    lease.begin(born, born, TIMEOUT, true);
    let first = lease.deadline(&timing).unwrap();
    let _token = lease.keep();
    let touched = born + SECOND;
    lease.touched(touched, touched);
    let mut now = touched + TIMEOUT / 3;
    for xid in [Xid(1), Xid(2)] {
        lease.sent(now, xid);
        lease.write_answered(xid, Some(ErrorCode::OK));
        now += Duration::from_millis(1);
    }
    assert_eq!(lease.deadline(&timing), Some(first + SECOND));
    lease.end();
    assert_eq!(lease.deadline(&timing), None);
}
