//! What the tests of several crates share. Each crate enables the features that it needs, so that
//! its tests build little.
//!
//! | module | feature | content |
//! |---|---|---|
//! | `cases` | `properties` | how many cases each property test has |
//! | `waiting`, `counting` | `clients` | waiting for conditions; a transport that counts requests |
//! | `scripted` | `clients` | a server whose connections follow scripts |
//! | `log` | `log` | what is logged |
//! | `certificates`, `gate` | `secure` | certificate authorities; a proxy in front of the embedded server that encrypts |
//! | `peer` | `peer` | a client of the embedded server that sends what it likes |
//! | `ensemble` | `ensembles` | the servers that one test runs on, one after the other: `on_both_arms` |
//! | `real_server`, `secure_server`, `servers` | `ensembles` | real servers that a test starts itself: one, a secure one, three |
//! | `programs`, `exclusion` | `ensembles` | the programs of `tests/foreign`, and locks that they share with us |
//! | `contention`, `recorder`, `proxy` | `ensembles` | clients that contend, what they saw, and a proxy that fails |

#![allow(
    missing_docs,
    missing_debug_implementations,
    unnameable_types,
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "for tests"
)]

#[cfg(feature = "properties")]
pub mod cases;
#[cfg(feature = "secure")]
pub mod certificates;
#[cfg(feature = "ensembles")]
pub mod contention;
#[cfg(feature = "clients")]
pub mod counting;
#[cfg(feature = "ensembles")]
mod ensemble;
#[cfg(feature = "ensembles")]
pub mod exclusion;
#[cfg(feature = "secure")]
pub mod gate;
#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "peer")]
pub mod peer;
#[cfg(feature = "ensembles")]
pub mod programs;
#[cfg(feature = "ensembles")]
pub mod proxy;
#[cfg(feature = "ensembles")]
pub mod real_server;
#[cfg(feature = "ensembles")]
pub mod recorder;
#[cfg(feature = "clients")]
pub mod scripted;
#[cfg(all(feature = "ensembles", feature = "secure"))]
pub mod secure_server;
#[cfg(feature = "ensembles")]
pub mod servers;
#[cfg(feature = "clients")]
pub mod waiting;

#[cfg(feature = "ensembles")]
pub use ensemble::*;
