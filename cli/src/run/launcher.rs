//! The process that becomes the command. The watchdog starts it, and it waits until the command may begin.
//!
//! The system kills the command when its watchdog ends: the last net, for a `run` and a watchdog that were killed together.
//! It does not reach what the command has started. A process can ask for it only itself, so it cannot be asked for where the watchdog
//! starts the command.
//!
//! Not here: when the command may begin (`watchdog`).

use std::{
    ffi::OsString,
    io,
    os::{
        fd::AsFd as _,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::Command,
};

use rustix::{
    net::{SendFlags, send},
    process::{Signal, getppid, set_parent_process_death_signal},
};

use super::message::{Word, receive_begin};
use crate::exit;

/// The first argument of the process.
pub(crate) const NAME: &str = "--command";

/// Becomes the command. The arguments are the id of the watchdog, and the command. Stdin is the connection to the watchdog: its end
/// says that the command has begun.
pub(crate) fn launch(arguments: &[OsString]) -> u8 {
    let [watchdog, program, arguments @ ..] = arguments else {
        return exit::USAGE;
    };
    let begun = begin(watchdog, Command::new(program).args(arguments));
    begun.map_or(exit::SYSTEM, |()| exit::OK)
}

/// Returns only if the command cannot begin, or must not.
fn begin(watchdog: &OsString, command: &mut Command) -> io::Result<()> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let Some((_, stdin)) = receive_begin(&stream)? else {
        return Ok(());
    };
    // The watchdog may have ended before the system was asked.
    if getppid().is_some_and(|parent| *parent.to_string() == **watchdog) {
        let error = command.stdin(stdin).exec();
        send(&stream, &Word::failed(&error).encode(), SendFlags::empty())?;
    }
    Ok(())
}
