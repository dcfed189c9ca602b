//! The lower bound of what a client can cost. It is a measure for clients, and not a client itself.
//!
//! It uses blocking sockets, requests that are encoded in advance, and one write and one read per
//! batch. It has no reconnect, no retries, no session state and no watches.
//!
//! | file | content |
//! |---|---|
//! | `connection` | a socket, and frames |
//! | `request` | requests as bytes, and the fields of replies that this program reads |
//! | `pipeline` | many requests in flight on one connection |
//! | `line` | contenders for one lock, each with its own thread and connection |
//!
//! With `FLOOR_RELEASE=background`, `lock_uncontended` does not wait for the release. It sends the
//! next cycle together with the release.

mod connection;
mod line;
mod pipeline;
mod request;

use std::{
    env,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use lockkeeper_bench::{
    Failure,
    args::{Args, Workload},
    report,
    window::{Window, resident_kb},
};

use connection::Connection;

/// The time between two pings of an idle session: a third of the session timeout.
const PING_PAUSE: Duration = Duration::from_millis(3333);

fn main() -> ExitCode {
    let args = match Args::from_env() {
        Ok(args) => args,
        Err(error) => {
            eprintln!("floor: {error}");
            return ExitCode::from(64);
        }
    };
    let background = env::var("FLOOR_RELEASE").is_ok_and(|set| set == "background");
    let name = if background {
        "floor-background"
    } else {
        "floor"
    };
    let why_not = match args.workload {
        Workload::LockSharedSession => Some("no recipe"),
        Workload::LockUncontended => None,
        _ if background => Some("a variant of lock_uncontended"),
        _ => None,
    };
    if let Some(why) = why_not {
        println!("{}", report::skip_line(name, &args, why));
        return ExitCode::from(report::NOT_OFFERED);
    }
    let line = match args.workload {
        Workload::IdleSessions => idle(name, &args),
        Workload::LockContended => line::run(name, &args),
        _ => pipeline::run(name, &args, background),
    };
    match line {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!(
                "{}",
                report::skip_line(name, &args, &format!("failed: {error}"))
            );
            ExitCode::FAILURE
        }
    }
}

fn idle(name: &str, args: &Args) -> Result<String, Failure> {
    const SMALL: usize = 256;
    let resident = resident_kb();
    let began = Instant::now();
    let mut connections = Vec::with_capacity(args.param);
    for _ in 0..args.param {
        connections.push(Connection::open(&args.server, SMALL)?);
    }
    let connecting = began.elapsed().as_secs_f64();
    let measuring = Window::after_warm_up(args.seconds).measure()?;
    let mut due = Instant::now();
    while !measuring.is_finished() {
        if Instant::now() >= due {
            due += PING_PAUSE;
            for connection in &mut connections {
                connection.ping()?;
            }
            for connection in &mut connections {
                connection.next()?;
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    let measured = measuring
        .join()
        .map_err(|_| "the measuring thread panicked")?;
    let line = report::idle_line(name, args, connecting, resident, measured);
    for connection in connections {
        connection.close()?;
    }
    Ok(line)
}

/// The parent of all nodes that this program creates.
fn root() -> String {
    format!("/lockkeeper-bench-{}", std::process::id())
}
