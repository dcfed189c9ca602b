//! Time, as the servers have it: how many transactions there were. A server that lags shows an earlier point of it.

/// A point of the history: how many transactions came before.
pub(crate) type Time = u8;

/// What has not happened.
pub(crate) const NEVER: Time = Time::MAX;

/// What refers to points of the history.
pub(crate) trait Times {
    /// Changes each of them.
    fn each_time(&mut self, change: impl FnMut(&mut Time));

    /// Counts only the times that something refers to, from the earliest on that anybody can still be shown. Between two
    /// of them nothing changes that could be seen.
    fn rename_times(&mut self, earliest: Time) {
        let mut used = 0_u64;
        self.each_time(|time| {
            if *time != NEVER {
                *time = (*time).max(earliest);
                used |= 1 << *time;
            }
        });
        self.each_time(|time| {
            if *time != NEVER {
                let before = used & ((1 << *time) - 1);
                *time = Time::try_from(before.count_ones()).expect("at most 64");
            }
        });
    }
}
