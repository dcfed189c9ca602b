//! What benchmark programs share: command line, measurement window, histogram, workloads, the line that they print.
//!
//! A program takes `HOST:PORT WORKLOAD SECONDS PARAM` and prints one line of JSON. Because programs for other clients
//! (`peers/`) do the same with the same code, a comparison is a matter of running them in turn against one server.
//!
//! | module | what |
//! |---|---|
//! | [`args`] | the command line |
//! | [`window`] | when to count, and what the process used meanwhile |
//! | [`histogram`] | latencies |
//! | [`exclusion`] | whether two were ever inside at once |
//! | [`report`] | the line of JSON |
//! | `runner` | the workloads, over any client that tokio runs (feature `runner`) |
//! | `loopback` | a server in memory that costs next to nothing, to count instructions over (feature `client`) |
//! | `messages` | messages to measure the codec with (feature `client`) |

pub mod args;
pub mod exclusion;
pub mod histogram;
#[cfg(feature = "client")]
pub mod loopback;
#[cfg(feature = "client")]
pub mod messages;
pub mod report;
#[cfg(feature = "runner")]
pub mod runner;
pub mod window;

/// Why a run came to nothing.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
