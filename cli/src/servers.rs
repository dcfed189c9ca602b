//! Which servers, and how to speak to them: from options, else from the environment, to the settings of a client.

use std::{
    env::{self, VarError},
    fmt,
};

use clap::Args;
use lockkeeper::{Builder, ConnectString, ConnectStringError};

use crate::security::{BadSecurity, SecurityArgs};

/// The variable that names the servers where `--connect` does not.
const VARIABLE: &str = "LOCKKEEPER_CONNECT";

const CONNECT_HELP: &str =
    "The ZooKeeper servers: host:port,host:port/chroot [default: $LOCKKEEPER_CONNECT]";

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

    /// Settings for a client of the servers that were named on the command line. Without any, there must be no word of how
    /// to speak to them either.
    pub(crate) fn settings_if_named(
        &self,
    ) -> Result<Option<(&ConnectString, Builder)>, BadServers> {
        match &self.connect {
            Some(servers) => Ok(Some((servers, self.settings_for(servers)?))),
            None if self.security.is_given() => Err(BadServers::NoneToSecure),
            None => Ok(None),
        }
    }

    fn settings_for(&self, servers: &ConnectString) -> Result<Builder, BadServers> {
        let settings = Builder::new(servers);
        self.security.apply(settings).map_err(BadServers::Security)
    }

    /// A bad `--connect` is found with the other arguments, and a bad variable here.
    fn servers(&self) -> Result<ConnectString, BadServers> {
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

/// Why there are no servers to speak to.
#[derive(Debug)]
pub(crate) enum BadServers {
    /// Neither option nor variable names one.
    None,
    /// The variable's list of servers cannot be read.
    BadVariable(ConnectStringError),
    /// The variable is not text.
    NotText,
    /// There is no use in certificates, keys and identities where no server is named.
    NoneToSecure,
    /// Certificates, keys or identities are of no use.
    Security(BadSecurity),
}

impl fmt::Display for BadServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(
                f,
                "no servers: give --connect HOST:PORT,.. or set {VARIABLE}; to try it out, run `lockkeeper serve` \
                 and use 127.0.0.1:2181"
            ),
            Self::BadVariable(error) => write!(f, "{VARIABLE}: {error}"),
            Self::NotText => write!(f, "{VARIABLE}: it is not UTF-8"),
            Self::NoneToSecure => f.write_str(
                "--tls-ca and --auth-file are for servers that --connect names, and it names none",
            ),
            Self::Security(problem) => problem.fmt(f),
        }
    }
}

impl std::error::Error for BadServers {}
