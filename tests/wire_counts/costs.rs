//! The table in `docs/costs.md`: what each operation sends, and the most that it may send.
//!
//! The test compares the table with the measurements, so the table cannot become stale.
//! `LOCKKEEPER_TEST_COSTS=write` makes the test write the measurements into the table instead. It
//! never writes the other columns: the target, which is from the design and was set before there
//! was any code, and the requests of Curator 5.4, counted by a proxy. A new row gets neither. Not
//! here: the operations (`operations`).

use std::{
    env,
    fmt::{Debug, Write as _},
    fs,
    future::Future,
    path::Path,
    pin::pin,
};

use lockkeeper::{Client, CreateMode, Guard, LockError, proto::OpCode};
use lockkeeper_server::Server;

use crate::{
    LONG_SESSION, client,
    counting::Tally,
    operations,
    support::waiting::{driven, idle},
};

/// A row of the table.
struct Line {
    operation: &'static str,
    /// The operations in each write.
    writes: Vec<Vec<OpCode>>,
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
        doing: impl Future<Output = T>,
    ) -> T {
        self.tally.clear();
        let output = doing.await;
        idle(&self.client).await;
        self.note(operation);
        output
    }

    /// Adds a row with everything that was sent since the tally was cleared.
    pub(crate) fn note(&mut self, operation: &'static str) {
        self.lines.push(Line {
            operation,
            writes: self.tally.writes(),
        });
    }

    /// Measures one operation that must succeed.
    pub(crate) async fn ok<T, E: Debug>(
        &mut self,
        operation: &'static str,
        doing: impl Future<Output = Result<T, E>>,
    ) -> T {
        self.measure(operation, doing).await.unwrap()
    }

    /// Measures a try that must find the lock held.
    pub(crate) async fn refused<T>(
        &mut self,
        operation: &'static str,
        trying: impl Future<Output = Result<Option<T>, LockError>>,
    ) {
        let tried = self.ok(operation, trying).await;
        assert!(tried.is_none(), "{operation}: it is granted");
    }

    /// Measures a contended lock in two rows: until the client waits, and from the release by
    /// `rival` to the grant. Then releases it.
    pub(crate) async fn handed_over(
        &mut self,
        waiting: &'static str,
        granted: &'static str,
        rival: Guard,
        lock: impl Future<Output = Result<Guard, LockError>>,
    ) {
        let mut lock = pin!(lock);
        let client = self.client.clone();
        let begun = driven(&client, lock.as_mut());
        let begun = self.measure(waiting, begun).await;
        assert!(begun.is_none(), "the client does not wait");
        let handed_over = async {
            drop(rival);
            lock.await
        };
        let guard = self.ok(granted, handed_over).await;
        guard.release().await.unwrap();
    }
}

const HEAD: &str =
    "| operation | requests in writes | target | Curator 5.4 | what each write carries |
|---|---|---|---|---|
";

/// The table with these measurements. The targets and Curator's requests are those of `page`, row
/// by row.
fn table(lines: &[Line], page: &str) -> String {
    let mut table = HEAD.to_owned();
    let mut rows = page.lines().skip(HEAD.lines().count());
    for line in lines {
        let (requests, writes) = line.cost();
        let carried = line.writes.iter().map(|write| {
            let names = write.iter().map(|op| op.name().unwrap_or("?"));
            names.collect::<Vec<_>>().join(" + ")
        });
        let carried = carried.collect::<Vec<_>>().join("; ");
        let operation = line.operation;
        let cells: Vec<_> = rows.next().unwrap_or_default().split(" | ").collect();
        let [target, curator] = match cells[..] {
            [name, _, target, curator, _] if name == format!("| {operation}") => [target, curator],
            _ => ["-", "-"],
        };
        assert!(line.is_within(target), "{operation}: {:?}", line.writes);
        writeln!(
            table,
            "| {operation} | {requests} in {writes} | {target} | {curator} | {carried} |"
        )
        .unwrap();
    }
    table
}

impl Line {
    /// The number of requests, and the number of writes to the socket.
    fn cost(&self) -> (usize, usize) {
        (self.writes.iter().map(Vec::len).sum(), self.writes.len())
    }

    /// Whether neither the requests nor the writes exceed the target, `REQUESTS in WRITES`, or `-`
    /// for none.
    fn is_within(&self, target: &str) -> bool {
        let Some((requests, writes)) = target.split_once(" in ") else {
            assert_eq!(target, "-", "{}: no target", self.operation);
            return true;
        };
        let [most_requests, most_writes] = [requests, writes].map(|most| most.parse().unwrap());
        let (requests, writes) = self.cost();
        requests <= most_requests && writes <= most_writes
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/costs.md");
    let page = fs::read_to_string(&path).unwrap();
    let begin = page.find("| operation").expect("a table");
    let end = begin
        + page[begin..]
            .find("\n\n")
            .map_or(page.len() - begin, |at| at + 1);
    let table = table(&bench.lines, &page[begin..end]);
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
