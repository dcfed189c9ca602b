//! The link between a follower and its leader.
//!
//! What travels in one direction of it arrives in order. A cut is silent: nothing arrives, and
//! neither end is told. The follower goes on answering pings and reads from its own state. What
//! waits:
//!
//! | cut | what waits |
//! |---|---|
//! | to the leader | writes of clients, and the news of which sessions were active |
//! | from the leader | transactions, and pings: a follower tells of its sessions only when it is pinged |
//! | any | handshakes |
//!
//! It arrives when the link is mended, unless the follower gives up before. Not here: who carries
//! out what arrives (`replication`).

use std::collections::VecDeque;

use lockkeeper_proto::SessionId;

use super::asked::Asked;

/// What a follower tells its leader.
#[derive(Debug)]
pub(super) enum Upward {
    /// A session was active.
    Touch(SessionId),
    Write(Asked),
}

/// The link of one follower.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) to_leader_cut: bool,
    pub(super) from_leader_cut: bool,
    /// What has not reached the leader, oldest first.
    pub(super) waiting: VecDeque<Upward>,
    /// Whether the server takes itself for the leader, and no majority follows.
    pub(super) leads: bool,
}

impl Link {
    pub(super) fn is_cut(&self) -> bool {
        self.to_leader_cut || self.from_leader_cut
    }

    /// What reaches the leader now, if it does not wait.
    pub(super) fn send(&mut self, upward: Upward) -> Option<Upward> {
        if self.to_leader_cut {
            self.waiting.push_back(upward);
            return None;
        }
        Some(upward)
    }
}
