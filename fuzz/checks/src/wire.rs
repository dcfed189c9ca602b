//! The targets `records`, `frames` and `paths`: any bytes as messages, as a stream, and as a path.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};

use lockkeeper_proto::{
    OpCode, Request, Response, WatcherEvent,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, DecodeError, Encode, Reader},
    path,
};

/// Decodes the same bytes as every record.
///
/// If they decode to a value, its encoding must decode completely to an equal value, and this value
/// must encode to the same bytes.
pub fn records(input: &[u8]) {
    let input = Bytes::copy_from_slice(input);
    check_round_trip(&input, ConnectRequest::decode);
    check_round_trip(&input, ConnectResponse::decode);
    check_round_trip(&input, RequestHeader::decode);
    check_round_trip(&input, ReplyHeader::decode);
    check_round_trip(&input, WatcherEvent::decode);
    for op in (-11..=107).map(OpCode).filter(|op| op.name().is_some()) {
        check_round_trip(&input, |reader| Request::decode(op, reader));
        check_round_trip(&input, |reader| Response::decode(op, reader));
    }
}

fn check_round_trip<T>(input: &Bytes, decode: impl Fn(&mut Reader) -> Result<T, DecodeError>)
where
    T: Encode + PartialEq + Debug,
{
    let reader = Reader::new(input.clone());
    // A tolerant reader makes the three bytes of U+FFFD from one that is no text.
    for (mut reader, growth) in [(reader.clone(), 1), (reader.tolerant(), 3)] {
        let value = match decode(&mut reader) {
            Ok(value) => value,
            Err(error) => {
                assert!(error.offset <= input.len(), "{error}");
                continue;
            }
        };
        let encoded = encoded(&value);
        // The encoding is shorter when a string contains Java's surrogate pairs. It is never
        // longer.
        assert!(encoded.len() <= growth * input.len().saturating_sub(reader.left()));

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

/// Splits a stream of frames twice: whole, and in pieces. The first byte of the input is the size
/// of the pieces.
///
/// Both ways must give the same messages. The stream must start with these messages when they are
/// put in frames again.
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

/// Splits a stream that arrives in pieces. Returns the messages before the first error, and that
/// error.
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

/// Checks a text as a path.
///
/// - The check of a sequential path must give the same result as the check of the path with its
///   number.
/// - A legal path must be rebuilt exactly from its names, and every path above it must be legal.
pub fn paths(input: &[u8]) {
    // Longer paths show nothing new, and checking every level takes time proportional to the square
    // of the length.
    const LONGEST: usize = 256;
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if text.len() > LONGEST {
        return;
    }
    if !text.is_empty() {
        let numbered = format!("{text}0000000001");
        let problem = |checked: Result<(), path::PathError>| {
            // The guesses what was meant differ.
            checked.map_err(|error| error.problem().split(';').next().map(str::to_owned))
        };
        let sequential = problem(path::check_sequential(text));
        assert_eq!(sequential, problem(path::check(&numbered)));
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
