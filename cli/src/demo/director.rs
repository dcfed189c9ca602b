//! The schedule of the demo: decides which order the clients get, and when.
//!
//! ```text
//!   Opening ──time──► Asked ──Stopped──► Still ──Granted to another──► HandedOn ──time──► Waking ──Late──► Closing
//! ```
//! Invariant: every scene has a time limit, so the demo ends even if the servers disappear.
//! Not here: carrying out the cues (`mod.rs`).

use std::time::{Duration, Instant};

use super::events::{Event, What};

/// How long the demo goes on after the hand-over, and after the late write, so that viewers can follow it.
const LINGER: Duration = Duration::from_millis(350);
/// How much longer than their timeouts the servers may take for a hand-over.
const SLACK: Duration = Duration::from_secs(20);
/// How long the clients may take to close their sessions.
const FAREWELL: Duration = Duration::from_secs(10);

/// An instruction to the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cue {
    /// Pause the next holder.
    Pause,
    /// Show that the lease of the paused client ended at this time.
    LeaseOver(Instant),
    /// Wake the paused client.
    Wake,
    /// End the contention.
    Finish,
    /// Stop waiting for the clients: they have had enough time to close their sessions.
    GiveUp,
}

/// The part of the demo that runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    Opening,
    Asked,
    Still {
        client: usize,
        lease_until: Instant,
        told: bool,
    },
    HandedOn {
        wake: Instant,
    },
    Waking,
    Closing {
        not_before: Instant,
    },
    Finished {
        give_up: Instant,
    },
}

/// Follows the events, and says what to do next.
#[derive(Debug)]
pub(super) struct Director {
    scene: Scene,
    /// When a client is paused.
    pause: Instant,
    /// When the contention ends, if the late write has been made by then.
    end: Instant,
    /// When the contention ends in any case.
    limit: Instant,
    reconnect_timeout: Duration,
}

impl Director {
    pub(super) fn new(start: Instant, seconds: u32, session_timeout: Duration) -> Self {
        let length = Duration::from_secs(seconds.into());
        let reconnect_timeout = session_timeout * 4 + SLACK;
        Self {
            scene: Scene::Opening,
            pause: start + length * 2 / 5,
            end: start + length,
            limit: start + length + reconnect_timeout * 2,
            reconnect_timeout,
        }
    }

    /// The longest pause of a client.
    pub(super) fn reconnect_timeout(&self) -> Duration {
        self.reconnect_timeout
    }

    /// When to call [`act`](Self::act), if no event comes before.
    pub(super) fn next_cue(&self) -> Instant {
        let cue = match self.scene {
            Scene::Opening => self.pause,
            Scene::Still {
                lease_until,
                told: false,
                ..
            } => lease_until,
            Scene::HandedOn { wake } => wake,
            Scene::Closing { not_before } => not_before.max(self.end),
            Scene::Asked | Scene::Still { .. } | Scene::Waking => self.limit,
            Scene::Finished { give_up } => return give_up,
        };
        cue.min(self.limit)
    }

    /// Returns the cue whose time has come.
    pub(super) fn act(&mut self, now: Instant) -> Cue {
        let (scene, cue) = match self.scene {
            Scene::Finished { .. } => return Cue::GiveUp,
            Scene::Opening => (Scene::Asked, Cue::Pause),
            Scene::Still {
                client,
                lease_until,
                told: false,
            } => {
                let told = true;
                let scene = Scene::Still {
                    client,
                    lease_until,
                    told,
                };
                (scene, Cue::LeaseOver(lease_until))
            }
            Scene::HandedOn { .. } => (Scene::Waking, Cue::Wake),
            Scene::Asked | Scene::Still { .. } | Scene::Waking | Scene::Closing { .. } => {
                self.finish(now);
                return Cue::Finish;
            }
        };
        self.scene = scene;
        cue
    }

    /// Takes note of an event.
    pub(super) fn note(&mut self, event: &Event) {
        self.scene = match (self.scene, &event.what) {
            (Scene::Opening | Scene::Asked, What::Stopped { lease_until }) => Scene::Still {
                client: event.client,
                lease_until: *lease_until,
                told: false,
            },
            (Scene::Still { client, .. }, What::Granted { .. }) if client != event.client => {
                Scene::HandedOn {
                    wake: event.at + LINGER,
                }
            }
            (Scene::Still { .. } | Scene::HandedOn { .. } | Scene::Waking, What::Late { .. }) => {
                Scene::Closing {
                    not_before: event.at + LINGER,
                }
            }
            (scene, _) => scene,
        };
    }

    /// Ends the contention. The only cue after this is to stop waiting for the clients.
    pub(super) fn finish(&mut self, now: Instant) {
        let give_up = now + FAREWELL;
        self.scene = Scene::Finished { give_up };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::events::Write;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_cues_come_in_order() {
        let start = Instant::now();
        let mut director = Director::new(start, 5, SECOND);
        assert_eq!(director.next_cue(), start + 2 * SECOND);
        assert_eq!(director.act(start), Cue::Pause);

        let mut event = |client, after: Duration, what| {
            let at = start + after;
            director.note(&Event { at, client, what });
            director.next_cue()
        };
        let lease_until = start + 3 * SECOND;
        let cue = event(3, 2 * SECOND, What::Stopped { lease_until });
        assert_eq!(cue, lease_until);
        assert_eq!(director.act(start), Cue::LeaseOver(lease_until));

        let mut event = |client, after: Duration, what| {
            let at = start + after;
            director.note(&Event { at, client, what });
            director.next_cue()
        };
        let cue = event(1, 4 * SECOND, What::Granted { token: 9 });
        assert_eq!(cue, start + 4 * SECOND + LINGER);
        assert_eq!(director.act(start), Cue::Wake);

        let (value, write) = (3, Write::Done);
        let at = start + 6 * SECOND;
        director.note(&Event {
            at,
            client: 3,
            what: What::Late { value, write },
        });
        assert_eq!(
            director.next_cue(),
            at + LINGER,
            "longer than the requested 5 s"
        );
        assert_eq!(director.act(start), Cue::Finish);
        assert_eq!(director.next_cue(), start + FAREWELL);
        assert_eq!(director.act(start), Cue::GiveUp);
    }

    #[test]
    fn the_demo_ends_when_nothing_happens() {
        let start = Instant::now();
        let mut director = Director::new(start, 1, SECOND);
        director.act(start);
        assert_eq!(director.next_cue(), director.limit);
        assert_eq!(director.act(start), Cue::Finish);
    }
}
