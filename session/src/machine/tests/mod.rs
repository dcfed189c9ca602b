//! Tests of the machine alone: each test moves the time and the bytes itself.
//!
//! | file | what it tests |
//! |---|---|
//! | `handshake` | how connections begin |
//! | `liveness` | pings and silence; that no server makes the machine spin |
//! | `replies` | matching replies to requests, the order of outputs, requests in one write |
//! | `created` | replies to creates that name another node or transaction |
//! | `reconnect` | requests when a connection is lost; which server is next, and when |
//! | `watches` | who receives an event; which watches are removed from the server |
//! | `persistent` | persistent watches beside each other and beside one-shot ones, on all releases of servers |
//! | `restore` | which watches a new connection restores, and which events it keeps back meanwhile |
//! | `auth` | identities that a caller adds |
//! | `sasl` | the SASL exchange, and its failures |
//! | `expiry` | the end of a session |
//! | `ends` | the end of the client: closing, refused authentication |
//! | `hand_over` | a session that one machine leaves, and another one goes on with |
//! | `lease` | until when no server can have expired the session |
//! | `proof` | the two writes that prove a lease, and when they are sent |
//! | `validity` | what a proof is worth behind the end of a lease |
//! | `slow` | a lease that is kept where servers are slow |
//! | `grants` | with how much of its lease a lock is granted |
//! | `unsupported` | operations that a server does not know, and says so |
//! | `moving` | leaving a server for another one |
//! | `silent` | a server that owes an answer is left |
//! | `options` | request capacity, deadlines, requests that fail fast |
//! | `weights` | how many bytes wait to be sent, for each operation |
//! | `window` | how many requests are under way at once |
//!
//! They share the scripted server in `pair`, and the requests and replies in `requests`.
//!
//! Not here: the client with real sockets and tasks (`session/tests`), random inputs
//! (`fuzz/checks`).

mod auth;
mod created;
mod ends;
mod expiry;
mod grants;
mod hand_over;
mod handshake;
mod lease;
mod liveness;
mod moving;
mod options;
mod pair;
mod persistent;
mod proof;
mod reconnect;
mod replies;
mod requests;
mod restore;
mod sasl;
mod silent;
mod slow;
mod unsupported;
mod validity;
mod watches;
mod weights;
mod window;
