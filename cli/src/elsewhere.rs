//! What takes the place of `run` and `signals` on other systems than Linux: `run` refuses, and Ctrl-C is the only signal.
//!
//! Invariant: the same items as there, as far as other modules use them.

#![allow(clippy::unnecessary_wraps, reason = "Linux may refuse signals")]

/// The place of the module `run`.
pub(crate) mod run {
    use std::{ffi::OsString, future::ready};

    use clap::Args;

    use crate::{exit::Failure, signals::Signals};

    pub(crate) const EXAMPLE: &str = "lockkeeper queue --connect zk1:2181,zk2:2181 /locks/backup";

    const WHY: &str = "needs Linux: it finds in /proc what a command has started, and ends all of \
        it before another client gets the lock";

    /// Run a command while holding a lock: on Linux only
    #[derive(Args, Debug)]
    #[command(after_help = format!("This command {WHY}."))]
    pub(crate) struct RunArgs {
        #[arg(skip)]
        pub(crate) quiet: bool,

        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    }

    pub(crate) fn helper(_: &[OsString]) -> Option<u8> {
        None
    }

    pub(crate) fn run(_: RunArgs) -> impl Future<Output = Result<u8, Failure>> {
        ready(Err(failure!(SYSTEM, "run {WHY}")))
    }

    pub(crate) fn beside(
        _: &[OsString],
        _: &str,
        _: &mut Signals,
    ) -> impl Future<Output = Result<u8, Failure>> {
        ready(Err(failure!(SYSTEM, "serve with a COMMAND {WHY}")))
    }
}

/// The place of the module `signals`.
pub(crate) mod signals {
    use std::{future::pending, io};

    use futures::{
        FutureExt as _,
        future::{BoxFuture, Shared},
    };
    use terminal_size::{Width, terminal_size_of};
    use tokio::signal::ctrl_c;

    use crate::exit::Failure;

    #[derive(Debug)]
    pub(crate) enum Signal {
        Int = 2,
    }

    pub(crate) const ENDING: [Signal; 1] = [Signal::Int];
    pub(crate) const PASSED_ON: [Signal; 1] = ENDING;

    pub(crate) fn unblock() -> io::Result<()> {
        Ok(())
    }

    /// Whether Ctrl-C was pressed since somebody first asked.
    #[derive(Debug)]
    pub(crate) struct Signals(Shared<BoxFuture<'static, ()>>);

    impl Signals {
        pub(crate) fn catch(_: &[Signal]) -> io::Result<Self> {
            let pressed = async {
                if ctrl_c().await.is_err() {
                    pending::<()>().await;
                }
            };
            Ok(Self(pressed.boxed().shared()))
        }

        pub(crate) async fn ending(&mut self) -> Signal {
            self.0.clone().await;
            Signal::Int
        }

        pub(crate) async fn or_end<T>(
            &mut self,
            work: impl Future<Output = Result<T, Failure>>,
        ) -> Result<T, Failure> {
            tokio::select! {
                biased;
                signal = self.ending() => Err(Failure::signal(signal as i32)),
                done = work => done,
            }
        }
    }

    pub(crate) fn width() -> Option<usize> {
        let (Width(columns), _) = terminal_size_of(io::stdout())?;
        Some(columns.into())
    }

    /// The next write to stdout shows it.
    pub(crate) async fn closed() -> Failure {
        pending().await
    }
}
