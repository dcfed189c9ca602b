//! What the fuzz targets call: each function takes any bytes and panics only when a promise of the crate is broken.

use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use crate::{
    OpCode, Request, Response, WatcherEvent,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Encode, Reader},
    path,
};

/// Every record: what decodes encodes back to a value that decodes equal, and, where the input was canonical, to the
/// same bytes. The first byte of the input chooses nothing: all readings are tried.
pub fn records(input: &[u8]) {
    let input = Bytes::copy_from_slice(input);
    comes_back::<ConnectRequest>(&input);
    comes_back::<ConnectResponse>(&input);
    comes_back::<RequestHeader>(&input);
    comes_back::<ReplyHeader>(&input);
    comes_back::<WatcherEvent>(&input);
    for op in (-11..=107).map(OpCode).filter(|op| op.name().is_some()) {
        comes_back_with(&input, |reader| Request::decode(op, reader));
        comes_back_with(&input, |reader| Response::decode(op, reader));
    }
}

fn comes_back<T: Decode + Encode + PartialEq + core::fmt::Debug>(input: &Bytes) {
    comes_back_with(input, T::decode);
}

fn comes_back_with<T, E>(input: &Bytes, decode: impl Fn(&mut Reader) -> Result<T, E>)
where
    T: Encode + PartialEq + core::fmt::Debug,
{
    let mut reader = Reader::new(input.clone());
    let Ok(value) = decode(&mut reader) else {
        return;
    };
    let mut out = BytesMut::new();
    let written = frame::append(&mut out, |writer| value.encode(writer));
    let message = frame::split(&mut out, usize::MAX);
    assert!(
        written.is_ok(),
        "what was decoded is too long to encode: {value:?}"
    );
    let Ok(Some(message)) = message else {
        unreachable!("a frame that was appended cannot be split: {message:?}");
    };
    let again = decode(&mut Reader::new(message)).ok();
    assert_eq!(again.as_ref(), Some(&value));
}

/// Frame splitting: the first byte says into what pieces the rest is cut; the pieces must make no difference.
pub fn frames(input: &[u8]) {
    const LIMIT: usize = 1 << 16;
    let Some((size, stream)) = input.split_first() else {
        return;
    };
    let whole = split_all([stream], LIMIT);
    let pieces = split_all(stream.chunks(usize::from(*size).max(1)), LIMIT);
    assert_eq!(whole, pieces);
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

/// Paths: a legal one is exactly what its names make, and its parent is legal too.
pub fn paths(input: &[u8]) {
    let Ok(text) = core::str::from_utf8(input) else {
        return;
    };
    let _ = path::check_sequential(text);
    if path::check(text).is_err() {
        return;
    }
    if let Some(parent) = path::parent(text) {
        assert_eq!(path::check(parent), Ok(()));
        assert_eq!(path::join(parent, path::name(text)), text);
        assert!(path::is_within(text, parent));
    }
}
