//! What the code under test logs, as lines of text.

use std::{
    io,
    sync::{Arc, Mutex, Once},
};

use tracing::{Level, Subscriber, subscriber::DefaultGuard};
use tracing_subscriber::fmt::MakeWriter;

/// The log lines of all levels, each with its level, its spans, its target, its message and its
/// fields.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what this thread logs from now on.
    ///
    /// `tracing` decides once for each line of code whether a subscriber wants it. If there is only
    /// one subscriber, the thread that reaches the line first decides for all threads. So that no
    /// other test decides, all threads have a subscriber that keeps nothing.
    pub fn of_this_thread() -> (Self, DefaultGuard) {
        static ALL_THREADS: Once = Once::new();
        ALL_THREADS.call_once(|| {
            let _ = tracing::subscriber::set_global_default(subscriber(io::sink));
        });
        let log = Self::default();
        (log.clone(), tracing::subscriber::set_default(log.keeps()))
    }

    /// Keeps what all threads log from now on.
    pub fn of_all_threads() -> Self {
        let log = Self::default();
        tracing::subscriber::set_global_default(log.keeps()).unwrap();
        log
    }

    fn keeps(&self) -> impl Subscriber + Send + Sync + use<> {
        let log = self.clone();
        subscriber(move || log.clone())
    }

    /// Removes and returns everything.
    pub fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }

    /// Removes all lines, and returns those up to this level.
    pub fn lines(&self, level: Level) -> Vec<String> {
        let is_meant = |line: &&str| {
            let of_line = line.split_whitespace().next().unwrap();
            of_line.parse::<Level>().unwrap() <= level
        };
        let all = self.take();
        all.lines().filter(is_meant).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn subscriber(
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync {
    tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_ansi(false)
        .without_time()
        .with_writer(writer)
        .finish()
}
