//! Locks whose nodes are counted, not ordered: the plain lock, of whose node there can be one, and the semaphore, of whose
//! leases there can be as many as its limit says.
//!
//! The line of those who want leases is not told again here (`line` has every step of it): entering and leaving it is one
//! step each, and a turn comes when the ranking of some point of the history says so.

mod action;
mod canonical;
mod check;
mod client;
mod scenario;
mod server;
mod state;

use crate::{Violation, explore::World};

use self::{action::Action, state::State};

pub use self::scenario::{Counted, Recipe};

impl World for Counted {
    type State = State;
    type Action = Action;

    fn initial(&self) -> State {
        State::initial(self)
    }

    fn each_step(&self, state: &State, visit: &mut impl FnMut(Action, State)) {
        client::each_step(state, self, visit);
        server::each_step(state, self, visit);
    }

    fn canonical(&self, state: State) -> State {
        state.canonical(self)
    }

    fn sorted(&self, state: State) -> State {
        state.sorted(self)
    }

    fn check(&self, state: &State) -> Option<Violation> {
        check::check(state, self)
    }

    fn is_over(&self, state: &State) -> bool {
        state.is_over()
    }

    fn is_progress(&self, action: Action) -> bool {
        action.is_progress()
    }

    fn describe(&self, before: &State, action: Action, after: &State) -> String {
        action::describe(before, self, action, after)
    }
}
