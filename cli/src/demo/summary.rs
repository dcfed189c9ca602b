//! The summary at the end of the demo: the measurements, and whether the lock kept its promises.
//!
//! Not here: how they are computed (`audit`).

use std::{io, time::Duration};

use super::{
    audit::{Audit, percentile},
    events::Write,
    line::Line,
    screen::{BAD, GOOD, print},
};
use crate::duration::Human;

/// Prints the summary. Returns true if the lock kept every promise that was tested.
///
/// `complete` says that the demo was not ended early, so every promise was tested.
pub(super) fn print_summary(audit: &Audit, took: Duration, complete: bool) -> io::Result<bool> {
    print(&Line::new())?;
    numbers(audit, took)?;
    let broken = broken(audit, complete);
    print(&Line::new())?;
    if broken.is_empty() {
        let mut line = Line::new();
        line.add(GOOD, "OK");
        line.plain(": no two clients held the lock at once");
        if complete {
            line.plain(", and the late write was refused");
        }
        print(&line)?;
    }
    for promise in &broken {
        let mut line = Line::new();
        line.add(BAD, "BROKEN").plain(format_args!(": {promise}"));
        print(&line)?;
    }
    Ok(broken.is_empty())
}

fn numbers(audit: &Audit, took: Duration) -> io::Result<()> {
    let (least, most) = audit.shares();
    let holds = audit.holds.len();
    item(
        "holds",
        &format!(
            "{holds} in {}, {least} to {most} by each client",
            Human(took)
        ),
    )?;
    item("overlaps", &audit.overlaps().to_string())?;
    let waits = audit.waits();
    item("waited", &distribution(&waits))?;
    let hand_overs = audit.hand_overs();
    if !hand_overs.is_empty() {
        item("hand-over", &distribution(&hand_overs))?;
    }
    if let Some(expiry) = audit.expiry() {
        item(
            "expiry",
            &format!(
                "client {}: lease ended after {}, next grant after {}",
                expiry.client + 1,
                Human(expiry.lease),
                Human(expiry.handed_on)
            ),
        )?;
    }
    if let (Some(first), Some(last)) = (audit.holds.first(), audit.holds.last()) {
        let growth = if audit.tokens_grow() {
            "each higher than the one before"
        } else {
            "not growing"
        };
        item(
            "tokens",
            &format!("{} to {}, {growth}", first.token, last.token),
        )?;
    }
    let count = audit
        .count
        .map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    let (written, refused) = (audit.written, audit.refused);
    let doubt = match audit.in_doubt {
        0 => String::new(),
        doubt => format!(" and {doubt} in doubt"),
    };
    item(
        "counter",
        &format!("{count} after {written} writes{doubt}; {refused} refused"),
    )
}

fn item(name: &str, text: &str) -> io::Result<()> {
    let mut line = Line::new();
    line.add(anstyle::Style::new().bold(), format_args!("{name:<10}"));
    line.plain(text);
    print(&line)
}

fn distribution(sorted: &[Duration]) -> String {
    format!(
        "p50 {:<9}p99 {:<9}longest {}",
        Human(percentile(sorted, 50)),
        Human(percentile(sorted, 99)),
        Human(percentile(sorted, 100))
    )
}

/// The promises that were broken.
fn broken(audit: &Audit, complete: bool) -> Vec<String> {
    let mut broken = Vec::new();
    if audit.holds.is_empty() && complete {
        broken.push("no client got the lock".to_owned());
    }
    match audit.overlaps() {
        0 => {}
        1 => broken.push("two clients held the lock at once, 1 time".to_owned()),
        n => broken.push(format!("two clients held the lock at once, {n} times")),
    }
    if !audit.tokens_grow() {
        broken.push("a token was not higher than the one before".to_owned());
    }
    if !audit.counts_add_up() {
        broken.push("the counter does not match the number of writes".to_owned());
    }
    match &audit.late {
        Some(Write::Done) => broken.push("a write without the lock was accepted".to_owned()),
        _ if !complete => {}
        None => broken.push("no client was paused, or it did not wake up".to_owned()),
        Some(_) if audit.expiry().is_none() => {
            broken.push("no other client got the lock of the paused client".to_owned());
        }
        Some(_) if !audit.late_write_refused() => {
            broken.push("the late write got no answer, or the guard was still valid".to_owned());
        }
        Some(_) => {}
    }
    broken
}
