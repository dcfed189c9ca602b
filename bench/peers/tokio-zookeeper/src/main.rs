//! The workloads with tokio-zookeeper. It has no lock.

use std::process::ExitCode;

use lockkeeper_bench::{
    Failure,
    runner::{self, Peer, SESSION_TIMEOUT},
};
use tokio_zookeeper::{Acl, CreateMode, ZooKeeper, ZooKeeperBuilder};

fn main() -> ExitCode {
    runner::main::<Session>("tokio-zookeeper")
}

#[derive(Clone)]
struct Session(ZooKeeper);

impl Peer for Session {
    type Lock = ();

    async fn connect(server: &str) -> Result<Self, Failure> {
        let mut builder = ZooKeeperBuilder::default();
        builder.set_timeout(SESSION_TIMEOUT);
        let (client, events) = builder.connect(&server.parse()?).await?;
        // The client stops when the receiver of its events is dropped.
        std::mem::forget(events);
        Ok(Self(client))
    }

    async fn create(&self, path: &str, data: &[u8], ephemeral: bool) -> Result<(), Failure> {
        let mode = if ephemeral {
            CreateMode::Ephemeral
        } else {
            CreateMode::Persistent
        };
        let acl = Acl::open_unsafe();
        self.0.create(path, data.to_vec(), acl, mode).await??;
        Ok(())
    }

    async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.0.delete(path, None).await??;
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<usize, Failure> {
        let node = self.0.get_data(path).await?;
        let (data, _) = node.ok_or("no such node")?;
        Ok(data.len())
    }

    fn lock(&self, _: &str) -> Option<()> {
        None
    }

    async fn cycle((): &(), _: impl FnOnce() + Send) -> Result<(), Failure> {
        Ok(())
    }

    async fn close(self) {}
}
