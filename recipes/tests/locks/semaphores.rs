//! What the first waiter of a semaphore does when one of its requests fails.
//!
//! Not here: what it waits for (`head`), a limit that cannot be read (`losses`).

use lockkeeper_proto::{ErrorCode, OpCode};
use lockkeeper_recipes::{LockError, Semaphore};
use lockkeeper_server::When;
use lockkeeper_session::Client;

use crate::support::{server_and_two, waiting::soon};

fn semaphore(client: &Client) -> Semaphore {
    Semaphore::new(client, "/s", 1).unwrap()
}

/// Its place and its permit stay: others would get ahead of it.
#[tokio::test]
async fn a_look_around_that_is_lost_is_repeated_by_itself() {
    let (server, client, other) = server_and_two().await;
    let permit = semaphore(&other).acquire().await.unwrap();
    permit.release().await.unwrap();
    let created = || server.counters().requests_of(OpCode::CREATE2);
    let before = created();
    // The first listing is that of the queue.
    let look = When::op(OpCode::GET_CHILDREN).nth(2);
    server.faults().lose_reply(look);
    let _permit = soon(semaphore(&client).acquire()).await.unwrap();
    assert_eq!(server.faults().pending(), 0);
    assert_eq!(created() - before, 2);
}

#[tokio::test]
async fn a_listing_of_the_permits_that_is_refused_is_an_error() {
    let (server, client, other) = server_and_two().await;
    let ours = semaphore(&client);
    // It has looked around.
    ours.acquire().await.unwrap().release().await.unwrap();
    let _permit = semaphore(&other).acquire().await.unwrap();
    let list = When::op(OpCode::GET_CHILDREN).within("/s/leases");
    server.faults().refuse(list, ErrorCode::NO_AUTH);
    let error = soon(ours.acquire()).await.unwrap_err();
    let LockError::Session(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
}
