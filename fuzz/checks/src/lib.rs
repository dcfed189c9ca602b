//! What the fuzz targets do. Each function takes any bytes, and panics only if a crate breaks a
//! promise.
//!
//! `tests/` gives them the corpora, and inputs made by proptest, on stable. Not here: the targets
//! for libFuzzer (`../fuzz_targets`), which call these functions.

#![allow(
    clippy::missing_panics_doc,
    reason = "each panics if a promise is broken"
)]

mod ranks;
mod script;
mod server;
mod session;
mod wire;

pub use ranks::ranks;
pub use server::server;
pub use session::{hosts, machine};
pub use wire::{frames, paths, records};
