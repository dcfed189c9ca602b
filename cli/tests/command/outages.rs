//! Commands that wait or follow while the servers are away for longer than a session lives.
//!
//! Not here: the waits of locks themselves (`tests/contract/waits.rs`).

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use crate::support::{Running, contained, ended, lockkeeper};

/// A session lives for a second.
const SERVER: [&str; 3] = ["--fresh", "--tick-time", "100ms"];

/// Longer than a session and one more session timeout, after which a run once ended with status 69.
const OUTAGE: Duration = Duration::from_secs(4);

fn run(address: &str, options: &[&str], script: &str) -> Running {
    let mut run = lockkeeper(&["run", "--connect", address, "--session-timeout", "1s"]);
    Running::start(run.args(options).args(["/lock", "--", "sh", "-c", script]))
}

#[test]
fn a_run_waits_over_an_outage_that_outlasts_its_session() {
    contained(|| {
        for wait in [&["-v"][..], &["-v", "--wait", "10m"]] {
            let (serve, address) = Running::serve(&SERVER);
            let mut holder = run(&address, &[], "echo held; exec sleep 1000");
            assert_eq!(holder.line(), "held");
            let mut waiter = run(&address, wait, "echo entered");
            let next = |waiter: &mut Running, begin: &str| {
                let line = waiter.error_line();
                assert!(line.starts_with(&format!("lockkeeper: {begin}")), "{line}");
            };
            next(&mut waiter, "/lock: waiting for the lock, 1 ahead");
            drop(serve);
            next(&mut waiter, "waiting for the servers: no server reached");
            holder.end().ends(74);
            sleep(OUTAGE);
            assert!(waiter.is_running());
            let (_serve, _) = Running::serve_at(&address, &SERVER);
            next(&mut waiter, "connected again, in a new session after");
            next(&mut waiter, "/lock: granted after");
            waiter.end().is(0, "entered\n");
        }
    });
}

#[test]
fn a_run_waits_for_its_first_server() {
    contained(|| {
        let (serve, address) = Running::serve(&SERVER);
        drop(serve);
        let mut early = run(&address, &[], "echo entered");
        let line = early.error_line();
        assert!(
            line.contains("waiting for the servers: no server"),
            "{line}"
        );
        sleep(OUTAGE);
        assert!(early.is_running());
        let (_serve, _) = Running::serve_at(&address, &SERVER);
        let early = early.end().is(0, "entered\n");
        let line = early.stderr.trim_end();
        assert!(line.starts_with("lockkeeper: connected after "), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    });
}

/// It ended after a session timeout, with status 69.
#[test]
fn a_wait_without_a_server_ends_at_its_time() {
    contained(|| {
        let (serve, address) = Running::serve(&SERVER);
        drop(serve);
        let begun = Instant::now();
        let mut run = lockkeeper(&["run", "--connect", &address, "--session-timeout", "1s"]);
        let late = ended(run.args(["--wait", "4s", "/lock", "--", "true"]));
        assert!(begun.elapsed() >= Duration::from_secs(4));
        late.is(75, "").says("lock not acquired in").says(&address);
    });
}

#[test]
fn follow_goes_on_after_an_outage() {
    contained(|| {
        let (serve, address) = Running::serve(&SERVER);
        let options = ["queue", "--follow", "--connect", &address, "/lock"];
        let mut follow = Running::start(&mut lockkeeper(&options));
        follow.line_that(|line| line.contains("free"));
        drop(serve);
        let line = follow.error_line();
        assert!(
            line.contains("waiting for the servers: no server"),
            "{line}"
        );
        let (_serve, _) = Running::serve_at(&address, &SERVER);
        let line = follow.error_line();
        assert!(line.contains("connected again"), "{line}");
        let mut holder = run(&address, &[], "echo held; exec sleep 1000");
        assert_eq!(holder.line(), "held");
        follow.line_that(|line| line.contains("granted"));
    });
}
