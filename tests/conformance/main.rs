//! Conformance: sends the same requests to the embedded server and to a real ZooKeeper, and expects
//! the same replies.
//!
//! Each case is a script. It lists what the connections send and everything that the servers must
//! send back, in order. Values that differ from run to run appear under a name instead (`names`).
//! Every script runs on both arms, so a real ZooKeeper has confirmed each expected line. Some
//! answers differ on servers before 3.9. The scripts avoid such requests, or the runner leaves the
//! difference out of the transcript, and a comment says which. `random` generates further scripts.
//!
//! Not here: the client library. The runner writes and reads the frames itself (`connection`), with
//! the types of `proto`.
//!
//! | line | meaning |
//! |---|---|
//! | `a> REQUEST` | connection `a` sends a request. Its first use opens the connection and a session of its own |
//! | `+ OPERATION` | one operation of the list (`multi`, `multiRead`) in the line above |
//! | `a& REQUEST` | the same as `a>`, but sent together with the next `a>`, in one write |
//! | `a> connect [OPTION=..]` | a handshake: `timeout`, `resume` (the letter of a session), `password`, `zxid`, `readonly`, `session` |
//! | `a> login USER PASSWORD [swap=OLD/NEW]` | a whole SASL exchange (`login`) |
//! | `a> word WORD` | a four-letter word; the transcript shows the answer without its values |
//! | `a! drop`, `a! hush`, `a! bytes ".."` | cuts the connection; stops the runner's own pings on it; sends raw bytes |
//! | `a? [after=MS]` | waits for one frame or the end of the connection; not before MS ms after the last `drop` or `hush` |
//! | `a< [zN] ok ..`, `a< [zN] ERROR` | a reply. A write shows its transaction; `z0` created `$`, the root of the case |
//! | `a< event WHAT PATH` | a watch event |
//! | `a< closed` | the server closed the connection |
//!
//! A request is ZooKeeper's name for it, a path, and options (`request`, `fields`). Options that
//! every request has:
//! - `cut` and `extra` make the body shorter or longer by that many bytes;
//! - `xid` gives the request that xid;
//! - `brief` hides the content of the reply.
//!
//! `fill` gives a create so much data that its message has that length. `raw` sends any fields.
//!
//! After each `a>`, the runner sends a ping on every connection and reads until its reply. So no
//! message stays unnoticed. The `a<` lines of the sender come first, those of the other connections
//! follow. A `Stat` is shown as the transaction that created the node, and each field that differs
//! from that of a fresh, empty node: `m` and `p` are mzxid and pzxid, `v`, `cv` and `av` the
//! versions, `len` and `kids` the counts, `owner` the session. Lists without a defined order are
//! sorted. `early` marks a reply that came before the reply to an earlier request.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "all scripts look alike, also those without a quote"
)]

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

/// Makes three tests of each script: `name::embedded`, `name::cluster` and `name::real`. `WHY` beside the
/// scripts says why a lock needs their answers.
macro_rules! conformance {
    ($($(#[$attribute:meta])* $name:ident: $script:expr;)*) => {
        $crate::support::on_both_arms! {$(
            $(#[$attribute])*
            async fn $name(ensemble: &crate::support::Ensemble) {
                crate::runner::check(ensemble, WHY, $script).await;
            }
        )*}
    };
}

use conformance;
use lockkeeper_test_support as support;
use lockkeeper_test_support::secure_server as server;
