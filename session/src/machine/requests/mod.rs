//! Requests, from the caller's submit to the reply.
//!
//! | file | what |
//! |---|---|
//! | `encoded` | a request, encoded once, and what the machine must know of it later |
//! | `queue` | requests that were not handed to the transport yet |
//! | `in_flight` | requests that were sent on a connection, and what each reply is for |
//! | `asked` | what the replies to creates must say |
//! | `support` | operations that servers do not know |
//!
//! Not here: sending requests (`machine::sending`), and what replies mean to the other parts
//! (`machine::replies`).

pub(crate) mod asked;
mod encoded;
mod in_flight;
mod queue;
mod support;

pub use encoded::Encoded;
pub(crate) use in_flight::{InFlight, Own, ReplyTo, Sent};
pub(crate) use queue::{Queue, Queued};
pub(crate) use support::{Support, is_unknown, overtakes};
