//! The output of `lockkeeper doctor`.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::ask::Answer;
use crate::{duration::Human, escape, text};

/// Something that is wrong, or could be better.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Problem {
    pub(super) server: String,
    pub(super) what: String,
    #[serde(rename = "do")]
    pub(super) cure: &'static str,
    #[serde(skip)]
    pub(super) is_note: bool,
}

impl Problem {
    pub(super) fn new(of: &Answer, is_note: bool, what: String, cure: &'static str) -> Self {
        Self {
            server: of.server.clone(),
            what,
            cure,
            is_note,
        }
    }
}

/// A block for each server, and the problems.
pub(super) fn text(answers: &[Answer], problems: &[Problem]) -> String {
    let block = |answer: &Answer| {
        let facts = json!(answer);
        let facts = facts.as_object().into_iter().flatten();
        let rows: Vec<_> = facts.filter_map(row).collect();
        format!("{}\n{}\n", answer.server, text::table(&rows))
    };
    let list = |heading: &str, all: &[&Problem]| {
        let is_same = |one: &Problem, it: &Problem| (&one.what, one.cure) == (&it.what, it.cure);
        let mut items: Vec<Vec<&Problem>> = Vec::new();
        for it in all {
            match items.iter_mut().find(|group| is_same(group[0], it)) {
                Some(group) => group.push(it),
                None => items.push(vec![it]),
            }
        }
        let item = |group: &Vec<&Problem>| {
            let servers: Vec<_> = group.iter().map(|it| it.server.as_str()).collect();
            let what = escape::harmless(&group[0].what);
            format!("- {}: {what}\n  {}\n", servers.join(", "), group[0].cure)
        };
        let list: String = items.iter().map(item).collect();
        format!("{heading}: {}\n{list}", items.len())
    };
    let mut report: String = answers.iter().map(block).collect();
    let (notes, problems) = split(problems);
    if !notes.is_empty() {
        report += &list("notes", &notes);
    }
    if problems.is_empty() {
        return report + "no problem found\n";
    }
    report + &list("problems", &problems)
}

/// The notes, and the problems.
fn split(problems: &[Problem]) -> (Vec<&Problem>, Vec<&Problem>) {
    problems.iter().partition(|it| it.is_note)
}

/// The name of a fact, and its value for people. What is not known has no row.
fn row((name, value): (&String, &Value)) -> Option<[String; 2]> {
    let time = |ms: f64| Human(Duration::from_secs_f64(ms / 1e3)).to_string();
    let text = match (name.as_str(), value) {
        ("server", _) | (_, Value::Null) => return None,
        ("certificate_ends_ms", end) => {
            let end = Duration::from_millis(end.as_u64().unwrap_or_default());
            text::moment(end).to_string()
        }
        ("max_client_connections", Value::Number(limit)) if limit.as_u64() == Some(0) => {
            "unlimited".to_owned()
        }
        ("clock_ms", ms) => format!("{ms} ms from ours"),
        (_, Value::Bool(is_so)) => (if *is_so { "yes" } else { "no" }).to_owned(),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Array(all)) => {
            let all: Vec<_> = all.iter().filter_map(Value::as_str).collect();
            all.join(" ")
        }
        (name, number) => match number.as_f64().filter(|_| name.ends_with("_ms")) {
            Some(ms) => time(ms),
            None => number.to_string(),
        },
    };
    let name = name.trim_end_matches("_ms").replace('_', " ");
    (!text.is_empty()).then(|| [format!("  {name}"), escape::harmless(&text)])
}

/// One object in one line.
pub(super) fn json(answers: &[Answer], problems: &[Problem]) -> String {
    let (notes, problems) = split(problems);
    let report = json!({"servers": answers, "notes": notes, "problems": problems});
    format!("{report}\n")
}
