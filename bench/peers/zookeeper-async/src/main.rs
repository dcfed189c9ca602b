//! The workloads with zookeeper-async.
//!
//! Dropping the guard releases its lock: the delete runs in the background. With three or more
//! contenders for one lock, the client panics, because it sorts the contenders by number and then
//! searches them by name.

use std::{process::ExitCode, sync::Arc};

use lockkeeper_bench::{
    Failure,
    runner::{self, Peer, SESSION_TIMEOUT},
};
use zookeeper_async::{Acl, CreateMode, WatchedEvent, Watcher, ZooKeeper, recipes::shared_lock};

fn main() -> ExitCode {
    runner::main::<Session>("zookeeper-async")
}

#[derive(Clone)]
struct Session(Arc<ZooKeeper>);

struct Ignore;

impl Watcher for Ignore {
    fn handle(&self, _: WatchedEvent) {}
}

impl Peer for Session {
    type Lock = (Arc<ZooKeeper>, String);

    async fn connect(server: &str) -> Result<Self, Failure> {
        let client = ZooKeeper::connect(server, SESSION_TIMEOUT, Ignore).await?;
        // `connect` returns before the session exists.
        client.exists("/", false).await?;
        Ok(Self(Arc::new(client)))
    }

    async fn create(&self, path: &str, data: &[u8], ephemeral: bool) -> Result<(), Failure> {
        let mode = if ephemeral {
            CreateMode::Ephemeral
        } else {
            CreateMode::Persistent
        };
        let acl = Acl::open_unsafe().clone();
        self.0.create(path, data.to_vec(), acl, mode).await?;
        Ok(())
    }

    async fn delete(&self, path: &str) -> Result<(), Failure> {
        Ok(self.0.delete(path, None).await?)
    }

    async fn get(&self, path: &str) -> Result<usize, Failure> {
        let (data, _) = self.0.get_data(path, false).await?;
        Ok(data.len())
    }

    fn lock(&self, path: &str) -> Option<Self::Lock> {
        Some((self.0.clone(), path.to_owned()))
    }

    async fn cycle(
        (client, path): &Self::Lock,
        inside: impl FnOnce() + Send,
    ) -> Result<(), Failure> {
        let guard = shared_lock::lock(client.clone(), path.clone()).await?;
        inside();
        drop(guard);
        Ok(())
    }

    async fn close(self) {}
}
