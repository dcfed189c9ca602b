//! Requests: from the caller's submit to the reply.
//!
//! | file | what |
//! |---|---|
//! | `backlog` | requests that wait to be sent, and their options |
//! | `submit` | whether a request is accepted, its deadline, and giving it up |
//! | `transmit` | from queued requests to bytes |
//! | `asked` | what the replies to creates must say |
//! | `in_flight` | requests that were sent, and what their replies are for |
//! | `replies` | frames of an established connection |
//! | `probation` | servers that close the connection on an operation that they do not know |
//! | `unsupported` | operations that the servers do not know |
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
