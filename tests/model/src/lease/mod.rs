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
    let limits = |pings, writes, elections, reconnects| Limits {
        pings,
        writes,
        elections,
        reconnects,
    };
    vec![
        ("one leader", Rule::Proved, limits(1, 2, 0, 0)),
        ("an election", Rule::Proved, limits(1, 2, 1, 0)),
        ("a new connection", Rule::Proved, limits(0, 1, 1, 1)),
        ("assumed", Rule::Assumed, limits(1, 0, 0, 0)),
        (
            "sync in place of writes",
            Rule::ProvedBySync,
            limits(0, 1, 1, 1),
        ),
    ]
}
