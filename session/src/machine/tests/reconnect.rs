//! What becomes of requests when a connection is lost, which server the client tries next, and
//! when.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Duration,
};

use super::{
    pair::{Pair, SECOND, SIXTH, TIMEOUT},
    requests::{delete, lost, not_reached, servers, sync},
};
use crate::{
    Cause, Effect, Error, ErrorKind,
    machine::{Input, Output, RequestOptions},
};

/// The servers to which the machine wanted a connection since the outputs were last taken.
fn asked(pair: &mut Pair) -> Vec<String> {
    std::mem::take(&mut pair.outputs)
        .into_iter()
        .filter_map(|output| match output {
            Output::Connect(endpoint) => Some(endpoint.host.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn sent_requests_are_unknown_and_queued_ones_are_sent_on_the_next_connection() {
    let mut pair = Pair::connected(|_| {});
    let sent = pair.submit(delete("/sent"));
    let waiting = pair.submit_quietly(delete("/waiting")).0;
    pair.machine
        .handle(pair.now, Input::Disconnected(Cause::ClosedByServer));
    pair.cut();
    let error = pair.error(sent);
    let why = lost("zk1", Cause::ClosedByServer);
    assert_eq!(error, Error::lost(why));
    assert_eq!(error.effect(), Effect::Unknown);
    let later = pair.submit(delete("/later"));
    assert_eq!(pair.machine.outstanding(), 2);
    pair.connect();
    assert_eq!(pair.sent(), [delete("/waiting"), delete("/later")]);
    assert!(!pair.is_settled(waiting) && !pair.is_settled(later));
}

/// Once, an attempt that was still pending came on top of the sixteen.
#[test]
fn an_error_names_at_most_sixteen_servers() {
    let hosts: Vec<String> = (0..40).map(|number| format!("zk{number}")).collect();
    let mut pair = Pair::new(servers(&hosts.join(",")));
    let named = |pair: &Pair| match pair
        .machine
        .link()
        .unreachable(pair.now, Duration::ZERO)
        .kind()
    {
        ErrorKind::Unreachable { tried, .. } => tried.len(),
        other => panic!("{other:?}"),
    };
    for refused in 1..=30 {
        while asked(&mut pair).is_empty() {
            pair.wait(Duration::from_millis(10));
        }
        assert_eq!(named(&pair), refused.min(16));
        pair.machine
            .handle(pair.now, Input::Disconnected(Cause::ClosedInHandshake));
        pair.pump();
        assert_eq!(named(&pair), refused.min(16));
    }
}

#[test]
fn a_request_waits_for_a_connection_for_the_session_timeout() {
    let mut pair = Pair::new(servers("zk1,zk2"));
    let first = pair.submit(sync("/first"));
    pair.wait(SECOND);
    let second = pair.submit(sync("/second"));
    let mut refused = BTreeSet::new();
    while pair.now - pair.born < 8 * SECOND {
        pair.tick();
        if let Some(host) = asked(&mut pair).pop() {
            pair.handle(Input::Disconnected(down(&host)));
            refused.insert(host);
        }
    }
    assert!(!pair.is_settled(first));
    assert_eq!(refused.len(), 2);
    pair.wait((pair.born + TIMEOUT).duration_since(pair.now));
    let error = pair.error(first);
    assert_eq!(error.effect(), Effect::NotApplied);
    assert!(error.is_transient());
    let ErrorKind::Unreachable { waited, tried, .. } = error.kind() else {
        panic!("{error:?}");
    };
    assert_eq!(*waited, TIMEOUT);
    for host in ["zk1", "zk2"] {
        let why = not_reached(host, down(host));
        assert!(tried.contains(&why), "{tried:?}");
    }
    assert!(!pair.is_settled(second));
    pair.wait(SECOND);
    assert!(matches!(
        pair.error(second).kind(),
        ErrorKind::Unreachable { .. }
    ));
    assert_eq!(pair.machine.outstanding(), 0);
}

/// Once, the only server accepted connections and was silent. The error was "no server reached in
/// 10.0 s", without a reason.
#[test]
fn an_error_names_a_pending_attempt_too() {
    for (stands, cause) in [
        (true, Cause::HandshakeTimeout(TIMEOUT)),
        (false, Cause::ConnectTimeout(TIMEOUT)),
    ] {
        let mut pair = Pair::new(|config| config.server_timeout = Some(2 * TIMEOUT));
        let token = pair.submit(sync("/"));
        pair.tick();
        if stands {
            pair.stand();
        }
        pair.wait(TIMEOUT);
        let ErrorKind::Unreachable { tried, .. } = pair.error(token).kind().clone() else {
            panic!("{:?}", pair.outputs);
        };
        assert_eq!(*tried, [not_reached("zk1", cause)]);
    }
}

#[test]
fn the_seed_decides_the_order_of_the_servers() {
    let mut orders = BTreeMap::new();
    for seed in 0..100 {
        let mut pair = Pair::new(|config| {
            servers("a,b,c")(config);
            config.seed = seed;
        });
        let mut order = Vec::new();
        while order.len() < 6 {
            pair.tick();
            for host in asked(&mut pair) {
                pair.handle(Input::Disconnected(Cause::ClosedByServer));
                order.push(host);
            }
        }
        assert_eq!(order[..3], order[3..]);
        order.truncate(3);
        *orders.entry(order).or_insert(0) += 1;
    }
    assert_eq!(orders.len(), 6, "{orders:?}");
}

/// The pauses between attempts when every attempt fails at once.
fn pauses(servers: &'static str, seed: u64) -> Vec<Duration> {
    let mut pair = Pair::new(|config| {
        self::servers(servers)(config);
        config.seed = seed;
    });
    pair.tick();
    let mut pauses = Vec::new();
    for _ in 0..30 {
        let lost = pair.now;
        pair.handle(Input::Disconnected(Cause::ClosedByServer));
        pair.tick();
        pauses.push(pair.now - lost);
    }
    assert_eq!(pair.attempts, 31);
    pauses
}

#[test]
fn pauses_grow_to_a_second_and_scatter() {
    let millis = Duration::from_millis;
    for seed in 0..50 {
        let pauses = pauses("a", seed);
        for (pause, longest) in pauses.iter().zip([100, 200, 400, 800]) {
            let longest = millis(longest);
            assert!(longest * 2 / 3 <= *pause && *pause <= longest, "{pause:?}");
        }
        for pause in &pauses[4..] {
            assert!(millis(666) <= *pause && *pause <= SECOND, "{pause:?}");
        }
    }
    assert_ne!(pauses("a", 1), pauses("a", 2));
}

#[test]
fn the_servers_of_one_round_are_tried_without_much_delay() {
    for seed in 0..50 {
        let pauses = pauses("a,b,c,d", seed);
        assert!(pauses[..3].iter().sum::<Duration>() <= Duration::from_millis(150));
        assert!(pauses[3] >= Duration::from_millis(66));
    }
}

fn down(host: &str) -> Cause {
    Cause::from(&io::Error::other(format!("{host} is down")))
}

/// A hundred thousand tasks wait for each other for longer than the session timeout. When their
/// connection was lost, all of them failed at once, as if they had waited for a server all the
/// time.
#[test]
fn a_request_that_waited_for_others_still_waits_for_a_connection() {
    let mut pair = Pair::connected(|_| {});
    let since = pair.now;
    for _ in 0..12 {
        pair.wait(SIXTH);
        pair.serve();
    }
    assert!(pair.now >= since + TIMEOUT);
    pair.cut();
    let (token, _) = pair.submit_with(sync("/a"), RequestOptions::at(since));
    pair.wait(SIXTH);
    assert!(!pair.is_settled(token));
    pair.wait(TIMEOUT);
    assert!(matches!(
        pair.error(token).kind(),
        ErrorKind::Unreachable { .. }
    ));
}
