//! Servers that break the rules, over real TCP: what the caller is told, and that the next connection is fine again.
//!
//! | file | what the server does |
//! |---|---|
//! | `handshakes` | is not there, is no ZooKeeper, answers the handshake with nonsense |
//! | `replies` | answers requests with nonsense |
//! | `events` | sends events nobody knows |
//! | `probation` | closes the connection |
//! | `silence` | says nothing, or very slowly |
//! | `size` | says very much |
//! | `many` | is one of very many, most of which are not there |
//! | `read_only` | takes no writes |
//! | `memory` | makes the client take memory: measured |
//! | `slowly` | each of these again, at once and a byte at a time |
//!
//! Each bad policy is tried twice: on the first connection only, after which all must be well with the same session, and
//! on every connection, where the client must neither spin nor hang. `server` is the scripted server.

mod events;
mod handshakes;
mod many;
mod memory;
mod probation;
mod read_only;
mod replies;
mod server;
mod silence;
mod size;
mod slowly;
