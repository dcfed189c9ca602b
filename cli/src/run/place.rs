//! Where a command runs: in the foreground of a terminal, or in a process group of its own.
//!
//! Not here: what follows from that for signals (`child`, `watchdog`).

use std::fs::File;

use rustix::process::getpgrp;

/// The process group in which a command is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the foreground of a terminal, in our own process group.
    Foreground,
    /// Anywhere else, in its own process group.
    OwnGroup,
}

impl Place {
    /// The place for a command that this process starts.
    pub(crate) fn of_this() -> Self {
        let foreground =
            File::open("/dev/tty").and_then(|tty| Ok(rustix::termios::tcgetpgrp(tty)?));
        match foreground {
            Ok(group) if group == getpgrp() => Self::Foreground,
            _ => Self::OwnGroup,
        }
    }
}
