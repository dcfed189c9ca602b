//! `--notify`: tells systemd about the state of `run`.
//!
//! Source: `sd_notify(3)`. The service manager names a datagram socket in a variable; each datagram has lines such as `READY=1`.

use std::{
    env,
    ffi::OsString,
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

use crate::exit::Failure;

/// The variable that names the socket. The command does not get it: its messages would be mistaken for ours.
pub(super) const VARIABLE: &str = "NOTIFY_SOCKET";

/// How long a message may wait for a place in the socket. Meanwhile this process does nothing else.
const PATIENCE: Duration = Duration::from_millis(100);

/// A way to the service manager, if there is one.
#[derive(Debug)]
pub(super) struct Notify(Option<UnixDatagram>);

impl Notify {
    /// Without `is_asked`, and outside a service manager, this value says nothing.
    pub(super) fn new(is_asked: bool) -> Result<Self, Failure> {
        // An empty variable counts as unset, as for sd_notify(3).
        let name = env::var_os(VARIABLE).filter(|name| is_asked && !name.is_empty());
        let Some(name) = name else {
            return Ok(Self(None));
        };
        let what = format!("reach {VARIABLE}={}", name.display());
        Self::to(name).map_err(Failure::system(what))
    }

    fn to(name: OsString) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        match name.as_encoded_bytes().strip_prefix(b"@") {
            Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
            None => socket.connect(name)?,
        }
        Ok(Self(Some(socket)))
    }

    /// Sends lines. A service manager that does not listen must not end a command that runs well.
    pub(super) fn say(&self, lines: &str) {
        if let Some(socket) = &self.0 {
            let _ = socket.send(lines.as_bytes());
        }
    }
}
