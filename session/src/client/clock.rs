//! The client's clock: it is monotonic and also counts the time for which the computer slept.
//!
//! A laptop that was closed, or a virtual machine that was paused, must not treat its old lease as
//! valid when it wakes up. On Linux the clock of `Instant` stops during sleep. So every reading
//! compares it with the wall clock. If the wall clock ran ahead or fell behind, the computer slept,
//! or the wall clock was set, or both. Then the time since boot decides, because it includes sleep.
//! Without a time since boot a jump ahead counts as sleep. That can only end a lease too early.
//!
//! This is the only place that reads a clock. All other code gets the time as an argument or asks
//! the clock of its client.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// The clock of a client: the system's, or one of a simulation.
///
/// Leases, timeouts, back-off and the limits of waits for a lock use this clock. It decides how
/// long a timer runs; tokio decides when the timer fires. In a test with tokio's paused time, give
/// the client tokio's clock: `Clock::new(|| tokio::time::Instant::now().into_std())`.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Given(Arc<dyn Fn() -> Instant + Send + Sync>),
}

impl Clock {
    /// The system's monotonic clock plus the time for which the computer slept.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that calls `now`, which must never go back. For simulations, and for tests with
    /// clocks that run too fast.
    pub fn new(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self(Source::Given(Arc::new(now)))
    }

    /// The current time without the time slept, like [`Instant::now`]: the clock that callers
    /// compare with.
    #[must_use]
    pub fn running(&self) -> Instant {
        match &self.0 {
            Source::System => read_instant(),
            Source::Given(now) => now(),
        }
    }
}

/// One instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    /// The instant, including the time slept.
    pub(crate) now: Instant,
    slept: Duration,
}

impl Time {
    /// Converts an instant of [`Clock::now`] to one of [`Clock::running`].
    pub(crate) fn running(&self, instant: Instant) -> Instant {
        instant.checked_sub(self.slept).unwrap_or(instant)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "Clock::system()",
            Source::Given(_) => "Clock::new(..)",
        })
    }
}

/// A smaller difference between two readings is drift, not sleep.
const JUMP: Duration = Duration::from_millis(100);

/// A client's clock that counts sleep. The client's lock guards it.
#[derive(Debug)]
pub(crate) struct SleepingClock {
    /// The same without the time slept.
    pub(crate) source: Clock,
    /// `None` for a clock that is given: what it says is not corrected.
    detector: Option<Detector>,
    /// What it said last.
    pub(crate) latest: Instant,
}

impl SleepingClock {
    pub(crate) fn new(source: Clock) -> Self {
        let is_system = matches!(source.0, Source::System);
        let detector = || Detector::new(read_instant(), read_wall(), uptime());
        Self {
            detector: is_system.then(detector),
            latest: source.running(),
            source,
        }
    }

    /// The current time, including the time slept.
    pub(crate) fn now(&mut self) -> Instant {
        self.look().now
    }

    /// The current time on both clocks.
    pub(crate) fn look(&mut self) -> Time {
        let running = self.source.running();
        let slept = match &mut self.detector {
            Some(detector) => detector.slept(running, read_wall()),
            None => Duration::ZERO,
        };
        let now = match slept {
            Duration::ZERO => running,
            slept => running + slept,
        };
        self.latest = now;
        Time { now, slept }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the one place that reads the clock"
)]
fn read_instant() -> Instant {
    Instant::now()
}

#[allow(
    clippy::disallowed_methods,
    reason = "the one place that reads the clock"
)]
fn read_wall() -> SystemTime {
    SystemTime::now()
}

/// The time since boot, including sleep. `None` on systems where reading it would need a foreign
/// function. Source: proc(5).
fn uptime() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    Duration::try_from_secs_f64(text.split_whitespace().next()?.parse().ok()?).ok()
}

/// Compares three clocks to find out how long the computer slept.
#[derive(Debug)]
struct Detector {
    start: Instant,
    start_uptime: Option<Duration>,
    /// The readings of the running clock and the wall clock at the last comparison.
    compared: (Instant, SystemTime),
    /// The same, a jump later: every request reads the clock, and comparing is cheaper than
    /// subtracting.
    recent: (Instant, SystemTime),
    slept: Duration,
}

impl Detector {
    fn new(start: Instant, start_wall: SystemTime, start_uptime: Option<Duration>) -> Self {
        Self {
            start,
            start_uptime,
            compared: (start, start_wall),
            recent: (start, start_wall),
            slept: Duration::ZERO,
        }
    }

    /// The time slept until these readings.
    fn slept(&mut self, running: Instant, wall: SystemTime) -> Duration {
        if self.compared_recently(running, wall) {
            return self.slept;
        }
        let (ahead, behind) = self.jump(running, wall);
        if ahead.max(behind) < JUMP {
            self.compare(running, wall);
            return self.slept;
        }
        // A busy computer may have delayed this thread between the two readings. A real jump is
        // still there at the second reading.
        self.look(read_instant(), read_wall(), uptime)
    }

    /// Whether both clocks have run for less than a jump since the last comparison. Then it need
    /// not be repeated: the usual case.
    fn compared_recently(&self, running: Instant, wall: SystemTime) -> bool {
        let (recent_running, recent_wall) = self.recent;
        running < recent_running && wall < recent_wall && wall >= self.compared.1
    }

    fn compare(&mut self, running: Instant, wall: SystemTime) {
        self.compared = (running, wall);
        self.recent = (running + JUMP, wall.checked_add(JUMP).unwrap_or(wall));
    }

    /// By how much the wall clock ran ahead of the running clock since the last comparison, and by
    /// how much it fell behind.
    fn jump(&self, running: Instant, wall: SystemTime) -> (Duration, Duration) {
        let (last_running, last_wall) = self.compared;
        let ran = running.saturating_duration_since(last_running);
        match wall.duration_since(last_wall) {
            Ok(wall_ran) => (wall_ran.saturating_sub(ran), ran.saturating_sub(wall_ran)),
            Err(set_back) => (Duration::ZERO, ran + set_back.duration()),
        }
    }

    /// Returns the time slept since the start.
    fn look(
        &mut self,
        running: Instant,
        wall: SystemTime,
        uptime: impl FnOnce() -> Option<Duration>,
    ) -> Duration {
        let (ahead, behind) = self.jump(running, wall);
        self.compare(running, wall);
        if ahead.max(behind) >= JUMP {
            let slept = match (self.start_uptime, uptime()) {
                (Some(before), Some(after)) => {
                    let ran = running.saturating_duration_since(self.start);
                    after.saturating_sub(before).saturating_sub(ran)
                }
                _ => self.slept + ahead,
            };
            // The time since boot is rounded to 10 ms.
            if slept >= self.slept + JUMP / 2 {
                self.slept = slept;
            }
        }
        self.slept
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    fn detector(uptime: Option<Duration>) -> (Detector, Instant, SystemTime) {
        let (start, wall) = (Instant::now(), SystemTime::now());
        (Detector::new(start, wall, uptime), start, wall)
    }

    #[test]
    fn sleep_is_counted() {
        let (mut detector, start, wall) = detector(Some(HOUR));
        assert_eq!(
            detector.look(start + SECOND, wall + SECOND, || None),
            Duration::ZERO
        );
        let woken = detector.look(start + 2 * SECOND, wall + HOUR, || Some(2 * HOUR));
        let slept = Duration::from_secs(3598);
        assert_eq!(woken, slept);
        let later = detector.look(start + 3 * SECOND, wall + HOUR + SECOND, || None);
        assert_eq!(later, slept);
    }

    /// Callers compare the end of a lease with `Instant::now()`, which does not see that the
    /// computer slept.
    #[test]
    fn a_deadline_comes_earlier_by_the_time_slept() {
        let running = Instant::now();
        let (now, slept) = (running + HOUR, HOUR);
        let time = Time { now, slept };
        assert_eq!(time.running(now + SECOND), running + SECOND);
    }

    #[test]
    fn setting_the_wall_clock_does_not_count_as_sleep() {
        let (mut detector, start, wall) = detector(Some(HOUR));
        let set = detector.look(start + SECOND, wall + HOUR, || Some(HOUR + SECOND));
        assert_eq!(set, Duration::ZERO);
        let set_back = detector.look(start + 2 * SECOND, wall - HOUR, || Some(HOUR + 2 * SECOND));
        assert_eq!(set_back, Duration::ZERO);
    }

    /// Regression: the wall clock was set back after a sleep, and the sleep did not count.
    #[test]
    fn sleep_is_counted_although_the_wall_clock_was_set_back() {
        let (mut detector, start, wall) = detector(Some(HOUR));
        let (woken, slept) = (start + SECOND, 20 * SECOND);
        let uptime = || Some(HOUR + SECOND + slept);
        assert_eq!(detector.look(woken, wall - HOUR, uptime), slept);
        // The time since boot is read after each step of the wall clock only.
        let unread = || panic!("it was read");
        let later = detector.look(woken + HOUR, wall, unread);
        assert_eq!(later, slept);
    }

    /// A step of less than the time that has passed.
    #[test]
    fn a_small_step_back_hides_no_sleep() {
        let (mut detector, start, wall) = detector(Some(HOUR));
        let uptime = || Some(HOUR + 3 * SECOND);
        assert_eq!(
            detector.look(start + SECOND, wall + SECOND / 20, uptime),
            2 * SECOND
        );
    }

    #[test]
    fn without_a_time_since_boot_a_jump_ahead_counts_as_sleep() {
        let (mut detector, start, wall) = detector(None);
        let set_back = detector.look(start, wall - HOUR, || None);
        assert_eq!(set_back, Duration::ZERO);
        assert_eq!(detector.look(start + SECOND, wall + SECOND, || None), HOUR);
    }

    #[test]
    fn readings_are_compared_once_in_a_while_and_whenever_the_wall_clock_was_set() {
        let (mut detector, start, wall) = detector(None);
        detector.compare(start, wall);
        let just = Duration::from_millis(99);
        assert!(detector.compared_recently(start + just, wall + just));
        assert!(!detector.compared_recently(start + JUMP, wall + just));
        assert!(!detector.compared_recently(start, wall + JUMP));
        assert!(!detector.compared_recently(start, wall - Duration::from_nanos(1)));
    }

    #[test]
    fn drift_does_not_count_as_sleep() {
        let (mut detector, start, wall) = detector(None);
        for second in 1..1000 {
            let (ran, drift) = (second * SECOND, second * Duration::from_millis(1));
            assert_eq!(
                detector.look(start + ran, wall + ran + drift, || None),
                Duration::ZERO
            );
        }
    }
}
