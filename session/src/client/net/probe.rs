//! Asks a server whether it accepts writes. It sends the word `isro` on a separate connection; the
//! server answers `rw` or `ro`.
//!
//! Not here: when the client asks, and what it does with the answer (`machine`).

use std::{future::poll_fn, io, pin::Pin, sync::Arc, time::Duration};

use bytes::BytesMut;
use tokio::io::AsyncWrite;
use tokio_util::io::{poll_read_buf, poll_write_buf};

use crate::client::{net::transport::Connecting, shared::Shared};
use crate::{Endpoint, machine::Input};

/// How long the server has to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// A limit for the answer; a real answer to `isro` is shorter.
const LONGEST_ANSWER: usize = 256;

/// Asks the server and tells the machine the answer. A server that does not answer or refuses the
/// connection counts as one that does not accept writes.
pub(crate) async fn probe(shared: Arc<Shared>, endpoint: Arc<Endpoint>, connecting: Connecting) {
    let answer = tokio::time::timeout(PROBE_TIMEOUT, ask(connecting)).await;
    let takes_writes = matches!(answer, Ok(Ok(answer)) if answer.starts_with(b"rw"));
    let answer = Input::Probed {
        endpoint,
        takes_writes,
    };
    shared.act(|core| {
        let now = core.clock.now();
        core.machine.handle(now, answer);
    });
}

/// Sends the question and reads until the server closes the connection, as it does after its
/// answer.
async fn ask(connecting: Connecting) -> io::Result<BytesMut> {
    let mut stream = connecting.await?;
    let mut question = &b"isro"[..];
    while !question.is_empty() {
        poll_fn(|cx| poll_write_buf(Pin::new(&mut stream), cx, &mut question)).await?;
    }
    poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await?;
    let mut answer = BytesMut::new();
    while answer.len() < LONGEST_ANSWER {
        let read = poll_fn(|cx| poll_read_buf(Pin::new(&mut stream), cx, &mut answer));
        if read.await? == 0 {
            break;
        }
    }
    Ok(answer)
}
