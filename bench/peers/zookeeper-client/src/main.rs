//! The workloads with zookeeper-client.
//!
//! Dropping the guard releases its lock: the delete runs in the background.

use std::process::ExitCode;

use lockkeeper_bench::{
    Failure,
    runner::{self, Peer, SESSION_TIMEOUT},
};
use zookeeper_client::{Acls, Client, CreateMode, LockPrefix};

fn main() -> ExitCode {
    runner::main::<Session>("zookeeper-client")
}

#[derive(Clone)]
struct Session(Client);

impl Peer for Session {
    type Lock = (Client, String);

    async fn connect(server: &str) -> Result<Self, Failure> {
        let connector = Client::connector().with_session_timeout(SESSION_TIMEOUT);
        Ok(Self(connector.connect(server).await?))
    }

    async fn create(&self, path: &str, data: &[u8], ephemeral: bool) -> Result<(), Failure> {
        let mode = if ephemeral {
            CreateMode::Ephemeral
        } else {
            CreateMode::Persistent
        };
        let options = mode.with_acls(Acls::anyone_all());
        self.0.create(path, data, &options).await?;
        Ok(())
    }

    async fn delete(&self, path: &str) -> Result<(), Failure> {
        Ok(self.0.delete(path, None).await?)
    }

    async fn get(&self, path: &str) -> Result<usize, Failure> {
        let (data, _) = self.0.get_data(path).await?;
        Ok(data.len())
    }

    fn lock(&self, path: &str) -> Option<Self::Lock> {
        Some((self.0.clone(), path.to_owned()))
    }

    async fn cycle(
        (client, path): &Self::Lock,
        inside: impl FnOnce() + Send,
    ) -> Result<(), Failure> {
        let prefix = LockPrefix::new_curator(path, "lock-")?;
        let guard = client.lock(prefix, b"", Acls::anyone_all()).await?;
        inside();
        drop(guard);
        Ok(())
    }

    async fn close(self) {}
}
