//! `lockkeeper demo`: several clients contend for one lock, and one client is paused while it holds the lock.
//!
//! | file | what |
//! |---|---|
//! | `stage` | servers, paths, the counter |
//! | `contender` | a client |
//! | `events` | the events that clients report |
//! | `orders` | the orders that clients get |
//! | `director` | which order is given, and when |
//! | `audit` | whether the lock kept its promises |
//! | `screen`, `line`, `summary` | the output |

mod audit;
mod contender;
mod director;
mod events;
mod line;
mod orders;
mod screen;
mod stage;
mod summary;

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::mpsc,
    time::{sleep_until, timeout},
};

use crate::{
    args::DemoArgs,
    exit::{self, Failure},
    signals::{ENDING, Signals},
};
use audit::Audit;
use contender::Contender;
use director::{Cue, Director};
use events::Event;
use orders::Orders;
use screen::Screen;
use stage::Stage;

/// The capacity of the queue of events.
const EVENTS: usize = 1024;
/// How long the clients may take to close their sessions after the output has failed.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs the demo, and returns the exit status.
pub(crate) async fn run(args: &DemoArgs) -> Result<u8, Failure> {
    let mut signals = Signals::catch(&ENDING).map_err(Failure::System)?;
    let stage = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(exit::of_signal(signal.as_raw())),
        stage = Stage::set(args) => stage?,
    };
    let played = play(args, &stage, &mut signals).await;
    stage.clear().await;
    played
}

async fn play(args: &DemoArgs, stage: &Stage, signals: &mut Signals) -> Result<u8, Failure> {
    let clients = usize::from(args.clients);
    let start = Instant::now();
    let orders = Arc::new(Orders::new());
    let mut audit = Audit::new(clients);
    let mut screen = Screen::new(clients, start, stage.first_zxid);
    let mut director = Director::new(start, args.seconds, stage.session_timeout());
    screen
        .head(args.seconds, &stage.name(), stage.session_timeout())
        .map_err(Failure::Output)?;
    let mut events = start_clients(args, stage, &orders, director.reconnect_timeout())
        .map_err(Failure::System)?;

    let mut output = Ok(());
    let mut signalled = None;
    loop {
        tokio::select! {
            biased;
            signal = signals.ending(), if signalled.is_none() => {
                signalled = Some(signal);
                director.finish(Instant::now());
                orders.finish();
            }
            event = events.recv() => {
                let Some(event) = event else { break };
                audit.note(&event);
                director.note(&event);
                output = output.and_then(|()| screen.show(&event, audit.holds.last()));
            }
            () = sleep_until(director.next_cue().into()) => match director.act(Instant::now()) {
                Cue::Pause => orders.pause_next(),
                Cue::LeaseOver(at) => output = output.and_then(|()| screen.lease_over(at)),
                Cue::Wake => orders.wake(),
                Cue::Finish => orders.finish(),
                Cue::GiveUp => break,
            },
        }
        if output.is_err() {
            break;
        }
    }
    if output.is_err() {
        // Nobody reads the output any more, but the clients must still close their sessions.
        orders.finish();
        let drained = async { while events.recv().await.is_some() {} };
        let _ = timeout(FAREWELL, drained).await;
    }
    output
        .and_then(|()| screen.free())
        .map_err(Failure::Output)?;

    audit.count = stage.count().await;
    let complete = signalled.is_none();
    let kept =
        summary::print_summary(&audit, start.elapsed(), complete).map_err(Failure::Output)?;
    Ok(match signalled {
        Some(signal) if kept => exit::of_signal(signal.as_raw()),
        None if kept => exit::OK,
        _ => exit::BROKEN,
    })
}

/// Starts all clients. The channel of events closes when the last client has ended.
fn start_clients(
    args: &DemoArgs,
    stage: &Stage,
    orders: &Arc<Orders>,
    reconnect_timeout: Duration,
) -> io::Result<mpsc::Receiver<Event>> {
    let (events, receiver) = mpsc::channel(EVENTS);
    for number in 0..usize::from(args.clients) {
        let contender = Contender {
            number,
            builder: stage.builder(),
            lock: stage.lock(),
            counter: stage.counter(),
            reconnect_timeout,
            orders: orders.clone(),
            events: events.clone(),
        };
        contender.start()?;
    }
    Ok(receiver)
}
