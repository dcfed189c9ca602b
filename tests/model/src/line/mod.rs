//! The line of waiters: mutexes, readers and writers, and those who try.

mod action;
mod canonical;
mod check;
mod client;
mod scenario;
mod server;
mod state;

use crate::{Violation, explore::World};

use self::{action::Action, state::State};

pub use self::scenario::Line;

impl World for Line {
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
        check::check(state)
    }

    fn is_over(&self, state: &State) -> bool {
        state.is_over()
    }

    fn is_progress(&self, action: Action) -> bool {
        action.is_progress()
    }

    fn describe(&self, before: &State, action: Action, after: &State) -> String {
        action::describe(before, action, after)
    }
}
