//! Byte streams to servers: how the client opens them and cuts them into frames.
//!
//! Not here: which server comes next (`machine`), and the task that reads and writes (`driver`).
//!
//! | file | what |
//! |---|---|
//! | `dial` | TCP connections: names and their addresses |
//! | `transport` | byte streams, and who opens them |
//! | `frames` | how they are cut into frames |
//! | `sockets` | what an attempt needs: a socket, and the addresses of a name |

pub(super) mod dial;
pub(super) mod frames;
pub(super) mod sockets;
pub(super) mod transport;
