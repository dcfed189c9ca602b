//! The rule that the product uses for its lease survives what the weak rules do not.
//!
//! Not here: the longer explorations, `cargo run --release -p lockkeeper-model -- lease`.

use lockkeeper_model::lease;

/// The others take minutes without optimization.
const QUICK: [&str; 4] = [
    "a new connection",
    "assumed",
    "two syncs",
    "a proof that counts at once",
];

#[test]
fn only_the_weak_rules_let_a_lease_outlive_its_session() {
    let mut tried = 0;
    for (name, rule, limits) in lease::runs() {
        if QUICK.contains(&name) {
            let outcome = rule.explore(limits, 1_000_000);
            assert_eq!(outcome.found.is_some(), rule.is_weak(), "{name}");
            tried += 1;
        }
    }
    assert_eq!(tried, QUICK.len());
}
