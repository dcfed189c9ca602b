//! A connection that is lost at any request of an acquisition and release, and a request that is
//! refused. Only the embedded server can cause a fault at an exact request.

use std::time::Duration;

use lockkeeper::{
    Client, LockError,
    error::{Effect, ErrorCode, Loss},
    proto::OpCode,
};
use lockkeeper_server::{Server, When};
use tokio::task::JoinHandle;

use crate::{
    kinds::{Kind, Rival},
    rig::{idle, rival, soon, until, until_free, until_quiet},
    support::{Ensemble, SESSION_TIMEOUT},
};

/// The connection is cut before a request is executed, or instead of its reply. This happens at the
/// first request of an acquisition and release, then at the second, and so on. The contender only
/// loses time. But if the reply to a delete is lost, nobody knows who has deleted the node: that
/// release is unknown.
pub(crate) async fn a_connection_lost_at_any_request_only_costs_time(
    kind: Kind,
    ensemble: &Ensemble,
) {
    for is_heard in [false, true] {
        for contended in [false, true] {
            let mut life = Life::new(kind, ensemble).await;
            let mut unknown = 0;
            while life.met {
                let when = life.next(When::any());
                if is_heard {
                    life.server.faults().lose_reply(when);
                } else {
                    life.server.faults().cut_before(when);
                }
                let released = life.live(contended).await.unwrap();
                if let Err(error) = released {
                    assert!(is_heard, "{error}");
                    // The outcome of a leader has a loss, and no error.
                    let is_of_leader = error.loss() == Some(Loss::Elapsed);
                    assert!(error.effect() == Effect::Unknown || is_of_leader, "{error}");
                    unknown += 1;
                }
            }
            // Twice: on a slow machine a write that proves the lease may come between, so that the
            // next number meets the same delete again.
            assert!(unknown <= 2 * life.nodes, "{unknown} releases are unknown");
            assert!(life.number > 2, "the fault met too few requests");
        }
    }
}

/// The server refuses the first create or listing, then the second, and so on. The kind may return
/// the error or recover from it. In both cases no node is left.
pub(crate) async fn an_attempt_refused_at_any_request_leaves_nothing(
    kind: Kind,
    ensemble: &Ensemble,
) {
    let lists = kind.has_queue().then_some(OpCode::GET_CHILDREN);
    for op in [OpCode::CREATE2].into_iter().chain(lists) {
        for contended in [false, true] {
            let mut life = Life::new(kind, ensemble).await;
            while life.met {
                let (when, refused) = (life.next(When::op(op)), ErrorCode::NO_AUTH);
                life.server.faults().refuse(when, refused);
                match life.live(contended).await {
                    Ok(released) => released.unwrap(),
                    Err(LockError::Session(error)) => assert_eq!(error.code(), Some(refused)),
                    Err(error) => panic!("{error:?}"),
                }
            }
            assert!(life.number > 1, "{op:?} is never sent");
        }
    }
}

/// The future is dropped while its first request is unanswered, then its second, and so on. The
/// reply comes later, or is lost with the connection.
pub(crate) async fn an_attempt_dropped_at_any_request_leaves_nothing(
    kind: Kind,
    ensemble: &Ensemble,
) {
    for (contended, is_lost) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut life = Life::new(kind, ensemble).await;
        while life.met {
            let (path, rival) = life.begin(contended).await;
            let when = life.next(When::any());
            if is_lost {
                life.server.faults().lose_reply(when);
            } else {
                let unanswered = Duration::from_millis(20);
                life.server.faults().delay_reply(when, unanswered);
            }
            let lock = kind.at(&life.client, &path);
            let attempt = tokio::spawn(async move { lock.lock().await.map(drop) });
            life.until_met_or_waiting(&attempt).await;
            attempt.abort();
            drop(rival);
            life.end(&path).await;
        }
        assert!(life.number > 2, "the fault met too few requests");
    }
}

/// Runs one acquisition and release after the other, each with a fault one request later.
struct Life<'a> {
    kind: Kind,
    ensemble: &'a Ensemble,
    server: &'a Server,
    client: Client,
    other: Client,
    /// The number of the request that meets the fault in the next run.
    number: u32,
    /// Whether the last run reached its fault.
    met: bool,
    /// How many nodes the last release had to delete.
    nodes: usize,
}

impl<'a> Life<'a> {
    async fn new(kind: Kind, ensemble: &'a Ensemble) -> Self {
        Self {
            kind,
            ensemble,
            server: ensemble.server().expect("the embedded server"),
            client: impatient(ensemble).await,
            other: ensemble.client().await,
            number: 0,
            met: true,
            nodes: 0,
        }
    }

    /// The request of the next run that meets the fault.
    fn next(&mut self, when: When) -> When {
        self.number += 1;
        let session = self.client.snapshot().session_id;
        when.of_session(session).nth(self.number)
    }

    /// Acquires and releases: behind a rival, or where the directory does not exist yet. Returns
    /// what the release says.
    async fn live(&mut self, contended: bool) -> Result<Result<(), LockError>, LockError> {
        let (path, rival) = self.begin(contended).await;
        let lock = self.kind.at(&self.client, &path);
        let attempt = tokio::spawn(async move { lock.lock().await });
        self.until_met_or_waiting(&attempt).await;
        drop(rival);
        let outcome = match soon(attempt).await.unwrap() {
            Ok(held) => {
                self.nodes = held.nodes().len();
                Ok(soon(held.release()).await)
            }
            Err(error) => Err(error),
        };
        self.end(&path).await;
        outcome
    }

    async fn begin(&self, contended: bool) -> (String, Option<Rival>) {
        let path = self.ensemble.unique_path("outage");
        if !contended {
            return (path, None);
        }
        let rival = rival(self.kind, &self.other, &path).await;
        (path, Some(rival))
    }

    async fn until_met_or_waiting<T>(&self, attempt: &JoinHandle<T>) {
        let met = until("the fault is met", async || {
            self.server.faults().pending() == 0 || attempt.is_finished()
        });
        tokio::select! {
            () = met => {}
            () = idle(&self.client) => {}
        }
    }

    async fn end(&mut self, path: &str) {
        until_free(self.kind, &self.other, path).await;
        until_quiet(self.ensemble, &self.client).await;
        self.met = self.server.faults().pending() == 0;
        self.server.faults().clear();
    }
}

/// A client that lists the server 200 times, so it reconnects without a pause however often it has
/// lost the connection.
async fn impatient(ensemble: &Ensemble) -> Client {
    let many = [&*ensemble.servers(); 200].join(",");
    let builder = Client::builder(&many).unwrap();
    builder
        .session_timeout(SESSION_TIMEOUT)
        .connect()
        .await
        .unwrap()
}
