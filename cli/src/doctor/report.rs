//! The output of `lockkeeper doctor`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask::Answer, problems::Problem};
use crate::{duration::Human, text};

/// A block for each server, and the problems.
pub(super) fn text(answers: &[Answer], problems: &[Problem]) -> String {
    let block = |answer: &Answer| {
        let Value::Object(facts) = json!(answer) else {
            return String::new();
        };
        let rows: Vec<_> = facts.iter().filter_map(row).collect();
        format!("{}\n{}\n", answer.server, text::table(&rows))
    };
    let count = match problems.len() {
        0 => "no problem found\n".to_owned(),
        count => format!("problems: {count}\n"),
    };
    let problem = |it: &Problem| {
        let Problem { server, what, cure } = it;
        format!("- {server}: {}\n  {cure}\n", text::harmless(what))
    };
    let blocks = answers.iter().map(block);
    let problems = problems.iter().map(problem);
    blocks.chain([count]).chain(problems).collect()
}

/// The name of a fact, and its value for people. What is not known has no row.
fn row((name, value): (&String, &Value)) -> Option<[String; 2]> {
    let time = |ms: f64| Human(Duration::from_secs_f64(ms / 1e3)).to_string();
    let text = match (name.as_str(), value) {
        ("server", _) | (_, Value::Null) => return None,
        ("clock_ms", ms) => format!("{ms} ms from ours"),
        (_, Value::Bool(is_so)) => (if *is_so { "yes" } else { "no" }).to_owned(),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Array(all)) => all
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" "),
        (name, number) => match number.as_f64().filter(|_| name.ends_with("_ms")) {
            Some(ms) => time(ms),
            None => number.to_string(),
        },
    };
    let name = name.trim_end_matches("_ms").replace('_', " ");
    Some([format!("  {name}"), text::harmless(&text)])
}

/// One object in one line.
pub(super) fn json(answers: &[Answer], problems: &[Problem]) -> String {
    let report = json!({"servers": answers, "problems": problems});
    format!("{report}\n")
}
