//! The measurement window, and the CPU time and memory of the process.

use std::{
    io,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};

/// How long the clients run before the window starts, unless `BENCH_WARMUP_S` is set.
const WARM_UP: Duration = Duration::from_millis(700);

/// The period of measurement. Operations that end within it are counted.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    start: Instant,
    end: Instant,
}

impl Window {
    /// A window that starts after the warm-up and lasts `seconds`.
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

    /// When the window ends.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.end
    }

    /// Counts an operation that has just ended, if the window is open. Returns false once the
    /// window has ended.
    pub fn count(&self, latencies: &mut Histogram<u64>, began: Instant) -> bool {
        let now = Instant::now();
        if now >= self.end {
            return false;
        }
        if now >= self.start {
            let nanos = u64::try_from((now - began).as_nanos()).unwrap_or(u64::MAX);
            latencies.saturating_record(nanos);
        }
        true
    }

    /// Measures the process while the window is open, in a separate thread.
    ///
    /// The thread prints `@start` and `@end` on stderr, for the program that measures the server.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn measure(self) -> io::Result<JoinHandle<Measured>> {
        const STACK: usize = 64 * 1024;
        thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || self.measure_here())
    }

    fn measure_here(self) -> Measured {
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

/// The CPU time that the process used while the window was open. All values are in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// How long the window was open.
    pub seconds: f64,
    /// CPU time in user mode, over all threads.
    pub cpu_user: f64,
    /// CPU time in the kernel, over all threads.
    pub cpu_system: f64,
}

/// An empty histogram of durations up to a minute, in nanoseconds, exact to 1 %.
///
/// # Panics
/// Never: these bounds are valid.
#[must_use]
pub fn latencies() -> Histogram<u64> {
    const MINUTE: u64 = 60_000_000_000;
    Histogram::new_with_bounds(64, MINUTE, 2).expect("valid bounds")
}

fn sleep_until(instant: Instant) {
    thread::sleep(instant.saturating_duration_since(Instant::now()));
}

/// The CPU time of this process so far, in user mode and in the kernel; 0 if it cannot be read.
#[must_use]
pub fn cpu() -> (f64, f64) {
    #[allow(clippy::cast_precision_loss, reason = "seconds, for people")]
    let seconds = |time: TimeVal| {
        time.tv_sec() as f64 + Duration::from_micros(time.tv_usec().unsigned_abs()).as_secs_f64()
    };
    getrusage(UsageWho::RUSAGE_SELF).map_or((0.0, 0.0), |usage| {
        (seconds(usage.user_time()), seconds(usage.system_time()))
    })
}

/// The resident memory of this process now, in KiB; 0 if it cannot be read.
#[must_use]
pub fn resident_kb() -> u64 {
    status_kb("VmRSS:")
}

/// The highest resident memory of this process so far, in KiB; 0 if it cannot be read.
///
/// Not `ru_maxrss`: a process inherits that value from its parent process.
#[must_use]
pub fn most_resident_kb() -> u64 {
    status_kb("VmHWM:")
}

/// A value of `/proc/self/status`, in KiB. Source: proc(5), `/proc/pid/status`.
fn status_kb(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(key));
    let number = value.and_then(|value| value.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
