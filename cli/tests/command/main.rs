//! The command, started as its users start it.
//!
//! A new case: what can be typed in a shell, and is over when the command has ended, is a few lines in a file of `transcripts/`. The
//! other files have what waits, gets signals, or needs a server with a fault.
//!
//! | file | what |
//! |---|---|
//! | `transcripts` | plays the cases in `transcripts/`: arguments, stdin, variables; stdout, stderr and status |
//! | `run` | exclusion, time limits, lost locks |
//! | `run_options` | for cron and deploys: messages, periods and notices |
//! | `signals` | `run` and signals |
//! | `jobs` | `run` as a job of an interactive shell |
//! | `trees` | what a command leaves behind, in each way in which a run can end |
//! | `kills` | who is killed when `run` or its watchdog is |
//! | `outages` | commands that wait while the servers are away |
//! | `limits` | commands that end although something hangs |
//! | `queue` | `queue` |
//! | `nodes` | a large tree |
//! | `doctor` | `doctor` |
//! | `serve` | `serve` |
//! | `demo` | `demo` |
//! | `wire` | `wire` |
//! | `security` | encryption and identities |
//! | `kerberos` | logins with a ticket, on a ZooKeeper that demands them |
//! | `errors` | messages about servers and nodes |
//! | `usage` | help |
//! | `packaging` | `completions`, `man`, `--version` |
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
mod signals;
mod transcripts;
mod trees;
mod usage;
mod wire;
