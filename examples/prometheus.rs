//! How does Prometheus see the locks and the client of my program?
//!
//! `render` makes the text that a page `/metrics` shows. There may be any number of paths: each meter
//! is one value of the label `lock`. `docs/alerts.yml` has alerts on these names. A program that uses
//! the crate `metrics` needs no such code: with the feature `metrics` its recorder gets the numbers
//! of the meters.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

use lockkeeper::{
    Client, Mutex,
    client::DurationHistogram,
    locks::{LockMeter, LockMetrics},
};
use lockkeeper_server::Server;

/// The text format of Prometheus: all lines of a name stand together.
#[derive(Default)]
struct Page(BTreeMap<&'static str, (&'static str, String)>);

impl Page {
    fn number(
        &mut self,
        kind: &'static str,
        name: &'static str,
        labels: &str,
        number: impl fmt::Display,
    ) -> fmt::Result {
        let (_, lines) = self.0.entry(name).or_insert((kind, String::new()));
        writeln!(lines, "{name}{{{labels}}} {number}")
    }

    fn durations(
        &mut self,
        name: &'static str,
        labels: &str,
        durations: &DurationHistogram,
    ) -> fmt::Result {
        let (_, lines) = self.0.entry(name).or_insert(("histogram", String::new()));
        let mut below = 0;
        for (upper, count) in durations.buckets() {
            below += count;
            writeln!(
                lines,
                "{name}_bucket{{{labels},le=\"{}\"}} {below}",
                upper.as_secs_f64()
            )?;
        }
        writeln!(lines, "{name}_bucket{{{labels},le=\"+Inf\"}} {below}")?;
        writeln!(
            lines,
            "{name}_sum{{{labels}}} {}",
            durations.total().as_secs_f64()
        )?;
        writeln!(lines, "{name}_count{{{labels}}} {below}")
    }
}

fn render(client: &Client, meters: &[LockMeter]) -> Result<String, fmt::Error> {
    let (mut page, all) = (Page::default(), client.metrics());
    for meter in meters {
        let (locks, labels) = (meter.metrics(), format!("lock=\"{}\"", meter.name()));
        for (name, number) in locks.counters() {
            page.number("counter", name, &labels, number)?;
        }
        for (name, number) in locks.gauges() {
            page.number("gauge", name, &labels, number)?;
        }
        for (name, durations) in locks.durations() {
            page.durations(name, &labels, durations)?;
        }
    }
    for (name, number) in all.counters() {
        page.number("counter", name, "", number)?;
    }
    for (name, number) in all.gauges() {
        page.number("gauge", name, "", number)?;
    }
    let groups = page.0.iter();
    groups
        .map(|(name, (kind, lines))| Ok(format!("# TYPE {name} {kind}\n{lines}")))
        .collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    let (orders, reports) = (LockMeter::new("orders"), LockMeter::new("reports"));

    // Many paths, two names.
    for order in 0..20 {
        let path = format!("/orders/{order}");
        Mutex::new(&client, &path)?
            .with_meter(&orders)
            .lock()
            .await?
            .release()
            .await?;
    }
    let held = Mutex::new(&client, "/report")?
        .with_meter(&reports)
        .lock()
        .await?;

    let page = render(&client, &[orders.clone(), reports.clone()])?;
    println!("{page}");
    for line in [
        "# TYPE lockkeeper_lock_acquired_total counter",
        "lockkeeper_lock_acquired_total{lock=\"orders\"} 20",
        "lockkeeper_lock_held{lock=\"orders\"} 0",
        "lockkeeper_lock_held{lock=\"reports\"} 1",
        "lockkeeper_lock_hold_seconds_count{lock=\"orders\"} 20",
        "lockkeeper_client_connections_total{} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "no {line}");
    }
    held.release().await?;
    // All locks together.
    let all: LockMetrics = [orders, reports].iter().map(LockMeter::metrics).sum();
    assert_eq!((all.acquired, all.held, all.hold.count()), (21, 0, 21));
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
