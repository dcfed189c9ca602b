//! Operations on single nodes: watches, reads and writes, recorded for the checker.
//!
//! Not here: the rules about them (`check::nodes`).

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::FutureExt;
use lockkeeper_proto::{CreateMode, Stat, Version};
use lockkeeper_session::{Effect, Error, Watcher};
use tokio::time::sleep;

use super::{NODES, Worker};
use crate::{
    history::{Answer, What},
    plan::RawStep,
};

/// The watches of a process.
#[derive(Default)]
pub(super) struct Watches {
    /// Those that have not fired, with their numbers.
    open: Vec<(u64, Watcher)>,
    /// Some of those that no task looks at any more. The servers have them until the end of the
    /// run.
    kept: Vec<Watcher>,
}

/// A node that all clients read, change and watch.
pub(super) fn node(number: u32) -> String {
    format!("/raw/n{number}")
}

impl Worker {
    pub(super) async fn raw_step(&mut self, step: RawStep) {
        match step {
            RawStep::Watch(number) => self.watch(number).await,
            RawStep::Read(number) => {
                self.read(number).await;
            }
            RawStep::Set(number) => {
                let path = node(number);
                let _ = self.client.set_data(&path, "x", Version::ANY).await;
            }
            RawStep::Delete(number) => {
                let _ = self.client.delete(&node(number), Version::ANY).await;
            }
            RawStep::Create(number) => {
                let path = node(number);
                let create = self.client.create(&path, "", CreateMode::Persistent);
                let _ = create.await;
            }
            RawStep::Write => {
                let (write, prefix) = self.new_write();
                let mode = CreateMode::PersistentSequential;
                let created = self.client.create(&prefix, "", mode).await;
                let said = match &created {
                    Ok(created) if !created.path.starts_with(&prefix) => Answer::Another,
                    created => answer(created.as_ref().err()),
                };
                self.answered(write, said);
            }
            RawStep::WriteTwo => {
                let ((one, first), (two, second)) = (self.new_write(), self.new_write());
                let mode = CreateMode::PersistentSequential;
                let both = self.client.transaction();
                let both = both.create(&first, "", mode).create(&second, "", mode);
                let created = both.commit().await;
                for write in [one, two] {
                    self.answered(write, answer(created.as_ref().err()));
                }
            }
            RawStep::Sync => {
                let _ = self.client.sync("/raw").await;
            }
            RawStep::Poke => self.poke().await,
            RawStep::Revoke => self.revoke().await,
        }
    }

    /// The number of a new write, and the path prefix of the node that it creates.
    pub(super) fn new_write(&self) -> (u64, String) {
        let write = self.sim.lock().number();
        (write, format!("/raw/w{write}-"))
    }

    pub(super) fn answered(&self, write: u64, answer: Answer) {
        let mut world = self.sim.lock();
        world.figures.count(match answer {
            Answer::Applied => "writes answered: applied",
            Answer::NotApplied => "writes answered: not applied",
            Answer::Unknown => "writes answered: unknown",
            Answer::Another => "writes answered: another",
        });
        world.record(self.plan.id, What::Answered { write, answer });
    }

    async fn watch(&mut self, number: u32) {
        let path: Arc<str> = node(number).into();
        // The first call fails if the node does not exist; the second does not.
        let watched = if self.rng.chance(500) {
            let read = self.client.get_data_and_watch(&path).await;
            read.ok().map(|(node, watcher)| (Some(node.stat), watcher))
        } else {
            self.client.exists_and_watch(&path).await.ok()
        };
        self.look_at_watches();
        if let Some((stat, watcher)) = watched {
            let mut world = self.sim.lock();
            let watch = world.number();
            let version = version(stat.as_ref());
            world.figures.count("watches set");
            let seen = path.clone();
            let read = What::Read {
                path: seen,
                version,
            };
            let watching = What::Watching {
                watch,
                path,
                version,
            };
            world.record(self.plan.id, read);
            world.record(self.plan.id, watching);
            drop(world);
            self.watches().open.push((watch, watcher));
        }
    }

    /// Reads a node. Returns whether the read succeeded.
    async fn read(&mut self, number: u32) -> bool {
        let path: Arc<str> = node(number).into();
        let before = self.sim.lock().newest_number();
        let seen = self.client.exists(&path).await;
        self.look_at_watches();
        // That there is no node may have been answered before a watch that another task has set
        // meanwhile.
        let is_unclear = |stat: &Option<Stat>| {
            stat.is_none() && self.watches().open.iter().any(|(watch, _)| *watch > before)
        };
        if let Ok(stat) = seen.as_ref()
            && !is_unclear(stat)
        {
            let version = version(stat.as_ref());
            let mut world = self.sim.lock();
            world.record(self.plan.id, What::Read { path, version });
        }
        seen.is_ok()
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        let watches = &self.locks.watches;
        watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at_watches(&self) {
        let (sim, id) = (self.sim.clone(), self.plan.id);
        self.watches().open.retain_mut(|(watch, watcher)| {
            let fired = watcher.now_or_never().is_some();
            if fired {
                sim.lock().record(id, What::Fired(*watch));
            }
            !fired
        });
    }

    /// Sets the data of a contender's node. That must have no effect on the lock.
    async fn poke(&mut self) {
        if let Some(path) = self.somebody().await {
            let _ = self.client.set_data(&path, "poked", Version::ANY).await;
        }
    }

    /// A random contender's node.
    pub(super) async fn somebody(&mut self) -> Option<String> {
        let lock = "/locks/l0";
        let children = self.client.get_children(lock).await.ok()?;
        let index = self.rng.draw().checked_rem(children.len() as u64)?;
        let child = children.get(usize::try_from(index).ok()?)?;
        Some(format!("{lock}/{child}"))
    }

    /// Reads all nodes once more after the last fault: by then, the watch of each changed node must
    /// have fired.
    pub(super) async fn last_look(&mut self) {
        let storm = self.sim.lock().storm_left();
        sleep(storm + Duration::from_secs(3)).await;
        while self.client.sync("/raw").await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
        for number in 0..NODES {
            while !self.read(number).await {
                sleep(Duration::from_millis(100)).await;
            }
        }
        let mut watches = self.watches();
        let open = std::mem::take(&mut watches.open);
        for (watch, watcher) in open {
            self.sim.lock().record(self.plan.id, What::Fired(watch));
            // The others are given up, and the servers must not have them at the end.
            if watch % 2 == 0 {
                watches.kept.push(watcher);
            }
        }
    }
}

/// The version of a node's state in the history: its `mzxid`, or -1 if it does not exist.
fn version(stat: Option<&Stat>) -> i64 {
    stat.map_or(-1, |stat| stat.mzxid.0)
}

/// The answer that the caller of a write got.
pub(super) fn answer(error: Option<&Error>) -> Answer {
    match error.map(Error::effect) {
        None => Answer::Applied,
        Some(Effect::NotApplied) => Answer::NotApplied,
        Some(Effect::Unknown) => Answer::Unknown,
    }
}
