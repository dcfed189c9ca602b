//! The client on a healthy server: what it costs, what it survives, and how it ends.
//!
//! | file | what is promised |
//! |---|---|
//! | `writes` | requests made together go out in one write |
//! | `survival` | a lost connection costs neither the session nor what belongs to it; an expiry is told |
//! | `endings` | dropping, closing, and a runtime that goes away |
//! | `growth` | what comes and goes leaves nothing behind in memory |
//! | `room` | limits are felt as waiting; deadlines |
//! | `old_servers` | what older servers have works, what they lack is said |
//! | `seen` | lines in the log, and numbers |
//! | `clocks` | time and random numbers from where the client was told |
//! | `transports` | connections that are slow to come about, or to take what is written |
//!
//! `counting` is a transport that counts, `servers` the embedded server and what the tests ask of it.

mod capacity;
mod clocks;
mod counting;
mod endings;
mod growth;
mod old_servers;
mod seen;
mod servers;
mod survival;
mod transports;
mod writes;
