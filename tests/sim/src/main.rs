//! The command: runs seeds and prints the result; see README.md.

use std::{
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::ScopedJoinHandle,
    time::{Duration, Instant},
};

use clap::Parser;
use lockkeeper_session::LeasePolicy;
use lockkeeper_sim::{
    Figures, Outcome,
    plan::{AIMED, PARTITIONS, Plan},
    run, shrink,
};

/// A seed takes some milliseconds.
const STUCK: Duration = Duration::from_secs(60);

/// Runs seeds of the simulation.
#[derive(Parser)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option")]
struct Options {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds to run at the same time.
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Start no new seed after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Run only the first seed, and print everything that happens.
    #[arg(long)]
    verbose: bool,
    /// Do not look for a smaller plan that fails.
    #[arg(long)]
    no_shrink: bool,
    /// Of these seeds, run only those whose plan cuts links between servers.
    #[arg(long)]
    partitions: bool,
    /// Fail, too, if a kind of fault happens less than half as often as usual.
    #[arg(long)]
    usual: bool,
    /// Clients assume that their leases are valid, instead of proving it: this fails.
    #[arg(long)]
    assumed: bool,
}

impl Options {
    fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::of(seed);
        if self.assumed {
            plan.lease = LeasePolicy::Assumed { margin: None };
        }
        plan
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.verbose {
        let plan = options.plan(options.seed);
        let outcome = run(&plan, true);
        println!("{plan}");
        print(&outcome);
        println!("digest {:016x}", outcome.digest);
        return ExitCode::from(u8::from(!outcome.violations.is_empty()));
    }
    // A task that panics is a violation. The report names it with its seed, so the default message
    // is not needed.
    std::panic::set_hook(Box::new(|_| {}));
    let begin = Instant::now();
    let next = AtomicU64::new(options.seed);
    let failed = AtomicBool::new(false);
    let running: Vec<_> = (0..options.threads).map(|_| Mutex::new(None)).collect();
    let mut results = Vec::new();
    std::thread::scope(|scope| {
        let (options, next, failed) = (&options, &next, &failed);
        let spawn = |running| scope.spawn(move || work(options, begin, next, failed, running));
        let workers: Vec<_> = running.iter().map(spawn).collect();
        while !workers.iter().all(ScopedJoinHandle::is_finished) {
            end_if_stuck(&running);
            std::thread::sleep(Duration::from_millis(20));
        }
        results.extend(workers.into_iter().filter_map(|worker| worker.join().ok()));
    });
    let (mut seeds, mut figures, mut failures) = (0, Figures::default(), Vec::new());
    for (done, found, failure) in results {
        seeds += done;
        figures.add(&found);
        failures.extend(failure);
    }
    let seconds = begin.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "the rate is only printed")]
    let rate = seeds as f64 / seconds;
    println!("{seeds} seeds in {seconds:.1} s, {rate:.0} per second");
    for (what, count) in &figures.0 {
        println!("{count:>12}  {what}");
    }
    let Some(first) = failures.iter().min() else {
        println!("no violation found");
        let scarce = if options.usual {
            figures.scarce(seeds)
        } else {
            Vec::new()
        };
        for it in &scarce {
            println!("{it}");
        }
        return ExitCode::from(u8::from(!scarce.is_empty()));
    };
    report(*first, &options);
    ExitCode::FAILURE
}

/// Runs seeds until one fails, the time is up, or no seed is left.
///
/// Returns how many seeds ran, their figures, and the seed that failed.
fn work(
    options: &Options,
    begin: Instant,
    next: &AtomicU64,
    failed: &AtomicBool,
    running: &Mutex<Option<(u64, Instant)>>,
) -> (u64, Figures, Option<u64>) {
    let limit = options.seconds.map(Duration::from_secs);
    let (mut done, mut figures) = (0, Figures::default());
    while !failed.load(Ordering::Relaxed) && limit.is_none_or(|limit| begin.elapsed() < limit) {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= options.seed.saturating_add(options.seeds) {
            break;
        }
        if options.partitions && seed % AIMED != PARTITIONS {
            continue;
        }
        set(running, Some((seed, Instant::now())));
        let outcome = run(&options.plan(seed), false);
        set(running, None);
        done += 1;
        figures.add(&outcome.figures);
        if !outcome.violations.is_empty() {
            failed.store(true, Ordering::Relaxed);
            return (done, figures, Some(seed));
        }
    }
    (done, figures, None)
}

fn set<T>(to: &Mutex<T>, value: T) {
    *to.lock().unwrap_or_else(PoisonError::into_inner) = value;
}

/// Ends the program if a seed takes far longer than any seed does: a task loops without looking at
/// its clock.
fn end_if_stuck(running: &[Mutex<Option<(u64, Instant)>>]) {
    for seed in running {
        let seed = *seed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seed, since)) = seed
            && since.elapsed() > STUCK
        {
            println!("\nseed {seed} fails:\nit has run for {STUCK:?}: something loops without end");
            std::process::exit(1);
        }
    }
}

/// Prints everything about a seed that fails.
fn report(seed: u64, options: &Options) {
    let plan = options.plan(seed);
    let outcome = run(&plan, false);
    println!("\nseed {seed} fails:");
    print(&outcome);
    if options.no_shrink {
        return;
    }
    let small = shrink(&plan, &outcome.violations, 600);
    println!("\nthe smallest plan found that still fails:\n{small}\nits events:");
    print(&run(&small, true));
    println!("\nto repeat: lockkeeper-sim --seed {seed} --seeds 1");
}

/// Prints what happened, and what is wrong with it.
fn print(outcome: &Outcome) {
    for line in &outcome.lines {
        println!("{line}");
    }
    for violation in &outcome.violations {
        println!("{violation}");
    }
}
