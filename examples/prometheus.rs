//! How does Prometheus see the locks and the client of my program?
//!
//! An endpoint shows the numbers as text. There may be any number of paths: each meter is one value
//! of the label `lock`. `docs/alerts.yml` has alerts on these names. A program that uses the crate
//! `metrics` needs no such code: with the feature `metrics` its recorder gets the numbers of the
//! meters.
//!
//! Run it with `cargo run --example prometheus [HOSTS]`. Without HOSTS it uses an embedded server.

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
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

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

/// Answers each request with the page.
async fn serve(
    listener: TcpListener,
    client: Client,
    meters: Vec<LockMeter>,
) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut line = String::new();
        // One connection at a time, so none may take long.
        let read = BufReader::new(&mut stream).read_line(&mut line).await;
        let Ok(page) = render(&client, &meters) else {
            continue;
        };
        let length = page.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n\r\n"
        );
        let _ = (read, stream.write_all((head + &page).as_bytes()).await);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let embedded = Server::start().await?;
    let servers = std::env::args().nth(1).filter(|arg| arg.contains(':'));
    let servers = servers.unwrap_or_else(|| embedded.connect_string());

    let client = Client::connect(&servers).await?;
    let (orders, reports) = (LockMeter::new("orders"), LockMeter::new("reports"));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(
        listener,
        client.clone(),
        vec![orders.clone(), reports.clone()],
    ));

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

    let (mut stream, mut page) = (TcpStream::connect(address).await?, String::new());
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await?;
    stream.read_to_string(&mut page).await?;
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
