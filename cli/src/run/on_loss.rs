//! `--on-loss`: a script that runs when the lock is lost, beside the end of the command.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
    time::Duration,
};

use super::{child::Child, environment::Environment};

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

impl<'a> OnLoss<'a> {
    pub(super) fn new(script: Option<&'a OsStr>, environment: Environment) -> Self {
        Self {
            script,
            environment,
        }
    }

    /// Starts the script beside the command.
    pub(super) fn start(self, loss: &str, child: &mut Child) {
        let Some(script) = self.script else {
            return;
        };
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).stdin(Stdio::null());
        shell.env(LOSS, loss);
        self.environment.apply(&mut shell);
        if let Err(error) = child.start_beside(&mut shell) {
            say!("the script of --on-loss did not start: {error}");
        }
    }
}

/// Waits for the end of the script, if there is one.
pub(super) async fn end(child: &mut Child) {
    if !child.end_beside(LONGEST).await {
        say!("the script of --on-loss did not end in 10 s; killing it");
    }
}
