//! `lockkeeper doctor`: asks each server by itself, compares the answers, and says what is wrong and what to do.
//!
//! | file | what |
//! |---|---|
//! | `target` | the servers to ask: each address of a name |
//! | `ask` | what the servers answer |
//! | `ensemble` | whether the servers are one ensemble |
//! | `problems` | what is wrong, and what to do |
//! | `report` | the output for people and for programs |

mod ask;
mod ensemble;
mod problems;
mod report;
mod target;

use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use lockkeeper::client::tls::TlsConfig;
use tokio::time::{Instant, sleep};

use crate::{
    duration,
    exit::{self, Failure},
    servers::ServerArgs,
    signals::{ENDING, Signals},
    text,
};
use ask::Answer;
use report::Problem;

/// Between two examinations, and two questions for numbers of nodes.
const PAUSE: Duration = Duration::from_millis(500);

/// Examine the servers, and say what is wrong and what to do
#[derive(Args, Debug)]
#[command(
    after_help = "For each server: whether it can be reached, its version and known flaws of that, \
        the version of TLS and when the certificate ends, how long a read, a `sync` and a write take, \
        the session timeout that it grants, whether it knows containers and persistent watches, and how far its clock is from the one of this machine. To learn this, \
        the command opens a session with each server, by each address of its name, and creates a node below / that is gone at \
        its end. Servers that answer the words mntr and conf tell more.\n\n\
        Whether they are one ensemble, and all that vote in it: each server must show the nodes that were \
        created through the others. Otherwise two clients can hold one lock at once. With \
        --no-write only the modes are compared, which the servers tell on ports without \
        encryption.\n\n\
        With --wait, only the last examination is printed, and its result is the exit status.\n\n\
        A note says what could be better. It does not change the exit status.\n\n\
        Exit status: 0 nothing is wrong; 1 something is; 64 bad usage; 69 no server was reached; \
        71 the operating system refused something; 128+n signal n ended it.\n\n\
        Example:\n  lockkeeper doctor --connect zk1:2181,zk2:2181,zk3:2181\n  \
        lockkeeper doctor --wait 60s --connect zk:2181 && ./start"
)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    servers: ServerArgs,

    /// How long each server has for the connection, and for each of its replies
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "5s", value_parser = duration::parse_positive)]
    timeout: Duration,

    /// Examine the servers again and again, until nothing is wrong or this time is over
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::parse)]
    wait: Option<Duration>,

    /// Create no node: leaves the clocks, the containers and the time of a write out, and compares only the modes
    #[arg(long)]
    no_write: bool,

    /// Print JSON: one object in one line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &DoctorArgs) -> Result<u8, Failure> {
    // Before signals are caught: this thread reads the files, and one of them may hang. And once: the identities may be in a pipe.
    let (tls, identities) = (args.servers.tls()?, args.servers.identities()?);
    let mut signals = Signals::catch(&ENDING)?;
    let end = Instant::now() + args.wait.unwrap_or_default();
    let examined = async {
        loop {
            let (answers, problems) = examine(args, tls.as_ref(), &identities).await?;
            if status(&answers, &problems) == exit::OK || Instant::now() + PAUSE > end {
                return Ok((answers, problems));
            }
            sleep(PAUSE).await;
        }
    };
    let (answers, problems) = signals.or_end(examined).await?;
    text::print(if args.json {
        report::json(&answers, &problems)
    } else {
        report::text(&answers, &problems)
    })?;
    Ok(status(&answers, &problems))
}

async fn examine(
    args: &DoctorArgs,
    tls: Option<&TlsConfig>,
    identities: &[(String, String)],
) -> Result<(Vec<Answer>, Vec<Problem>), Failure> {
    let options = &args.servers;
    let servers = options.servers()?;
    let chroot = servers.chroot().unwrap_or_default();
    let targets = servers.endpoints().iter();
    let targets = targets.map(|it| target::of(it, args.timeout));
    let targets = join_all(targets).await.concat();
    let mut asked = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        let one = format!("{}{chroot}", target.endpoint);
        let servers = one.parse().map_err(Failure::usage)?;
        let name = target.name.as_ref().map(|it| it.host.as_str());
        let tls = options.tls_to(tls, name)?;
        let settings = options.settings_for(&servers, tls.clone(), identities, name);
        asked.push(ask::server(number, target, settings, tls, args));
    }
    let (mut answers, clients): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().unzip();
    ask::compare(&mut answers, clients).await;
    if !ensemble::sizes(&answers).is_empty() {
        sleep(PAUSE).await;
        ask::count_again(&mut answers, &targets, args.timeout).await;
    }
    let problems = problems::of(&answers);
    Ok((answers, problems))
}

fn status(answers: &[Answer], problems: &[Problem]) -> u8 {
    if answers.iter().all(|answer| answer.error.is_some()) {
        exit::UNAVAILABLE
    } else if problems.iter().all(|problem| problem.is_note) {
        exit::OK
    } else {
        exit::BROKEN
    }
}
