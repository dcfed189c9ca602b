//! Which servers: from `--connect`, else from the environment.

use std::env::{self, VarError};

use lockkeeper::ConnectString;

use crate::exit::Failure;

/// The variable that names the servers where `--connect` does not.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_CONNECT";

/// The servers to use. A bad `--connect` is found with the other arguments, and a bad variable here.
pub(crate) fn given(connect: Option<&ConnectString>) -> Result<ConnectString, Failure> {
    if let Some(servers) = connect {
        return Ok(servers.clone());
    }
    match env::var(VARIABLE) {
        Ok(text) => text.parse().map_err(Failure::BadVariable),
        Err(VarError::NotPresent) => Err(Failure::NoServers),
        Err(VarError::NotUnicode(_)) => Err(Failure::UnreadableVariable),
    }
}
