//! The line of JSON that a benchmark program prints.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::{
    args::Args,
    window::{Measured, most_resident_kb, resident_kb},
};

/// The exit status of a program that does not offer the workload. The program prints the reason
/// first.
pub const NOT_OFFERED: u8 = 3;

/// The result of a run with operations, whose latencies are in nanoseconds. `violations` is for
/// workloads with contention.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "rates, for people")]
pub fn line(
    name: &str,
    args: &Args,
    latencies: &Histogram<u64>,
    measured: Measured,
    violations: Option<u64>,
) -> Value {
    let operations = latencies.len();
    let rate = operations as f64 / measured.seconds;
    let micros = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
    let mut line = common(name, args, operations, rate, measured);
    line["p50_us"] = micros(0.5).into();
    line["p99_us"] = micros(0.99).into();
    if let Some(violations) = violations {
        line["violations"] = violations.into();
    }
    line
}

/// The result of a run with idle sessions.
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
) -> Value {
    let sessions = f64::from(args.param);
    let resident = resident_kb().saturating_sub(resident_before) as f64 / sessions;
    let cpu = (measured.cpu_user + measured.cpu_system) * 1e6 / sessions / measured.seconds;
    let rate = sessions / connecting;
    let mut line = common(name, args, args.param.into(), rate, measured);
    line["connect_s"] = connecting.into();
    line["rss_per_session_kb"] = resident.into();
    line["cpu_us_per_session_s"] = cpu.into();
    line
}

/// The reason why there is no result.
#[must_use]
pub fn skip_line(name: &str, args: &Args, why: &str) -> Value {
    json!({ "impl": name, "workload": args.workload.name(), "skip": why })
}

fn common(name: &str, args: &Args, operations: u64, rate: f64, measured: Measured) -> Value {
    json!({
        "impl": name,
        "workload": args.workload.name(),
        "param": args.param,
        "ops": operations,
        "secs": measured.seconds,
        "ops_per_s": rate,
        "p50_us": 0.0,
        "p99_us": 0.0,
        "cpu_user_s": measured.cpu_user,
        "cpu_sys_s": measured.cpu_system,
        "max_rss_kb": most_resident_kb(),
    })
}
