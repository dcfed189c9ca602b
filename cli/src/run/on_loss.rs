//! `--on-loss`: a script that runs when the lock is lost, beside the end of the command.

use std::{ffi::OsStr, process::Stdio, time::Duration};

use tokio::{
    process::{Child, Command},
    time::timeout,
};

use super::child::Environment;

/// The variable of the script with the reason of the loss.
const LOSS: &str = "LOCKKEEPER_LOSS";

/// How long `run` waits for the script after the command has ended. Then it kills the script.
const LONGEST: Duration = Duration::from_secs(10);

/// The script, if the user has given one.
#[derive(Debug)]
pub(super) struct OnLoss<'a> {
    script: Option<&'a OsStr>,
    environment: Environment,
}

/// The script while it runs.
#[derive(Debug)]
pub(super) struct Script(Option<Child>);

impl<'a> OnLoss<'a> {
    pub(super) fn new(script: Option<&'a OsStr>, environment: Environment) -> Self {
        Self {
            script,
            environment,
        }
    }

    pub(super) fn start(self, loss: &str) -> Script {
        let started = self.script.map(|script| {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(script).stdin(Stdio::null());
            shell.env(LOSS, loss).kill_on_drop(true);
            self.environment.apply(shell.as_std_mut());
            shell.spawn()
        });
        Script(started.transpose().unwrap_or_else(|error| {
            say!("the script of --on-loss did not start: {error}");
            None
        }))
    }
}

impl Script {
    /// Waits for the end of the script.
    pub(super) async fn end(self) {
        let Some(mut shell) = self.0 else {
            return;
        };
        if timeout(LONGEST, shell.wait()).await.is_err() {
            say!("the script of --on-loss did not end in 10 s; killing it");
        }
    }
}
