//! A check that the tables of the engine agree between any two calls. The fuzz target and tests run it.
//!
//! It takes time in proportion to the whole state, so that only builds with debug assertions have it. Not here: whether answers
//! are right.

use super::{ConnId, Connection, Engine, Followers, Phase};

impl Engine {
    /// Compares every table that repeats what another table says.
    ///
    /// # Panics
    /// If two tables disagree. Then the engine has a bug: no input of a client may cause this.
    #[doc(hidden)]
    pub fn assert_sound(&self) {
        self.sessions.assert_sound();
        for owner in self.live.tree.assert_sound() {
            assert!(self.sessions.get(owner).is_some(), "the nodes of {owner}");
        }
        let frozen = self.frozen.values().map(|frozen| &frozen.view);
        for view in frozen.clone() {
            // Sessions of the frozen tree may have ended since.
            let _ = view.tree.assert_sound();
        }
        let followers = self.followers.iter().flat_map(Followers::views);
        for view in frozen.chain(followers).chain([&self.live]) {
            for watcher in view.watches.assert_sound() {
                let phase = self.connections.get(&watcher).map(|own| own.phase);
                assert!(matches!(phase, Some(Phase::Open(_))), "{watcher:?} watches");
            }
        }
        for (session, state) in self.sessions.iter() {
            let speaks = |id: ConnId| self.connections.get(&id).and_then(Connection::session);
            let spoken_for = state
                .connection
                .is_none_or(|id| speaks(id) == Some(session));
            assert!(spoken_for, "{session}");
        }
        for (id, connection) in &self.connections {
            if let Phase::Open(session) = connection.phase {
                let speaker = self.sessions.get(session).and_then(|own| own.connection);
                // A follower may not know yet that the session is over.
                let is_over = self.followers.is_some() && self.sessions.get(session).is_none();
                let is_over = is_over || self.is_read_only(*id);
                assert!(is_over || speaker == Some(*id), "{session}");
            }
            let waits = self.handshakes.contains(&(connection.handshake_due, *id));
            assert_eq!(waits, connection.phase == Phase::Fresh, "{id:?}");
            let has_something = connection.ready_len() > 0 || connection.is_done();
            assert!(!has_something || self.dirty.contains(id), "{id:?} waits");
            let due = connection.release_due();
            assert!(due.is_none_or(|due| self.held.contains(&(due, *id))));
        }
        let known = |id: &ConnId| self.connections.contains_key(id);
        assert!(self.handshakes.iter().all(|(_, id)| known(id)));
        assert!(self.held.iter().all(|(_, id)| known(id)));
        assert!(self.dirty.iter().all(known));
    }
}
