//! The command `lockkeeper`: run a command under a distributed lock, serve, show.
//!
//! | file | what |
//! |---|---|
//! | `args` | the command line |
//! | `servers` | which servers: `--connect` or the environment |
//! | `security` | encryption and identities |
//! | `paths` | paths of locks and nodes as people type them |
//! | `duration` | durations as people type and read them |
//! | `exit` | exit statuses, and the failures behind them |
//! | `signals` | signals of the process, as a stream |
//! | `client` | one client for the whole of one command |
//! | `text` | what a terminal may be shown |
//! | `run` | `lockkeeper run` |
//! | `queue` | `lockkeeper queue` |
//! | `nodes` | `lockkeeper ls`, `tree`, `get`, .. |
//! | `serve` | `lockkeeper serve` |
//! | `demo` | `lockkeeper demo` |
//!
//! Messages go to stderr, and the first word of each is `lockkeeper:`; stdout belongs to the command that is run, or to
//! what was asked for. The locks themselves are in the library.

mod args;
mod client;
mod demo;
mod duration;
mod exit;
mod nodes;
mod paths;
mod queue;
mod run;
mod security;
mod serve;
mod servers;
mod signals;
mod text;

use std::{env, process::ExitCode};

use clap::{Parser, error::ErrorKind};
use tokio::runtime::{Builder, Runtime};

use args::{Cli, Command};
use exit::Failure;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout, the rest to stderr; nobody can be told when that fails.
            let _ = error.print();
            if let Some(hint) = args::hint(&error, &arguments) {
                exit::say(&hint);
            }
            return ExitCode::from(match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit::OK,
                _ => exit::USAGE,
            });
        }
    };
    let status = match execute(cli.command) {
        Ok(status) => status,
        Err(failure) => {
            if !failure.is_silent() {
                exit::say(&failure);
            }
            failure.status()
        }
    };
    ExitCode::from(status)
}

fn execute(command: Command) -> Result<u8, Failure> {
    match command {
        // One thread: the child is a process of its own, and a signal or a lost lock is handled in turn.
        Command::Run(args) => {
            runtime(&mut Builder::new_current_thread())?.block_on(run::run(*args))
        }
        Command::Queue(args) => {
            runtime(&mut Builder::new_current_thread())?.block_on(queue::run(*args))
        }
        Command::Node(command) => {
            runtime(&mut Builder::new_current_thread())?.block_on(nodes::run(command))
        }
        Command::Serve(args) => {
            runtime(&mut Builder::new_multi_thread())?.block_on(serve::run(&args))
        }
        Command::Demo(args) => {
            runtime(&mut Builder::new_multi_thread())?.block_on(demo::run(&args))
        }
    }
}

fn runtime(builder: &mut Builder) -> Result<Runtime, Failure> {
    builder.enable_all().build().map_err(Failure::System)
}
