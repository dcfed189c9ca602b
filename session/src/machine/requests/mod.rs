//! Requests: from the caller's submit to the reply.
//!
//! | file | what |
//! |---|---|
//! | `backlog` | requests that wait to be sent |
//! | `submit` | whether a request is accepted, its deadline, and giving it up |
//! | `transmit` | from queued requests to bytes |
//! | `asked` | what the replies to creates must say |
//! | `in_flight` | requests that were sent, and what their replies are for |
//! | `replies` | frames of an established connection |
//! | `probation` | which operations the servers may not know, and which they do not know |
//! | `unsupported` | what happens to requests of such operations |
//! | `trace` | single requests in the log |

pub(crate) mod asked;
pub(crate) mod backlog;
pub(crate) mod in_flight;
pub(crate) mod probation;
pub(crate) mod replies;
pub(crate) mod submit;
pub(crate) mod trace;
pub(crate) mod transmit;
pub(crate) mod unsupported;
