//! `lockkeeper demo`: several clients contend for one lock, and one client is paused while it holds the lock.
//!
//! | file | what |
//! |---|---|
//! | `setup` | servers and nodes |
//! | `contender` | a client |
//! | `story` | what the clients do, printed as it happens |
//! | `audit` | whether the lock kept its promises, and the numbers |
//! | `svg` | all of it as a picture |

mod audit;
mod contender;
mod setup;
mod story;
mod svg;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, watch},
    time::{sleep, sleep_until, timeout, timeout_at},
};

use crate::{
    args::DemoArgs,
    exit::{self, Failure},
    signals::{ENDING, Signals},
    text,
};
use contender::Contender;
use setup::Setup;
use story::{BAD, BOLD, GOOD, Phase, Story, print};

/// How long the demo goes on after the hand-over, and after the late write, so that viewers can follow it.
const LINGER: Duration = Duration::from_millis(350);
/// How long the servers may take for the expiry, the hand-over and the late write. Some grant no session below 4 s.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long the clients may take to close their sessions.
const FAREWELL: Duration = Duration::from_secs(10);

/// Runs the demo, and returns the exit status.
pub(crate) async fn run(args: &DemoArgs) -> Result<u8, Failure> {
    let mut signals = Signals::catch(&ENDING)?;
    let setup = Arc::new(signals.or_end(Setup::new(args)).await?);
    let status = contend(args, &setup, &mut signals).await;
    setup.clear().await;
    status
}

async fn contend(
    args: &DemoArgs,
    setup: &Arc<Setup>,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let clients = usize::from(args.clients);
    let story = Story::new(clients);
    story.head(args.seconds, &setup.place);
    let story = Arc::new(watch::Sender::new(story));
    let (failed, mut failures) = mpsc::channel(1);
    for number in 0..clients {
        let (setup, story) = (setup.clone(), story.clone());
        let contender = Contender {
            number,
            setup,
            story,
        };
        contender.start(failed.clone())?;
    }
    drop(failed);
    let told = async {
        tokio::select! {
            Some(error) = failures.recv() => Err(Failure::lock(&setup.lock, error)),
            closed = text::closed() => Err(closed),
            () = pause_one(&story, args.seconds) => Ok(()),
        }
    };
    let told = signals.or_end(told).await;
    tell(&story, |story| story.phase = Phase::Finished);
    // The channel closes when the last client has ended.
    let farewell = async { while failures.recv().await.is_some() {} };
    let _ = timeout(FAREWELL, farewell).await;
    told?;
    let count = setup.final_count().await?;
    let story = story.borrow();
    if let Some(file) = &args.svg {
        let picture = svg::picture(&story);
        std::fs::write(file, picture).map_err(|error| Failure::file(file, &error))?;
    }
    print("");
    for (name, text) in audit::numbers(&story, count) {
        print(&format!("{BOLD}{name:<10}{BOLD:#}{text}"));
    }
    print("");
    let mut status = exit::OK;
    for promise in audit::broken(&story, count) {
        print(&format!("{BAD}BROKEN{BAD:#}: {promise}"));
        status = exit::BROKEN;
    }
    if status == exit::OK {
        print(&format!(
            "{GOOD}OK{GOOD:#}: no two clients held the lock at once, and the late write was refused"
        ));
    }
    Ok(status)
}

/// Pauses a client until another client has its lock, lets it go on, and waits for its write.
///
/// Returns after this time, or a little after the late write if that is later. The story may have no such end: then it returns later.
async fn pause_one(story: &watch::Sender<Story>, seconds: u32) {
    let time = Duration::from_secs(seconds.into());
    let (end, limit) = (Instant::now() + time, Instant::now() + time + PATIENCE);
    sleep(time * 2 / 5).await;
    tell(story, |story| story.phase = Phase::PauseNext);
    until(story, limit, |story| story.pause.is_some()).await;
    let pause = story.borrow().pause;
    if let Some((client, lease_until)) = pause
        && !until(story, lease_until, |story| story.next.is_some()).await
    {
        tell(story, |story| story.lease_ended(client, lease_until));
    }
    until(story, limit, |story| story.next.is_some()).await;
    sleep(LINGER).await;
    tell(story, |story| story.phase = Phase::Woken);
    until(story, limit, |story| story.late.is_some()).await;
    sleep_until(end.max(Instant::now() + LINGER).into()).await;
}

/// Waits until this is so; false at the deadline.
async fn until(
    story: &watch::Sender<Story>,
    deadline: Instant,
    is_so: impl FnMut(&Story) -> bool,
) -> bool {
    let mut story = story.subscribe();
    let waited = timeout_at(deadline.into(), story.wait_for(is_so)).await;
    waited.is_ok()
}

/// Adds a step to the story.
fn tell<T>(story: &watch::Sender<Story>, step: impl FnOnce(&mut Story) -> T) -> T {
    let mut done = None;
    story.send_modify(|story| done = Some(step(story)));
    done.expect("the step was done")
}
