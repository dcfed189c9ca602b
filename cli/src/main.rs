//! The program `lockkeeper`: runs a command under a lock, shows and changes nodes, runs the embedded server.
//!
//! | file | what |
//! |---|---|
//! | `args` | the command line |
//! | `servers` | the servers, encryption and identities: options, or the environment |
//! | `paths` | parsing the paths of locks and nodes |
//! | `duration` | parsing and printing durations |
//! | `number` | parsing whole numbers |
//! | `exit` | exit statuses, and the failures behind them |
//! | `refusal` | the refusals of servers, in words for people |
//! | `signals` | signals of the process, as a stream; the width of stdout, and the end of whoever reads it |
//! | `outage` | outages, for a command that goes on over them |
//! | `client` | one client for one command |
//! | `escape` | text of other users, made harmless for terminals |
//! | `text` | names, data and times on stdout, and columns |
//! | `run` | `lockkeeper run` |
//! | `elsewhere` | what takes the place of `run` and `signals` on other systems than Linux |
//! | `queue` | `lockkeeper queue` |
//! | `nodes` | `lockkeeper ls`, `get`, `set`, .. |
//! | `doctor` | `lockkeeper doctor` |
//! | `serve` | `lockkeeper serve` |
//! | `wire` | `lockkeeper wire` |
//! | `packaging` | `lockkeeper completions`, `lockkeeper man` |
//! | `demo` | `lockkeeper demo` |
//!
//! Messages go to stderr, and each begins with `lockkeeper:`. Stdout carries only the output of the command that `run`
//! starts, or the result that the user asked for. Not here: the locks themselves, which are in the library.

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "some of it is for `run` alone")
)]

#[macro_use]
mod exit;
mod args;
mod client;
mod demo;
mod doctor;
mod duration;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod escape;
mod nodes;
mod number;
mod outage;
mod packaging;
mod paths;
mod queue;
mod refusal;
#[cfg(target_os = "linux")]
mod run;
mod serve;
mod servers;
#[cfg(target_os = "linux")]
mod signals;
mod text;
mod wire;

use std::{env, process::ExitCode};

use clap::CommandFactory as _;
use tokio::runtime::Builder;

use args::{Cli, Command};
#[cfg(not(target_os = "linux"))]
use elsewhere::{run, signals};
use exit::Failure;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().collect();
    if let Err(error) = signals::unblock() {
        return end(Err(Failure::system("receive signals")(error)));
    }
    if let Some(status) = run::helper(&arguments) {
        return end(Ok(status));
    }
    let cli = match Cli::parse_line(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help and version to stdout, errors to stderr. If printing fails, there is nobody to tell.
            let _ = error.print();
            let is_wrong = error.use_stderr();
            return ExitCode::from(if is_wrong { exit::USAGE } else { exit::OK });
        }
    };
    exit::set_level(cli.level());
    end(execute(cli.command))
}

/// The exit status. Reports a failure.
fn end(result: Result<u8, Failure>) -> ExitCode {
    let status = result.unwrap_or_else(|failure| {
        exit::report(&failure);
        failure.status
    });
    ExitCode::from(status)
}

fn execute(command: Command) -> Result<u8, Failure> {
    // One thread is enough for all but servers: `run` starts the command as a process, and handles one event at a time.
    let mut builder = match &command {
        Command::Serve(_) | Command::Demo(_) => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(Failure::system("watch files and timers"))?;
    let done = runtime.block_on(async {
        match command {
            Command::Run(args) => run::run(*args).await,
            Command::Queue(args) => args.with(queue::show).await,
            Command::Node(command) => nodes::run(command).await,
            Command::Serve(args) => serve::run(&args).await,
            Command::Doctor(args) => doctor::run(&args).await,
            Command::Completions(args) => packaging::completions(&args, Cli::command()),
            Command::Man(args) => packaging::man(&args, Cli::command()),
            Command::Wire(command) => wire::run(&command).await,
            Command::Demo(args) => demo::run(&args).await,
        }
    });
    // A look-up of a name, or a read of a certificate, may never end.
    runtime.shutdown_background();
    done
}
