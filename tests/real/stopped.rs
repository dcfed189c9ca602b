//! The process of a leader is stopped (SIGSTOP) for longer than its session lives, and goes on.
//! Meanwhile another contender leads, so the work must not take one step more. The leader is a
//! process of its own: this test program, started again.
//!
//! The stop may come between the look at the lease and the step, in one poll. No client can prevent
//! this step; a store that checks tokens refuses it. So a step counts by the beginning of its poll.
//!
//! Not here: a thread that is blocked (`recipes/tests/locks/losses.rs`), `lockkeeper run`
//! (`cli/tests/command/signals.rs`).

use std::{
    cell::Cell,
    env,
    future::poll_fn,
    io::Write,
    pin::pin,
    process::Stdio,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lockkeeper::{Client, Election, Guard};
use lockkeeper_test_support::{Ensemble, on_both_arms, waiting::soon};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    runtime::Builder,
};

/// What the leader is told: the servers, the path, and how many threads its runtime has.
const LEADER: &str = "LOCKKEEPER_TEST_LEADER";
const SESSION: Duration = Duration::from_secs(2);

/// The time since 1970, by the clock that both processes have.
fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos()
}

async fn stop_the_leader(ensemble: &Ensemble, threads: usize) {
    let path = ensemble.unique_path("stopped");
    let mut leader = Command::new(env::current_exe().unwrap())
        .args(["--exact", "stopped::child_of_the_tests", "--nocapture"])
        .env(LEADER, format!("{} {path} {threads}", ensemble.servers()))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let id = leader.id().unwrap().to_string();
    let mut lines = BufReader::new(leader.stdout.take().unwrap()).lines();
    let mut steps = 0;
    while steps < 3 {
        let line = soon(lines.next_line()).await.unwrap();
        steps += usize::from(line.expect("it leads").starts_with("step "));
    }
    let signal = async |name: &str| {
        Command::new("kill")
            .args([name, &id])
            .status()
            .await
            .unwrap()
    };
    assert!(signal("-STOP").await.success());
    let next = Election::new(&ensemble.client().await, &path).unwrap();
    let next = soon(next.elect()).await.unwrap();
    let goes_on = now();
    assert!(signal("-CONT").await.success());
    let (mut late, mut is_told) = (0, false);
    while let Some(line) = soon(lines.next_line()).await.unwrap() {
        is_told |= line.starts_with("lost");
        let begun = line.strip_prefix("step ");
        late += usize::from(begun.is_some_and(|begun| begun.parse::<u128>().unwrap() >= goes_on));
    }
    assert!(soon(leader.wait()).await.unwrap().success() && is_told);
    assert_eq!(
        late, 0,
        "{threads} threads: polls after the loss with a step"
    );
    next.release().await.unwrap();
}

on_both_arms! {
    async fn a_stopped_leader_takes_no_step_more(ensemble: &Ensemble) {
        for threads in [1, 4] {
            stop_the_leader(ensemble, threads).await;
        }
    }
}

/// The leader, if the test above has started this program. It writes a line for each step, with the
/// time at which the poll began, and one at the end.
#[test]
fn child_of_the_tests() {
    let Ok(told) = env::var(LEADER) else {
        return;
    };
    let [servers, path, threads] = told.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let mut runtime = match threads {
        "1" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let write = |text: String| std::io::stdout().write_all(text.as_bytes()).unwrap();
    let led = runtime.enable_all().build().unwrap().block_on(async {
        let client = Client::builder(servers)
            .unwrap()
            .session_timeout(SESSION)
            .connect()
            .await
            .unwrap();
        let election = Election::new(&client, path).unwrap();
        let polled = Cell::new(0);
        let work = async |_: &Guard| -> () {
            loop {
                write(format!("step {}\n", polled.get()));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let mut leading = pin!(election.lead(work));
        poll_fn(|cx| {
            polled.set(now());
            leading.as_mut().poll(cx)
        })
        .await
    });
    write(format!("lost: {:?}\n", led.unwrap_err().loss()));
}
