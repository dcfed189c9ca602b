//! Signals of this process, as a stream; the width of stdout, and the end of whoever reads it.
//!
//! Invariant: a signal that was ignored when the process started stays ignored, here and in its children. With
//! ignored signals, nohup(1) and scripts protect the jobs that they start. PIPE is the exception: the standard library ignores it
//! here, and gives each child the default action. A signal that was blocked is received here, and stays blocked in the children.
//! Not here: sending signals to the command (`run::child`).

use std::{fs, future::poll_fn, io, task::Poll, thread};

use nix::sys::signal::{self, SigSet};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::Signal,
};
use tokio::{
    signal::unix::{self, SignalKind},
    sync::oneshot,
};

use crate::exit::Failure;

/// The signals that ask a process to end.
pub(crate) const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// The signals that are passed on to a command: those, and two whose meaning only the command knows.
pub(crate) const PASSED_ON: [Signal; 6] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

/// Receives also the signals that the parent has blocked, as some service managers and language runtimes do: without CHLD, `run` would
/// never hear of the end of its command. A thread of its own lets them through. The other threads, which start the children, have the
/// mask of the parent, so the children inherit that.
pub(crate) fn unblock() -> io::Result<()> {
    let mut ours = SigSet::empty();
    for signal in PASSED_ON.iter().chain(&[Signal::TSTP, Signal::CHILD]) {
        ours.add(signal::Signal::try_from(signal.as_raw())?);
    }
    let blocked = SigSet::thread_get_mask()?;
    if ours.iter().any(|it| blocked.contains(it)) {
        let receive = move || {
            while ours.thread_unblock().is_ok() {
                thread::park();
            }
        };
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(receive)?;
    }
    Ok(())
}

/// Receives signals. They stay caught until the process ends, also after this value is dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    /// Those that were ignored when the process started.
    ignored: u64,
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Catches these signals, except those that are ignored.
    ///
    /// # Errors
    /// The operating system's error when it refuses to install a handler.
    pub(crate) fn catch(signals: &[Signal]) -> io::Result<Self> {
        let mut caught = Self {
            ignored: ignored(),
            streams: Vec::new(),
        };
        for signal in signals {
            caught.catch_also(*signal)?;
        }
        Ok(caught)
    }

    /// Catches one more signal, unless it is ignored.
    pub(crate) fn catch_also(&mut self, signal: Signal) -> io::Result<()> {
        if !is_in(self.ignored, signal) {
            let stream = unix::signal(SignalKind::from_raw(signal.as_raw()));
            let stream =
                stream.map_err(|why| io::Error::other(format!("cannot catch signals: {why}")))?;
            self.streams.push((signal, stream));
        }
        Ok(())
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    /// A dropped future loses no signal. Two equal signals may arrive as one, as usual for signals.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            let ready = self.streams.iter_mut().find_map(|(signal, stream)| {
                let is_ready = stream.poll_recv(cx).is_ready();
                is_ready.then_some(*signal)
            });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for a signal that asks the process to end, and ignores others.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if ENDING.contains(&signal) {
                return signal;
            }
        }
    }

    /// The result of the work. A signal that asks the process to end drops the work, and is the failure.
    pub(crate) async fn or_end<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            signal = self.ending() => Err(Failure::signal(signal.as_raw())),
            done = work => done,
        }
    }
}

/// Returns when nobody reads stdout any more, as behind `head -1`. A command that waits for events would not learn it before the
/// next event. Call it once: a thread waits, and never ends if stdout is a file or a terminal.
pub(crate) async fn closed() -> Failure {
    let (tell, told) = oneshot::channel();
    let wait = move || {
        let stdout = io::stdout();
        // The system reports errors whatever is asked for.
        let mut stdout = [PollFd::new(&stdout, PollFlags::empty())];
        while poll(&mut stdout, None).is_err() {}
        let _ = tell.send(());
    };
    let waiting = thread::Builder::new().name("reader".to_owned()).spawn(wait);
    if waiting.is_ok() && told.await.is_ok() {
        return Failure::output(&io::ErrorKind::BrokenPipe.into());
    }
    std::future::pending().await
}

/// The width of the terminal on stdout, if it is one.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// The set of ignored signals. Source: proc(5), `SigIgn`.
fn ignored() -> u64 {
    fs::read_to_string("/proc/self/status").map_or(0, |status| ignored_in(&status))
}

fn ignored_in(status: &str) -> u64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap_or_default();
    u64::from_str_radix(line.trim(), 16).unwrap_or(0)
}

/// Whether the set contains the signal. Bit n-1 stands for signal n.
fn is_in(set: u64, signal: Signal) -> bool {
    set & (1 << (signal.as_raw() - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status_of_the_process() {
        let set = ignored_in("Name:\tx\nSigBlk:\t0000000000000004\nSigIgn:\t0000000000001001\n");
        assert!(is_in(set, Signal::HUP));
        assert!(!is_in(set, Signal::INT));
        assert!(is_in(set, Signal::PIPE));
        assert_eq!(ignored_in("Name:\tx\n"), 0);
    }
}
