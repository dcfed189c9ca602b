//! Frames: a length of four bytes, then a message of that length.
//!
//! Invariants:
//! - A length is compared with the limit as soon as its four bytes are present, before memory is
//!   reserved for it.
//! - The result does not depend on how the network cuts the stream into pieces.
//!
//! Not here: the content of the messages.

use core::fmt;

use bytes::{Buf, Bytes, BytesMut};

use crate::jute::{EncodeError, Writer};

/// The size in bytes of the length before a message. The length does not count its own bytes.
pub const PREFIX_LEN: usize = 4;

/// The longest message that a server accepts by default: 1 MiB less one byte. `jute.maxbuffer`
/// changes it.
///
/// A server that gets a longer message closes the connection without a reply. Source:
/// `BinaryInputArchive.maxBuffer`.
pub const SERVER_LIMIT: usize = 0xf_ffff;

/// Removes the first frame from `stream` and returns its message, if the whole frame is present.
///
/// The message shares the memory of the stream. `Ok(None)` means that more bytes are needed.
///
/// # Errors
/// [`FrameError`] when the length is below zero or above `limit`. The stream cannot be read any
/// further then.
pub fn split(stream: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(prefix) = stream.first_chunk::<PREFIX_LEN>() else {
        return Ok(None);
    };
    let announced = i32::from_be_bytes(*prefix);
    let length = match usize::try_from(announced) {
        Err(_) => return Err(FrameError::Negative(announced)),
        Ok(length) if length > limit => return Err(FrameError::TooLong { length, limit }),
        Ok(length) => length,
    };
    if stream.len().saturating_sub(PREFIX_LEN) < length {
        return Ok(None);
    }
    let mut message = stream.split_to(length.saturating_add(PREFIX_LEN)).freeze();
    message.advance(PREFIX_LEN);
    Ok(Some(message))
}

/// Appends a frame to `out` and returns the length of its message. `write` writes the message.
///
/// Until the message is complete, the prefix holds the largest possible length. So a frame that is
/// abandoned half-way is never mistaken for a shorter frame.
///
/// # Errors
/// [`EncodeError`] when a field or the message is too long for its length prefix. `out` is then
/// unchanged.
#[inline]
pub fn append(
    out: &mut BytesMut,
    write: impl FnOnce(&mut Writer<'_>),
) -> Result<usize, EncodeError> {
    let start = out.len();
    out.extend_from_slice(&i32::MAX.to_be_bytes());
    let mut writer = Writer::new(out);
    write(&mut writer);
    let written = writer.finish().and_then(|length| {
        let prefix = i32::try_from(length).map_err(|_| EncodeError { length })?;
        Ok((length, prefix))
    });
    match written {
        Ok((length, prefix)) => {
            if let Some(slot) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
                *slot = prefix.to_be_bytes();
            }
            Ok(length)
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// The length of a frame is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The length is below zero.
    Negative(i32),
    /// The length is above the limit of the receiver.
    TooLong {
        /// The length that was announced.
        length: usize,
        /// The longest message that the receiver accepts.
        limit: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negative(length) => write!(f, "frame of negative length {length}"),
            Self::TooLong { length, limit } => {
                write!(f, "frame of {length} bytes, limit {limit}")
            }
        }
    }
}

impl core::error::Error for FrameError {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_below_zero_or_above_the_limit_is_refused_after_four_bytes() {
        let refused = |prefix: [u8; 4]| split(&mut BytesMut::from(&prefix[..]), 100).unwrap_err();
        assert_eq!(refused([0xff; 4]), FrameError::Negative(-1));
        let longest = FrameError::TooLong {
            length: 0x7fff_ffff,
            limit: 100,
        };
        assert_eq!(refused([0x7f, 0xff, 0xff, 0xff]), longest);
        assert_eq!(
            refused([0, 0, 0, 101]),
            FrameError::TooLong {
                length: 101,
                limit: 100
            }
        );
    }

    #[test]
    fn a_message_as_long_as_the_limit_is_accepted() {
        let mut stream = BytesMut::from(&b"\0\0\0\x03abc"[..]);
        assert_eq!(split(&mut stream, 3), Ok(Some(Bytes::from_static(b"abc"))));
        assert!(stream.is_empty());
    }

    #[test]
    fn a_message_that_cannot_be_written_leaves_the_buffer_unchanged() {
        let mut out = BytesMut::from(&b"before"[..]);
        let error = append(&mut out, |writer| writer.put_length(1 << 31)).unwrap_err();
        assert_eq!(error, EncodeError { length: 1 << 31 });
        assert_eq!(&out[..], b"before");
    }

    proptest! {
        #![proptest_config(crate::cases::cases())]

        #[test]
        fn any_chunking_gives_the_same_frames(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            chunk_sizes in prop::collection::vec(1usize..20, 1..20),
        ) {
            let mut wire = BytesMut::new();
            for message in &messages {
                append(&mut wire, |writer| writer.put_slice(message)).unwrap();
            }
            let mut stream = BytesMut::new();
            let mut frames: Vec<Vec<u8>> = Vec::new();
            let mut sizes = chunk_sizes.iter().cycle();
            while !wire.is_empty() {
                let size = (*sizes.next().unwrap()).min(wire.len());
                stream.extend_from_slice(&wire.split_to(size));
                while let Some(frame) = split(&mut stream, 40).unwrap() {
                    frames.push(frame.to_vec());
                }
            }
            prop_assert_eq!(frames, messages);
            prop_assert!(stream.is_empty());
        }
    }
}
