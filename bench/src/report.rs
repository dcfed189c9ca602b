//! The line of JSON that a benchmark program prints.

use std::fmt::Write;

use crate::{
    args::Args,
    histogram::Histogram,
    window::{Measured, most_resident_kb, resident_kb},
};

/// The exit status of a program that does not offer the workload. The program prints the reason
/// first.
pub const NOT_OFFERED: u8 = 3;

/// The result of a run with operations, as a line of JSON. `violations` is for workloads with
/// contention.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "rates, for people")]
pub fn line(
    name: &str,
    args: &Args,
    latencies: &Histogram,
    measured: Measured,
    violations: Option<u64>,
) -> String {
    let rate = latencies.count() as f64 / measured.seconds;
    let (median, tail) = (latencies.percentile_us(50), latencies.percentile_us(99));
    let mut line = common(
        name,
        args,
        latencies.count(),
        rate,
        (median, tail),
        measured,
    );
    if let Some(violations) = violations {
        let _ = write!(line, r#","violations":{violations}"#);
    }
    line + "}"
}

/// The result of a run with idle sessions, as a line of JSON.
///
/// - `connecting`: how long it took to open all sessions, in seconds;
/// - `resident_before`: the resident memory before the first session, in KiB.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "rates, for people")]
pub fn idle_line(
    name: &str,
    args: &Args,
    connecting: f64,
    resident_before: u64,
    measured: Measured,
) -> String {
    let sessions = args.param as f64;
    let opened = u64::try_from(args.param).unwrap_or(u64::MAX);
    let rate = sessions / connecting;
    let mut line = common(name, args, opened, rate, (0.0, 0.0), measured);
    let resident = resident_kb().saturating_sub(resident_before) as f64 / sessions;
    let cpu = (measured.cpu_user + measured.cpu_system) * 1e6 / sessions / measured.seconds;
    let _ = write!(
        line,
        r#","connect_s":{connecting:.3},"rss_per_session_kb":{resident:.1},"cpu_us_per_session_s":{cpu:.2}"#
    );
    line + "}"
}

/// The reason why there is no result, as a line of JSON.
#[must_use]
pub fn skip_line(name: &str, args: &Args, why: &str) -> String {
    let (workload, why) = (args.workload, why.replace(['"', '\\', '\n'], "'"));
    format!(r#"{{"impl":"{name}","workload":"{workload}","skip":"{why}"}}"#)
}

fn common(
    name: &str,
    args: &Args,
    operations: u64,
    rate: f64,
    (median, tail): (f64, f64),
    measured: Measured,
) -> String {
    let (workload, param) = (args.workload, args.param);
    let Measured {
        seconds,
        cpu_user,
        cpu_system,
    } = measured;
    let resident = most_resident_kb();
    format!(
        r#"{{"impl":"{name}","workload":"{workload}","param":{param},"ops":{operations},"secs":{seconds:.4},"ops_per_s":{rate:.1},"p50_us":{median:.1},"p99_us":{tail:.1},"cpu_user_s":{cpu_user:.4},"cpu_sys_s":{cpu_system:.4},"max_rss_kb":{resident}"#
    )
}
