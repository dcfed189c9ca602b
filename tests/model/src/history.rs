//! Time, as the servers have it: how many transactions there were. A server that lags shows an
//! earlier point of it.

/// A point of the history: how many transactions came before.
pub(crate) type Time = u8;

/// What has not happened.
pub(crate) const NEVER: Time = Time::MAX;

/// What refers to points of the history.
pub(crate) trait Times {
    /// Changes each of them.
    fn each_time(&mut self, change: impl FnMut(&mut Time));

    /// Visits those at which something happened that may be seen.
    fn each_event(&mut self, visit: impl FnMut(&mut Time)) {
        self.each_time(visit);
    }

    /// Counts only the times at which something happened, from the earliest on that anybody can
    /// still be shown. Between two of them nothing changes that could be seen.
    fn rename_times(&mut self, earliest: Time) {
        self.each_time(|time| {
            if *time != NEVER {
                *time = (*time).max(earliest);
            }
        });
        let mut events = 1_u64 << earliest;
        self.each_event(|time| {
            if *time != NEVER {
                events |= 1 << *time;
            }
        });
        self.each_time(|time| {
            if *time != NEVER {
                let before = events & (u64::MAX >> (63 - *time));
                *time = Time::try_from(before.count_ones() - 1).expect("at most 64");
            }
        });
    }
}
