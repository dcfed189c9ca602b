//! `lockkeeper demo`: several clients contend for one lock, and one client is paused while it holds the lock.
//!
//! `story` has what is printed, and the audit. Here are the servers, and the clients. Each client has its own thread, runtime and
//! session, like a separate process. When one client is paused, the others notice only that they do not get the lock.
//!
//! A client reads a counter on the server after the grant, and writes the next value just before the release. If two clients ever
//! held the lock at once, one increment would be lost.
//!
//! The servers get two nodes: a container, whose data are the counter, and the lock below it. The servers delete both even if the
//! demo is killed.

mod story;

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use lockkeeper::{Client, CreateMode, Error, Guard, LockError, Version, client::Builder};
use lockkeeper_server::Server;
use tokio::{
    runtime,
    sync::{mpsc::unbounded_channel, watch},
    time::{sleep, timeout, timeout_at},
};

use crate::{
    args::DemoArgs,
    client::{GOODBYE, connect, open},
    exit::Failure,
    signals::{ENDING, Signals},
};
use story::{STEP, Story, WAITS, heading, print};

/// How long the servers may take to accept a client, and the clients to close their sessions.
const PATIENCE: Duration = Duration::from_secs(10);
/// The session timeout of the clients that contend. It is short, because nothing happens on the screen until the session of the
/// paused client expires. A real server grants at least two of its ticks.
const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
/// The embedded server's tick. It is short, so sessions expire soon after their timeout.
const TICK: Duration = Duration::from_millis(100);
/// How soon a paused client looks again whether it is woken, and how soon it sends its late write again.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the demo, and returns the exit status.
pub(crate) async fn run(args: &DemoArgs) -> Result<u8, Failure> {
    // The embedded server runs until the end of this function.
    let mut server = None;
    let (place, settings) = if let Some(servers) = &args.servers.connect {
        (servers.to_string(), args.servers.settings()?)
    } else {
        let own = server.insert(Server::builder().tick_time(TICK).start().await?);
        let place = format!("an embedded server at {}", own.local_addr());
        (place, Builder::new(&own.local_addr().into()))
    };
    let settings = settings.session_timeout(SESSION_TIMEOUT);
    let settings = settings.server_timeout(PATIENCE / 4);
    let counter = format!("/lockkeeper-demo-{:016x}", random(u64::MAX));
    let client = connect(settings.clone(), PATIENCE).await?;
    let created = client.create(&counter, "0", CreateMode::Container).await;
    created.map_err(|why| match why {
        why if why.is_no_node() => failure!(REFUSED, "{place}: the chroot does not exist"),
        why => why.into(),
    })?;
    // Until here a signal ends the process at once: nobody has the lock yet.
    let mut signals = Signals::catch(&ENDING)?;

    heading(args, &place)?;
    let (lines, mut told) = unbounded_channel();
    let story = Arc::new(Mutex::new(Story::new(args, lines)));
    let end = watch::Sender::new(false);
    for number in 0..args.clients.into() {
        let (settings, counter, story) = (settings.clone(), counter.clone(), story.clone());
        let end = end.subscribe();
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build()?;
        thread::spawn(move || {
            let contend = contend(number, settings, &counter, &story, end);
            if let Err(error) = runtime.block_on(contend) {
                let _ = locked(&story).lines.send(Err(error));
            }
        });
    }
    let until = || locked(&story).until.into();
    let follow = async {
        while let Ok(Some(line)) = timeout_at(until(), told.recv()).await {
            print(&line.map_err(|error| Failure::request(&lock(&counter), error))?)?;
        }
        Ok(())
    };
    let followed = signals.or_end(follow).await;
    end.send_replace(true);
    let _ = timeout(PATIENCE, end.closed()).await;
    let value = count(&client, &counter).await;
    let clear = async {
        // Errors do not matter: the servers delete an empty container later.
        let _ = client.delete(&lock(&counter), Version::ANY).await;
        let _ = client.delete(&counter, Version::ANY).await;
        client.close().await;
    };
    let _ = timeout(GOODBYE, clear).await;
    followed?;
    while let Ok(Ok(line)) = told.try_recv() {
        print(&line)?;
    }
    locked(&story).end(value?)
}

/// A client that contends until the end: in a loop, it takes the lock, adds one to the counter, and releases the lock.
///
/// It tells each step before it takes the next one. So the end of a hold comes before the grant of the next holder.
async fn contend(
    number: usize,
    settings: Builder,
    counter: &str,
    story: &Mutex<Story>,
    mut end: watch::Receiver<bool>,
) -> Result<(), LockError> {
    let client = open(settings, PATIENCE).await?;
    let name = format!("client {} of a demo", number + 1);
    let mutex = lockkeeper::Mutex::new(&client, &lock(counter))?.with_data(name);
    loop {
        locked(story).now[number] = WAITS;
        let since = Instant::now();
        let guard = tokio::select! {
            biased;
            _ = end.changed() => break,
            guard = mutex.lock() => guard?,
        };
        let (from, token) = (Instant::now(), guard.fencing_token().get());
        let lease = guard.valid_until().unwrap_or(from);
        let is_paused = locked(story).hold(number, token, lease);
        let next = count(&client, counter).await? + 1;
        if is_paused {
            // This blocks the client's whole runtime, until another client has the lock. The session sends and receives nothing, like
            // that of a suspended process, or of one in a long garbage collection.
            thread::sleep(lease.saturating_duration_since(Instant::now()));
            locked(story).note(STEP, "its lease has ended");
            while locked(story).paused.is_some() && !*end.borrow() {
                thread::sleep(LOOK);
            }
            // The client goes on as if nothing had happened.
            let is_valid = guard.is_valid();
            let is_refused = loop {
                match write(&guard, counter, next).await {
                    Err(error) if !error.is_no_node() => sleep(LOOK).await,
                    written => break written.is_err(),
                }
            };
            locked(story).write_late(number, next, (is_valid, is_refused));
        } else {
            sleep(Duration::from_millis(60 + random(160))).await;
            write(&guard, counter, next).await?;
            let (waited, held) = (from - since, from.elapsed());
            locked(story).release(number, waited, held, token);
            guard.release().await?;
        }
        sleep(Duration::from_millis(20 + random(280))).await;
    }
    client.close().await;
    Ok(())
}

/// Writes the counter, unless the lock's node is gone.
///
/// A guard knows that its session has expired, and its transaction sends nothing then. The demo must show that the server, too,
/// refuses the write. So this does not ask the guard: it sends the operations of a guard's transaction itself, in the client's
/// present session.
async fn write(guard: &Guard, counter: &str, value: u64) -> Result<(), Error> {
    let write = guard.client().transaction();
    let write = write.check(&guard.path(), Version::ANY);
    let write = write.set_data(counter, value.to_string(), Version::ANY);
    write.commit().await.map(drop)
}

fn locked(story: &Mutex<Story>) -> MutexGuard<'_, Story> {
    story.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of the lock.
fn lock(counter: &str) -> String {
    format!("{counter}/lock")
}

/// The counter, as this client reads it behind all earlier writes.
async fn count(client: &Client, counter: &str) -> Result<u64, Error> {
    client.sync(counter).await?;
    let data = client.get_data(counter).await?.data.unwrap_or_default();
    Ok(String::from_utf8_lossy(&data).parse().unwrap_or(0))
}

/// A random number below this one.
fn random(below: u64) -> u64 {
    RandomState::new().hash_one(0) % below
}
