//! Reads `mutations.txt`: faults in the product, and the checks that must find them. `gate.txt`
//! names some of them.
//!
//! Not here: building and running the sources with a fault (`main`).

#![allow(clippy::exhaustive_structs, reason = "not published")]

use std::collections::BTreeMap;

/// One fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutation {
    /// What the product does wrong with this fault.
    pub name: String,
    /// The lines of its checks. Each of these must find the fault.
    pub checks: Vec<String>,
    /// The replacements that make the fault.
    pub edits: Vec<Edit>,
}

/// One replacement in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The file, from the root of the repository.
    pub file: String,
    /// The text to replace. It must be in the file exactly once.
    pub old: String,
    /// The text that replaces it.
    pub new: String,
}

/// The variable that names the fault of a program with switches.
pub const FAULT: &str = "LOCKKEEPER_FAULT";

/// Returns the files of these faults with a switch for each of them. `read` returns the text of a
/// file.
///
/// # Errors
/// As `Edit::apply`; or an edit is no switch.
pub fn with_switches(
    faults: &[Mutation],
    read: impl Fn(&str) -> String,
) -> Result<BTreeMap<String, String>, String> {
    let mut texts = BTreeMap::new();
    for fault in faults {
        for edit in &fault.edits {
            let file = edit.file.clone();
            let text = texts.entry(file).or_insert_with(|| read(&edit.file));
            *text = edit.switched(text, &fault.name)?;
        }
    }
    Ok(texts)
}

impl Edit {
    /// Returns the text with a switch: a process has the fault if the variable [`FAULT`] names it.
    /// So one build serves many faults. The two texts are expressions, or statements that end with a
    /// semicolon. A `let` must bind the same variable in both.
    fn switched(&self, text: &str, fault: &str) -> Result<String, String> {
        let is_on = format!(
            "{{ static ON: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| \
             std::env::var({FAULT:?}).as_deref() == Ok({fault:?})); *ON }}"
        );
        let either = |old, new| format!("if {is_on} {{ {new} }} else {{ {old} }}");
        let binding = (self
            .old
            .strip_prefix("let ")
            .and_then(|it| it.split_once(" = ")))
        .map(|(name, _)| format!("let {name} = "));
        let switched = if let Some(binding) = binding {
            let value = |it: &str| Some(it.strip_prefix(&binding)?.strip_suffix(';')?.to_owned());
            let values = value(&self.old).zip(value(&self.new));
            let (old, new) = values.ok_or_else(|| format!("{fault}: not a switch"))?;
            format!("{binding}{};", either(&old, &new))
        } else if self.old.ends_with(';') {
            either(&self.old, &self.new)
        } else {
            format!("({})", either(&self.old, &self.new))
        };
        let edit = Self {
            new: switched,
            ..self.clone()
        };
        edit.apply(text)
    }

    /// Returns the text with the fault.
    ///
    /// # Errors
    /// The text to replace is not in the file, or is there more than once.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.old).count() {
            1 => Ok(text.replace(&self.old, &self.new)),
            count => Err(format!(
                "{} must have this text once, but has it {count} times: {}",
                self.file, self.old
            )),
        }
    }
}

/// Returns the list.
///
/// # Errors
/// A line has none of the known forms.
pub fn read() -> Result<Vec<Mutation>, String> {
    parse(include_str!("../mutations.txt"))
}

/// The faults that the gate tries, each with its first check that is the simulation or the model:
/// one build serves all of them. Each is found quickly, and together they touch most of the
/// mechanisms.
///
/// # Errors
/// One of them is not in the list, or has no such check.
pub fn gate() -> Result<Vec<Mutation>, String> {
    let all = read()?;
    let of_gate = |name: &str| {
        let mut mutation = all.iter().find(|mutation| mutation.name == name)?.clone();
        mutation.checks.retain(|check| !check.starts_with("test "));
        mutation.checks.truncate(1);
        (!mutation.checks.is_empty()).then_some(mutation)
    };
    let names = include_str!("../gate.txt").lines();
    names
        .map(|name| {
            of_gate(name).ok_or_else(|| format!("gate.txt: no simulation or model finds {name}"))
        })
        .collect()
}

fn parse(text: &str) -> Result<Vec<Mutation>, String> {
    let mut all: Vec<Mutation> = Vec::new();
    for line in text.lines().skip_while(|line| !line.starts_with("## ")) {
        let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
        if sign == "##" {
            all.push(Mutation {
                name: rest.to_owned(),
                ..Mutation::default()
            });
            continue;
        }
        let wrong = || format!("mutations.txt: unknown kind of line: {line}");
        let mutation = all.last_mut().ok_or_else(wrong)?;
        match sign {
            "" => {}
            "simulation" | "model" | "test" => mutation.checks.push(line.to_owned()),
            "file" => mutation.edits.push(Edit {
                file: rest.to_owned(),
                ..Edit::default()
            }),
            "-" | "+" => {
                let edit = mutation.edits.last_mut().ok_or_else(wrong)?;
                let text = if sign == "-" {
                    &mut edit.old
                } else {
                    &mut edit.new
                };
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(rest);
            }
            _ => return Err(wrong()),
        }
    }
    Ok(all)
}
