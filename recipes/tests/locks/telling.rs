//! Whoever gives a lock up tells its users before the request leaves. Otherwise another contender
//! may hold the lock meanwhile.
//!
//! A connection of these tests looks at each write of the client. When the write gives a lock up,
//! nobody may believe in it any more.
//!
//! Not here: losses that the client hears of (`losses`), the order of many contenders
//! (`tests/contract`).

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex as StdMutex},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::FutureExt;
use lockkeeper_proto::{CreateMode, OpCode, Version};
use lockkeeper_recipes::{
    Election, Guard, Latch, LockState, Loss, Mutex, PlainMutex, RwLock, inspect,
};
use lockkeeper_server::{Server, When};
use lockkeeper_session::{Client, Connector};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::oneshot,
};

use crate::support::{
    client, server,
    waiting::{LONG, poll_once, soon, until},
};

/// Says whether somebody still believes in the lock.
type Believes = Box<dyn FnMut() -> Option<&'static str> + Send>;

/// What the connection has seen.
#[derive(Default)]
struct Seen {
    /// The path of the lock's node.
    node: Vec<u8>,
    believes: Option<Believes>,
    /// For each write that gives the lock up: who still believed in it.
    gave_up: Vec<Option<&'static str>>,
}

type Witness = Arc<StdMutex<Seen>>;

/// A connection that looks at each write.
struct Watched(TcpStream, Witness);

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut seen = self.1.lock().unwrap();
        if gives_up(bytes, &seen.node)
            && let Some(believes) = &mut seen.believes
        {
            let believes = believes();
            seen.gave_up.push(believes);
        }
        drop(seen);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Whether a request in these bytes deletes the node, perhaps in a transaction, or closes the
/// session.
fn gives_up(mut bytes: &[u8], node: &[u8]) -> bool {
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap();
        let (frame, rest) = rest.split_at(length.min(rest.len()));
        let op = frame
            .get(4..8)
            .map(|op| i32::from_be_bytes(op.try_into().unwrap()));
        let names_node = || frame.windows(node.len()).any(|part| part == node);
        match op.map(OpCode) {
            Some(OpCode::CLOSE_SESSION) => return true,
            Some(OpCode::DELETE | OpCode::MULTI) if names_node() => return true,
            _ => bytes = rest,
        }
    }
    false
}

async fn watched_client(server: &Server) -> (Client, Witness) {
    let witness = Witness::default();
    let seen = witness.clone();
    let connector = Connector::new(move |endpoint| {
        let seen = seen.clone();
        async move {
            let stream = TcpStream::connect((&*endpoint.host, endpoint.port)).await?;
            Ok(Watched(stream, seen))
        }
    });
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = builder.connector(connector).connect().await.unwrap();
    (client, witness)
}

/// The reply to the next `exists` of this client is late.
fn delay_exists(server: &Server, client: &Client, delay: Duration) {
    let exists = When::op(OpCode::EXISTS).of_session(client.snapshot().session_id);
    server.faults().delay_reply(exists, delay);
}

/// From now on the connection checks that a write that gives up this guard's node finds `lost`
/// ended, and what `believes` says.
fn watch(
    witness: &Witness,
    guard: &Guard,
    mut believes: impl FnMut() -> Option<&'static str> + Send + 'static,
) {
    let mut lost = Box::pin(guard.lost());
    assert!(poll_once(lost.as_mut()).is_none());
    let mut seen = witness.lock().unwrap();
    seen.node = guard.path().into_bytes();
    seen.believes = Some(Box::new(move || {
        let is_pending = poll_once(lost.as_mut()).is_none();
        believes().or(is_pending.then_some("lost() is pending"))
    }));
}

/// Waits until the lock was given up. Nobody believed in it.
async fn given_up(witness: &Witness) {
    until!(!witness.lock().unwrap().gave_up.is_empty());
    let seen = std::mem::take(&mut *witness.lock().unwrap());
    assert!(
        seen.gave_up.iter().all(Option::is_none),
        "{:?}",
        seen.gave_up
    );
}

/// Both kinds of node: with a name of its own, and with one that the next holder has, too.
async fn guards(client: &Client) -> [Guard; 2] {
    let mutex = Mutex::new(client, "/m").unwrap();
    let plain = PlainMutex::new(client, "/p").unwrap();
    [mutex.lock().await.unwrap(), plain.lock().await.unwrap()]
}

#[tokio::test]
async fn a_release_tells_first() {
    let server = server().await;
    let (client, witness) = watched_client(&server).await;
    for way in 0..3 {
        for guard in guards(&client).await {
            watch(&witness, &guard, || None);
            match way {
                0 => guard.release().await.unwrap(),
                1 => drop(guard.release_with(|writes| writes).await.unwrap()),
                _ => drop(guard),
            }
            given_up(&witness).await;
        }
    }
}

#[tokio::test]
async fn a_limit_tells_first() {
    let server = server().await;
    let (client, witness) = watched_client(&server).await;
    for guard in guards(&client).await.map(Arc::new) {
        let held = guard.clone();
        watch(&witness, &guard, move || {
            held.is_valid().then_some("the guard is valid")
        });
        guard.limit_hold(Duration::ZERO);
        // `lost` hears of the limit, and then of its end.
        assert!(witness.lock().unwrap().believes.as_mut().unwrap()().is_some());
        given_up(&witness).await;
        assert_eq!(guard.state(), LockState::Lost(Loss::Overdue));
    }
}

#[tokio::test]
async fn a_downgrade_tells_who_relies_on_the_writer_first() {
    let server = server().await;
    let (client, witness) = watched_client(&server).await;
    let writer = RwLock::new(&client, "/rw").unwrap().write().await.unwrap();
    watch(&witness, &writer, || None);
    let reader = writer.downgrade().await.unwrap();
    given_up(&witness).await;
    assert_eq!(reader.lost().now_or_never(), None);
}

/// A guard, a latch, and the work of a leader, in one session.
async fn three_holds(client: &Client) -> (Arc<Guard>, Arc<Latch>, impl Future<Output = Loss>) {
    let guard = Mutex::new(client, "/m").unwrap().lock().await.unwrap();
    let latch = Election::new(client, "/latch").unwrap().latch();
    soon(latch.elected()).await.unwrap();
    let election = Election::new(client, "/leader").unwrap();
    let (begin, started) = oneshot::channel();
    let leading = tokio::spawn(async move {
        let work = election.lead(async |_| {
            begin.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        work.await.unwrap_err().loss().unwrap()
    });
    started.await.unwrap();
    (Arc::new(guard), Arc::new(latch), async {
        leading.await.unwrap()
    })
}

fn watch_all(witness: &Witness, client: &Client, guard: &Arc<Guard>, latch: &Arc<Latch>) {
    let (client, held, latch) = (client.raw().downgrade(), guard.clone(), latch.clone());
    watch(witness, guard, move || {
        let beliefs = [
            (held.is_valid(), "the guard is valid"),
            (
                held.valid_until().is_some(),
                "the guard is valid for a while",
            ),
            (latch.is_leader(), "the latch leads"),
            (client.lease().is_valid, "the lease is valid"),
        ];
        beliefs
            .iter()
            .find(|(believes, _)| *believes)
            .map(|(_, who)| *who)
    });
}

#[tokio::test]
async fn a_close_tells_first() {
    let server = server().await;
    let (client, witness) = watched_client(&server).await;
    let (guard, latch, leading) = three_holds(&client).await;
    watch_all(&witness, &client, &guard, &latch);
    let mut changes = latch.changes();
    let mut closing = pin!(client.clone().close());
    assert!(poll_once(closing.as_mut()).is_none());
    assert!(!guard.is_valid() && !latch.is_leader() && !client.lease().is_valid);
    assert_eq!(soon(guard.lost()).await, Some(Loss::Closed));
    // The server answers nothing any more: they do not wait for that.
    assert_eq!(soon(leading).await, Loss::Closed);
    let follows = soon(changes.wait_for(Option::is_none)).await;
    follows.unwrap();
    given_up(&witness).await;
}

/// The runtime ends while guards on other threads live on.
#[test]
fn a_runtime_that_ends_tells_first() {
    let elsewhere = tokio::runtime::Runtime::new().unwrap();
    let server = elsewhere.block_on(server());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (client, witness) = runtime.block_on(watched_client(&server));
    let (guard, latch, leading) = runtime.block_on(three_holds(&client));
    let changes = latch.changes();
    watch_all(&witness, &client, &guard, &latch);
    let believes = witness.lock().unwrap().believes.take().unwrap();
    let (mut believes, changes) = (believes, changes);
    witness.lock().unwrap().believes = Some(Box::new(move || {
        let leads = changes.latest().is_some();
        believes().or(leads.then_some("the latch has told nobody"))
    }));
    drop(runtime);
    elsewhere.block_on(given_up(&witness));
    drop(leading);
}

/// The limit has begun its delete, and its reply is late: the next holder has the lock. No
/// transaction and no data of the former holder may reach the node of the next one, which has the
/// same name. The transaction was made, and waited for capacity, before.
#[tokio::test]
async fn nothing_is_queued_behind_the_delete_of_the_limit() {
    let server = server().await;
    for way in 0..3 {
        let builder = Client::builder(&server.connect_string()).unwrap();
        let former = builder.max_outstanding(1).connect().await.unwrap();
        let other = client(&server).await;
        other.create("/note", "", CreateMode::Persistent).await.ok();
        let plain = |client: &Client| PlainMutex::new(client, "/p").unwrap();
        let guard = plain(&former).lock().await.unwrap();
        // Nothing else is sent meanwhile: the window is full with this request.
        delay_exists(&server, &former, Duration::from_millis(300));
        let mut full = pin!(former.exists("/"));
        assert!(poll_once(full.as_mut()).is_none());
        let late: Pin<Box<dyn Future<Output = _> + Send>> = match way {
            0 => guard
                .transaction()
                .set_data("/note", "late", Version::ANY)
                .commit()
                .map(|it| it.map(drop))
                .boxed(),
            1 => guard.transaction().commit().map(|it| it.map(drop)).boxed(),
            _ => guard.set_data("late").boxed(),
        };
        let mut late = pin!(late);
        assert!(poll_once(late.as_mut()).is_none(), "there is no capacity");
        guard.limit_hold(Duration::ZERO);
        let next = plain(&other);
        let before = server.counters().requests_of(OpCode::SET_DATA);
        let (_, late, next) = soon(async { tokio::join!(full, late, next.lock()) }).await;
        let after = server.counters().requests_of(OpCode::SET_DATA);
        assert_eq!(after, before, "nothing is sent, whenever it would arrive");
        assert_eq!(late.unwrap_err().loss(), Some(Loss::Overdue), "{way}");
        let next = next.unwrap();
        assert_eq!(next.data().await.unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(
            other.get_data("/note").await.unwrap().data.as_deref(),
            Some(&b""[..])
        );
        next.release().await.unwrap();
    }
}

/// The transaction that releases and the delete of the limit: one of them is sent, not both.
#[tokio::test]
async fn a_limit_that_passes_during_a_release_deletes_nothing() {
    let server = server().await;
    let builder = Client::builder(&server.connect_string()).unwrap();
    let former = builder.max_outstanding(1).connect().await.unwrap();
    let guard = PlainMutex::new(&former, "/p")
        .unwrap()
        .lock()
        .await
        .unwrap();
    let before = server.counters().requests_of(OpCode::DELETE);
    delay_exists(&server, &former, Duration::from_millis(300));
    let mut full = pin!(former.exists("/"));
    assert!(poll_once(full.as_mut()).is_none());
    guard.limit_hold(Duration::from_millis(100));
    let mut releasing = pin!(guard.release_with(|writes| writes));
    assert!(
        poll_once(releasing.as_mut()).is_none(),
        "there is no capacity"
    );
    tokio::time::sleep(Duration::from_millis(150)).await;
    let (_, released) = soon(async { tokio::join!(full, releasing) }).await;
    released.unwrap();
    former.sync("/").await.unwrap();
    assert_eq!(server.counters().requests_of(OpCode::DELETE), before);
}

/// The replies to the former holder are late. It is told of its limit, and of the close, before the
/// next one holds.
#[tokio::test]
async fn a_holder_whose_replies_are_late_is_told_before_another_one_holds() {
    let server = server().await;
    for closes in [false, true] {
        let (former, other) = (client(&server).await, client(&server).await);
        let mutex = |client: &Client| Mutex::new(client, "/m").unwrap();
        let guard = mutex(&former).lock().await.unwrap();
        let (told, granted) = (StdMutex::new(Vec::new()), mutex(&other));
        let lost = async {
            let loss = guard.lost().await;
            told.lock().unwrap().push("told");
            loss
        };
        let next = async {
            let next = granted.lock().await.unwrap();
            told.lock().unwrap().push("granted");
            next.release().await.unwrap();
        };
        delay_exists(&server, &former, LONG);
        let give_up = async {
            until!(inspect(&other, "/m").await.unwrap().len() == 2);
            // Whatever the server sends to the former holder from now on is late.
            assert!(poll_once(pin!(former.exists("/"))).is_none());
            if closes {
                let closing = former.clone().close();
                drop(tokio::time::timeout(Duration::from_millis(1), closing).await);
            } else {
                guard.limit_hold(Duration::ZERO);
            }
        };
        let (why, (), ()) = soon(async { tokio::join!(lost, next, give_up) }).await;
        let expected = if closes { Loss::Closed } else { Loss::Overdue };
        assert_eq!(why, Some(expected));
        assert_eq!(*told.lock().unwrap(), ["told", "granted"]);
        server.faults().clear();
    }
}
