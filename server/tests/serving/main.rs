//! The embedded server, seen from its ports and through its handle.
//!
//! | file | what |
//! |---|---|
//! | `cluster` | several servers in one process |
//! | `hooks` | the faults that tests can cause |
//! | `restart` | a server in the place of a former one |
//! | `since_3_9` | what servers answer only since 3.9 |
//! | `tools` | what tests do with a server besides faults |
//! | `limits` | four-letter words, early requests, the shutdown |
//!
//! Not here: the engine without sockets (`engine`), clients that break the rules (`hostile`).

mod cluster;
mod hooks;
mod limits;
mod restart;
mod since_3_9;
mod tools;
