//! The jute record codec, as Apache ZooKeeper speaks it.
//!
//! Jute has no tags, no padding and no self-description: a record is its fields, one after the other, big-endian.
//! This crate knows how each primitive looks in bytes ([`Encode`], [`Decode`]), reads them from an untrusted buffer
//! ([`Reader`]), writes them ([`Writer`]), and lets a record name its fields once ([`record!`]). What the records
//! *are* is the business of `lockkeeper-proto`.
//!
//! Three promises hold for any input whatever:
//!
//! - nothing here panics;
//! - nothing allocates more than a small multiple of the bytes that are really there (a length or count is checked against them first);
//! - a [`DecodeError`] names the field and the offset at which reading failed.
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
//!         /// What people call it; null and empty are different things in jute.
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
mod reader;
mod record;
mod writer;

#[cfg(test)]
#[path = "../tests/cases/mod.rs"]
mod cases;

pub use codec::{Decode, Encode};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use reader::{NegativeCounts, Reader};
pub use writer::Writer;

#[doc(hidden)]
pub use bytes as __bytes;
