//! The client's clock: it is monotonic, and also counts the time for which the computer slept, where
//! that is certain.
//!
//! A laptop that was closed must not treat its old lease as valid when it wakes up. Whether
//! [`Instant`] runs while the computer sleeps, and what else tells of sleep, differs:
//!
//! | system | `Instant` | during sleep | what tells of sleep |
//! |---|---|---|---|
//! | Linux | `CLOCK_MONOTONIC` | stops | the time since boot, `/proc/uptime`: certain |
//! | macOS | `CLOCK_UPTIME_RAW` | stops | only the wall clock: suspected |
//! | Windows | `QueryPerformanceCounter` | runs | nothing is needed |
//!
//! Sources: the table of system calls at [`Instant`]; `clock_gettime(2)` and `proc_uptime(5)` of
//! Linux; `clock_gettime(3)` of macOS; "Acquiring high-resolution time stamps" of Microsoft, which
//! says that the counter includes standby and hibernation. A Linux whose `/proc/uptime` is masked,
//! as in some containers, and every other Unix are treated as macOS.
//!
//! Every reading compares the running clock with the wall clock. If the wall clock ran ahead or fell
//! behind, the computer slept, or the wall clock was set, or both. Then the time since boot decides,
//! and the time slept is added to the clock. Without a time since boot nobody knows, so the jump
//! ahead only *may* be sleep:
//!
//! - It shortens the lease that was proved before it, until a later proof. So a wall clock that is
//!   set ahead can end a lease too early, and nothing else.
//! - It is not added to the clock. Connections, sessions and timers go by the running clock: they
//!   end because of servers, or because servers were silent for as long as the client ran.
//!
//! A wall clock that is set back changes nothing, and takes back no sleep that was found before.
//! What remains: without a time since boot, a sleep is not seen as far as the wall clock was set back
//! between the same two readings. And a virtual machine may be paused in such a way that all of its
//! clocks stop: then nothing here tells of the pause.
//!
//! This is the only place that reads a clock. All other code gets the time as an argument or asks
//! the clock of its client.

use std::{
    collections::VecDeque,
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
    /// The system's monotonic clock plus the time for which the computer slept, where the system
    /// tells it (Linux, Windows).
    ///
    /// Elsewhere a jump of the wall clock ahead may be sleep. It ends leases earlier until they are
    /// proved again, and changes nothing else.
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

/// So many suspected sleeps are kept apart.
const MOST_SUSPECTED: usize = 8;

/// A client's clock that counts sleep. The client's lock guards it.
#[derive(Debug)]
pub(crate) struct SleepingClock {
    /// The clock without the time slept.
    pub(crate) source: Clock,
    /// `None` for a clock that is given: what it says is not corrected. `None` also on Windows,
    /// where the running clock counts sleep: a second count would only do harm.
    detector: Option<Detector>,
    /// What it said last.
    pub(crate) latest: Instant,
}

impl SleepingClock {
    pub(crate) fn new(source: Clock) -> Self {
        let may_stop = matches!(source.0, Source::System) && !cfg!(windows);
        let detector = || Detector::new(read_instant(), read_wall(), uptime());
        Self {
            detector: may_stop.then(detector),
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

    /// Whether the computer may have slept, besides the time slept that [`now`](Self::now) counts.
    pub(crate) fn suspects(&self) -> bool {
        (self.detector.as_ref()).is_some_and(|it| !it.suspected.is_empty())
    }

    /// For how long the computer may have slept since then, besides the time slept that
    /// [`now`](Self::now) counts. What was found until then is forgotten, so `since` must not go
    /// back.
    pub(crate) fn suspected(&mut self, since: Instant) -> Duration {
        let detector = self.detector.as_mut();
        detector.map_or(Duration::ZERO, |it| it.suspected(since))
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
    parse_uptime(&std::fs::read_to_string("/proc/uptime").ok()?)
}

/// Seconds and hundredths. Not by way of a float: a program would carry what parses one, and
/// `bench/weight/weigh.sh` shows what that weighs.
fn parse_uptime(text: &str) -> Option<Duration> {
    let (seconds, rest) = text.split_once('.')?;
    let hundredths: u64 = rest.get(..2)?.parse().ok()?;
    Duration::from_secs(seconds.parse().ok()?).checked_add(Duration::from_millis(hundredths * 10))
}

/// Compares three clocks to find out how long the computer slept.
#[derive(Debug)]
struct Detector {
    start: Instant,
    start_uptime: Option<Duration>,
    /// The readings of the running clock and the wall clock at the last comparison.
    compared: (Instant, SystemTime),
    /// The readings at the last comparison, a jump later: every request reads the clock, and
    /// comparing is cheaper than subtracting.
    recent: (Instant, SystemTime),
    /// The time slept for certain.
    slept: Duration,
    /// Sleeps that only the wall clock shows: when each was found, on the clock that counts sleep,
    /// and how long it may have been.
    suspected: VecDeque<(Instant, Duration)>,
}

impl Detector {
    fn new(start: Instant, start_wall: SystemTime, start_uptime: Option<Duration>) -> Self {
        Self {
            start,
            start_uptime,
            compared: (start, start_wall),
            recent: (start, start_wall),
            slept: Duration::ZERO,
            suspected: VecDeque::new(),
        }
    }

    /// The time slept for certain until these readings.
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
        let suspected = self.look(read_instant(), read_wall(), uptime);
        if !suspected.is_zero() {
            // What is sent from the first reading on is sent after the sleep.
            self.suspect(running + self.slept, suspected);
        }
        self.slept
    }

    fn suspect(&mut self, found: Instant, suspected: Duration) {
        self.suspected.push_back((found, suspected));
        // A wall clock that is set again and again must cost no memory. Two that count as found
        // when the later one was can only end a lease too early.
        if self.suspected.len() > MOST_SUSPECTED {
            if let Some((_, oldest)) = self.suspected.pop_front() {
                if let Some((_, next)) = self.suspected.front_mut() {
                    *next += oldest;
                }
            }
        }
    }

    /// See [`SleepingClock::suspected`].
    fn suspected(&mut self, since: Instant) -> Duration {
        self.suspected.retain(|(found, _)| since < *found);
        self.suspected.iter().map(|(_, slept)| *slept).sum()
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

    /// Updates the time slept. Returns the time for which the computer may have slept besides, since
    /// the last comparison.
    fn look(
        &mut self,
        running: Instant,
        wall: SystemTime,
        uptime: impl FnOnce() -> Option<Duration>,
    ) -> Duration {
        let (ahead, behind) = self.jump(running, wall);
        self.compare(running, wall);
        if ahead.max(behind) >= JUMP {
            let ran = running.saturating_duration_since(self.start);
            let uptimes = self.start_uptime.zip(uptime());
            let up = uptimes.and_then(|(before, after)| after.checked_sub(before));
            // Some containers have a file there that never changes: it tells nothing.
            let Some(up) = up.filter(|up| *up + JUMP >= ran) else {
                return ahead;
            };
            let slept = up.saturating_sub(ran);
            // The time since boot is rounded to 10 ms.
            if slept >= self.slept + JUMP / 2 {
                self.slept = slept;
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use lockkeeper_server::Server;

    use super::*;
    use crate::{Client, State, client::raw::AsRaw};

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    fn detector(uptime: Option<Duration>) -> (Detector, Instant, SystemTime) {
        let (start, wall) = (Instant::now(), SystemTime::now());
        (Detector::new(start, wall, uptime), start, wall)
    }

    impl Detector {
        /// The time slept for certain, and what may be sleep besides, since the last comparison.
        fn both(
            &mut self,
            running: Instant,
            wall: SystemTime,
            uptime: impl FnOnce() -> Option<Duration>,
        ) -> [Duration; 2] {
            let suspected = self.look(running, wall, uptime);
            [self.slept, suspected]
        }
    }

    impl SleepingClock {
        /// The system's clock stops during sleep, and the system does not tell the time since boot.
        fn mask_uptime(&mut self) {
            let detector = || Detector::new(read_instant(), read_wall(), None);
            // Windows needs none.
            self.detector.get_or_insert_with(detector).start_uptime = None;
        }

        /// Somebody sets the wall clock ahead.
        fn step_wall(&mut self, by: Duration) {
            let detector = self.detector.as_mut().unwrap();
            detector.compared.1 -= by;
            detector.recent.1 -= by;
        }

        /// Somebody sets the wall clock back.
        fn step_wall_back(&mut self, by: Duration) {
            let detector = self.detector.as_mut().unwrap();
            detector.compared.1 += by;
            detector.recent.1 += by;
        }
    }

    fn masked_clock() -> (SleepingClock, Instant) {
        let mut clock = SleepingClock::new(Clock::system());
        clock.mask_uptime();
        let start = clock.now();
        (clock, start)
    }

    #[test]
    fn sleep_is_counted() {
        let (mut detector, start, wall) = detector(Some(HOUR));
        let awake = detector.both(start + SECOND, wall + SECOND, || None);
        assert_eq!(awake, [Duration::ZERO; 2]);
        let woken = detector.both(start + 2 * SECOND, wall + HOUR, || Some(2 * HOUR));
        let slept = Duration::from_secs(3598);
        assert_eq!(woken, [slept, Duration::ZERO]);
        let later = detector.both(start + 3 * SECOND, wall + HOUR + SECOND, || None);
        assert_eq!(later, [slept, Duration::ZERO]);
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
        let set = detector.both(start + SECOND, wall + HOUR, || Some(HOUR + SECOND));
        assert_eq!(set, [Duration::ZERO; 2]);
        let set_back = detector.both(start + 2 * SECOND, wall - HOUR, || Some(HOUR + 2 * SECOND));
        assert_eq!(set_back, [Duration::ZERO; 2]);
    }

    /// Regression: the wall clock was set back after a sleep, and the sleep did not count.
    #[test]
    fn sleep_is_counted_although_the_wall_clock_was_set_back() {
        let (mut detector, start, wall) = detector(Some(HOUR));
        let (woken, slept) = (start + SECOND, 20 * SECOND);
        let uptime = || Some(HOUR + SECOND + slept);
        let counted = [slept, Duration::ZERO];
        assert_eq!(detector.both(woken, wall - HOUR, uptime), counted);
        // The time since boot is read after each step of the wall clock only.
        let unread = || panic!("it was read");
        assert_eq!(detector.both(woken + HOUR, wall, unread), counted);
    }

    /// A step of less than the time that has passed.
    #[test]
    fn a_small_step_back_hides_no_sleep() {
        let (mut detector, start, wall) = detector(Some(HOUR));
        let uptime = || Some(HOUR + 3 * SECOND);
        let counted = detector.both(start + SECOND, wall + SECOND / 20, uptime);
        assert_eq!(counted, [2 * SECOND, Duration::ZERO]);
    }

    #[test]
    fn without_a_time_since_boot_a_jump_ahead_may_be_sleep() {
        let (mut detector, start, wall) = detector(None);
        let set_back = detector.both(start, wall - HOUR, || None);
        assert_eq!(set_back, [Duration::ZERO; 2]);
        let ahead = detector.both(start + SECOND, wall + SECOND, || None);
        assert_eq!(ahead, [Duration::ZERO, HOUR]);
    }

    #[test]
    fn a_time_since_boot_that_stands_still_tells_nothing() {
        let (mut detector, start, wall) = detector(Some(HOUR));
        let ahead = detector.both(start + SECOND, wall + HOUR + SECOND, || Some(HOUR));
        assert_eq!(ahead, [Duration::ZERO, HOUR]);
    }

    #[test]
    fn a_suspected_sleep_counts_only_against_what_was_before_it() {
        let (mut clock, before) = masked_clock();
        clock.step_wall(HOUR);
        let first = clock.look();
        assert_eq!(first.slept, Duration::ZERO);
        assert!(first.now < before + HOUR, "the clock has jumped");
        clock.step_wall(20 * SECOND);
        let second = clock.now();
        let about = |suspected: Duration, by: Duration| suspected.abs_diff(by) < JUMP;
        assert!(about(clock.suspected(before), HOUR + 20 * SECOND));
        assert!(about(clock.suspected(first.now), 20 * SECOND));
        assert_eq!(clock.suspected(second), Duration::ZERO);
    }

    #[test]
    fn a_wall_clock_that_is_set_back_takes_back_no_suspected_sleep() {
        let (mut clock, before) = masked_clock();
        clock.step_wall(HOUR);
        let ahead = clock.now();
        clock.step_wall_back(HOUR);
        assert!(clock.now() >= ahead, "the clock went back");
        assert!(clock.suspected(before) + JUMP > HOUR);
    }

    #[test]
    fn a_wall_clock_that_is_set_all_the_time_costs_little_memory() {
        let (mut clock, before) = masked_clock();
        for _ in 0..100 {
            clock.step_wall(SECOND);
            clock.now();
        }
        assert_eq!(
            clock.detector.as_ref().unwrap().suspected.len(),
            MOST_SUSPECTED
        );
        assert!(clock.suspected(before) > 99 * SECOND);
    }

    #[test]
    fn a_time_since_boot_is_read_to_the_hundredth() {
        let read = parse_uptime("350735.07 234388.90\n");
        assert_eq!(read, Some(Duration::from_millis(350_735_070)));
        let longest = format!("{}.99 0.00", u64::MAX);
        assert!(parse_uptime(&longest).is_some());
        for no_time in ["", "1", "1.5", "-1.00 0", "1.-5 0", "x.00 0", "1.0é 0"] {
            assert_eq!(parse_uptime(no_time), None, "{no_time}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_sleep_that_the_time_since_boot_shows_moves_the_clock() {
        let mut clock = SleepingClock::new(Clock::system());
        let before = clock.now();
        clock.step_wall(SECOND);
        let detector = clock.detector.as_mut().unwrap();
        detector.start_uptime = detector.start_uptime.and_then(|it| it.checked_sub(SECOND));
        let time = clock.look();
        assert!(time.slept + JUMP > SECOND && time.now >= before + time.slept);
        assert_eq!(clock.suspected(before), Duration::ZERO);
    }

    /// Regression: the session was given up as expired.
    #[tokio::test]
    async fn a_suspected_sleep_ends_the_lease_until_the_next_proof_and_nothing_else() {
        let server = Server::start().await.unwrap();
        let client = Client::builder(&server.connect_string()).unwrap();
        let client = client.session_timeout(4 * SECOND).connect().await.unwrap();
        let session = client.snapshot().session_id;
        let keeper = client.raw().keep_lease("/".into(), "a".into());
        assert!(client.lease().is_valid && client.raw().is_lease_good(session));
        {
            let clock = &mut client.shared.lock().clock;
            clock.mask_uptime();
            clock.step_wall(20 * SECOND);
        }
        let lease = client.lease();
        assert!(!lease.is_valid && lease.valid_until.unwrap() < client.now());
        assert!(!client.raw().is_lease_good(session));

        let renewed = tokio::time::timeout(30 * SECOND, keeper.renewed(session));
        assert!(renewed.await.unwrap(), "the session is over");
        let lease = client.lease();
        assert!(lease.is_valid && lease.valid_until.unwrap() > client.now());
        let now = client.snapshot();
        assert_eq!((now.state, now.session_id), (State::Connected, session));
        assert_eq!(now.connections, 1);
    }

    #[test]
    fn readings_are_compared_once_in_a_while_and_whenever_the_wall_clock_was_set() {
        let (mut detector, start, wall) = detector(None);
        detector.compare(start, wall);
        let just = Duration::from_millis(99);
        assert!(detector.compared_recently(start + just, wall + just));
        assert!(!detector.compared_recently(start + JUMP, wall + just));
        assert!(!detector.compared_recently(start, wall + JUMP));
        // The unit of the wall clock of Windows.
        let set_back = wall - Duration::from_nanos(100);
        assert!(!detector.compared_recently(start, set_back));
    }

    #[test]
    fn drift_does_not_count_as_sleep() {
        let (mut detector, start, wall) = detector(None);
        for second in 1..1000 {
            let (ran, drift) = (second * SECOND, second * Duration::from_millis(1));
            let counted = detector.both(start + ran, wall + ran + drift, || None);
            assert_eq!(counted, [Duration::ZERO; 2]);
        }
    }
}
