//! One seed always gives the same history, the first seeds break no rule, and leases
//! that are only assumed do.

use std::process::Command;

use lockkeeper_session::LeasePolicy;
use lockkeeper_sim::{
    Figures, Outcome,
    check::Rule,
    plan::{AIMED, PARTITIONS, Plan},
    run,
};

/// A text that is the same for the same history and log.
fn digest(outcome: &Outcome) -> String {
    let all = outcome.lines.join("\n") + &format!("{:?}", outcome.history);
    let hash = all.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x} {:016x} {}", outcome.digest, all.len())
}

/// The seeds whose histories two processes compare.
const COMPARED: std::ops::Range<u64> = 100..106;

fn digests() -> Vec<String> {
    COMPARED
        .map(|seed| digest(&run(&Plan::of(seed), true)))
        .collect()
}

#[test]
fn one_seed_gives_one_history_in_one_process() {
    for seed in 1..10 {
        let plan = Plan::of(seed);
        let (one, other) = (run(&plan, true), run(&plan, true));
        assert!(one.lines.len() > 20, "seed {seed}: the log is too short");
        assert_eq!(one.lines, other.lines, "seed {seed}");
        assert_eq!(one.history, other.history, "seed {seed}");
        // Writing the log does not change the run.
        assert_eq!(one.digest, run(&plan, false).digest, "seed {seed}");
        assert_ne!(one.digest, run(&Plan::of(seed + 1000), false).digest);
    }
}

/// In these seeds several tasks wait for the same change of a session.
#[test]
fn tasks_that_wait_for_the_same_change_run_in_one_order() {
    for seed in [59, 299, 3209, 3629, 3769] {
        let plan = Plan::of(seed);
        let digest = run(&plan, false).digest;
        for _ in 0..4 {
            assert_eq!(run(&plan, false).digest, digest, "seed {seed}");
        }
    }
}

#[test]
fn one_seed_gives_one_history_in_two_processes() {
    const TOLD: &str = "LOCKKEEPER_SIM_TELL_DIGESTS";
    let ours = digests();
    if std::env::var_os(TOLD).is_some() {
        println!("digests: {}", ours.join(", "));
        return;
    }
    let this = std::env::current_exe().unwrap();
    let name = "one_seed_gives_one_history_in_two_processes";
    let other = Command::new(this)
        .args([name, "--exact", "--nocapture"])
        .env(TOLD, "1")
        .output()
        .unwrap();
    let told = String::from_utf8(other.stdout).unwrap();
    let expected = format!("digests: {}", ours.join(", "));
    assert!(told.contains(&expected), "{expected}\n{told}");
}

/// Messages take 60 to 340 ms, and sessions end after 400 ms. Nobody has to lead such an election,
/// and an attempt may take any time.
#[test]
fn sessions_that_cannot_live_need_no_leader_and_no_end() {
    for seed in (0..5).map(|number| 32 * number + 1) {
        let mut plan = Plan::of(seed);
        (plan.delay_ms, plan.tick_ms) = (60 + 70 * (seed / 32 % 5), 200);
        for client in &mut plan.clients {
            client.timeout_ms = 400;
        }
        assert!(!plan.keeps_sessions());
        let Outcome {
            violations,
            figures,
            ..
        } = run(&plan, false);
        assert!(violations.is_empty(), "seed {seed}: {}", violations[0]);
        let elections = figures.0.get("elections at the end");
        assert_eq!(elections, None, "seed {seed}: nobody has to lead");
    }
}

/// Some of these runs end while a client is between two connections, and has to set its watches again.
///
/// Not here: that its watches are not compared. In hardly any run they differ then.
#[test]
fn runs_in_which_a_client_does_not_come_to_rest_break_no_rule() {
    let is_unrested = |number: u64| {
        let outcome = run(&Plan::of(32 * number + 1), false);
        let unrested = outcome.figures.0.get("clients that did not come to rest");
        assert!(outcome.violations.is_empty(), "{}", outcome.violations[0]);
        unrested.is_some_and(|count| *count > 0)
    };
    assert!((0..40).filter(|number| is_unrested(*number)).count() > 0);
}

/// The gate and the nightly run have more seeds (`--usual`).
#[test]
fn the_first_seeds_break_no_rule_and_meet_every_fault() {
    const SEEDS: u64 = 60;
    let (found, figures) = broken((1..=SEEDS).map(Plan::of));
    assert!(found.is_empty(), "{}", found.join("\n"));
    let scarce = figures.scarce(SEEDS);
    assert!(scarce.is_empty(), "{}", scarce.join("\n"));
    assert!(!Figures::default().scarce(SEEDS).is_empty());
}

/// Runs the plans of some seeds, and returns what they broke.
fn broken(plans: impl Iterator<Item = Plan>) -> (Vec<String>, Figures) {
    let (mut found, mut figures) = (Vec::new(), Figures::default());
    for plan in plans {
        let outcome = run(&plan, false);
        let violations = outcome.violations.iter();
        found.extend(violations.map(|it| format!("seed {}: {it}", plan.seed)));
        figures.add(&outcome.figures);
    }
    (found, figures)
}

/// A ping waits behind the requests in the queue of its server. An earlier version took that for
/// silence.
#[test]
fn no_client_leaves_a_slow_server_that_answers() {
    let (found, _) = broken((1..3).map(Plan::of_slow_server));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// An earlier version held a lock under the node of another contender, and with a token that a
/// server had invented.
#[test]
fn no_client_believes_a_reply_that_names_another_node_or_transaction() {
    let (found, figures) = broken((1..11).map(Plan::of_liar));
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(figures.0["lies"] > 30, "{figures:?}");
}

/// An earlier version sent one listing for each create whose reply was lost.
#[test]
fn no_server_drowns_in_the_replies_to_a_crowd_that_has_lost_its_connection() {
    let (found, _) = broken((1..3).map(Plan::of_small_server));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The first of 30 plans about links between servers that has two holders under this policy.
fn with_two_holders(lease: LeasePolicy) -> Option<u64> {
    let mut seeds = (0..30).map(|number| number * AIMED + PARTITIONS);
    seeds.find(|seed| {
        let mut plan = Plan::of(*seed);
        plan.lease = lease;
        let violations = run(&plan, false).violations;
        violations.iter().any(|it| it.rule == Rule::Overlap)
    })
}

/// A server that is cut off from its leader goes on answering. So an answer does not prove that the
/// leader has heard of the session: with leases that take it for a proof, there are two holders.
#[test]
fn leases_that_are_assumed_overlap_when_servers_are_cut_off_and_leases_that_are_proved_do_not() {
    let assumed = with_two_holders(LeasePolicy::Assumed { margin: None });
    assert!(assumed.is_some(), "no two holders in 30 seeds");
    assert_eq!(with_two_holders(LeasePolicy::Proved), None);
}
