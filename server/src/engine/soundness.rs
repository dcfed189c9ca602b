//! A check that the tables of the engine agree between any two calls. The fuzz target and tests run
//! it.
//!
//! It takes time in proportion to the whole state, so that only builds with debug assertions have
//! it. Not here: whether answers are right.

use super::{
    Engine,
    basics::ConnId,
    connection::{Connection, Phase},
};

impl Engine {
    /// Compares every table that repeats what another table says.
    ///
    /// # Panics
    /// If two tables disagree. Then the engine has a bug: no input of a client may cause this.
    #[doc(hidden)]
    pub fn assert_sound(&self) {
        self.sessions.assert_sound();
        self.connections.assert_sound();
        for view in self.state.views() {
            // Only sessions of the live tree must be alive.
            let _ = view.tree.assert_sound();
            for watcher in view.watches.assert_sound() {
                let speaks = self.speaker(watcher).is_some();
                assert!(speaks, "{watcher:?} watches");
            }
        }
        for owner in self.state.live.tree.assert_sound() {
            assert!(self.sessions.get(owner).is_some(), "the nodes of {owner}");
        }
        for (session, state) in self.sessions.iter() {
            let own = state.connection.map(|id| self.speaker(id));
            assert!(own.is_none_or(|it| it == Some(session)), "{session}");
        }
        for (id, connection) in self.connections.iter() {
            if let Phase::Open(session) = connection.phase {
                let speaker = self.sessions.get(session).and_then(|own| own.connection);
                // A follower may not know yet that the session is over.
                let is_over =
                    !self.state.ensemble.is_empty() && self.sessions.get(session).is_none();
                assert!(is_over || speaker == Some(id), "{session}");
            }
        }
    }

    /// The session for which a connection speaks.
    fn speaker(&self, id: ConnId) -> Option<lockkeeper_proto::SessionId> {
        self.connections.get(id).and_then(Connection::session)
    }
}
