//! Curator, step by step: what `CuratorActors.java` is told to do, and what it says.
//!
//! Invariant: nothing that an actor said is lost; what was not expected yet is kept until it is.

use std::collections::VecDeque;

use tokio::time::timeout;

use crate::{
    SILENCE,
    support::{
        Ensemble,
        exclusion::{Held, Side},
        programs::{self, Running},
    },
};

/// The program, running.
pub(crate) struct Curator {
    program: Running,
    /// What was said and not asked for yet.
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

    /// `ACTOR VERB ARGUMENTS`: lets an actor begin something.
    pub(crate) async fn tell(&mut self, step: &str) {
        self.program.say(step).await;
    }

    /// Lets an actor do something, and waits until it is done. Returns its results.
    pub(crate) async fn does(&mut self, step: &str) -> String {
        self.tell(step).await;
        let words: Vec<_> = step.splitn(3, ' ').collect();
        self.says(&words[..2].join(" ")).await
    }

    /// Waits until `ACTOR VERB` is said; returns the rest of the line.
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

    /// One of many rounds, of any actor: `ACTOR VERB VALUE START_MS END_MS`. Returns the verb with it.
    pub(crate) async fn round(&mut self) -> (String, Held) {
        let line = self.program.line().await;
        let words: Vec<_> = line.split(' ').collect();
        let [_, verb, value, start, end] = words[..] else {
            // An actor is done with all of its rounds.
            return Box::pin(self.round()).await;
        };
        let held = Held {
            value: value.parse().unwrap(),
            side: Side::Theirs,
            start: start.parse().unwrap(),
            end: end.parse().unwrap(),
            token: None,
        };
        (verb.to_owned(), held)
    }

    /// Looks out for what must not be said.
    pub(crate) async fn does_not_say(&mut self, what: &str) {
        let said = timeout(SILENCE, self.says(what)).await;
        assert!(said.is_err(), "it says \"{what}\"");
    }
}
