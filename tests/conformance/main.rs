//! Conformance: the same requests to the embedded server and to a real ZooKeeper, and the same replies from both.
//!
//! Each case is a script: what connections send, and what must come back. Everything that comes back must stand there, in its
//! order; what differs from run to run has names instead (`names`). A script is run on either arm, so what it says about
//! ZooKeeper was checked against ZooKeeper. Where servers before 3.9 behave differently the input avoids it, or the difference
//! is taken out of the transcript, with a comment that names it. Other scripts are drawn (`random`).
//!
//! | line | meaning |
//! |---|---|
//! | `a> REQUEST` | connection `a` sends a request, over a session of its own that is made when it is first used |
//! | `+ OPERATION` | one operation of the list (`multi`, `multiRead`) in the line above |
//! | `a& REQUEST` | the same as `a>`, but sent in one piece with the next `a>` |
//! | `a> connect [OPTION=..]` | a handshake: `timeout`, `resume` (the letter of a session), `password`, `zxid`, `readonly`, `session` |
//! | `a> login USER PASSWORD [swap=OLD/NEW]` | a whole SASL exchange (`login`) |
//! | `a> word WORD` | a four-letter word; the answer is shown without values |
//! | `a! drop`, `a! hush`, `a! bytes ".."` | cuts the connection; sends no more than the script says; sends bytes |
//! | `a? [after=MS]` | waits for one frame, or the end of the connection: not before that long after the last `drop` or `hush` |
//! | `a< [zN] ok ..`, `a< [zN] ERROR` | a reply; a write shows its transaction: `z0` made `$`, the root of the case |
//! | `a< event WHAT PATH` | a watch event |
//! | `a< closed` | the server closed the connection |
//!
//! A request is ZooKeeper's name for it, a path, and options (`request`, `fields`). `cut` and `extra` make its body shorter or
//! longer, `xid` gives it a number, `fill` makes a create that long; `brief` hides what is answered; `raw` sends any fields.
//!
//! After each `a>` all connections are asked, by a ping, whether they have anything more to say: nothing comes unnoticed, and
//! `a<` lines of others than the sender stand behind its own. A `Stat` is shown as the transaction that made the node, and what
//! is different from a fresh and empty node: `m` and `p` are mzxid and pzxid, `v`, `cv`, `av` the versions, `len` and `kids` the
//! counts, `owner` the session. Lists without an order are sorted. `early` is a reply before that of an earlier request.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "all scripts look alike, whether they hold a quote or not"
)]

mod cases;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../session/tests/secure/certificates.rs"]
mod certificates;
mod connection;
mod fields;
mod login;
mod names;
mod random;
mod reply;
mod request;
mod runner;
mod script;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../secure/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;
mod words;

/// Makes two tests of each script, `name::embedded` and `name::real`.
macro_rules! conformance {
    ($($(#[$attribute:meta])* $name:ident: $script:literal;)*) => {
        $crate::support::on_both_arms! {$(
            $(#[$attribute])*
            async fn $name(ensemble: &crate::support::Ensemble) {
                crate::runner::check(ensemble, $script).await;
            }
        )*}
    };
}

use conformance;
