//! The data of a lock node: the holder reads and updates them, and never those of another holder.

use lockkeeper_proto::OpCode;
use lockkeeper_recipes::{
    Guard, LockState, Loss, Mutex, PlainMutex, RwLock, Semaphore, break_lock, inspect,
};
use lockkeeper_server::When;
use lockkeeper_session::Client;

use crate::support::{
    client, server, server_and_two,
    waiting::{idle, soon, until, until_another_session},
};

async fn locked(client: &Client, kind: usize) -> Guard {
    let data = "first";
    let locked = async {
        match kind {
            0 => Mutex::new(client, "/l")?.with_data(data).lock().await,
            1 => PlainMutex::new(client, "/p")?.with_data(data).lock().await,
            2 => RwLock::new(client, "/rw")?.with_data(data).read().await,
            _ => {
                let semaphore = Semaphore::new(client, "/s", 1)?;
                semaphore.with_data(data).acquire().await
            }
        }
    };
    locked.await.unwrap()
}

const KINDS: usize = 4;

#[tokio::test]
async fn a_holder_reads_and_updates_the_data_of_its_node() {
    let server = server().await;
    let client = client(&server).await;
    for kind in 0..KINDS {
        let guard = locked(&client, kind).await;
        let data = async || guard.data().await.unwrap();
        assert_eq!(data().await.as_deref(), Some(&b"first"[..]), "{kind}");
        for text in ["second", ""] {
            guard.set_data(text).await.unwrap();
            assert_eq!(data().await.as_deref(), Some(text.as_bytes()), "{kind}");
        }
        guard.release().await.unwrap();
    }
    let mutex = PlainMutex::new(&client, "/p").unwrap();
    let guard = mutex.lock().await.unwrap();
    guard.set_data("it").await.unwrap();
    let holder = inspect(&client, "/p").await.unwrap().remove(0);
    assert_eq!(holder.data.as_deref(), Some(&b"it"[..]));
    // The client still knows its node by its data.
    server.faults().cut_before(When::op(OpCode::DELETE));
    guard.release().await.unwrap();
    assert!(inspect(&client, "/p").await.unwrap().is_empty());
}

#[tokio::test]
async fn the_data_of_another_holder_are_neither_read_nor_changed() {
    let (_server, one, two) = server_and_two().await;
    for kind in 0..KINDS {
        let late = [locked(&one, kind).await];
        break_lock(&two, &late[0].path()).await.unwrap();
        let holder = locked(&two, kind).await;
        let path = late[0].path()[1..]
            .split('/')
            .next()
            .map(|name| format!("/{name}"));
        let [guard] = late;
        for refused in [
            guard.set_data("late").await.unwrap_err(),
            guard.data().await.unwrap_err(),
        ] {
            assert_eq!(refused.loss(), Some(Loss::Deleted), "{kind}");
            assert_eq!(refused.path(), path.as_deref(), "{kind}");
        }
        let data = holder.data().await.unwrap();
        assert_eq!(data.as_deref(), Some(&b"first"[..]), "{kind}");
        holder.release().await.unwrap();
    }
}

#[tokio::test]
async fn nothing_is_written_in_a_later_session() {
    let server = server().await;
    let client = client(&server).await;
    for kind in 0..KINDS {
        let guard = locked(&client, kind).await;
        let session = client.snapshot().session_id;
        server.faults().expire_early(session);
        until_another_session(&client, session).await;
        let next = locked(&client, kind).await;
        let late = guard.set_data("late").await.unwrap_err();
        assert_eq!(late.loss(), Some(Loss::Expired), "{kind}");
        let data = next.data().await.unwrap();
        assert_eq!(data.as_deref(), Some(&b"first"[..]), "{kind}");
        next.release().await.unwrap();
    }
}

/// A holder that has waited is told of the deletion of its node. Its own update fires the watch
/// that tells it.
#[tokio::test]
async fn a_holder_is_told_of_its_loss_after_an_update_too() {
    let (_server, one, two) = server_and_two().await;
    let mutex = Mutex::new(&one, "/l").unwrap();
    let first = Mutex::new(&two, "/l").unwrap().lock().await.unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    first.release().await.unwrap();
    let guard = soon(ticket.wait()).await.unwrap();
    guard.set_data("mine").await.unwrap();
    idle(&one).await;
    assert_eq!(guard.state(), LockState::Held);
    break_lock(&two, &guard.path()).await.unwrap();
    until!(guard.state() == LockState::Lost(Loss::Deleted));
}
