//! `lockkeeper-bench HOST:PORT WORKLOAD SECONDS PARAM`: measures lockkeeper against a server and
//! prints one line of JSON.
//!
//! - `BENCH_RT=ct` runs it on one thread instead of one per core.
//! - `BENCH_RELEASE=drop` releases locks by dropping their guards, without waiting for the delete.
//! - `BENCH_LEASE=assumed` assumes that leases are valid, instead of proving it.
//! - `BENCH_TLS=CA.pem` encrypts, and trusts this authority. It needs the feature `tls`.
//!
//! The name in the line tells the variant. Not here: how to read the line (`README.md`).

use std::{env, process::ExitCode};

use lockkeeper::{
    Client, CreateMode, Mutex, Version,
    client::{Builder, LeasePolicy},
};
use lockkeeper_bench::{
    Failure,
    runner::{self, Peer, SESSION_TIMEOUT},
};

fn main() -> ExitCode {
    let mut name = String::from("lockkeeper");
    for (is_set, variant) in [
        (drops(), "-drop"),
        (assumes(), "-assumed"),
        (env::var_os("BENCH_TLS").is_some(), "-tls"),
    ] {
        if is_set {
            name.push_str(variant);
        }
    }
    runner::main::<Session>(&name)
}

/// Whether the program drops guards, instead of waiting for the reply to the release.
fn drops() -> bool {
    env::var("BENCH_RELEASE").is_ok_and(|set| set == "drop")
}

fn assumes() -> bool {
    env::var("BENCH_LEASE").is_ok_and(|set| set == "assumed")
}

/// Encrypts the connections, if `BENCH_TLS` is set.
fn encrypted(builder: Builder) -> Result<Builder, Failure> {
    let Some(authority) = env::var_os("BENCH_TLS") else {
        return Ok(builder);
    };
    #[cfg(feature = "tls")]
    {
        use lockkeeper::client::tls::TlsConfig;
        let tls = TlsConfig::from_ca_file(authority)?;
        Ok(builder.connector(tls.connector()))
    }
    #[cfg(not(feature = "tls"))]
    Err(format!(
        "BENCH_TLS={} needs the feature `tls`",
        std::path::Path::new(&authority).display()
    )
    .into())
}

#[derive(Clone)]
struct Session(Client);

/// A mutex, and whether its guards are dropped.
struct Lock(Mutex, bool);

impl Peer for Session {
    type Lock = Lock;

    async fn connect(server: &str) -> Result<Self, Failure> {
        let mut builder = Client::builder(server)?.session_timeout(SESSION_TIMEOUT);
        if assumes() {
            builder = builder.lease_policy(LeasePolicy::Assumed { margin: None });
        }
        Ok(Self(encrypted(builder)?.connect().await?))
    }

    async fn create(&self, path: &str, data: &[u8], ephemeral: bool) -> Result<(), Failure> {
        let mode = if ephemeral {
            CreateMode::Ephemeral
        } else {
            CreateMode::Persistent
        };
        self.0.create(path, data.to_vec(), mode).await?;
        Ok(())
    }

    async fn delete(&self, path: &str) -> Result<(), Failure> {
        Ok(self.0.delete(path, Version::ANY).await?)
    }

    async fn get(&self, path: &str) -> Result<usize, Failure> {
        let node = self.0.get_data(path).await?;
        Ok(node.data.map_or(0, |data| data.len()))
    }

    fn lock(&self, path: &str) -> Option<Lock> {
        let mutex = Mutex::new(&self.0, path).ok()?;
        Some(Lock(mutex, drops()))
    }

    async fn cycle(Lock(mutex, drops): &Lock, inside: impl FnOnce() + Send) -> Result<(), Failure> {
        let guard = mutex.lock().await?;
        inside();
        if *drops {
            drop(guard);
            return Ok(());
        }
        Ok(guard.release().await?)
    }

    async fn close(self) {
        self.0.close().await;
    }
}
