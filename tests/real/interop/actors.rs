//! Controls Curator step by step: sends commands to `CuratorActors.java` and reads its replies.
//!
//! Invariant: no line of an actor is lost. A line that nothing has asked for yet stays queued until
//! then.

use std::collections::VecDeque;

use tokio::time::timeout;

use crate::interop::{
    SILENCE,
    support::{
        Ensemble,
        programs::{self, Running},
    },
};

/// The running program.
pub(crate) struct Curator {
    program: Running,
    /// Lines that nothing has asked for yet.
    said: VecDeque<String>,
}

impl Curator {
    pub(crate) async fn start(ensemble: &Ensemble) -> Self {
        let mut program = programs::java("CuratorActors");
        program.arg(ensemble.servers());
        let mut program = Running::start(program);
        assert_eq!(program.line().await, "ready");
        let said = VecDeque::new();
        Self { program, said }
    }

    /// `ACTOR VERB ARGUMENTS`: makes an actor begin something.
    pub(crate) async fn tell(&mut self, step: &str) {
        self.program.say(step).await;
    }

    /// Makes an actor do something and waits until it is done. Returns its results.
    pub(crate) async fn does(&mut self, step: &str) -> String {
        self.tell(step).await;
        let words: Vec<_> = step.splitn(3, ' ').collect();
        self.says(&words[..2].join(" ")).await
    }

    /// Waits for a line that starts with `ACTOR VERB`. Returns the rest of the line.
    pub(crate) async fn says(&mut self, what: &str) -> String {
        let rest = |line: &String| line.strip_prefix(what).map(|rest| rest.trim().to_owned());
        if let Some(at) = self.said.iter().position(|line| rest(line).is_some()) {
            return rest(&self.said.remove(at).unwrap()).unwrap();
        }
        loop {
            let line = self.program.line().await;
            if let Some(rest) = rest(&line) {
                return rest;
            }
            self.said.push_back(line);
        }
    }

    /// Checks for a short time that a line does not come.
    pub(crate) async fn does_not_say(&mut self, what: &str) {
        let said = timeout(SILENCE, self.says(what)).await;
        assert!(said.is_err(), "Curator said \"{what}\" too early");
    }
}
