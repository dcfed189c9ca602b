//! The servers and how to connect to them: turns options, or else the environment, into settings of a client.
//!
//! Not here: encryption and identities (`security`).

use std::{
    env::{self, VarError},
    fmt,
};

use clap::Args;
use lockkeeper::{
    client::{Builder, ConnectString},
    error::ConnectStringError,
};

use crate::security::{BadSecurity, SecurityArgs};

/// The environment variable with the servers, used when `--connect` is not given.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_CONNECT";

#[cfg(not(feature = "srv"))]
const CONNECT_HELP: &str =
    "The ZooKeeper servers: host:port,host:port/chroot [default: $LOCKKEEPER_CONNECT]";
#[cfg(feature = "srv")]
const CONNECT_HELP: &str = "The ZooKeeper servers: host:port,host:port/chroot or dns-srv://name/chroot [default: $LOCKKEEPER_CONNECT]";

#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    #[arg(long, value_name = "HOSTS", help = CONNECT_HELP)]
    connect: Option<ConnectString>,

    #[command(flatten)]
    security: SecurityArgs,
}

impl ServerArgs {
    /// Settings for a client of these servers.
    pub(crate) fn settings(&self) -> Result<Builder, BadServers> {
        self.settings_for(&self.servers()?)
    }

    /// Settings for a client of the servers in `--connect`; `None` without `--connect`.
    ///
    /// Without `--connect` the options for encryption and identities are an error.
    pub(crate) fn settings_if_named(
        &self,
    ) -> Result<Option<(&ConnectString, Builder)>, BadServers> {
        match &self.connect {
            Some(servers) => Ok(Some((servers, self.settings_for(servers)?))),
            None if self.security.is_given() => Err(BadServers::NoneToSecure),
            None => Ok(None),
        }
    }

    pub(crate) fn settings_for(&self, servers: &ConnectString) -> Result<Builder, BadServers> {
        let settings = Builder::new(servers);
        self.security.apply(settings).map_err(BadServers::Security)
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.security.is_encrypted()
    }

    /// The servers. Only the variable can be bad here: clap has checked `--connect` already.
    pub(crate) fn servers(&self) -> Result<ConnectString, BadServers> {
        if let Some(servers) = &self.connect {
            return Ok(servers.clone());
        }
        match env::var(VARIABLE) {
            Ok(text) => text.parse().map_err(BadServers::BadVariable),
            Err(VarError::NotPresent) => Err(BadServers::None),
            Err(VarError::NotUnicode(_)) => Err(BadServers::NotText),
        }
    }
}

/// Why there are no servers to connect to.
#[derive(Debug)]
pub(crate) enum BadServers {
    /// Neither the option nor the variable names a server.
    None,
    /// The variable's list of servers cannot be parsed.
    BadVariable(ConnectStringError),
    /// The variable is not UTF-8.
    NotText,
    /// The command line has certificates, keys or identities, but names no server for them.
    NoneToSecure,
    /// Certificates, keys or identities cannot be used.
    Security(BadSecurity),
}

impl fmt::Display for BadServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(
                f,
                "no servers: give --connect HOST:PORT,.. or set {VARIABLE}; to try lockkeeper, run `lockkeeper serve --fresh` \
                 and use 127.0.0.1:2181"
            ),
            Self::BadVariable(error) => write!(f, "{VARIABLE}: {error}"),
            Self::NotText => write!(f, "{VARIABLE}: the value is not UTF-8"),
            Self::NoneToSecure => f.write_str(
                "--tls-ca and --auth-file need --connect: the embedded server uses neither",
            ),
            Self::Security(problem) => problem.fmt(f),
        }
    }
}

impl std::error::Error for BadServers {}
