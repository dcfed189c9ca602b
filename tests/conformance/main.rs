//! Conformance: sends the same requests to the embedded server and to a real ZooKeeper, and expects
//! the same replies.
//!
//! The cases are data: `cases/`, one file for each subject. `cases/README.md` explains their
//! language. Every case runs on all arms, so a real ZooKeeper has confirmed each expected line.
//! `random` generates further scripts.
//!
//! Not here: the client library. The runner writes and reads the frames itself (`connection`), with
//! the types of `proto`.

mod cases;
mod connection;
mod names;
mod random;
mod reply;
mod request;
mod runner;
mod script;
mod words;

use lockkeeper_test_support as support;

macro_rules! text {
    ($file:ident) => {
        include_str!(concat!("cases/", stringify!($file), ".txt"))
    };
}

/// Makes three tests of each file: `file::embedded`, `file::cluster` and `file::real`.
macro_rules! files {
    ($($file:ident)*) => {
        /// All files, by name.
        const FILES: &[(&str, &str)] = &[$((stringify!($file), text!($file)),)*];

        support::on_both_arms! {$(
            async fn $file(ensemble: &support::Ensemble) {
                cases::check(ensemble, text!($file)).await;
            }
        )*}
    };
}

files! {
    acl acl_lists check_order events modes multi nodes paths sessions set_watches stat watches wire
}
