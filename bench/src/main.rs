//! `lockkeeper-bench HOST:PORT WORKLOAD SECONDS PARAM`: measures lockkeeper against a server and prints one line of JSON.
//!
//! `BENCH_RT=ct` runs it on one thread instead of one per core; `BENCH_RELEASE=drop` lets locks go by dropping their
//! guards instead of waiting for the delete. The name in the line tells which. How to read it: `README.md`.

use std::{env, process::ExitCode};

use lockkeeper_bench::{
    args::Args,
    report,
    workloads::{self, Release},
};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let args = match Args::from_env() {
        Ok(args) => args,
        Err(error) => {
            eprintln!("lockkeeper-bench: {error}");
            return ExitCode::from(64);
        }
    };
    let is = |variable, value| env::var(variable).is_ok_and(|set| set == value);
    let mut name = "lockkeeper".to_owned();
    let mut runtime = if is("BENCH_RT", "ct") {
        name += "-ct";
        Builder::new_current_thread()
    } else {
        Builder::new_multi_thread()
    };
    let release = if is("BENCH_RELEASE", "drop") {
        name += "-drop";
        Release::Dropped
    } else {
        Release::Confirmed
    };
    let line = runtime
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(workloads::run(&name, &args, release)));
    match line {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!(
                "{}",
                report::skip_line(&name, &args, &format!("failed: {error}"))
            );
            ExitCode::FAILURE
        }
    }
}
