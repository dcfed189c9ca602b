//! How does Prometheus see the locks and the client of my program?
//!
//! `page` makes the text that a page `/metrics` shows. There may be any number of paths: each meter
//! is one value of the label `lock`. `docs/alerts.yml` has alerts on these names.

use std::{collections::BTreeMap, fmt::Write};

use lockkeeper::{Client, Mutex, client::DurationHistogram, locks::LockMeter};
use lockkeeper_server::Server;

/// The text format of Prometheus: all lines of a name stand together.
fn page(client: &Client, meters: &[LockMeter]) -> String {
    let mut page = BTreeMap::new();
    let mut add = |kind, name: &'static str, rest: String| {
        let lines = page.entry(name);
        let lines = lines.or_insert_with(|| format!("# TYPE {name} {kind}\n"));
        let _ = writeln!(lines, "{name}{rest}"); // a String takes everything
    };
    for (name, number) in client.metrics().counters() {
        add("counter", name, format!(" {number}"));
    }
    for (name, number) in client.metrics().gauges() {
        add("gauge", name, format!(" {number}"));
    }
    for meter in meters {
        let (locks, label) = (meter.metrics(), format!("lock={:?}", meter.name()));
        for (name, number) in locks.counters() {
            add("counter", name, format!("{{{label}}} {number}"));
        }
        for (name, number) in locks.gauges() {
            add("gauge", name, format!("{{{label}}} {number}"));
        }
        for (name, durations) in locks.durations() {
            for rest in histogram(durations, &label) {
                add("histogram", name, rest);
            }
        }
    }
    page.into_values().collect()
}

/// What follows the name in each line.
fn histogram(durations: &DurationHistogram, label: &str) -> Vec<String> {
    let (mut lines, mut below) = (Vec::new(), 0);
    for (upper, count) in durations.buckets() {
        below += count;
        let upper = upper.as_secs_f64();
        lines.push(format!("_bucket{{{label},le=\"{upper}\"}} {below}"));
    }
    let total = durations.total().as_secs_f64();
    lines.push(format!("_bucket{{{label},le=\"+Inf\"}} {below}"));
    lines.push(format!("_sum{{{label}}} {total}"));
    lines.push(format!("_count{{{label}}} {below}"));
    lines
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    let orders = LockMeter::new("orders");
    let mutex = Mutex::new(&client, "/orders/1")?.with_meter(&orders);
    let held = mutex.lock().await?;
    let page = page(&client, &[orders]);
    println!("{page}");
    held.release().await?;
    assert!(page.contains(" gauge\nlockkeeper_lock_held{lock=\"orders\"} 1\n"));
    assert!(page.contains("lockkeeper_lock_wait_seconds_count{lock=\"orders\"} 1\n"));
    assert!(page.contains("lockkeeper_client_connections_total 1\n"));
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
