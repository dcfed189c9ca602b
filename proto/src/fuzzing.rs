//! What the fuzz targets call: each function takes any bytes and panics only when a promise of the crate is broken.
//!
//! The targets themselves are in `fuzz/`; `tests/corpus.rs` replays what they found.

use alloc::{format, vec::Vec};
use core::fmt::Debug;

use bytes::{Bytes, BytesMut};

use crate::{
    OpCode, Request, Response, WatcherEvent,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, Encode, NegativeCounts, Reader},
    path,
};

/// Every record, tried on the same bytes: what decodes is encoded to something that decodes equal, to its last byte,
/// and that is encoded to the same bytes again.
pub fn records(input: &[u8]) {
    let input = Bytes::copy_from_slice(input);
    comes_back(&input, ConnectRequest::decode);
    comes_back(&input, ConnectResponse::decode);
    comes_back(&input, RequestHeader::decode);
    comes_back(&input, ReplyHeader::decode);
    comes_back(&input, WatcherEvent::decode);
    for op in (-11..=107).map(OpCode).filter(|op| op.name().is_some()) {
        comes_back(&input, |reader| Request::decode(op, reader));
        comes_back(&input, |reader| Response::decode(op, reader));
    }
}

fn comes_back<T>(input: &Bytes, decode: impl Fn(&mut Reader) -> Result<T, DecodeError>)
where
    T: Encode + PartialEq + Debug,
{
    for rule in [NegativeCounts::Refuse, NegativeCounts::Empty] {
        let mut reader = Reader::new(input.clone()).with_negative_counts(rule);
        let value = match decode(&mut reader) {
            Ok(value) => value,
            Err(error) => {
                assert!(error.offset <= input.len(), "{error}");
                continue;
            }
        };
        let encoded = encoded(&value);
        // Fewer bytes when a string held the surrogate pairs of Java; never more.
        assert!(encoded.len() <= input.len().saturating_sub(reader.left()));

        let mut reader = Reader::new(encoded.clone());
        let again = decode(&mut reader);
        assert_eq!(again.as_ref(), Ok(&value));
        assert_eq!(reader.left(), 0, "{value:?}");
        assert_eq!(again.map(|value| self::encoded(&value)), Ok(encoded));
    }
}

fn encoded(value: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    let length = frame::append(&mut out, |writer| value.encode(writer));
    let message = frame::split(&mut out, usize::MAX);
    let Ok(Some(message)) = message else {
        unreachable!("a frame that was appended cannot be split: {message:?}");
    };
    assert_eq!(length, Ok(message.len()));
    assert!(out.is_empty());
    message
}

/// Frame splitting: the first byte says into what pieces the rest is cut; the pieces must make no difference, and the
/// messages put into frames again are the stream that they came from.
pub fn frames(input: &[u8]) {
    const LIMIT: usize = 1 << 16;
    let Some((size, stream)) = input.split_first() else {
        return;
    };
    let whole = split_all([stream], LIMIT);
    let pieces = split_all(stream.chunks(usize::from(*size).max(1)), LIMIT);
    assert_eq!(whole, pieces);

    let mut again = BytesMut::new();
    for message in &whole.0 {
        let appended = frame::append(&mut again, |writer| writer.put_slice(message));
        assert_eq!(appended, Ok(message.len()));
    }
    assert!(stream.starts_with(&again));
}

/// The frames of a stream that arrives in pieces, up to the first error, and that error.
fn split_all<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limit: usize,
) -> (Vec<Bytes>, Option<frame::FrameError>) {
    let mut stream = BytesMut::new();
    let mut frames = Vec::new();
    for piece in pieces {
        stream.extend_from_slice(piece);
        loop {
            match frame::split(&mut stream, limit) {
                Ok(Some(message)) => frames.push(message),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// Paths: a legal one is exactly what its names make, and everything above it is legal too; a sequential one is judged
/// as it will be with its number.
pub fn paths(input: &[u8]) {
    // Longer ones show nothing new, and checking each level takes time in proportion to the square.
    const LONGEST: usize = 256;
    let Ok(text) = core::str::from_utf8(input) else {
        return;
    };
    if text.len() > LONGEST {
        return;
    }
    if !text.is_empty() {
        let numbered = format!("{text}0000000001");
        assert_eq!(path::check_sequential(text), path::check(&numbered));
    }
    if path::check(text).is_err() {
        return;
    }
    let mut depth = 0_usize;
    for level in path::levels(text) {
        depth = depth.saturating_add(1);
        assert_eq!(path::check(level), Ok(()));
        assert!(path::is_within(text, level));
        let parent = path::parent(level);
        let rebuilt = parent.map(|parent| path::join(parent, path::name(level)));
        assert_eq!(rebuilt.as_deref(), Some(level));
    }
    let slashes = text.matches('/').count();
    assert_eq!(depth, if text == path::ROOT { 0 } else { slashes });
}
