//! A connection that is lost at any request of a whole life, and refusals at any: on the embedded server, which does it
//! at the very moment.

use std::time::Duration;

use lockkeeper::{Client, ErrorCode, LockError, proto::OpCode};
use lockkeeper_server::{Server, When};
use tokio::task::JoinHandle;

use crate::{
    kinds::{Held, Kind},
    rig::{idle, rival, soon, until, until_free, until_quiet},
    support::{Ensemble, SESSION_TIMEOUT},
};

/// The connection is cut before a request is heard, or instead of its reply: at the first request of acquiring and
/// releasing, at the second, and so on. It costs time and nothing else.
pub(crate) async fn a_connection_lost_at_any_request_costs_nothing<K: Kind>(ensemble: &Ensemble) {
    for is_heard in [false, true] {
        for contended in [false, true] {
            let mut life = Life::new(ensemble).await;
            while life.met {
                let when = life.next(When::any());
                if is_heard {
                    life.server.faults().lose_reply(when);
                } else {
                    life.server.faults().cut_before(when);
                }
                life.live::<K>(contended).await.unwrap();
            }
            assert!(life.number > 2, "a life of no requests");
        }
    }
}

/// The server refuses the first request that it may refuse, the second, and so on. An error may be told, or the kind may
/// know better; in any case nothing is left.
pub(crate) async fn refused_at_any_request_it_leaves_nothing<K: Kind>(ensemble: &Ensemble) {
    let lists = K::WAITS_IN_LINE.then_some(OpCode::GET_CHILDREN);
    for op in [OpCode::CREATE2].into_iter().chain(lists) {
        let mut life = Life::new(ensemble).await;
        while life.met {
            let (when, refused) = (life.next(When::op(op)), ErrorCode::NO_AUTH);
            life.server.faults().refuse(when, refused);
            match life.live::<K>(false).await {
                Ok(()) => {}
                Err(LockError::Session(error)) => assert_eq!(error.code(), Some(refused)),
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!(life.number > 1, "{op:?} is never sent");
    }
}

/// It is dropped while its first request is unanswered, its second, and so on.
pub(crate) async fn dropped_at_any_request_it_leaves_nothing<K: Kind>(ensemble: &Ensemble) {
    for contended in [false, true] {
        let mut life = Life::new(ensemble).await;
        while life.met {
            let (path, rival) = life.begin::<K>(contended).await;
            let when = life.next(When::any());
            let unanswered = Duration::from_millis(20);
            life.server.faults().delay_reply(when, unanswered);
            let lock = K::at(&life.client, &path);
            let attempt = tokio::spawn(async move { lock.lock().await.map(drop) });
            life.until_met_or_waiting(&attempt).await;
            attempt.abort();
            drop(rival);
            life.end::<K>(&path).await;
        }
        assert!(life.number > 2, "a life of no requests");
    }
}

/// Lives of one contender after the other, each with a fault at the next request.
struct Life<'a> {
    ensemble: &'a Ensemble,
    server: &'a Server,
    client: Client,
    other: Client,
    /// Which request of the next life the fault is for.
    number: u32,
    /// Whether the last life met its fault.
    met: bool,
}

impl<'a> Life<'a> {
    async fn new(ensemble: &'a Ensemble) -> Self {
        Self {
            ensemble,
            server: ensemble.server().expect("the embedded server"),
            client: impatient(ensemble).await,
            other: ensemble.client().await,
            number: 0,
            met: true,
        }
    }

    /// The request of the next life that is to meet a fault.
    fn next(&mut self, when: When) -> When {
        self.number += 1;
        let session = self.client.snapshot().session_id;
        when.of_session(session).nth(self.number)
    }

    /// Acquires, where a rival has it at first or where not even the directory is there, and releases.
    async fn live<K: Kind>(&mut self, contended: bool) -> Result<(), LockError> {
        let (path, rival) = self.begin::<K>(contended).await;
        let lock = K::at(&self.client, &path);
        let attempt = tokio::spawn(async move { lock.lock().await });
        self.until_met_or_waiting(&attempt).await;
        drop(rival);
        let outcome = match soon(attempt).await.unwrap() {
            Ok(held) => soon(held.release()).await,
            Err(error) => Err(error),
        };
        self.end::<K>(&path).await;
        outcome
    }

    async fn begin<K: Kind>(&self, contended: bool) -> (String, Option<K::Rival>) {
        let path = self.ensemble.unique_path("outage");
        if !contended {
            return (path, None);
        }
        let rival = rival::<K>(&self.other, &path).await;
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

    async fn end<K: Kind>(&mut self, path: &str) {
        until_free::<K>(&self.other, path).await;
        until_quiet(self.ensemble, &self.client).await;
        self.met = self.server.faults().pending() == 0;
        self.server.faults().clear();
    }
}

/// A client that takes the server for many, and so tries again soon, however often it has lost the connection.
async fn impatient(ensemble: &Ensemble) -> Client {
    let many = [&*ensemble.servers(); 200].join(",");
    let builder = Client::builder(&many).unwrap();
    builder
        .session_timeout(SESSION_TIMEOUT)
        .connect()
        .await
        .unwrap()
}
