//! Each fact is broken once, in a record that is right otherwise: `accept` must say so.

use std::time::Duration;

use crate::{
    FACTS,
    accept::{Settings, accept},
    record::{Event, Record, Sent},
    wire::{CLOSE_SESSION, CREATE_SESSION},
};

const TICK: u64 = 200;
/// The timeout of the sessions.
const TIMEOUT: i32 = 1000;
/// A link to the first leader, and to the second.
const FIRST: usize = 1;
const SECOND: usize = 2;

fn broken(record: &Record) -> Vec<&'static str> {
    let settings = Settings {
        tick: Duration::from_millis(TICK),
        sync_ticks: 5,
        slack: Duration::from_millis(200),
        to_proposal: Duration::from_millis(150),
    };
    let mut record = record.clone();
    record.sort_by_key(|(at, _)| *at);
    let (broken, _) = accept(&record, settings);
    let mut facts: Vec<_> = broken.iter().map(|(fact, _)| *fact).collect();
    facts.dedup();
    facts
}

/// A record under construction, with times in milliseconds.
#[derive(Default)]
struct Making(Record);

impl Making {
    fn at(&mut self, ms: u64, event: Event) {
        self.0.push((Duration::from_millis(ms), event));
    }

    /// A follower serves.
    fn begin(&mut self, ms: u64, link: usize, leader: usize) {
        let epoch = i64::try_from(link).unwrap();
        self.at(
            ms,
            Event::Linked {
                link,
                follower: 0,
                leader,
            },
        );
        self.at(ms, Event::NewLeader { link, epoch });
        self.at(ms, Event::Ping { link });
        self.at(ms, Event::UpToDate { link });
    }

    /// A transaction, and its commit after 4 ms.
    fn commit(&mut self, ms: u64, link: usize, counter: i64, session: i64, xid: i32, kind: i32) {
        let zxid = (i64::try_from(link).unwrap() << 32) + counter;
        let timeout = if kind == CREATE_SESSION { TIMEOUT } else { 0 };
        self.at(
            ms,
            Event::Proposal {
                link,
                zxid,
                session,
                xid,
                kind,
                timeout,
            },
        );
        self.at(ms + 2, Event::Ack { link, zxid });
        self.at(ms + 4, Event::Commit { link, zxid });
    }

    /// Pings every half tick, and their answers after 2 ms. `told` are times and sessions.
    fn pings(&mut self, link: usize, from: u64, to: u64, told: &[(u64, i64)]) {
        let mut last = from;
        for now in (from..to).step_by(100) {
            let told = told.iter().filter(|(at, _)| *at < now && *at >= last);
            let sessions = told.map(|(_, session)| *session).collect();
            self.at(now, Event::Ping { link });
            self.at(
                now + 2,
                Event::Touches {
                    link,
                    sessions,
                    is_withheld: false,
                },
            );
            last = now;
        }
    }

    fn request(&mut self, ms: u64, client: usize, xid: i32, what: Sent) {
        self.at(ms, Event::Sent { client, xid, what });
    }
}

/// One session is touched at 110, writes at 310 and at 520, and ends at 1800. Another one is left
/// to the next leader, which begins at 3000; its follower was cut off at 1910, and gave up at 2901.
fn good() -> Record {
    let mut it = Making::default();
    it.begin(0, FIRST, 1);
    for (begin, client, session) in [(20, 10, 100), (25, 11, 101)] {
        let counter = session - 99;
        it.at(
            begin,
            Event::Connect {
                client,
                server: 0,
                session: 0,
            },
        );
        it.at(
            begin + 1,
            Event::Request {
                link: FIRST,
                session,
                xid: 0,
                kind: CREATE_SESSION,
            },
        );
        it.commit(begin + 2, FIRST, counter, session, 0, CREATE_SESSION);
        it.at(begin + 7, Event::Connected { client, session });
    }
    it.request(110, 10, 1, Sent::Touch);
    it.at(111, Event::Answered { client: 10, xid: 1 });
    for (ms, xid) in [(310, 2), (520, 3)] {
        it.request(ms, 10, xid, Sent::Write);
        it.at(
            ms + 1,
            Event::Request {
                link: FIRST,
                session: 100,
                xid,
                kind: 5,
            },
        );
        it.commit(ms + 2, FIRST, i64::from(xid) + 10, 100, xid, 5);
        it.at(ms + 7, Event::Answered { client: 10, xid });
    }
    for (ms, xid) in [(1310, 1), (1930, 2)] {
        it.request(ms, 11, xid, Sent::Touch);
        it.at(ms + 1, Event::Answered { client: 11, xid });
    }
    // A write of the other session shows that what was told before it was handled.
    it.request(710, 11, 9, Sent::Write);
    it.at(
        711,
        Event::Request {
            link: FIRST,
            session: 101,
            xid: 9,
            kind: 5,
        },
    );
    it.commit(712, FIRST, 20, 101, 9, 5);
    it.at(717, Event::Answered { client: 11, xid: 9 });
    it.at(1790, Event::Left { client: 10 });
    it.commit(1800, FIRST, 30, 100, 0, CLOSE_SESSION);
    let told = [
        (30, 100),
        (35, 101),
        (111, 100),
        (311, 100),
        (521, 100),
        (711, 101),
        (1311, 101),
    ];
    it.pings(FIRST, 50, 1950, &told);
    it.at(1960, Event::Cut { server: 0 });
    it.request(1970, 11, 3, Sent::Touch);
    it.at(1971, Event::Answered { client: 11, xid: 3 });
    it.at(2955, Event::Lost { client: 11 });
    it.begin(3000, SECOND, 2);
    it.pings(SECOND, 3050, 4300, &[]);
    it.commit(4200, SECOND, 1, 101, 0, CLOSE_SESSION);
    it.at(4320, Event::Unlinked { link: SECOND });
    it.0
}

/// Moves what matches to another time.
fn moved(record: &Record, to: u64, those: impl Fn(&Event) -> bool) -> Record {
    let mut record = record.clone();
    let found = record.iter_mut().filter(|(_, event)| those(event));
    let mut count = 0;
    for (at, _) in found {
        *at = Duration::from_millis(to);
        count += 1;
    }
    assert!(count > 0, "nothing to move");
    record
}

fn without(record: &Record, those: impl Fn(&Event) -> bool) -> Record {
    let left: Record = record
        .iter()
        .filter(|(_, event)| !those(event))
        .cloned()
        .collect();
    assert!(left.len() < record.len(), "nothing to leave out");
    left
}

fn ends(of: i64) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Proposal { session, kind: CLOSE_SESSION, .. } if *session == of)
}

/// The deviations, by the fact that each breaks.
#[allow(clippy::too_many_lines, reason = "a list")]
fn deviations() -> Vec<(&'static str, &'static str, Record)> {
    use Event as E;
    let good = good();
    let change = |those: &dyn Fn(&mut Event)| {
        let mut record = good.clone();
        for (_, event) in &mut record {
            those(event);
        }
        assert!(record != good, "nothing to change");
        record
    };
    let forgets = change(&|event| {
        if let E::Touches { sessions, .. } = event {
            // The touch of 310, which no later one stands for.
            sessions.retain(|session| *session != 101);
        }
    });
    let invents = change(&|event| {
        if let E::Touches {
            link: SECOND,
            sessions,
            ..
        } = event
        {
            sessions.push(102);
        }
    });
    let mut extended = moved(&good, 2300, ends(100));
    let writes = [(800, 40), (1000, 41), (1200, 42), (1400, 43)];
    for (ms, xid) in writes {
        let request = E::Request {
            link: FIRST,
            session: 100,
            xid,
            kind: 5,
        };
        extended.push((Duration::from_millis(ms), request));
    }
    let mut stale = good.clone();
    stale.push((
        Duration::from_millis(3500),
        E::Sent {
            client: 11,
            xid: 5,
            what: Sent::Touch,
        },
    ));
    stale.push((
        Duration::from_millis(3501),
        E::Answered { client: 11, xid: 5 },
    ));
    vec![
        (
            "F1",
            "a session ends too early",
            moved(&good, 1400, ends(100)),
        ),
        (
            "F1",
            "a session lives too long",
            moved(&good, 2900, ends(100)),
        ),
        ("F2", "a follower forgets a session", forgets),
        (
            "F2",
            "a follower tells of a session that it has not heard of",
            invents,
        ),
        (
            "F2",
            "a follower does not answer a ping",
            without(&good, |it| matches!(it, E::Touches { link: SECOND, .. })),
        ),
        (
            "F2",
            "a leader does not ping",
            without(&good, |it| {
                matches!(
                    it,
                    E::Ping { link: SECOND } | E::Touches { link: SECOND, .. }
                )
            }),
        ),
        ("F3", "writes extend a session", extended),
        ("F4", "a request overtakes the answers to pings", {
            let mut record = good.clone();
            for (at, event) in &mut record {
                if matches!(event, E::Touches { link: FIRST, .. })
                    && *at > Duration::from_millis(200)
                    && *at < Duration::from_millis(522)
                {
                    *at = Duration::from_millis(540);
                }
            }
            record
        }),
        (
            "F4",
            "a leader changes the order of requests",
            change(&|event| match event {
                E::Proposal { zxid, xid: 2, .. } | E::Commit { zxid, .. } | E::Ack { zxid, .. }
                    if *zxid == (1 << 32) + 12 =>
                {
                    *zxid += 100;
                }
                _ => {}
            }),
        ),
        (
            "F5",
            "a follower that is cut off gives up at once",
            moved(&good, 2100, |it| matches!(it, E::Lost { .. })),
        ),
        (
            "F5",
            "a follower that is cut off goes on",
            moved(&good, 3600, |it| matches!(it, E::Lost { .. })),
        ),
        (
            "F5",
            "a follower that is cut off does not answer",
            without(&good, |it| matches!(it, E::Answered { client: 11, xid: 3 })),
        ),
        (
            "F6",
            "a new leader ends a session of the former one",
            moved(&good, 3600, ends(101)),
        ),
        (
            "F6",
            "a former leader goes on",
            moved(
                &good,
                3500,
                |it| matches!(it, E::Ack { zxid, .. } if *zxid == (1 << 32) + 30),
            ),
        ),
        (
            "F7",
            "a write is answered before a majority has it",
            moved(
                &good,
                318,
                |it| matches!(it, E::Ack { zxid, .. } if *zxid == (1 << 32) + 12),
            ),
        ),
        (
            "F7",
            "a write is answered that was not proposed",
            without(&good, |it| matches!(it, E::Proposal { xid: 3, .. })),
        ),
        (
            "F8",
            "a session is answered before a majority has it",
            moved(&good, 21, |it| {
                matches!(it, E::Connected { client: 10, .. })
            }),
        ),
        ("F8", "a client of a former leader is answered", stale),
    ]
}

#[test]
fn a_record_of_right_servers_is_accepted() {
    assert_eq!(broken(&good()), [""; 0]);
}

#[test]
fn a_deviation_from_each_fact_is_found() {
    let mut facts = Vec::new();
    for (fact, what, record) in deviations() {
        let found = broken(&record);
        assert!(found.contains(&fact), "{what}: {fact} is not in {found:?}");
        facts.push(fact);
    }
    facts.dedup();
    assert_eq!(facts, FACTS);
}
