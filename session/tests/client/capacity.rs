//! The wait for request capacity, in the order in which callers came. Deadlines, a close and a lost
//! connection end it.

use std::time::Duration;

use lockkeeper_proto::{Acl, Acls, CreateMode, OpCode, Request, Response, records::CreateRequest};
use lockkeeper_server::Server;
use lockkeeper_session::{AsRaw, Client, Effect, Error, ErrorKind, machine::Encoded};
use lockkeeper_test_support::peer::sync;
use tokio::task::JoinHandle;

use super::{
    servers::{builder, server},
    waiting::{poll_once, soon, until},
};

/// The request capacity in these tests.
const CAPACITY: usize = 4;

async fn narrow(server: &Server) -> Client {
    let builder = builder(server).max_outstanding(CAPACITY);
    soon(builder.connect()).await.unwrap()
}

/// Spawns `count` creates, each in its own task, in the order of their data.
fn creates(client: &Client, count: usize) -> Creates {
    let create = |number: usize| {
        let client = client.clone();
        tokio::spawn(async move {
            let mode = CreateMode::PersistentSequential;
            let created = client.create("/n-", format!("{number}"), mode).await?;
            Ok(created.path)
        })
    };
    (0..count).map(create).collect()
}

type Creates = Vec<JoinHandle<Result<String, Error>>>;

/// A stalled server, and a client whose creates use up its capacity, and so many more wait for it.
async fn stalled(waiting: usize) -> (Server, Client, Creates) {
    let server = server().await;
    let client = narrow(&server).await;
    server.faults().stall();
    let tasks = creates(&client, CAPACITY + waiting);
    until!(client.metrics().waiting == waiting);
    (server, client, tasks)
}

async fn all_succeed(tasks: Creates) {
    for task in tasks {
        soon(task).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn callers_wait_for_capacity_and_are_served_in_order() {
    let (server, client, tasks) = stalled(100).await;
    assert_eq!(client.metrics().outstanding(), CAPACITY);
    server.faults().resume();
    for (number, task) in tasks.into_iter().enumerate() {
        let path = soon(task).await.unwrap().unwrap();
        assert_eq!(path, format!("/n-{number:010}"));
        let node = soon(client.get_data(&path)).await.unwrap();
        assert_eq!(node.data.unwrap(), number.to_string());
    }
    let metrics = client.metrics();
    assert_eq!((metrics.waiting, metrics.not_sent), (0, 0));
}

/// Free capacity belongs to the first waiting caller, even if that caller has not been polled
/// since.
#[tokio::test]
async fn free_capacity_goes_to_the_first_waiting_caller() {
    let (server, client, tasks) = stalled(0).await;
    until!(client.metrics().outstanding() == CAPACITY);
    // This future is polled once, and nothing polls it when it is woken.
    let mut unpolled = Box::pin(client.sync("/unpolled"));
    assert!(poll_once(unpolled.as_mut()).is_none());
    server.faults().resume();
    all_succeed(tasks).await;
    assert_eq!(
        (client.metrics().outstanding(), client.metrics().waiting),
        (0, 1)
    );
    let late = tokio::spawn({
        let client = client.clone();
        async move { client.sync("/late").await }
    });
    until!(client.metrics().waiting == 2);
    soon(unpolled).await.unwrap();
    soon(late).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_caller_that_stops_waiting_sends_nothing_and_frees_its_place() {
    let (server, client, mut tasks) = stalled(6).await;
    // The last waiting caller, one in the middle, and the first.
    for given_up in [CAPACITY + 5, CAPACITY + 2, CAPACITY] {
        let task = tasks.remove(given_up);
        task.abort();
        assert!(soon(task).await.unwrap_err().is_cancelled());
    }
    assert_eq!(client.metrics().waiting, 3);
    server.faults().resume();
    all_succeed(tasks).await;
    assert_eq!(server.counters().requests_of(OpCode::CREATE2), 7);
}

/// Once, the list was admitted as one request, and those that did not fit into the reserve failed.
/// With room for one request, no path of three levels could be made.
#[tokio::test]
async fn a_list_longer_than_the_capacity_is_sent_in_parts() {
    let server = server().await;
    let single = soon(builder(&server).max_outstanding(1).connect()).await;
    let mode = CreateMode::Persistent;
    soon(single.unwrap().create_all("/a/b/c", "", mode))
        .await
        .unwrap();

    let client = narrow(&server).await;
    server.faults().stall();
    let create = |number: usize| {
        let path = format!("/{number:02}");
        Encoded::from(Request::Create2(CreateRequest {
            path,
            data: None,
            acl: Some(Acls::Borrowed(Acl::OPEN_UNSAFE)),
            flags: mode.flags(),
        }))
    };
    let list = (0..30).map(create).collect();
    let raw = client.raw();
    let mut list = Box::pin(raw.submit_all_with_backpressure(list));
    assert!(poll_once(list.as_mut()).is_none());
    let metrics = client.metrics();
    assert_eq!((metrics.outstanding(), metrics.waiting), (CAPACITY, 1));
    server.faults().resume();
    let mut zxids = Vec::new();
    for reply in soon(list).await {
        let Ok(Response::Create2(created)) = soon(reply).await else {
            panic!("refused");
        };
        zxids.push(created.stat.czxid);
    }
    assert_eq!(zxids.len(), 30);
    assert!(zxids.is_sorted());

    let mut effects = Vec::new();
    server.faults().stall();
    let hasty = client.with_deadline(Duration::from_millis(50));
    let list = (0..30).map(|_| sync("/").into()).collect();
    for reply in soon(hasty.raw().submit_all_with_backpressure(list)).await {
        let late = soon(reply).await.unwrap_err();
        let ErrorKind::DeadlineExceeded { op, .. } = *late.kind() else {
            panic!("{late:?}");
        };
        effects.push((op, late.effect()));
    }
    // Those that had no capacity by then are never sent.
    let sent = [(OpCode::SYNC, Effect::Unknown); CAPACITY];
    let unsent = [(OpCode::SYNC, Effect::NotApplied); 26];
    assert_eq!(effects, [&sent[..], &unsent].concat());
}

/// Their caller had waited for capacity, and one of them was refused for want of it. With room for a
/// few bytes, no lock could be had: its create and its listing go together.
#[tokio::test]
async fn requests_that_had_capacity_together_are_all_accepted() {
    let server = server().await;
    for narrow in [
        builder(&server).max_outstanding(1),
        builder(&server).max_queued_bytes(10),
    ] {
        let client = soon(narrow.connect()).await.unwrap();
        let read = || Encoded::read(OpCode::EXISTS, &["/a-path-of-many-bytes"]);
        let together = [read(), read(), read(), read()];
        for reply in soon(client.raw().submit_with_backpressure(together)).await {
            let error = soon(reply).await.unwrap_err();
            assert!(error.is_no_node(), "{error}");
        }
        // The reserve is what it was.
        let many = client.raw().submit([(); 9].map(|()| read()));
        let mut refused = 0;
        for reply in many {
            let error = soon(reply).await.unwrap_err();
            let is_it = matches!(error.kind(), ErrorKind::TooManyRequests { .. });
            refused += usize::from(is_it);
        }
        assert!(refused >= 7, "{refused}");
    }
}

#[tokio::test]
async fn closing_the_client_ends_all_waits_for_capacity() {
    let server = server().await;
    let builder = builder(&server).max_outstanding(CAPACITY);
    let builder = builder.session_timeout(Duration::from_millis(600));
    let client = soon(builder.connect()).await.unwrap();
    server.faults().stall();
    let tasks = creates(&client, CAPACITY + 50);
    until!(client.metrics().waiting == 50);
    soon(client.close()).await;
    let mut closed = 0;
    for task in tasks {
        let error = soon(task).await.unwrap().unwrap_err();
        closed += usize::from(error == Error::from(ErrorKind::Closed));
    }
    assert_eq!(closed, 50);
}

#[tokio::test]
async fn the_deadline_of_the_builder_applies_to_every_handle() {
    let server = server().await;
    let builder = builder(&server).deadline(Duration::from_millis(50));
    let client = soon(builder.connect()).await.unwrap();
    server.faults().stall();
    for handle in [client.clone(), client.raw().downgrade()] {
        let error = soon(handle.get_data_and_watch("/")).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::DeadlineExceeded { .. }),
            "{error:?}"
        );
        let transaction = handle
            .transaction()
            .delete("/a", lockkeeper_proto::Version::ANY);
        let error = soon(transaction.commit()).await.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown);
        // Once, it waited for as long as the server did not answer.
        let error = soon(handle.add_auth("digest", "ann:secret")).await;
        let is_late = matches!(
            error.unwrap_err().kind(),
            ErrorKind::DeadlineExceeded { .. }
        );
        assert!(is_late);
    }
    server.faults().resume();
    until!(client.metrics().outstanding() == 0);
    soon(client.without_deadline().sync("/")).await.unwrap();
    assert_eq!(client.snapshot().connections, 1);
    // The client removes the watches whose requests were answered after the deadline.
    until!(server.report().watches == 0);
    // A deadline that no clock can reach counts as no deadline.
    soon(client.with_deadline(Duration::MAX).sync("/"))
        .await
        .unwrap();
}
