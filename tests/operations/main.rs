//! Every operation and every kind of watch, through the client's methods, on the embedded server
//! and on a real ZooKeeper.
//!
//! | file | what |
//! |---|---|
//! | `nodes` | one node: create, read, change, delete |
//! | `lists` | listings: children, descendants, ephemeral nodes |
//! | `chroot` | handles whose paths lie below another root |
//! | `rights` | access control lists and identities |
//! | `ensemble` | requests to the servers themselves: `sync`, configuration |
//! | `transactions` | several operations, or several reads, in one request |
//! | `one_shot` | watches that fire once |
//! | `persistent` | persistent watches |
//! | `beside` | several kinds of watch on one node, which servers before 3.9 cannot keep apart |
//! | `reconnect` | watches and identities after a lost connection |
//! | `stories` | random use of all kinds of watches |
//! | `table` | checks the names in `docs/operations.md` |
//! | `rig` | helpers |
//!
//! Not here: bytes on the wire (`conformance`), the state machine of the session
//! (`session/src/machine/tests`).

mod beside;
mod chroot;
mod ensemble;
mod lists;
mod nodes;
mod one_shot;
mod persistent;
mod reconnect;
mod rig;
mod rights;
mod stories;
mod table;
mod transactions;

use lockkeeper_test_support as support;
