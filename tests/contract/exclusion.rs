//! How many contenders hold the lock at the same time, and in which order they get it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use lockkeeper::{Client, Version};

use crate::{
    kinds::Kind,
    rig::{register, rival, soon, until_free, until_quiet, until_waiting},
    support::Ensemble,
};

/// Many tasks of many sessions contend. There are never more holders than allowed, the tokens grow,
/// and nothing is left.
pub(crate) async fn it_never_has_more_holders_than_allowed(kind: Kind, ensemble: &Ensemble) {
    const CLIENTS: usize = 4;
    const TASKS: usize = 3;
    contend(kind, ensemble, CLIENTS, TASKS).await;
}

/// Many tasks of one session contend.
pub(crate) async fn tasks_of_one_session_take_turns(kind: Kind, ensemble: &Ensemble) {
    contend(kind, ensemble, 1, 12).await;
}

async fn contend(kind: Kind, ensemble: &Ensemble, clients: usize, tasks: usize) {
    const ROUNDS: usize = 6;
    let path = ensemble.unique_path("exclusion");
    let counter = register(&ensemble.client().await, &path).await;
    let (holders, tokens) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let (mut sessions, mut contenders) = (Vec::new(), Vec::new());
    for _ in 0..clients {
        let client = ensemble.client().await;
        for _ in 0..tasks {
            let (lock, client) = (kind.at(&client, &path), client.clone());
            let (holders, counter) = (holders.clone(), counter.clone());
            let tokens: Arc<Mutex<Vec<_>>> = Arc::clone(&tokens);
            contenders.push(tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let held = lock.lock().await.unwrap();
                    let others = holders.fetch_add(1, Ordering::SeqCst);
                    assert!(others < kind.holders(), "{} hold it", others + 1);
                    tokens.lock().unwrap().push(held.token());
                    if kind.holders() == 1 {
                        increment(&client, &counter).await;
                    } else {
                        tokio::task::yield_now().await;
                    }
                    holders.fetch_sub(1, Ordering::SeqCst);
                    held.release().await.unwrap();
                }
            }));
        }
        sessions.push(client);
    }
    for contender in contenders {
        contender.await.unwrap();
    }
    let mut tokens = std::mem::take(&mut *tokens.lock().unwrap());
    assert_eq!(tokens.len(), clients * tasks * ROUNDS);
    if kind.holders() == 1 {
        assert!(
            tokens.is_sorted(),
            "tokens do not grow from holder to holder"
        );
        let total = sessions[0].get_data(&counter).await.unwrap().data.unwrap();
        assert_eq!(
            total,
            tokens.len().to_string(),
            "two wrote at the same time"
        );
    }
    tokens.sort_unstable();
    assert!(
        tokens.windows(2).all(|pair| pair[0] < pair[1]),
        "a token was used twice"
    );
    until_free(kind, &sessions[0], &path).await;
    for client in &sessions {
        until_quiet(ensemble, client).await;
    }
}

/// Reads the counter, lets other tasks run, and writes the next value. The total is right only if
/// no other holder does so at the same time.
async fn increment(client: &Client, counter: &str) {
    let text = client.get_data(counter).await.unwrap().data.unwrap();
    let value: u32 = std::str::from_utf8(&text).unwrap().parse().unwrap();
    tokio::task::yield_now().await;
    let next = (value + 1).to_string();
    client.set_data(counter, next, Version::ANY).await.unwrap();
}

/// Contenders that may share the lock hold it together, in one session and in several.
pub(crate) async fn it_can_have_as_many_holders_as_allowed(kind: Kind, ensemble: &Ensemble) {
    let path = ensemble.unique_path("sharing");
    let (one, two) = (ensemble.client().await, ensemble.client().await);
    let mut held = Vec::new();
    for index in 0..kind.holders().min(6) {
        let client = if index % 2 == 0 { &one } else { &two };
        held.push(soon(kind.at(client, &path).lock()).await.unwrap());
    }
    for held in held {
        held.release().await.unwrap();
    }
    until_free(kind, &one, &path).await;
}

/// The lock goes to the contender that came first, also among contenders of several sessions.
pub(crate) async fn first_come_first_served(kind: Kind, ensemble: &Ensemble) {
    const WAITERS: usize = 6;
    let path = ensemble.unique_path("fairness");
    let looker = ensemble.client().await;
    let (one, two) = (ensemble.client().await, ensemble.client().await);
    let rival = rival(kind, &looker, &path).await;
    let granted: Arc<Mutex<Vec<_>>> = Arc::default();
    let mut waiters = Vec::new();
    for number in 0..WAITERS {
        let client = if number % 2 == 0 { &one } else { &two };
        let (lock, granted) = (kind.at(client, &path), granted.clone());
        waiters.push(tokio::spawn(async move {
            let held = lock.lock().await.unwrap();
            granted.lock().unwrap().push((held.token(), number));
            held.release().await.unwrap();
        }));
        until_waiting(kind, &looker, &path, number + 1).await;
    }
    drop(rival);
    for waiter in waiters {
        soon(waiter).await.unwrap();
    }
    let mut granted = std::mem::take(&mut *granted.lock().unwrap());
    if kind.holders() > 1 {
        // Several waiters are granted a permit at the same time, and may record this in any order.
        // Their permits were created in the order of the queue.
        granted.sort_unstable();
    }
    let order: Vec<_> = granted.into_iter().map(|(_, number)| number).collect();
    assert!(order.into_iter().eq(0..WAITERS));
}
