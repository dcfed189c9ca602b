//! The time in which operations count, and what the process used meanwhile.

use std::{
    io,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};

use crate::histogram::Histogram;

/// How long the clients run before anything counts, unless `BENCH_WARMUP_S` says otherwise.
const WARM_UP: Duration = Duration::from_millis(700);

/// A stretch of time: operations that end in it are counted.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    start: Instant,
    end: Instant,
}

impl Window {
    /// Starts after the warm-up and lasts so many seconds.
    #[must_use]
    pub fn after_warm_up(seconds: f64) -> Self {
        let warm_up = std::env::var("BENCH_WARMUP_S").ok();
        let warm_up = warm_up
            .and_then(|seconds| Duration::try_from_secs_f64(seconds.parse().ok()?).ok())
            .unwrap_or(WARM_UP);
        let start = Instant::now() + warm_up;
        let end = start + Duration::from_secs_f64(seconds);
        Self { start, end }
    }

    /// When it is over.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.end
    }

    /// Counts an operation that has just ended, if the window is open; false once the window is over.
    pub fn count(&self, histogram: &mut Histogram, began: Instant) -> bool {
        let now = Instant::now();
        if now >= self.end {
            return false;
        }
        if now >= self.start {
            histogram.add(now - began);
        }
        true
    }

    /// Measures the process while the window is open, in a thread of its own.
    ///
    /// It prints `@start` and `@end` on stderr then, for whoever measures the server.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn measure(self) -> io::Result<JoinHandle<Measured>> {
        const STACK: usize = 64 * 1024;
        thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || self.measure_here())
    }

    /// As [`measure`](Self::measure), in this thread.
    #[must_use]
    pub fn measure_here(self) -> Measured {
        sleep_until(self.start);
        eprintln!("@start");
        let (started, before) = (Instant::now(), cpu());
        sleep_until(self.end);
        let (seconds, after) = (started.elapsed().as_secs_f64(), cpu());
        eprintln!("@end");
        Measured {
            seconds,
            cpu_user: after.0 - before.0,
            cpu_system: after.1 - before.1,
        }
    }
}

/// What was used while the window was open. All in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// How long the window was open.
    pub seconds: f64,
    /// CPU time in user mode, over all threads.
    pub cpu_user: f64,
    /// CPU time in the kernel, over all threads.
    pub cpu_system: f64,
}

fn sleep_until(instant: Instant) {
    thread::sleep(instant.saturating_duration_since(Instant::now()));
}

/// CPU time of this process so far, in user mode and in the kernel; 0 where it cannot be told.
fn cpu() -> (f64, f64) {
    #[allow(clippy::cast_precision_loss, reason = "seconds, for people")]
    let seconds = |time: TimeVal| {
        time.tv_sec() as f64 + Duration::from_micros(time.tv_usec().unsigned_abs()).as_secs_f64()
    };
    getrusage(UsageWho::RUSAGE_SELF).map_or((0.0, 0.0), |usage| {
        (seconds(usage.user_time()), seconds(usage.system_time()))
    })
}

/// Memory of this process that is resident now, in KiB; 0 where it cannot be told.
#[must_use]
pub fn resident_kb() -> u64 {
    status_kb("VmRSS:")
}

/// The most memory that was resident so far, in KiB. Not `ru_maxrss`, which a process inherits from the one that started it.
#[must_use]
pub fn most_resident_kb() -> u64 {
    status_kb("VmHWM:")
}

/// Source: proc(5), `/proc/pid/status`.
fn status_kb(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(key));
    let number = value.and_then(|value| value.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
