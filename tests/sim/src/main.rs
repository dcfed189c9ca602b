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

use lockkeeper_session::LeasePolicy;
use lockkeeper_sim::{
    Figures, operations,
    plan::{AIMED, PARTITIONS, Plan},
    run, shrink,
};

const USAGE: &str = "usage: lockkeeper-sim [--seeds N] [--seed FIRST] [--threads N] [--seconds N] [--verbose] [--history FILE] [--no-shrink] [--partitions] [--assumed]

  --seeds N     how many seeds to run (default 1000)
  --seed FIRST  the first seed (default 1)
  --threads N   how many seeds to run at the same time (default 1)
  --seconds N   start no new seed after N seconds
  --history F   run only the first seed, and write its operations on locks to F, as a history of Jepsen in EDN
  --verbose     run only the first seed, and print everything that happens
  --no-shrink   do not look for a smaller plan that fails
  --partitions  of these seeds, run only those whose plan cuts links between servers
  --assumed     clients assume that their leases are valid, instead of proving it: this fails";

/// A seed takes some milliseconds.
const STUCK: Duration = Duration::from_secs(60);

struct Options {
    seeds: u64,
    first: u64,
    threads: u64,
    limit: Option<Duration>,
    verbose: bool,
    history: Option<String>,
    shrinks: bool,
    partitions: bool,
    lease: LeasePolicy,
}

impl Options {
    fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::of(seed);
        plan.lease = self.lease;
        plan
    }
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Some(file) = &options.history {
        let outcome = run(&options.plan(options.first), false);
        return match std::fs::write(file, operations::edn(&outcome.history)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{file}: {why}");
                ExitCode::FAILURE
            }
        };
    }
    if options.verbose {
        return print_all(&options.plan(options.first));
    }
    // A task that panics is a violation. The report names it with its seed, so the default message
    // is not needed.
    std::panic::set_hook(Box::new(|_| {}));
    let begin = Instant::now();
    let next = AtomicU64::new(options.first);
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
    let mut figures = Figures::default();
    let mut seeds = 0;
    let mut failures = Vec::new();
    for (done, found, failure) in results {
        seeds += done;
        figures.add(&found);
        failures.extend(failure);
    }
    failures.sort_unstable();
    let seconds = begin.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "the rate is only printed")]
    let rate = seeds as f64 / seconds;
    println!("{seeds} seeds in {seconds:.1} s, {rate:.0} per second");
    for (what, count) in &figures.0 {
        println!("{count:>12}  {what}");
    }
    let Some(first) = failures.first() else {
        println!("no violation found");
        return ExitCode::SUCCESS;
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
    let (mut done, mut figures) = (0, Figures::default());
    while !failed.load(Ordering::Relaxed)
        && options.limit.is_none_or(|limit| begin.elapsed() < limit)
    {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= options.first.saturating_add(options.seeds) {
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
    for violation in &outcome.violations {
        println!("{violation}");
    }
    if !options.shrinks {
        return;
    }
    let small = shrink(&plan, &outcome.violations, 600);
    let outcome = run(&small, true);
    println!("\nthe smallest plan found that still fails:\n{small}\nits events:");
    for line in &outcome.lines {
        println!("{line}");
    }
    println!();
    for violation in &outcome.violations {
        println!("{violation}");
    }
    println!("\nto repeat: lockkeeper-sim --seed {seed} --seeds 1");
}

/// Prints everything that happens in one seed.
fn print_all(plan: &Plan) -> ExitCode {
    let outcome = run(plan, true);
    println!("{plan}");
    for line in &outcome.lines {
        println!("{line}");
    }
    for violation in &outcome.violations {
        println!("{violation}");
    }
    println!("digest {:016x}", outcome.digest);
    if outcome.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        seeds: 1000,
        first: 1,
        threads: 1,
        limit: None,
        verbose: false,
        history: None,
        shrinks: true,
        partitions: false,
        lease: LeasePolicy::Proved,
    };
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or(format!("{arg} needs a number"))?;
            text.parse().map_err(|_| format!("{text} is not a number"))
        };
        match arg.as_str() {
            "--seeds" => options.seeds = number()?,
            "--seed" => options.first = number()?,
            "--threads" => options.threads = number()?,
            "--seconds" => options.limit = Some(Duration::from_secs(number()?)),
            "--verbose" => options.verbose = true,
            "--history" => options.history = Some(args.next().ok_or("--history needs a file")?),
            "--no-shrink" => options.shrinks = false,
            "--partitions" => options.partitions = true,
            "--assumed" => options.lease = LeasePolicy::Assumed { margin: None },
            _ => return Err(format!("unknown option: {arg}")),
        }
    }
    Ok(options)
}
