//! `lockkeeper demo`: several clients contend for one lock, and one client is paused while it holds the lock.
//!
//! | file | what |
//! |---|---|
//! | `contender` | a client, which tells each of its steps through a channel |
//! | `story` | prints the steps as they come; at the end, the numbers, and whether the lock kept its promises |
//!
//! The servers get two nodes: a container, whose data are the counter, and the lock below it. The servers delete both even if the
//! demo is killed.

mod contender;
mod story;

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use lockkeeper::{CreateMode, Version, client::Builder};
use lockkeeper_server::Server;
use tokio::{
    sync::{mpsc::unbounded_channel, watch},
    time::{timeout, timeout_at},
};

use crate::{
    args::DemoArgs,
    client::{GOODBYE, connect},
    exit::Failure,
    signals::{ENDING, Signals},
};
use contender::{Contender, count, lock};
use story::Story;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The session timeout of the clients that contend. It is short, because nothing happens on the screen until the session of the
/// paused client expires. A real server grants at least two of its ticks.
const SESSION_TIMEOUT: Duration = Duration::from_secs(1);
/// The embedded server's tick. It is short, so sessions expire soon after their timeout.
const TICK: Duration = Duration::from_millis(100);
/// How long the clients may take to close their sessions.
const FAREWELL: Duration = Duration::from_secs(10);

/// Runs the demo, and returns the exit status.
pub(crate) async fn run(args: &DemoArgs) -> Result<u8, Failure> {
    let mut signals = Signals::catch(&ENDING)?;
    // The embedded server runs until the end of this function.
    let mut server = None;
    let (place, settings) = if let Some(servers) = &args.servers.connect {
        (servers.to_string(), args.servers.settings_for(servers)?)
    } else {
        let own = server.insert(Server::builder().tick_time(TICK).start().await?);
        let place = format!("an embedded server at {}", own.local_addr());
        (place, Builder::new(&own.local_addr().into()))
    };
    let settings = settings.connect_timeout(CONNECT_TIMEOUT);
    let settings = settings.session_timeout(SESSION_TIMEOUT);
    let settings = settings.server_timeout(CONNECT_TIMEOUT / 4);
    let counter = format!("/lockkeeper-demo-{:016x}", random(u64::MAX));
    let prepared = async {
        let client = connect(settings.clone()).await?;
        let why = match client.create(&counter, "0", CreateMode::Container).await {
            Ok(_) => return Ok(client),
            Err(error) if !error.is_no_node() => return Err(Failure::connect(&error)),
            Err(_) => "does not exist; create it, or leave it out",
        };
        Err(failure!(UNAVAILABLE, "the chroot in {place} {why}"))
    };
    let client = signals.or_end(prepared).await?;

    let mut story = Story::begin(args, &place)?;
    let (steps, mut told) = unbounded_channel();
    let end = watch::Sender::new(());
    let (paused, pause_at) = (random(args.clients.into()), story.start + story.time / 3);
    for number in 0..args.clients {
        let contender = Contender {
            number: number.into(),
            counter: counter.clone(),
            pause_at: (u64::from(number) == paused).then_some(pause_at),
            steps: steps.clone(),
            end: end.subscribe(),
        };
        contender.start(settings.clone())?;
    }
    drop(steps);
    let follow = async {
        while let Ok(Some(step)) = timeout_at(story.until.into(), told.recv()).await {
            story.take(step)?;
        }
        Ok(())
    };
    let followed = signals.or_end(follow).await;
    drop(end);
    // A paused client ends when its waker is dropped. The channel closes when the last client has ended.
    let farewell = async {
        story.paused = None;
        while let Some(step) = told.recv().await {
            let _ = story.take(step);
            story.paused = None;
        }
    };
    let _ = timeout(FAREWELL, farewell).await;

    let verdict = async {
        followed?;
        story.end(count(&client, &counter).await?)
    };
    let status = verdict.await;
    let clear = async {
        // Errors do not matter: the servers delete an empty container later.
        let _ = client.delete(&lock(&counter), Version::ANY).await;
        let _ = client.delete(&counter, Version::ANY).await;
        client.close().await;
    };
    let _ = timeout(GOODBYE, clear).await;
    status
}

/// A random number below this one.
fn random(below: u64) -> u64 {
    RandomState::new().hash_one(0) % below
}
