//! The command, started as its users start it.
//!
//! | file | what |
//! |---|---|
//! | `run` | exit statuses, the environment of the command, exclusion, time limits, lost locks |
//! | `run_options` | for cron and deploys: statuses of one's own, messages, periods, access, notices |
//! | `sharing` | `run --shared` and `--holders` |
//! | `signals` | `run` and signals |
//! | `jobs` | `run` as a job of an interactive shell |
//! | `trees` | what a command leaves behind, in each way in which a run can end |
//! | `kills` | who is killed when `run` or its watchdog is |
//! | `outages` | commands that wait while the servers are away |
//! | `limits` | commands that end although something hangs |
//! | `queue` | `queue` |
//! | `nodes` | `ls`, `get`, `stat`, `set`, `create`, `rm` |
//! | `doctor` | `doctor` |
//! | `serve` | `serve` |
//! | `demo` | `demo` |
//! | `wire` | `wire` |
//! | `security` | encryption and identities |
//! | `kerberos` | logins with a ticket, on a ZooKeeper that demands them |
//! | `errors` | messages about servers and nodes |
//! | `usage` | messages about bad usage, and help |
//! | `packaging` | `completions`, `man`, `--version` |
//! | `transcripts` | plays the cases in `cli/tests/command/transcripts` |
//! | `support` | servers, processes and files of these tests |
//!
//! Not here: what needs a program of its own (`children`).

#[macro_use]
mod support;

mod demo;
mod doctor;
mod errors;
mod jobs;
#[cfg(feature = "kerberos")]
mod kerberos;
mod kills;
mod limits;
mod nodes;
mod outages;
mod packaging;
mod queue;
mod run;
mod run_options;
mod security;
mod serve;
mod sharing;
mod signals;
mod transcripts;
mod trees;
mod usage;
mod wire;
