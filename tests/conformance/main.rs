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
mod fields;
mod login;
mod names;
mod random;
mod reply;
mod request;
mod runner;
mod script;
mod words;

use lockkeeper_test_support as support;
use lockkeeper_test_support::secure_server as server;

macro_rules! text {
    ($file:ident) => {
        include_str!(concat!("cases/", stringify!($file), ".txt"))
    };
}

/// Makes three tests of each file: `file::embedded`, `file::cluster` and `file::real`. For a file
/// with users, which needs a server of its own: `file::embedded` and `file::needs_java`.
macro_rules! files {
    ($($file:ident)*; with users: $($own:ident)*) => {
        /// All files, by name.
        const FILES: &[(&str, &str)] = &[
            $((stringify!($file), text!($file)),)*
            $((stringify!($own), text!($own)),)*
        ];

        support::on_both_arms! {$(
            async fn $file(ensemble: &support::Ensemble) {
                cases::check(ensemble, text!($file)).await;
            }
        )*}

        $(mod $own {
            #[tokio::test]
            async fn embedded() {
                super::cases::check_with_users(text!($own), false).await;
            }

            #[tokio::test]
            #[ignore = "needs Java and a ZooKeeper: tests/run.sh"]
            async fn needs_java() {
                super::cases::check_with_users(text!($own), true).await;
            }
        })*
    };
}

files! {
    acl acl_lists check_order events modes multi nodes paths sessions set_watches stat watches wire;
    with users: sasl sasl_required
}
