//! Many contenders of one client in one queue: they use each other's listings, and exclude each
//! other nevertheless.
//!
//! Each test enters a queue in a known order, and looks who is granted the lock after each release.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use lockkeeper_proto::OpCode;
use lockkeeper_recipes::{Guard, LockError, LockMeter, Loss, Mutex, RwLock, Ticket, break_lock};
use lockkeeper_server::Server;
use lockkeeper_session::Client;

use crate::support::{
    below, client, server, server_and_two,
    waiting::{driven, idle, soon, until},
};

const PATH: &str = "/crowd";
/// Large enough that most contenders make no listing when they enter.
const MANY: usize = 20;

/// Enters the queue this many times. Each contender has a lock object of its own.
async fn enter(client: &Client, count: usize) -> Vec<Ticket> {
    let mut tickets = Vec::new();
    for _ in 0..count {
        let mutex = Mutex::new(client, PATH).unwrap();
        tickets.push(soon(mutex.enqueue()).await.unwrap());
    }
    tickets
}

fn listings(server: &Server) -> u64 {
    server.counters().requests_of(OpCode::GET_CHILDREN)
}

/// Everybody waits at the same time. They are granted the lock in their order, each after the
/// release of the one before.
async fn granted_in_order(client: &Client, tickets: Vec<Ticket>) {
    let numbered = tickets.into_iter().enumerate();
    let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel::<(usize, Guard)>();
    let count = numbered.len();
    for (number, ticket) in numbered {
        let granted = granted.clone();
        tokio::spawn(async move {
            let guard = ticket.wait().await.unwrap();
            granted.send((number, guard)).unwrap();
        });
    }
    for expected in 0..count {
        let (number, guard) = soon(grants.recv()).await.unwrap();
        assert_eq!(number, expected);
        idle(client).await;
        assert!(grants.try_recv().is_err(), "two holders");
        soon(guard.release()).await.unwrap();
    }
}

#[tokio::test]
async fn a_crowd_lists_the_queue_rarely() {
    let server = server().await;
    let client = client(&server).await;
    let tickets = enter(&client, 5 * MANY).await;
    let entering = listings(&server);
    granted_in_order(&client, tickets).await;
    // Without others' listings, each contender makes one when it enters, and all but two make one
    // before their turn.
    assert!(entering <= 30, "{entering}");
    let all = listings(&server);
    assert!(all <= 60, "{all}");
}

#[tokio::test]
async fn contenders_that_enter_together_list_the_queue_rarely() {
    let server = server().await;
    let client = client(&server).await;
    let locks: Vec<_> = (0..5 * MANY)
        .map(|_| {
            let mutex = Mutex::new(&client, PATH).unwrap();
            tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                guard.release().await.unwrap();
            })
        })
        .collect();
    for lock in locks {
        soon(lock).await.unwrap();
    }
    let listings = listings(&server);
    // Without the listings of others it would be one for each, and more.
    assert!(listings <= 60, "{listings}");
}

/// The bytes that each of so many contenders has received when all of them wait. They enter
/// together.
async fn received_by_each(count: usize) -> u64 {
    let (_server, one, other) = server_and_two().await;
    let mutex = |client| Mutex::new(client, PATH).unwrap();
    let _holder = soon(mutex(&other).lock()).await.unwrap();
    let meter = LockMeter::new("crowd");
    let lock = mutex(&one).with_meter(&meter);
    let enters = (0..count).map(|_| lock.enqueue());
    let tickets = soon(futures::future::try_join_all(enters)).await.unwrap();
    let requests = meter.metrics().requests;
    assert!(requests <= count as u64 * 21 / 10, "{requests} requests");
    drop(tickets);
    one.metrics().bytes_received / count as u64
}

#[tokio::test]
async fn a_contender_that_enters_a_large_crowd_receives_no_more_than_in_a_small_one() {
    let (few, many) = (received_by_each(500).await, received_by_each(5_000).await);
    assert!(many <= few * 3 / 2, "{few} and {many} bytes");
}

#[tokio::test]
async fn others_between_the_contenders_of_a_crowd_have_their_turn() {
    let (_server, one, other) = server_and_two().await;
    let mut tickets = enter(&one, MANY).await;
    tickets.extend(enter(&other, 2).await);
    tickets.extend(enter(&one, MANY).await);
    tickets.extend(enter(&other, 1).await);
    tickets.extend(enter(&one, 1).await);
    granted_in_order(&one, tickets).await;
}

/// Each waiter listed the queue when its predecessor of the same client had left, and once more.
#[tokio::test]
async fn contenders_of_several_clients_list_the_queue_rarely() {
    const CLIENTS: usize = 5;
    let server = server().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(client(&server).await);
    }
    let mut tickets = Vec::new();
    for _ in 0..MANY {
        for client in &clients {
            tickets.extend(enter(client, 1).await);
        }
    }
    let entering = listings(&server);
    let exists = || server.counters().requests_of(OpCode::EXISTS);
    let looked = exists();
    granted_in_order(&clients[0], tickets).await;
    let more = listings(&server) - entering;
    assert!(more <= 40, "{more}");
    // One at each of the three strangers between two of a client, when the fourth has left.
    let looks = exists() - looked;
    assert!(looks <= 4 * CLIENTS as u64 * MANY as u64, "{looks} looks");
}

/// To watch the next ones after each event takes one request for two of them.
#[tokio::test]
async fn a_waiter_behind_many_that_leave_together_asks_few_times() {
    let (server, one, other) = server_and_two().await;
    let others = enter(&other, 5 * MANY).await;
    let mut tickets = enter(&one, 2).await;
    let asked = || {
        let asks = [OpCode::GET_CHILDREN, OpCode::EXISTS, OpCode::SET_WATCHES];
        let count = |op| server.counters().requests_of(op);
        asks.into_iter().map(count).sum::<u64>()
    };
    let before = asked();
    drop(others);
    until!(below(&server, PATH) == 2);
    let _guard = soon(tickets.remove(0).wait()).await.unwrap();
    let asked = asked() - before;
    assert!(asked <= 5, "{asked} requests");
}

#[tokio::test]
async fn who_gives_up_does_not_let_the_next_one_pass() {
    let (_server, one, _) = server_and_two().await;
    let mut tickets = enter(&one, MANY).await;
    drop(tickets.drain(MANY / 2..MANY - 2));
    granted_in_order(&one, tickets).await;
}

/// Each waiter whose neighbour gave up listed the queue: all of them together listed as much as
/// their number, squared.
#[tokio::test]
async fn where_many_give_up_the_others_do_not_list_the_queue() {
    let server = server().await;
    let client = client(&server).await;
    let tickets = enter(&client, 5 * MANY).await;
    let entering = listings(&server);
    let mut number = 0;
    let stay = tickets.into_iter().filter(|_| {
        number += 1;
        number % 2 == 1
    });
    granted_in_order(&client, stay.collect()).await;
    let more = listings(&server) - entering;
    assert!(more <= 10, "{more}");
}

/// It hears of that when those of its client ahead have had their turns.
#[tokio::test]
async fn a_waiter_whose_node_is_deleted_ends_and_the_next_one_waits_on() {
    let (_server, one, other) = server_and_two().await;
    let mut tickets = enter(&one, MANY).await;
    let broken = tickets.remove(MANY / 2);
    break_lock(&other, &broken.path()).await.unwrap();
    let behind = tickets.split_off(MANY / 2);
    let broken = tokio::spawn(broken.wait());
    granted_in_order(&one, tickets).await;
    let error = soon(broken).await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Deleted), "{error}");
    granted_in_order(&one, behind).await;
}

/// The users of the waiters ahead do not look, so these still count among the crowd. Who waits for
/// one of them again hears of its deletion at once, and would never rest.
#[tokio::test]
async fn waiters_whose_nodes_are_gone_are_not_waited_for_again_and_again() {
    const MOST: u64 = 10 * MANY as u64;
    let (server, one, other) = server_and_two().await;
    let mut tickets = enter(&one, MANY).await;
    // The one behind them made no listing when it entered.
    let broken: Vec<_> = tickets.drain(MANY / 4..MANY - 7).collect();
    for ticket in &broken {
        break_lock(&other, &ticket.path()).await.unwrap();
    }
    let before = server.counters().requests_of(OpCode::SET_WATCHES);
    let watches = || server.counters().requests_of(OpCode::SET_WATCHES) - before;
    tokio::select! {
        () = granted_in_order(&one, tickets) => {}
        () = async {
            while watches() <= MOST {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        } => panic!("{} requests for watches", watches()),
    }
}

/// Three of the last contenders of a crowd: the holder, and two waiters that made no listing when
/// they entered. And those behind.
async fn late_holder(client: &Client) -> (Guard, Ticket, Ticket, Vec<Ticket>) {
    let mut tickets = enter(client, MANY).await;
    let last = tickets.split_off(MANY - 6);
    granted_in_order(client, tickets).await;
    let mut last = last.into_iter();
    let mut next = || last.next().unwrap();
    let (first, second, third) = (next(), next(), next());
    let holder = soon(first.wait()).await.unwrap();
    (holder, second, third, last.collect())
}

/// The node of a waiter is deleted just before the one ahead of it: it must not take the lock.
#[tokio::test]
async fn a_waiter_without_its_node_is_not_granted_the_lock() {
    let (_server, one, other) = server_and_two().await;
    let (holder, next, behind, mut tickets) = late_holder(&one).await;
    let node = next.path();
    let mut next = pin!(next.wait());
    assert!(driven(&one, next.as_mut()).await.is_none(), "two holders");
    break_lock(&other, &node).await.unwrap();
    soon(holder.release()).await.unwrap();
    let error = soon(next).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Deleted), "{error}");
    tickets.insert(0, behind);
    granted_in_order(&one, tickets).await;
}

#[tokio::test]
async fn a_change_of_the_node_ahead_is_not_its_deletion() {
    let (_server, one, other) = server_and_two().await;
    let tickets = enter(&one, MANY).await;
    for ticket in &tickets {
        let any = lockkeeper_proto::Version::ANY;
        other.set_data(&ticket.path(), "x", any).await.unwrap();
    }
    granted_in_order(&one, tickets).await;
}

/// The holder's data change. The waiter that hears of that leaves before it has listed the queue.
#[tokio::test]
async fn a_change_of_the_holders_node_does_not_let_the_second_waiter_pass() {
    let (_server, one, other) = server_and_two().await;
    let holder = soon(Mutex::new(&other, PATH).unwrap().lock())
        .await
        .unwrap();
    let mut tickets = enter(&one, MANY).await;
    let (first, second) = (tickets.remove(0), tickets.remove(0));
    let any = lockkeeper_proto::Version::ANY;
    other.set_data(&holder.path(), "x", any).await.unwrap();
    one.sync("/").await.unwrap();
    {
        let mut first = pin!(first.wait());
        let polled = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending()));
        assert!(polled.await);
    }
    let mut second = pin!(second.wait());
    assert!(driven(&one, second.as_mut()).await.is_none(), "two holders");
    soon(holder.release()).await.unwrap();
    soon(soon(second).await.unwrap().release()).await.unwrap();
    granted_in_order(&one, tickets).await;
}

/// Cuts the connection of this client, and returns when it has the next one.
async fn reconnect(server: &Server, client: &Client) {
    let before = client.snapshot().connections;
    server.faults().cut(client.snapshot().session_id);
    until!(client.snapshot().connections > before && client.exists("/").await.is_ok());
}

/// Each waiter listed the queue once in its turn, since its watches had been set on another
/// connection: 200 listings of 200 waiters, and 6,072 bytes an acquisition. Without a cut it is 18,
/// and 835 bytes.
#[tokio::test]
async fn a_crowd_lists_the_queue_rarely_also_after_its_connection_was_cut() {
    let (server, one, other) = server_and_two().await;
    let holder = soon(Mutex::new(&other, PATH).unwrap().lock())
        .await
        .unwrap();
    let count = 10 * MANY;
    let tickets = enter(&one, count).await;
    reconnect(&server, &one).await;
    let (entering, received) = (listings(&server), one.metrics().bytes_received);
    soon(holder.release()).await.unwrap();
    granted_in_order(&one, tickets).await;
    let more = listings(&server) - entering;
    assert!(more <= 25, "{more}");
    let received = (one.metrics().bytes_received - received) / count as u64;
    assert!(received <= 1_200, "{received} bytes");
}

/// Every second waiter of a crowd gives up while there is no connection.
#[tokio::test]
async fn where_many_give_up_without_a_connection_the_others_do_not_list_the_queue() {
    let (server, one, _) = server_and_two().await;
    let mut tickets = enter(&one, 10 * MANY).await;
    let entering = listings(&server);
    server.faults().refuse_handshakes(true);
    server.faults().cut(one.snapshot().session_id);
    until!(!one.snapshot().state.is_connected());
    let mut number = 0;
    tickets.retain(|_| {
        number += 1;
        number % 2 == 1
    });
    server.faults().refuse_handshakes(false);
    until!(one.exists("/").await.is_ok());
    granted_in_order(&one, tickets).await;
    let more = listings(&server) - entering;
    assert!(more <= 10, "{more}");
}

/// A reader that was a writer has the number of the writer, and no listing before shows it.
#[tokio::test]
async fn a_writer_that_becomes_a_reader_is_still_ahead() {
    let (_server, one, other) = server_and_two().await;
    let rw = RwLock::new(&other, PATH).unwrap();
    let writer = soon(rw.write()).await.unwrap();
    let mut tickets = enter(&one, MANY).await;
    let mut first = pin!(tickets.remove(0).wait());
    let reader = soon(writer.downgrade()).await.unwrap();
    assert!(
        driven(&one, first.as_mut()).await.is_none(),
        "a mutex beside a reader"
    );
    reader.release().await.unwrap();
    soon(soon(first).await.unwrap().release()).await.unwrap();
    granted_in_order(&one, tickets).await;
}

/// Contenders whose nodes are gone are still in the hands of their users. A try must not take one
/// of them for a contender ahead.
#[tokio::test]
async fn a_try_in_a_crowd_is_granted_a_free_lock() {
    let (_server, one, other) = server_and_two().await;
    let tickets = enter(&one, MANY).await;
    for ticket in &tickets {
        break_lock(&other, &ticket.path()).await.unwrap();
    }
    for _ in 0..MANY {
        let guard = soon(Mutex::new(&one, PATH).unwrap().try_lock()).await;
        soon(guard.unwrap().expect("it is free").release())
            .await
            .unwrap();
    }
}

/// A latch and a mutex at one path do not exclude each other. Whoever comes second is refused, also
/// when it made no listing.
#[tokio::test]
async fn a_member_of_a_crowd_is_refused_beside_another_kind_of_lock() {
    let (_server, one, other) = server_and_two().await;
    let tickets = enter(&one, MANY).await;
    // A node as a latch makes it, in spite of the contenders of the mutex.
    let latch = format!("{PATH}/x-latch-");
    let mode = lockkeeper_proto::CreateMode::EphemeralSequential;
    other.create(&latch, "", mode).await.unwrap();
    let last = enter(&one, 1).await.remove(0);
    granted_in_order(&one, tickets).await;
    let error = soon(last.wait()).await.unwrap_err();
    assert!(matches!(error, LockError::OtherKind { .. }), "{error}");
}

/// CURATOR-495: a callback blocked the event thread, so the client could not reconnect.
/// CURATOR-527: according to the report, a waiter missed an event that arrived before it slept.
/// Here nobody polls the waiter until the event has arrived.
#[tokio::test]
async fn a_waiter_that_is_not_polled_blocks_nobody_and_misses_no_event() {
    let server = server().await;
    // So long that a slow test writes no proof of its lease.
    let client = Client::builder(&server.connect_string()).unwrap();
    let client = client.session_timeout(Duration::from_secs(60));
    let client = client.connect().await.unwrap();
    let mutex = Mutex::new(&client, PATH).unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    idle(&client).await;
    let (node, watches) = (ticket.path(), client.metrics().watches);
    guard.release().await.unwrap();
    until!(client.metrics().watches < watches);
    // The session serves other callers meanwhile.
    assert!(client.exists(&node).await.unwrap().is_some());
    let behind = mutex.enqueue().await.unwrap();
    let before = server.counters().all_requests();
    let guard = soon(ticket.wait()).await.unwrap();
    assert_eq!(server.counters().all_requests(), before);
    guard.release().await.unwrap();
    soon(behind.wait()).await.unwrap().release().await.unwrap();
}

/// Most contenders list nothing when they enter. The free lock was granted a session timeout later: they took the
/// tickets of the session that has expired for contenders ahead.
#[tokio::test]
async fn tickets_of_a_former_session_are_not_ahead() {
    let server = Server::start().await.unwrap();
    let client = client(&server).await;
    let _tickets = enter(&client, 8).await;
    let former = client.snapshot().session_id;
    server.faults().expire(former);
    until!({
        let now = client.snapshot();
        now.state.is_connected() && now.session_id != former
    });
    let mutex = Mutex::new(&client, PATH).unwrap();
    let wait = client.snapshot().session_timeout / 2;
    drop(mutex.try_lock_for(wait).await.unwrap());
}

/// It had no watch of its own: its turn came by the listing of another task, and nobody told it what
/// happened until the wait.
#[tokio::test]
async fn a_ticket_whose_node_was_deleted_after_its_turn_came_grants_nothing() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let mutex = Mutex::new(&client, "/m").unwrap();
    let held = Mutex::new(&other, "/m").unwrap().lock().await.unwrap();
    let (one, two) = (
        mutex.enqueue().await.unwrap(),
        mutex.enqueue().await.unwrap(),
    );
    let mut ticket = mutex.enqueue().await.unwrap();
    drop((one, two));
    held.release().await.unwrap();
    until!(below(&server, "/m") == 1);
    let behind = mutex.enqueue().await.unwrap();
    assert_eq!(soon(ticket.moved()).await.unwrap(), 0);
    drop(behind);
    until!(below(&server, "/m") == 1);
    break_lock(&other, &ticket.path()).await.unwrap();
    let overtaking = Mutex::new(&other, "/m").unwrap().lock().await.unwrap();
    // The event of the deletion arrives before this reply, which shows that the node is gone.
    assert_eq!(client.exists(&ticket.path()).await.unwrap(), None);
    let waited = soon(ticket.wait()).await;
    assert_eq!(waited.unwrap_err().loss(), Some(Loss::Deleted));
    overtaking.release().await.unwrap();
}
