//! Asks a server whether it accepts writes. It sends the word `isro` on a separate connection; the
//! server answers `rw` or `ro`.
//!
//! Not here: when the client asks, and what it does with the answer (`machine`).

use std::{future::poll_fn, io, sync::Arc, time::Duration};

use bytes::{Buf as _, BytesMut};

use super::{sockets::Net, transport::Connecting};
use crate::client::sync::select::{Either, select};
use crate::{Endpoint, machine::Input};

/// How long the server has to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// A limit for the answer; a real answer to `isro` is shorter.
const LONGEST_ANSWER: usize = 256;

/// Asks the server and tells the machine the answer. A server that does not answer or refuses the
/// connection counts as one that does not accept writes.
pub(crate) async fn probe(net: Net, endpoint: Arc<Endpoint>, connecting: Connecting) {
    let answer = select(ask(connecting), net.sleep(PROBE_TIMEOUT)).await;
    let takes_writes = matches!(answer, Either::Left(Ok(answer)) if answer.starts_with(b"rw"));
    let answer = Input::Probed {
        endpoint,
        takes_writes,
    };
    net.shared.act(|core| {
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
        match poll_fn(|cx| stream.poll_write(cx, question)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => question.advance(written),
        }
    }
    poll_fn(|cx| stream.poll_flush(cx)).await?;
    let mut answer = BytesMut::new();
    while answer.len() < LONGEST_ANSWER {
        answer.reserve(LONGEST_ANSWER);
        if poll_fn(|cx| stream.poll_read(cx, &mut answer)).await? == 0 {
            break;
        }
    }
    Ok(answer)
}
