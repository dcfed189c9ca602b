//! `lockkeeper demo`: several clients contend for one lock, and one client is paused while it holds the lock.
//!
//! ```text
//! contenders ──► one list of timed events ──► screen, as they come; audit, summary and picture at the end
//! ```
//!
//! | file | what |
//! |---|---|
//! | `setup` | servers and nodes |
//! | `contender` | a client |
//! | `events` | the events that clients report |
//! | `screen` | a line for each hold, and the summary |
//! | `audit` | whether the lock kept its promises, and the numbers |
//! | `svg` | all of it as a picture |

mod audit;
mod contender;
mod events;
mod screen;
mod setup;
mod svg;

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, watch},
    time::timeout_at,
};

use crate::{
    args::DemoArgs,
    exit::{self, Failure},
    signals::{ENDING, Signals},
};
use audit::Audit;
use contender::{Contender, Phase};
use events::{Event, What};
use screen::Screen;
use setup::Setup;

/// The capacity of the queue of events.
const EVENTS: usize = 1024;
/// How long the demo goes on after the hand-over, and after the late write, so that viewers can follow it.
const LINGER: Duration = Duration::from_millis(350);
/// How much longer than four session timeouts the servers may take for the expiry, the hand-over and the late write.
const SLACK: Duration = Duration::from_secs(20);
/// How long the clients may take to close their sessions.
const FAREWELL: Duration = Duration::from_secs(10);

/// Runs the demo, and returns the exit status.
pub(crate) async fn run(args: &DemoArgs) -> Result<u8, Failure> {
    let mut signals = Signals::catch(&ENDING)?;
    let setup = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(exit::of_signal(signal.as_raw())),
        setup = Setup::new(args) => setup?,
    };
    let status = contend(args, &setup, &mut signals).await;
    setup.clear().await;
    status
}

async fn contend(args: &DemoArgs, setup: &Setup, signals: &mut Signals) -> Result<u8, Failure> {
    let start = Instant::now();
    let clients = usize::from(args.clients);
    let (sender, receiver) = mpsc::channel(EVENTS);
    let mut log = Log {
        receiver,
        events: Vec::new(),
        screen: Screen::new(clients, start, setup.first_zxid),
    };
    let unwritten = |error| Failure::output(&error);
    log.screen.head(args.seconds, setup).map_err(unwritten)?;
    let phase = Arc::new(watch::Sender::new(Phase::Contend));
    for number in 0..clients {
        let contender = Contender {
            number,
            settings: setup.settings.clone(),
            lock: setup.lock.clone(),
            counter: setup.counter.clone(),
            phase: phase.clone(),
            events: sender.clone(),
        };
        contender.start()?;
    }
    drop(sender);

    let end = start + Duration::from_secs(args.seconds.into());
    let (signal, mut output) = tokio::select! {
        biased;
        signal = signals.ending() => (Some(signal), Ok(())),
        output = pause_one(&mut log, setup, &phase, start, end) => (None, output),
    };
    phase.send_replace(Phase::Finished);
    // The clients must close their sessions even if nobody reads the output any more.
    let farewell = Instant::now() + FAREWELL;
    while let Err(error) = log.run_until(farewell).await {
        output = Err(error);
    }
    output.map_err(unwritten)?;
    if let Some(file) = &args.svg {
        let picture = svg::picture(&log.events, clients, start);
        std::fs::write(file, picture).map_err(|error| Failure::file(file, &error))?;
    }
    let audit = Audit::new(&log.events, clients, setup.count().await);
    let broken = audit.broken(signal.is_none());
    let summary = log.screen.summary(&audit, signal.is_none(), &broken);
    summary.map_err(unwritten)?;
    Ok(match signal {
        _ if !broken.is_empty() => exit::BROKEN,
        Some(signal) => exit::of_signal(signal.as_raw()),
        None => exit::OK,
    })
}

/// Pauses a client until another client has its lock, lets it go on, and waits for its write.
///
/// Returns at `end`, or a little after the late write if that is later, but does not wait for ever.
async fn pause_one(
    log: &mut Log,
    setup: &Setup,
    phase: &watch::Sender<Phase>,
    start: Instant,
    end: Instant,
) -> io::Result<()> {
    let limit = end + setup.session_timeout * 4 + SLACK;
    log.run_until(start + (end - start) * 2 / 5).await?;
    phase.send_replace(Phase::PauseNext);
    let paused = |event: &Event| match event.what {
        What::Paused(lease_until) => Some((event.client, lease_until)),
        _ => None,
    };
    let Some((client, at)) = log.find(limit, paused).await? else {
        return Ok(());
    };
    let granted = |event: &Event| {
        let granted = matches!(event.what, What::Granted(..));
        (granted && event.client != client).then_some(event.at)
    };
    // A paused client cannot tell when its lease ends.
    let mut next = log.find(at, granted).await?;
    if next.is_none() {
        let what = What::LeaseEnded;
        log.add(Event { at, client, what })?;
        next = log.find(limit, granted).await?;
    }
    let Some(next) = next else {
        return Ok(());
    };
    log.run_until(next + LINGER).await?;
    phase.send_replace(Phase::Woken);
    let late = |event: &Event| matches!(event.what, What::WroteLate(..)).then_some(event.at);
    if let Some(late) = log.find(limit, late).await? {
        log.run_until(end.max(late + LINGER)).await?;
    }
    Ok(())
}

/// All events of the demo, each shown on the screen when it is added.
#[derive(Debug)]
struct Log {
    /// The events of the clients. It closes when the last client has ended.
    receiver: mpsc::Receiver<Event>,
    events: Vec<Event>,
    screen: Screen,
}

impl Log {
    /// Receives events until `find` finds something in one; `None` at the deadline, or when all clients have ended.
    ///
    /// # Cancel safety
    /// A dropped future loses no event.
    async fn find<T>(
        &mut self,
        deadline: Instant,
        find: impl Fn(&Event) -> Option<T>,
    ) -> io::Result<Option<T>> {
        while let Ok(Some(event)) = timeout_at(deadline.into(), self.receiver.recv()).await {
            let found = find(&event);
            self.add(event)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Receives events until the deadline, or until all clients have ended.
    async fn run_until(&mut self, deadline: Instant) -> io::Result<()> {
        self.find(deadline, |_| None::<()>).await.map(drop)
    }

    fn add(&mut self, event: Event) -> io::Result<()> {
        let shown = self.screen.show(&event);
        self.events.push(event);
        shown
    }
}
