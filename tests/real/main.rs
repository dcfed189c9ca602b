//! Servers, clients and processes that are not ours, or that fail: what only real ones can show.
//!
//! | file | what |
//! |---|---|
//! | `interop` | our locks beside those of Curator, kazoo and go-zk on the same paths |
//! | `foreign_clients` | Apache's client and kazoo on the embedded server |
//! | `secure` | servers with TLS and passwords |
//! | `failures` | locks while servers fail |
//! | `partitions` | two holders, while servers are cut off from each other |
//! | `random` | random failures of servers and links, by seed, under every kind of lock |
//! | `hand_over` | processes that hand a lock over, and are killed |
//! | `reconfiguration` | locks while servers join and leave |
//! | `facts` | whether servers keep sessions as `docs/safety.md` assumes |
//! | `stopped` | a leader whose process is stopped |
//! | `resources` | a holder without free descriptors or threads |
//! | `burst` | a burst of tasks of one client in one queue |
//!
//! `lockkeeper_test_support` starts the servers; the programs of other clients are in `tests/foreign`. Not here: what users meet
//! on one server (`contract`, `operations`, `conformance`); every order of messages (`tests/model`, `tests/sim`).

mod burst;
mod facts;
mod failures;
mod foreign_clients;
mod hand_over;
mod interop;
mod partitions;
mod random;
mod reconfiguration;
#[cfg(target_os = "linux")]
mod resources;
mod secure;
#[cfg(unix)]
mod stopped;
