//! The client on healthy servers: its requests, what it survives, and how it ends.
//!
//! | file | promises about |
//! |---|---|
//! | `writes` | requests made together share one write |
//! | `requests` | what a request says on the wire |
//! | `survival` | a session, its nodes and its watches survive a lost connection; an expiry is reported |
//! | `endings` | dropping, closing, and a runtime that is dropped |
//! | `hand_over` | a session that goes on in another client |
//! | `lazily` | a client that starts although no server is up |
//! | `no_runtime` | which futures need a runtime where they are polled, and which do not |
//! | `growth` | reconnects, watches and dropped futures leave nothing behind in memory |
//! | `capacity` | the wait for request capacity, and deadlines |
//! | `old_servers` | older servers: their operations work, missing ones are reported |
//! | `seen` | log lines and metrics |
//! | `clocks` | the clock and the seed that the builder is given, and timers |
//! | `transports` | transports that connect slowly or write slowly |
//!
//! `servers` holds the embedded server and helpers of the tests.

mod capacity;
mod clocks;
mod endings;
mod growth;
mod hand_over;
mod lazily;
mod no_runtime;
mod old_servers;
mod requests;
mod seen;
mod servers;
mod survival;
mod transports;
mod writes;

use lockkeeper_test_support::{counting, waiting};
