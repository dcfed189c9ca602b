//! Servers that break the rules, over real TCP: which error the caller gets, and that the next
//! connection works again.
//!
//! | file | what the server does |
//! |---|---|
//! | `handshakes` | does not listen, is no ZooKeeper, or ends the handshake |
//! | `replies` | closes the connection within a reply, or sends nonsense instead |
//! | `silence` | sends very slowly |
//! | `size` | sends very much |
//! | `many` | is one of very many servers, and most of them are down |
//! | `memory` | makes the client allocate memory, which the tests measure |
//!
//! How the state machine takes each message stands in `session/src/machine/tests`. Each file here has
//! a sample of that, and beside it the behaviour that only a whole client can show.

mod handshakes;
mod many;
mod memory;
mod replies;
mod silence;
mod size;

use lockkeeper_session::{Cause, Client, Error, ErrorKind};
use lockkeeper_test_support::{scripted, waiting};

use scripted::ID;
use waiting::soon;

/// The cause of the lost connection that failed this request.
fn lost(error: &Error) -> Cause {
    match error.kind() {
        ErrorKind::ConnectionLost(cause) => cause.clone(),
        other => panic!("{other:?}"),
    }
}

/// The cause for which the only server was not reached.
fn unreachable_because(error: &Error) -> Cause {
    match error.kind() {
        ErrorKind::Unreachable { tried, .. } if tried.len() == 1 => tried[0].cause.clone(),
        other => panic!("{other:?}"),
    }
}

/// Checks that the client works: it has the session [`ID`], and its requests are answered.
async fn assert_well(client: &Client) {
    let data = soon(client.get_data("/well")).await.unwrap().data;
    assert_eq!(data.as_deref(), Some(&b"sound"[..]));
    assert_eq!(client.snapshot().session_id, ID);
}
