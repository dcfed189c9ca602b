//! The table in `docs/costs.md`: what each operation sends, and the most that it may send.
//!
//! The test compares the table with the measurements, so the table cannot become stale. `LOCKKEEPER_TEST_COSTS=write`
//! makes the test write the table instead.
//! Not here: the operations (`operations`).

use std::{env, fmt::Write as _, fs, future::Future, path::Path, pin::pin};

use lockkeeper::{Client, CreateMode, Guard, proto::OpCode};
use lockkeeper_server::Server;

use crate::{
    LONG_SESSION, client,
    counting::Tally,
    operations,
    support::waiting::{driven, idle},
};

/// A number of requests, and a number of writes to the socket.
type Limit = (usize, usize);

/// A row of the table.
struct Line {
    operation: &'static str,
    /// The operations in each write.
    writes: Vec<Vec<OpCode>>,
    /// The target from the design, set before there was any code; `None` if there is no target.
    target: Option<Limit>,
    /// The requests of Curator 5.4, counted by a proxy; empty if they were not counted.
    curator: &'static str,
}

/// A client whose writes are counted, a rival client, and a server for both.
pub(crate) struct Bench {
    server: Server,
    pub(crate) client: Client,
    pub(crate) tally: Tally,
    pub(crate) other: Client,
    lines: Vec<Line>,
}

/// The lock's path; it exists.
pub(crate) const PATH: &str = "/lock";

/// The path of the semaphore, with its directories: other kinds of lock are refused there.
pub(crate) const SEMAPHORE: &str = "/semaphore";

impl Bench {
    async fn new() -> Self {
        let server = Server::start().await.unwrap();
        let (client, tally) = client(&server).await;
        let other = Client::builder(&server.connect_string())
            .unwrap()
            .session_timeout(LONG_SESSION);
        let other = other.connect().await.unwrap();
        for node in [
            PATH,
            SEMAPHORE,
            "/semaphore/locks",
            "/semaphore/leases",
            "/second",
        ] {
            let mode = CreateMode::Persistent;
            other.create(node, "", mode).await.unwrap();
        }
        Self {
            server,
            client,
            tally,
            other,
            lines: Vec::new(),
        }
    }

    /// Measures one operation until its client is idle.
    pub(crate) async fn measure<T>(
        &mut self,
        operation: &'static str,
        target: Option<Limit>,
        curator: &'static str,
        doing: impl Future<Output = T>,
    ) -> T {
        self.tally.clear();
        let output = doing.await;
        idle(&self.client).await;
        self.note(operation, target, curator);
        output
    }

    /// Adds a row with everything that was sent since the tally was cleared.
    pub(crate) fn note(
        &mut self,
        operation: &'static str,
        target: Option<Limit>,
        curator: &'static str,
    ) {
        self.lines.push(Line {
            operation,
            writes: self.tally.writes(),
            target,
            curator,
        });
    }

    /// Measures a contended lock in two rows: until the client waits, and from the release by `rival` to the grant.
    pub(crate) async fn measure_waiting<T>(
        &mut self,
        [waiting, granted]: [&'static str; 2],
        [armed, handed_over]: [Option<Limit>; 2],
        curator: [&'static str; 2],
        rival: Vec<Guard>,
        lock: impl Future<Output = T>,
    ) -> T {
        let mut lock = pin!(lock);
        let client = self.client.clone();
        let begun = driven(&client, lock.as_mut());
        let begun = self.measure(waiting, armed, curator[0], begun).await;
        assert!(begun.is_none(), "the client does not wait");
        let handed_over_to = async {
            drop(rival);
            lock.await
        };
        self.measure(granted, handed_over, curator[1], handed_over_to)
            .await
    }
}

fn table(lines: &[Line]) -> String {
    let mut table = String::from(
        "| operation | requests in writes | target | Curator 5.4 | what each write carries |\n|---|---|---|---|---|\n",
    );
    for line in lines {
        let (requests, writes) = line.cost();
        let carried = line.writes.iter().map(|write| {
            let names = write.iter().map(|op| op.name().unwrap_or("?"));
            names.collect::<Vec<_>>().join(" + ")
        });
        let carried = carried.collect::<Vec<_>>().join("; ");
        let target = line.target.map_or_else(
            || "-".to_owned(),
            |(requests, writes)| format!("{requests} in {writes}"),
        );
        let curator = if line.curator.is_empty() {
            "-"
        } else {
            line.curator
        };
        writeln!(
            table,
            "| {} | {requests} in {writes} | {target} | {curator} | {carried} |",
            line.operation
        )
        .unwrap();
    }
    table
}

impl Line {
    fn cost(&self) -> Limit {
        (self.writes.iter().map(Vec::len).sum(), self.writes.len())
    }
}

#[tokio::test]
async fn the_table_of_costs_equals_the_measurements_and_no_operation_exceeds_its_target() {
    let mut bench = Bench::new().await;
    operations::mutexes(&mut bench).await;
    operations::plain_mutexes(&mut bench).await;
    operations::deep_queue(&mut bench).await;
    operations::read_write_locks(&mut bench).await;
    operations::semaphores(&mut bench).await;
    operations::several_locks(&mut bench).await;
    operations::owners_and_leaders(&mut bench).await;
    operations::nodes(&mut bench).await;
    assert_eq!(bench.server.report().watches, 0);
    for line in &bench.lines {
        let (requests, writes) = line.cost();
        let (most_requests, most_writes) = line.target.unwrap_or((usize::MAX, usize::MAX));
        let within = requests <= most_requests && writes <= most_writes;
        assert!(within, "{}: {:?}", line.operation, line.writes);
    }
    let table = table(&bench.lines);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/costs.md");
    let page = fs::read_to_string(&path).unwrap();
    let begin = page.find("| operation").expect("a table");
    let end = begin
        + page[begin..]
            .find("\n\n")
            .map_or(page.len() - begin, |at| at + 1);
    if env::var("LOCKKEEPER_TEST_COSTS").is_ok_and(|how| how == "write") {
        fs::write(&path, format!("{}{table}{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    assert_eq!(
        page[begin..end],
        table,
        "docs/costs.md is stale; write it with: LOCKKEEPER_TEST_COSTS=write cargo test --test wire_counts"
    );
}
