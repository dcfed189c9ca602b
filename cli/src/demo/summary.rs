//! The summary at the end of the demo: the measurements, and whether the lock kept its promises.
//!
//! Not here: how they are computed (`audit`).

use std::{io, time::Duration};

use super::{
    audit::{Audit, percentile},
    screen::{BAD, BOLD, GOOD, print, wrap},
};
use crate::duration::Human;

/// Columns of the name of a number.
const NAME: usize = 10;

/// Prints the summary. Returns true if the lock kept every promise that was tested.
///
/// `complete` says that the demo was not ended early, so every promise was tested. No line is longer than `width`.
pub(super) fn print_summary(
    audit: &Audit,
    took: Duration,
    complete: bool,
    width: usize,
) -> io::Result<bool> {
    print("")?;
    for (name, text) in numbers(audit, took) {
        // The columns of the numbers stay, if the line fits.
        let mut lines = vec![text];
        if NAME + lines[0].chars().count() > width {
            lines = wrap(&lines[0], width - NAME);
        }
        let gap = format!("\n{:NAME$}", "");
        print(format!("{BOLD}{name:<NAME$}{BOLD:#}{}", lines.join(&gap)))?;
    }
    print("")?;
    let broken = audit.broken(complete);
    for promise in &broken {
        print(format!("{BAD}BROKEN{BAD:#}: {promise}"))?;
    }
    if broken.is_empty() {
        let late = if complete {
            ", and the late write was refused"
        } else {
            ""
        };
        let kept = format!("OK: no two clients held the lock at once{late}");
        let kept = wrap(&kept, width).join("\n");
        print(format!("{GOOD}OK{GOOD:#}{}", kept.trim_start_matches("OK")))?;
    }
    Ok(broken.is_empty())
}

/// The measurements, each with its name.
fn numbers(audit: &Audit, took: Duration) -> Vec<(&'static str, String)> {
    let (fewest, most) = audit.shares();
    let (holds, took) = (audit.holds.len(), Human(took));
    let holds = format!("{holds} in {took}, {fewest} to {most} by each client");
    let mut numbers = vec![
        ("holds", holds),
        ("overlaps", audit.overlaps().to_string()),
        ("waited", distribution(&audit.waits())),
    ];
    let hand_overs = audit.hand_overs();
    if !hand_overs.is_empty() {
        numbers.push(("hand-over", distribution(&hand_overs)));
    }
    if let Some((client, lease, handed_on)) = audit.expiry() {
        let (client, lease, next) = (client + 1, Human(lease), Human(handed_on));
        let text = format!("client {client}: lease ended after {lease}, next grant after {next}");
        numbers.push(("expiry", text));
    }
    if let (Some(first), Some(last)) = (audit.holds.first(), audit.holds.last()) {
        let growth = if audit.tokens_grow() {
            "each higher than the one before"
        } else {
            "not growing"
        };
        let text = format!("{} to {}, {growth}", first.token, last.token);
        numbers.push(("tokens", text));
    }
    let unknown = || "unknown".to_owned();
    let count = audit.count.map_or_else(unknown, |count| count.to_string());
    let (written, refused) = (audit.written, audit.refused);
    let doubt = match audit.in_doubt {
        0 => String::new(),
        doubt => format!(" and {doubt} in doubt"),
    };
    let text = format!("{count} after {written} writes{doubt}; {refused} refused");
    numbers.push(("counter", text));
    numbers
}

fn distribution(sorted: &[Duration]) -> String {
    let [half, most, all] = [50, 99, 100].map(|percent| Human(percentile(sorted, percent)));
    format!("p50 {half:<9}p99 {most:<9}longest {all}")
}
