//! The machine by itself: time and bytes by hand.
//!
//! | file | what is promised |
//! |---|---|
//! | `handshake` | how connections begin |
//! | `liveness` | pings, silence, and that no deadline makes it spin |
//! | `replies` | whose reply a frame is, in which order things are told, what goes out in one piece |
//! | `reconnect` | what becomes of requests, which server is next and when |
//! | `watches` | whom an event concerns, what is taken off the server |
//! | `identities` | identities that are added on the way |
//! | `lasting` | persistent watches beside each other and beside one-shot ones, on servers before 3.9 and since |
//! | `restore` | what a new connection restores of them, and holds back meanwhile |
//! | `expiry` | the end of a session |
//! | `sasl` | who the client is, before anything else; what becomes of it when that fails |
//! | `ends` | the end of the client: closing, refused authentication |
//! | `lease` | until when no server can have expired the session |
//! | `probation` | servers that close the connection in place of saying so |
//! | `unsupported` | operations that a server does not know |
//! | `moving` | moves to another server, and the search for one that takes writes |
//! | `options` | room, deadlines, callers who do not wait |
//! | `script` | any story at all: no panic, everything settled once |
//!
//! `pair` is the scripted server that they share, `requests` what passes between the two.

mod auth;
mod ends;
mod expiry;
mod handshake;
mod lease;
mod liveness;
mod moving;
mod options;
mod pair;
mod persistent;
mod probation;
mod reconnect;
mod replies;
mod requests;
mod restore;
mod sasl;
mod script;
mod unsupported;
mod watches;
