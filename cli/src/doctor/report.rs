//! The output of `lockkeeper doctor`.
//!
//! Invariant: later versions may add keys to the JSON, but remove none.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    ask::{Answer, Told},
    problems::Problem,
};
use crate::{duration::Long, text};

/// A block for each server, and the problems.
pub(super) fn text(answers: &[Answer], problems: &[Problem]) -> String {
    let block = |answer: &Answer| {
        let rows = text::table(&rows(answer));
        format!("{}\n{rows}\n", answer.server)
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

fn rows(answer: &Answer) -> Vec<[String; 2]> {
    let told = answer.told.as_ref();
    let untold = || "not told".to_owned();
    let mut rows = vec![
        ("version", answer.version.clone().unwrap_or_else(untold)),
        ("mode", answer.mode.clone().unwrap_or_else(untold)),
    ];
    match told {
        Err(error) => rows.push(("session", error.clone())),
        Ok(told) => {
            let shortest = told.shortest_session.map(|it| format!("{} to ", Long(it)));
            let longest = Long(told.longest_session);
            let sessions = format!("{}{longest}", shortest.unwrap_or_default());
            rows.push(("round trip", Long(told.round_trip).to_string()));
            rows.push(("session timeouts", sessions));
            rows.push(("persistent watches", yes(told.persistent_watches.is_ok())));
            if let Some(containers) = &told.containers {
                rows.push(("containers", yes(containers.is_ok())));
            }
            if let Some(Ok(ms)) = told.clock_ms {
                rows.push(("clock", format!("{ms:+} ms")));
            }
            if !told.identities.is_empty() {
                rows.push(("identities", told.identities.join(" ")));
            }
        }
    }
    if let Some(tick) = answer.tick {
        rows.push(("tick", Long(tick).to_string()));
    }
    if let Some(ticks) = answer.sync_limit {
        rows.push(("sync limit", format!("{ticks} ticks")));
    }
    let row = |(name, value): (&str, String)| [format!("  {name}"), text::harmless(&value)];
    rows.into_iter().map(row).collect()
}

fn yes(does: bool) -> String {
    (if does { "yes" } else { "no" }).to_owned()
}

/// One object in one line.
pub(super) fn json(answers: &[Answer], problems: &[Problem]) -> String {
    let problem = |it: &Problem| json!({"server": it.server, "what": it.what, "do": it.cure});
    let report = json!({
        "servers": answers.iter().map(server).collect::<Vec<_>>(),
        "problems": problems.iter().map(problem).collect::<Vec<_>>(),
    });
    format!("{report}\n")
}

fn server(answer: &Answer) -> Value {
    let told = answer.told.as_ref().ok();
    let ms = |time: Duration| text::millis(time);
    let of = |field: fn(&Told) -> Value| told.map_or(Value::Null, field);
    json!({
        "server": answer.server,
        "version": answer.version,
        "mode": answer.mode,
        "error": answer.told.as_ref().err(),
        "round_trip_ms": of(|it| json!(it.round_trip.as_secs_f64() * 1e3)),
        "shortest_session_ms": of(|it| json!(it.shortest_session.map(text::millis))),
        "longest_session_ms": of(|it| json!(text::millis(it.longest_session))),
        "persistent_watches": of(|it| json!(it.persistent_watches.is_ok())),
        "containers": of(|it| json!(it.containers.as_ref().map(Result::is_ok))),
        "clock_ms": of(|it| json!(it.clock_ms.as_ref().and_then(|it| it.as_ref().ok()))),
        "identities": of(|it| json!(it.identities)),
        "tick_ms": answer.tick.map(ms),
        "sync_limit": answer.sync_limit,
    })
}
