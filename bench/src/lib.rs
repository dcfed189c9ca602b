//! The code that benchmark programs share: command line, measurement window, workloads, and the
//! printed line.
//!
//! A program takes `HOST:PORT WORKLOAD SECONDS PARAM` and prints one line of JSON. The programs for
//! other clients (`peers/`) do the same; those in Rust use this crate. So `compare.py` can run all
//! of them in turn against one server.
//!
//! | module | content |
//! |---|---|
//! | [`args`] | the command line |
//! | [`window`] | the measurement window, its latencies, and the CPU time and memory of the process |
//! | [`exclusion`] | whether two holders were ever inside one lock at once |
//! | [`report`] | the line of JSON |
//! | [`runner`] | the workloads, for any client on tokio |
//! | `loopback` | a cheap server in memory, for counting the client's instructions (feature `client`) |
//! | `messages` | messages for measuring the codec (feature `client`) |

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "not published"
)]

pub mod args;
pub mod exclusion;
#[cfg(feature = "client")]
pub mod loopback;
#[cfg(feature = "client")]
pub mod messages;
pub mod report;
pub mod runner;
pub mod window;

/// The reason why a run failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
