//! Carries out the faults of the plan.
//!
//! Not here: which faults there are (`plan`), what it does to servers (`members`) or
//! to the bytes of a connection (`net`).

use std::time::Duration;

use lockkeeper_proto::SessionId;
use lockkeeper_server::engine::ServerId;

use super::{Armed, Blow, Coming, World};
use crate::{
    history::{Attempt, End, What},
    plan::{FaultKind, Side, Trigger},
    rng::Rng,
};

impl World {
    pub(super) fn fault(&mut self, index: usize) {
        let Some(fault) = self.plan.faults.get(index).copied() else {
            return;
        };
        let now = self.now();
        self.line(0, || format!("FAULT {:?}", fault.kind));
        let until = |ms: u64| now + ms * 1000;
        match fault.kind {
            FaultKind::Cut(client) => {
                self.figures.count("fault: connection cut");
                self.cut_links(|link| link.client == client);
            }
            FaultKind::CutWrite(client, trigger) => self.arm(client, trigger, Blow::CutWrite),
            FaultKind::LoseReply(client, trigger) => self.arm(client, trigger, Blow::LoseReply),
            FaultKind::CutReply(client) => self.arm(client, Trigger::Any, Blow::CutReply),
            FaultKind::Silence(client, ms) => {
                self.figures.count("fault: silence");
                let process = self.clients.entry(client).or_default();
                process.silent_until = process.silent_until.max(until(ms));
            }
            FaultKind::Slow(client, by, ms) => {
                self.figures.count("fault: slow");
                let process = self.clients.entry(client).or_default();
                process.slow_by = by * 1000;
                process.slow_until = until(ms);
            }
            FaultKind::Fail(server, ms) => self.fail(ServerId(server), ms),
            FaultKind::Restart(ms) => {
                self.figures.count("fault: all servers restarted");
                for server in self.all_servers() {
                    self.stop(server, ms);
                }
            }
            FaultKind::Depose => {
                self.figures.count("fault: leader deposed");
                self.depose();
            }
            FaultKind::Lag(server, ms) => self.lag(ServerId(server), ms),
            FaultKind::CutOff(client, side, ms) => {
                self.figures.count("fault: server cut off from the others");
                let server = self.server_of(client);
                self.cut_off(ServerId(server), side, ms);
            }
            FaultKind::Isolate(elect_ms, ms) => {
                if let Some(leader) = self.engine.leader() {
                    self.figures.count("fault: leader cut off from all servers");
                    self.cut_off(leader, Side::Both, ms);
                    self.at(until(elect_ms), Coming::FaultEnd(index));
                }
            }
            FaultKind::Alone(server, ms) => {
                self.figures.count("fault: server without a majority");
                self.cut_off(ServerId(server), Side::Both, ms);
            }
            FaultKind::AllAlone(ms) => {
                self.figures.count("fault: no majority");
                for server in self.all_servers() {
                    self.cut_off(server, Side::Both, ms);
                }
            }
            FaultKind::Throttle(count, every, ms) => self.throttle(index, count, every, ms),
            FaultKind::LoseEvent => {
                self.figures.count("fault: event lost");
                self.engine.lose_event("/".to_owned());
            }
            FaultKind::KeepEnded(server) => {
                self.figures.count("fault: server keeps ended sessions");
                self.engine.set_keeps_ended(ServerId(server), true);
            }
            FaultKind::Expire(client) => self.end_session_of(client),
            FaultKind::Delete(which) => self.delete_contender(which),
            FaultKind::DeleteBehind(client) => {
                self.clients.entry(client).or_default().betrayed = true;
            }
            FaultKind::Vanish(client, trigger, vanish) => {
                self.arm(client, trigger, Blow::Vanish(vanish));
            }
            FaultKind::Pause(client, ms) => {
                if let Some(gate) = self.gate(client) {
                    self.figures.count("fault: client paused");
                    gate.set_paused(true);
                    self.at(until(ms), Coming::FaultEnd(index));
                }
            }
            FaultKind::Crash(client, _) => self.crash(client),
        }
    }

    pub(super) fn fault_ends(&mut self, index: usize) {
        let Some(fault) = self.plan.faults.get(index).copied() else {
            return;
        };
        self.line(0, || format!("END OF FAULT {:?}", fault.kind));
        match fault.kind {
            FaultKind::Isolate(..) => self.depose(),
            FaultKind::Pause(client, _) => {
                if let Some(gate) = self.gate(client) {
                    gate.set_paused(false);
                }
            }
            FaultKind::Throttle(..) => self.throttle_ends(),
            _ => {}
        }
    }

    fn gate(&self, client: u32) -> Option<std::sync::Arc<crate::gate::Gate>> {
        self.clients.get(&client)?.gate.clone()
    }

    fn arm(&mut self, client: u32, trigger: Trigger, what: Blow) {
        self.armed.push(Armed {
            client,
            trigger,
            what,
        });
    }

    /// Returns the fault that hits this write of a client, if one waits for it.
    pub(super) fn strike(&mut self, client: u32, fits: impl Fn(Trigger) -> bool) -> Option<Blow> {
        let at = self.armed.iter().position(|armed| {
            armed.client == client && armed.what != Blow::CutReply && fits(armed.trigger)
        })?;
        let blow = self.armed.remove(at).what;
        let lasts_ms = match blow {
            Blow::Vanish(vanish) => vanish.late_ms + vanish.ms,
            _ => 0,
        };
        self.struck(lasts_ms);
        self.figures.count(match blow {
            Blow::CutWrite => "fault: write cut",
            Blow::Vanish(_) => "fault: client vanished",
            _ => "fault: reply lost",
        });
        self.line(client, || "a fault hits this write".to_owned());
        Some(blow)
    }

    /// Whether a fault cuts these bytes from a server to a client.
    pub(super) fn strike_reply(&mut self, client: u32) -> bool {
        let at = self
            .armed
            .iter()
            .position(|armed| armed.client == client && armed.what == Blow::CutReply);
        if let Some(at) = at {
            self.armed.remove(at);
            self.struck(0);
            self.figures.count("fault: reply cut");
        }
        at.is_some()
    }

    /// A fault that was armed, perhaps long ago, begins now and lasts for this long.
    fn struck(&mut self, lasts_ms: u64) {
        self.calm = self.calm.max(self.now() + lasts_ms * 1000);
    }

    fn end_session_of(&mut self, client: u32) {
        let handle = self.clients.get(&client).and_then(|own| own.handle.clone());
        let Some(session) = handle.map(|handle| handle.snapshot().session_id) else {
            return;
        };
        if self.engine.leader().is_none()
            || session == SessionId::NONE
            || !self.sessions.contains(&session)
        {
            return;
        }
        self.figures.count("fault: session ended by force");
        let what = What::Killed(session.0);
        self.record(0, what);
        let now = self.engine_now();
        self.engine.expire_early(session, now);
        self.after_engine();
    }

    /// A client is about to release a lock. If a fault waits for that, it deletes the node of the
    /// next waiter first.
    pub(crate) fn before_release(&mut self, client: u32, released: Attempt) {
        if !self.clients.get(&client).is_some_and(|own| own.betrayed) {
            return;
        }
        let node = self
            .history
            .iter()
            .rev()
            .find_map(|event| match &event.what {
                What::Granted { attempt, node, .. } if *attempt == released => Some(node.clone()),
                _ => None,
            });
        let Some((queue, number)) = node.as_deref().and_then(place_of) else {
            return;
        };
        let behind = self.contenders().into_iter().filter(|path| {
            place_of(path).is_some_and(|(theirs, after)| theirs == queue && after > number)
        });
        let number = |path: &String| place_of(path).map(|(_, number)| number.to_owned());
        if let Some(next) = behind.min_by_key(number) {
            self.clients.entry(client).or_default().betrayed = false;
            self.delete_by_hand(&next);
        }
    }

    fn delete_contender(&mut self, which: u64) {
        let contenders = self.contenders();
        let Some(index) = which.checked_rem(contenders.len() as u64) else {
            return;
        };
        let node = usize::try_from(index)
            .ok()
            .and_then(|at| contenders.get(at));
        if let Some(node) = node.cloned() {
            self.delete_by_hand(&node);
        }
    }

    fn delete_by_hand(&mut self, node: &str) {
        if self.engine.leader().is_none() {
            return;
        }
        self.figures.count("fault: node deleted by hand");
        self.record(0, What::Deleted(node.to_owned()));
        let now = self.engine_now();
        self.engine.delete_node(node, now);
        self.after_engine();
    }

    /// The process ends. In every second case it is killed, and does not even end its session: the
    /// server learns that the connection is closed, and nothing else.
    fn crash(&mut self, client: u32) {
        let Some(gate) = self.gate(client).filter(|gate| !gate.is_dead()) else {
            return;
        };
        if Rng::of(self.plan.seed, ("kill", client, self.now())).chance(500) {
            self.figures.count("fault: client killed");
            self.mute_client(client);
        } else {
            self.figures.count("fault: client crashed");
        }
        gate.kill();
        let open: Vec<_> = self
            .open
            .iter()
            .filter(|(_, (owner, _))| *owner == client)
            .map(|(attempt, (_, granted))| (*attempt, *granted))
            .collect();
        for (attempt, granted) in open {
            if granted {
                self.record(client, What::LetGo(attempt));
            }
            let end = End::Dropped;
            self.record(client, What::Ended { attempt, end });
        }
        let watches = self.watches.iter().filter(|(_, owner)| **owner == client);
        let watches: Vec<_> = watches.map(|(watch, _)| *watch).collect();
        for watch in watches {
            self.record(client, What::Fired(watch));
        }
    }

    /// How long a crashed client stays away: the shortest time in the plan's crashes of this
    /// client.
    pub(crate) fn away(&self, client: u32) -> Duration {
        let crashes = self
            .plan
            .faults
            .iter()
            .filter_map(|fault| match fault.kind {
                FaultKind::Crash(who, ms) if who == client => Some(ms),
                _ => None,
            });
        Duration::from_millis(crashes.min().unwrap_or(0))
    }
}

/// The queue of a contender's node (the path of its lock), and its number there (ten digits).
fn place_of(node: &str) -> Option<(&str, &str)> {
    let (queue, name) = node.rsplit_once('/')?;
    Some((queue, name.get(name.len().checked_sub(10)?..)?))
}
