//! The records of requests and replies, by what they are about.
//!
//! Names and order of the fields: `zookeeper.jute`.

mod admin;
mod nodes;
mod watches;

pub use admin::*;
pub use nodes::*;
pub use watches::*;

use crate::jute::record;

record! {
    /// The body of a message that has none.
    #[derive(Copy, Default)]
    pub struct Empty {}
}
