//! Each fact is broken once, in a record that is right otherwise: `accept` must say so.

use std::time::Duration;

use lockkeeper_test_support::proxy::Direction;

use crate::facts::{
    FACTS,
    accept::{Settings, accept},
    record::{Asked, Of, Record, Sent, What},
    wire::{CLOSE_SESSION, CREATE_SESSION},
};

/// A link to the leader of the first epoch, of the second, and of a later one.
const FIRST: Of = Of::Link(1);
const SECOND: Of = Of::Link(2);
const LATER: Of = Of::Link(3);

/// Clients and sessions. The first leader ends `A`, and leaves the others to the second leader. It
/// is the server of `C`, and fails before it answers the handshake, and of `D`. The follower does not
/// answer the handshake of `E`.
const fn client(number: usize) -> Of {
    Of::Client(10 + number)
}
const A: i64 = 100;
const B: i64 = 101;
const C: i64 = 102;
const D: i64 = 103;
const E: i64 = 104;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn broken(record: &Record) -> Vec<&'static str> {
    let settings = Settings {
        slack: ms(200),
        to_message: ms(150),
    };
    let mut record = record.clone();
    record.sort_by_key(|(at, ..)| *at);
    let broken = accept(&record, settings).broken;
    broken.iter().map(|it| it.0.0).collect()
}

/// The number of a transaction.
const fn zxid(epoch: i64, counter: i64) -> i64 {
    (epoch << 32) + counter
}

/// A transaction, and its commit after 4 ms.
fn commit(record: &mut Record, at: u64, zxid: i64, asked: Asked) {
    let of = match zxid >> 32 {
        1 => FIRST,
        2 => SECOND,
        _ => LATER,
    };
    let timeout = ms(if asked.2 == CREATE_SESSION { 1000 } else { 0 });
    record.push((ms(at), of, What::Proposal(zxid, asked, timeout)));
    record.push((ms(at + 2), of, What::Ack(zxid)));
    record.push((ms(at + 4), of, What::Commit(zxid)));
}

/// A request that becomes a transaction, and its answer after 7 ms.
fn asked(record: &mut Record, at: u64, zxid: i64, asked: Asked) {
    let of = client(usize::try_from(asked.0 - A).unwrap());
    let (sent, answer) = match asked.2 {
        CREATE_SESSION => (What::Connect(0, 0), What::Connected(asked.0)),
        _ => (What::Sent(asked.1, Sent::Write), What::Answered(asked.1)),
    };
    record.push((ms(at), of, sent));
    record.push((ms(at + 1), FIRST, What::Request(asked)));
    commit(record, at + 2, zxid, asked);
    record.push((ms(at + 7), of, answer));
}

fn read(record: &mut Record, at: u64, number: usize, xid: i32) {
    record.push((ms(at), client(number), What::Sent(xid, Sent::Touch)));
    record.push((ms(at + 1), client(number), What::Answered(xid)));
}

/// A follower serves, and answers pings every half tick. `told` are times and sessions. Server 1 leads
/// in odd epochs, server 2 in even ones.
fn link(record: &mut Record, at: u64, of: Of, epoch: usize, to: u64, told: &[(u64, i64)]) {
    let new_leader = What::NewLeader(i64::try_from(epoch).unwrap());
    let linked = What::Linked(0, 2 - epoch % 2);
    record.push((ms(at.saturating_sub(1)), of, linked));
    for what in [new_leader, What::Ping, What::UpToDate] {
        record.push((ms(at), of, what));
    }
    for now in (at + 50..to).step_by(100) {
        let told = told.iter().filter(|(at, _)| *at < now && *at + 100 >= now);
        let sessions = told.map(|(_, session)| *session).collect();
        record.push((ms(now), of, What::Ping));
        record.push((ms(now + 2), of, What::Touches(sessions, false)));
    }
}

/// `A` is touched at 110, writes at 310 and at 520, and ends at 1800. At 1960 something is cut: the
/// follower gives up at 2955, and the leader at 3050. The next leader begins at 3000.
fn good(fact: &str) -> Record {
    let mut it = Record::new();
    let told = [(30, A), (35, B), (111, A), (311, A), (521, A)];
    let told = [&told[..], &[(711, B), (1311, B), (1841, E)]].concat();
    link(&mut it, 0, FIRST, 1, 1950, &told);
    asked(&mut it, 20, zxid(1, 1), Asked(A, 0, CREATE_SESSION));
    asked(&mut it, 25, zxid(1, 2), Asked(B, 0, CREATE_SESSION));
    read(&mut it, 110, 0, 1);
    asked(&mut it, 310, zxid(1, 12), Asked(A, 2, 5));
    asked(&mut it, 520, zxid(1, 13), Asked(A, 3, 5));
    // It shows that what was told before it was handled.
    asked(&mut it, 710, zxid(1, 20), Asked(B, 9, 5));
    read(&mut it, 1310, 1, 1);
    it.push((ms(1400), client(3), What::Connect(1, 0)));
    commit(&mut it, 1402, zxid(1, 25), Asked(D, 0, CREATE_SESSION));
    it.push((ms(1408), client(3), What::Connected(D)));
    it.push((ms(1790), client(0), What::Left));
    commit(&mut it, 1800, zxid(1, 30), Asked(A, 0, CLOSE_SESSION));
    // Told before it is asked for.
    it.push((ms(1840), client(4), What::Connect(0, 0)));
    let made = Asked(E, 0, CREATE_SESSION);
    it.push((ms(1853), FIRST, What::Request(made)));
    commit(&mut it, 1854, zxid(1, 31), made);
    it.push((ms(1920), client(2), What::Connect(1, 0)));
    commit(&mut it, 1921, zxid(1, 32), Asked(C, 0, CREATE_SESSION));
    read(&mut it, 1930, 1, 2);
    let (server, lost) = match fact {
        "F5 down" => (0, Some(Direction::FromServer)),
        "F5 up" => (0, Some(Direction::ToServer)),
        "F5 alone" | "F7 cut" => (1, None),
        _ => (0, None),
    };
    it.push((ms(1960), Of::Server(server), What::Cut(lost)));
    if lost == Some(Direction::ToServer) {
        // The follower hears its leader until the leader closes the link.
        it.extend(
            (1961..2940)
                .step_by(100)
                .map(|at| (ms(at), FIRST, What::Ping)),
        );
        it.push((ms(2945), FIRST, What::Unlinked));
    }
    read(&mut it, 1970, 1, 3);
    read(&mut it, 1970, 3, 3);
    it.push((ms(2955), client(1), What::Lost));
    it.push((ms(2955), client(4), What::Lost));
    it.push((ms(3050), client(3), What::Lost));
    link(&mut it, 3000, SECOND, 2, 4300, &[]);
    if fact == "F5 alone" {
        // The former leader had ended it alone. Nobody knows when.
        let end = Asked(B, 0, CLOSE_SESSION);
        it.push((ms(2999), SECOND, What::Proposal(zxid(1, 40), end, ms(0))));
        it.push((ms(2999), SECOND, What::Commit(zxid(1, 40))));
        // And it had logged a write, which the follower logs when it serves.
        let write = Asked(D, 50, 5);
        it.push((ms(2999), SECOND, What::Proposal(zxid(1, 41), write, ms(0))));
        it.push((ms(2999), SECOND, What::Commit(zxid(1, 41))));
        it.push((ms(3001), SECOND, What::Ack(zxid(1, 41))));
    }
    for (at, counter, session) in [(4200, 1, B), (4205, 2, C), (4210, 3, D), (4215, 4, E)] {
        commit(
            &mut it,
            at,
            zxid(2, counter),
            Asked(session, 0, CLOSE_SESSION),
        );
    }
    it.push((ms(4320), SECOND, What::Unlinked));
    it
}

/// What is done to all events that match.
enum Change {
    /// They happen at another time, in milliseconds.
    At(u64),
    Gone,
    To(fn(&mut What)),
}
use Change::{At, Gone, To};

type Those = fn(&Duration, Of, &What) -> bool;

fn ends(what: &What, session: i64) -> bool {
    matches!(what, What::Proposal(_, Asked(it, _, CLOSE_SESSION), _) if *it == session)
}

/// The fact, which names the record, what breaks it, which events, and what is done to them.
#[rustfmt::skip]
const DEVIATIONS: [(&str, &str, Those, Change); 29] = [
    ("F1", "a session ends too early", |_, _, it| ends(it, A), At(1400)),
    ("F1", "a session lives too long", |_, _, it| ends(it, A), At(2900)),
    // The touch of 310, which no later one stands for.
    ("F2", "a follower forgets a session", |at, _, it| *at < ms(1000) && matches!(it, What::Touches(..)),
        To(|it| if let What::Touches(sessions, _) = it { sessions.retain(|it| *it != B) })),
    ("F2", "a follower tells of a session that it has not heard of",
        |_, of, it| of == SECOND && matches!(it, What::Touches(..)), To(|it| *it = What::Touches(vec![C], false))),
    ("F2", "a follower tells of a session that nobody wants",
        |_, of, it| of == client(4) && *it == What::Connect(0, 0), Gone),
    ("F2", "a follower does not answer pings", |_, of, it| of == SECOND && matches!(it, What::Touches(..)), Gone),
    ("F2", "a leader does not ping", |_, of, it| of == SECOND && matches!(it, What::Ping | What::Touches(..)), Gone),
    // The session ends half a second later, and has written until shortly before that.
    ("F3", "writes extend a session", |_, _, it| ends(it, A), At(2400)),
    ("F4", "a request overtakes the answers to pings",
        |at, _, it| (ms(200)..ms(522)).contains(at) && matches!(it, What::Touches(..)), At(540)),
    ("F4", "a leader changes the order of requests",
        |_, _, it| matches!(it, What::Proposal(zxid, ..) | What::Ack(zxid) | What::Commit(zxid) if *zxid == zxid_of_write()),
        To(|it| if let What::Proposal(zxid, ..) | What::Ack(zxid) | What::Commit(zxid) = it { *zxid += 100; })),
    ("F5", "a follower that is cut off gives up at once", |_, _, it| *it == What::Lost, At(2100)),
    ("F5", "a follower that is cut off goes on", |_, _, it| *it == What::Lost, At(3600)),
    ("F5", "a follower that is cut off does not answer", |_, of, it| of == client(1) && *it == What::Answered(3), Gone),
    ("F5 down", "a follower that does not hear its leader gives up at once", |_, _, it| *it == What::Lost, At(2100)),
    ("F5 down", "such a follower goes on", |_, _, it| *it == What::Lost, At(3600)),
    ("F5 down", "such a follower does not answer", |_, of, it| of == client(1) && *it == What::Answered(3), Gone),
    ("F5 alone", "a leader without a majority gives up at once", |_, _, it| *it == What::Lost, At(2100)),
    ("F5 alone", "such a leader goes on", |_, _, it| *it == What::Lost, At(3600)),
    ("F5 alone", "such a leader does not answer", |_, of, it| of == client(3) && *it == What::Answered(3), Gone),
    ("F5 up", "a leader drops a follower at once that it does not hear", |_, _, it| *it == What::Lost, At(2100)),
    ("F5 up", "a leader keeps such a follower", |_, _, it| *it == What::Lost, At(3600)),
    ("F5 up", "such a follower does not answer", |_, of, it| of == client(1) && *it == What::Answered(3), Gone),
    ("F6", "a new leader ends a session of the former one", |_, _, it| ends(it, B), At(3600)),
    ("F6", "a former leader goes on", |_, _, it| *it == What::Ack(zxid(1, 30)), At(3500)),
    ("F7", "a write is answered before a majority has it", |_, _, it| *it == What::Ack(zxid_of_write()), At(318)),
    ("F7", "a write is answered that was not proposed", |_, _, it| matches!(it, What::Proposal(_, Asked(_, 3, _), _)), Gone),
    ("F7 cut", "a leader without a majority answers a write",
        |_, of, it| of == client(3) && matches!(it, What::Sent(..)), To(|it| *it = What::Sent(3, Sent::Write))),
    ("F8", "a session is answered before a majority has it", |_, _, it| *it == What::Connected(A), At(21)),
    ("F8", "a client of a former leader is answered", |_, of, it| of == client(1) && *it == What::Answered(3), At(3501)),
];

/// The first write of `A`.
const fn zxid_of_write() -> i64 {
    zxid(1, 12)
}

#[test]
fn a_record_of_right_servers_is_accepted() {
    for fact in FACTS {
        assert_eq!(broken(&good(fact)), [""; 0], "{fact}");
    }
}

#[test]
fn a_deviation_from_each_fact_is_found() {
    let mut facts = Vec::new();
    for (fact, name, those, change) in DEVIATIONS {
        let mut record = good(fact);
        if fact == "F3" {
            for (at, xid) in [(800, 40), (1000, 41), (1200, 42), (1400, 43)] {
                record.push((ms(at), FIRST, What::Request(Asked(A, xid, 5))));
            }
        }
        let mut count = 0;
        record.retain_mut(|(at, of, what)| {
            let is_meant = those(at, *of, what);
            count += usize::from(is_meant);
            match change {
                At(to) if is_meant => *at = ms(to),
                To(to) if is_meant => to(what),
                _ => {}
            }
            !(is_meant && matches!(change, Gone))
        });
        assert!(count > 0, "{name}: nothing to change");
        let found = broken(&record);
        assert!(found.contains(&fact), "{name}: {fact} is not in {found:?}");
        facts.push(fact);
    }
    facts.dedup();
    assert_eq!(facts, FACTS);
}

/// The first leader was alone for longer than the timeout of `B`, `D` and `E`.
#[test]
fn only_a_leader_that_was_alone_may_have_lost_a_session_when_it_leads_again() {
    for (epoch, expected) in [(3, &[][..]), (4, &["F1"; 3])] {
        let mut it = good("F1");
        it.retain(|(at, of, _)| *of != SECOND || *at < ms(3400));
        it.push((ms(3400), SECOND, What::Unlinked));
        link(&mut it, 3500, LATER, epoch, 5500, &[]);
        let end = Asked(C, 0, CLOSE_SESSION);
        commit(&mut it, 4700, zxid(epoch.try_into().unwrap(), 1), end);
        it.push((ms(5510), LATER, What::Unlinked));
        assert_eq!(broken(&it), expected, "{epoch}");
    }
}
