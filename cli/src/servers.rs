//! The servers and how to connect to them: turns options, or else the environment, into settings of a client.
//!
//! Also the form of an address to listen on. Not here: encryption and identities (`security`).

use clap::Args;
use lockkeeper::client::{Builder, ConnectString};

use crate::{exit::Failure, security::SecurityArgs};

/// The environment variable with the servers, used when `--connect` is not given.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_CONNECT";

#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    /// The ZooKeeper servers: host:port,host:port/chroot
    #[arg(long, value_name = "HOSTS", env = VARIABLE, hide_env_values = true)]
    pub(crate) connect: Option<ConnectString>,

    #[command(flatten)]
    security: SecurityArgs,
}

impl ServerArgs {
    /// Settings for a client of these servers.
    pub(crate) fn settings(&self) -> Result<Builder, Failure> {
        self.settings_for(self.servers()?)
    }

    pub(crate) fn settings_for(&self, servers: &ConnectString) -> Result<Builder, Failure> {
        self.security.apply(Builder::new(servers))
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.security.is_encrypted()
    }

    pub(crate) fn servers(&self) -> Result<&ConnectString, Failure> {
        self.connect.as_ref().ok_or_else(|| {
            failure!(
                USAGE,
                "no servers: give --connect HOST:PORT,.. or set {VARIABLE}; to try lockkeeper, run \
                 `lockkeeper serve --fresh` and use 127.0.0.1:2181"
            )
        })
    }
}

/// Checks the form of `host:port`; the host may be a name.
pub(crate) fn listen(text: &str) -> Result<String, &'static str> {
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || bare_ipv6 || port.parse::<u16>().is_err() {
        return Err("an address looks like 127.0.0.1:2181, localhost:2181 or [::1]:2181");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_on_has_a_host_and_a_port() {
        for good in ["127.0.0.1:0", "localhost:2181", "[::1]:2181", "0.0.0.0:1"] {
            assert_eq!(listen(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "2181",
            ":2181",
            "localhost",
            "::1:2181",
            "a:65536",
            "a:b",
        ] {
            assert!(listen(bad).is_err(), "{bad:?}");
        }
    }
}
