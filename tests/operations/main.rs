//! Every operation and every kind of watch, by the client's methods, on the embedded server and on a real ZooKeeper.
//!
//! | file | what |
//! |---|---|
//! | `nodes`, `lists`, `rights`, `ensemble` | one node, which nodes there are, who may do what, the servers behind |
//! | `transactions` | several operations at once; several reads |
//! | `one_shot` | watches that fire once |
//! | `persistent` | watches that stay |
//! | `beside` | several kinds of watch on one node, which servers before 3.9 cannot keep apart |
//! | `reconnect` | what becomes of all of them, and of identities, when the connection is lost |
//! | `stories` | all of these at random, against what each kind promises |
//! | `table` | that `docs/operations.md` names every operation, and methods and tests that exist |
//!
//! Not here: bytes on the wire (`conformance`); what the machine does in between (`session/src/machine/tests`).

mod beside;
mod ensemble;
mod lists;
mod nodes;
mod one_shot;
mod persistent;
mod reconnect;
mod rig;
mod rights;
mod stories;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod transactions;
