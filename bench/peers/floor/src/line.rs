//! Contenders for one lock, each with its own thread and connection.
//!
//! They use the ordinary recipe: create and list, watch the predecessor, and list again when the
//! predecessor is deleted.

use std::{io::Error, sync::Arc, thread};

use lockkeeper_bench::{
    Failure, args::Args, exclusion::Exclusion, histogram::Histogram, report, window::Window,
};

use crate::{
    connection::Connection,
    request::{self, Mode},
    root,
};

const BUFFER: usize = 16 * 1024;

pub fn run(name: &str, args: &Args) -> Result<String, Failure> {
    let mut first = Connection::open(&args.server, BUFFER)?;
    let lock = root();
    first.must(&request::create(&lock, &[], Mode::Persistent))?;
    let mut connections = Vec::with_capacity(args.param);
    for _ in 0..args.param {
        connections.push(Connection::open(&args.server, BUFFER)?);
    }
    let exclusion = Arc::new(Exclusion::default());
    let window = Window::after_warm_up(args.seconds);
    let measuring = window.measure()?;
    let contend = |connection| {
        let (lock, exclusion) = (lock.clone(), exclusion.clone());
        thread::spawn(move || contend(connection, &lock, window, &exclusion))
    };
    let threads: Vec<_> = connections.into_iter().map(contend).collect();
    let mut latencies = Histogram::default();
    for thread in threads {
        latencies.merge(&thread.join().map_err(|_| "a contender panicked")??);
    }
    let measured = measuring
        .join()
        .map_err(|_| "the measuring thread panicked")?;
    first.call(&request::delete(lock.as_bytes()))?;
    first.close()?;
    let violations = Some(exclusion.violations());
    Ok(report::line(name, args, &latencies, measured, violations))
}

fn contend(
    mut connection: Connection,
    lock: &str,
    window: Window,
    exclusion: &Exclusion,
) -> Result<Histogram, Error> {
    let mut latencies = Histogram::default();
    let name = format!("{lock}/_c_00000000-0000-0000-0000-000000000000-lock-");
    let create = request::create(&name, &[], Mode::EphemeralSequential);
    let list = request::get_children(lock);
    loop {
        let began = std::time::Instant::now();
        connection.put(&create);
        connection.put(&list);
        connection.flush()?;
        let mine = request::buffer(connection.next()?, request::REPLY_HEAD).to_vec();
        let mut predecessor = predecessor_of(connection.next()?, &mine);
        while let Some(name) = predecessor {
            let path = format!("{lock}/{}", String::from_utf8_lossy(&name));
            if request::succeeded(connection.call(&request::get_data(&path, true))?) {
                connection.next()?; // the event
            }
            predecessor = predecessor_of(connection.call(&list)?, &mine);
        }
        exclusion.visit();
        connection.must(&request::delete(&mine))?;
        if !window.count(&mut latencies, began) {
            connection.close()?;
            return Ok(latencies);
        }
    }
}

/// The predecessor: the contender with the highest number below ours.
fn predecessor_of(listing: &[u8], mine: &[u8]) -> Option<Vec<u8>> {
    request::children(listing)
        .filter(|name| request::number(name) < request::number(mine))
        .max_by_key(|name| request::number(name))
        .map(<[u8]>::to_vec)
}
