//! `lockkeeper demo`: several clients contend for one lock, and one client is paused while it holds the lock.
//!
//! | file | what |
//! |---|---|
//! | `stage` | servers, nodes, and the story, which all clients share |
//! | `contender` | a client |
//! | `story` | what the clients do, printed as it happens |
//! | `audit` | whether the lock kept its promises, and the numbers |

mod audit;
mod contender;
mod stage;
mod story;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};

use crate::{
    args::DemoArgs,
    exit::{self, Failure},
    signals::{ENDING, Signals},
    text,
};
use contender::Contender;
use stage::Stage;
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
    let stage = Arc::new(signals.or_end(Stage::new(args)).await?);
    let status = contend(args, &stage, &mut signals).await;
    stage.clear().await;
    status
}

async fn contend(
    args: &DemoArgs,
    stage: &Arc<Stage>,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let (failed, mut failures) = mpsc::channel(1);
    for number in 0..usize::from(args.clients) {
        let stage = stage.clone();
        Contender { number, stage }.start(failed.clone())?;
    }
    drop(failed);
    let time = Duration::from_secs(args.seconds.into());
    let told = async {
        tokio::select! {
            Some(error) = failures.recv() => Err(Failure::lock(&stage.lock, error)),
            closed = text::closed() => Err(closed),
            // If the story has no such end in time, the audit tells.
            _ = timeout(time + PATIENCE, pause_one(stage, time)) => Ok(()),
        }
    };
    let told = signals.or_end(told).await;
    stage
        .story
        .send_modify(|story| story.phase = Phase::Finished);
    // The channel closes when the last client has ended.
    let farewell = async { while failures.recv().await.is_some() {} };
    let _ = timeout(FAREWELL, farewell).await;
    told?;
    let count = stage.count(&stage.client).await?;
    let story = stage.story.borrow();
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
        let ok = "no two clients held the lock at once, and the late write was refused";
        print(&format!("{GOOD}OK{GOOD:#}: {ok}"));
    }
    Ok(status)
}

/// Pauses a client until another client has its lock, lets it go on, and waits for its write.
///
/// Returns after this time, or a little after the late write if that is later.
async fn pause_one(stage: &Stage, time: Duration) {
    let end = Instant::now() + time;
    sleep(time * 2 / 5).await;
    stage
        .story
        .send_modify(|story| story.phase = Phase::PauseNext);
    stage.until(Phase::Paused).await;
    let lease_until = stage.story.borrow().lease_until.into();
    let next = stage.until(Phase::HandedOver);
    if timeout_at(lease_until, next).await.is_err() {
        stage.story.send_modify(Story::lease_ended);
        stage.until(Phase::HandedOver).await;
    }
    sleep(LINGER).await;
    stage.story.send_modify(|story| story.phase = Phase::Woken);
    stage.until(Phase::Late).await;
    sleep_until(end.max(Instant::now() + LINGER)).await;
}
