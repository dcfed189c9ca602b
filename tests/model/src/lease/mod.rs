//! Whether a lease outlives its session: one client, the server that it is connected to, and a
//! leader, in discrete time.
//!
//! What the client concludes is the product's own code, `Proof`. The servers follow the facts that
//! `session/src/machine/lease/proof.rs` names. All messages take any time: a link that breaks in
//! silence, in one direction or both, is a message that has not arrived yet. The leader may lose
//! its majority and go on, while another one begins; the client comes back over another connection,
//! to the same side or to the other. The leader ends the session as soon as it may: from then on
//! another client may be granted the lock.
//!
//! | file | what |
//! |---|---|
//! | `world` | one state, and the steps |
//! | `search` | all states, breadth first, and the shortest history of what is wrong |
//!
//! Not here: who holds which lock (the rest of the model), clocks that run at different rates (the
//! margin of the lease).

mod search;
mod world;

pub use search::{Found, Outcome};
pub use world::{Limits, Rule};

/// The explorations: the policies, and what each must survive.
#[must_use]
pub fn runs() -> Vec<(&'static str, Rule, Limits)> {
    let none = Limits {
        pings: 0,
        syncs: 0,
        writes: 0,
        elections: 0,
        reconnects: 0,
        hands_over: false,
        timeout: 4,
        longer: 1,
    };
    let with_pings = |pings, syncs, writes, elections| Limits {
        pings,
        syncs,
        writes,
        elections,
        ..none
    };
    let resumed = |syncs, writes, elections| Limits {
        syncs,
        writes,
        elections,
        reconnects: 1,
        ..none
    };
    let late = Limits {
        writes: 2,
        reconnects: 1,
        longer: 3,
        ..none
    };
    let handed_over = Limits {
        elections: 1,
        hands_over: true,
        ..late
    };
    // Within two ticks no proof of a ping comes before the end of the first lease, and behind that
    // end a proof needs a further write.
    let longer = Limits {
        timeout: 5,
        ..with_pings(1, 0, 2, 0)
    };
    vec![
        ("one leader", Rule::Proved, with_pings(1, 0, 2, 0)),
        ("a longer timeout", Rule::Proved, longer),
        ("an election", Rule::Proved, with_pings(1, 0, 2, 1)),
        ("a sync first", Rule::Proved, with_pings(1, 1, 1, 1)),
        ("a new connection", Rule::Proved, resumed(0, 1, 1)),
        ("a late connection", Rule::Proved, late),
        ("handed over", Rule::Proved, handed_over),
        ("assumed", Rule::Assumed, with_pings(1, 0, 0, 0)),
        ("two syncs", Rule::ProvedBySync, resumed(1, 0, 1)),
        ("a proof that counts at once", Rule::ProvedAtOnce, late),
    ]
}
