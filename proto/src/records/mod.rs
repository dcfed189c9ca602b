//! The records of requests and replies, one module for each subject.
//!
//! Source for the names and the order of the fields: `zookeeper.jute`.
//! Not here: the handshake (`connect`), the headers (`header`), the lists of a multi (`multi`).

mod admin;
mod nodes;
mod watches;

pub use admin::*;
pub use nodes::*;
pub use watches::*;

use crate::jute::record;

record! {
    /// The empty body of a message.
    #[derive(Copy, Default)]
    pub struct Empty {}
}
