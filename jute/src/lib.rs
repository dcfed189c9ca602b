//! The jute record codec of Apache ZooKeeper.
//!
//! Jute has no tags, no padding and no self-description. A record is its fields, one after the
//! other, in big-endian byte order. This crate
//!
//! - encodes and decodes each primitive type ([`Encode`], [`Decode`]);
//! - reads values from an untrusted buffer ([`Reader`]);
//! - keeps a list of names in the memory of its message ([`Names`]);
//! - appends values to a buffer ([`Writer`]);
//! - declares a record from one list of its fields ([`record!`]).
//!
//! Not here: the records of the ZooKeeper protocol. `lockkeeper-proto` declares them.
//!
//! Three promises hold for every input:
//!
//! - No function panics.
//! - No function allocates more than a small multiple of the bytes that are present. Each length or
//!   count is compared with these bytes first.
//! - A [`DecodeError`] names the field and the offset at which reading failed.
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use lockkeeper_jute::{Decode, Encode, Reader, Writer, record};
//!
//! record! {
//!     /// A point, to show how a record is declared.
//!     pub struct Point {
//!         /// Metres to the east.
//!         pub x: i32,
//!         /// The name of the point. In jute, null and empty are different.
//!         pub name: Option<String>,
//!     }
//! }
//!
//! let mut buffer = BytesMut::new();
//! let mut writer = Writer::new(&mut buffer);
//! Point { x: 7, name: None }.encode(&mut writer);
//! writer.finish()?;
//! assert_eq!(&buffer[..], b"\x00\x00\x00\x07\xff\xff\xff\xff");
//!
//! let point = Point::decode(&mut Reader::new(buffer.freeze()))?;
//! assert_eq!(point, Point { x: 7, name: None });
//!
//! let error = Point::decode(&mut Reader::new(Bytes::from_static(b"\0\0\0"))).unwrap_err();
//! assert_eq!(error.to_string(), "Point.x at byte 0: 4 bytes needed, 3 left");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "users make and match each value: the format does not grow"
)]
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::arithmetic_side_effects,
        clippy::as_conversions
    )
)]

extern crate alloc;

mod codec;
mod error;
mod names;
mod reader;
mod record;
mod writer;

#[cfg(test)]
use lockkeeper_test_support::cases;

pub use codec::{Decode, Encode};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use names::Names;
pub use reader::Reader;
pub use writer::Writer;

#[doc(hidden)]
pub use record::debug as __debug;
