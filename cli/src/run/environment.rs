//! The environment of a command that runs under the lock, as it differs from that of this process.

/// The variables in which the environment of a command differs from ours: new values, and variables to remove.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(Vec<(&'static str, Option<String>)>);

impl Environment {
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push((name, Some(value.into())));
    }

    pub(crate) fn remove(&mut self, name: &'static str) {
        self.0.push((name, None));
    }

    pub(super) fn apply(&self, command: &mut std::process::Command) {
        for (name, value) in &self.0 {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
}
