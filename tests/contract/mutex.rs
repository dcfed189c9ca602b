//! Further methods of guards and tickets: positions, transactions, states, data, and nodes of other
//! clients. Most are of a mutex.

use std::{pin::pin, time::Duration};

use lockkeeper::{
    Client, CreateMode, LockError, Mutex, RwLock, Version,
    error::{Loss, NotHandedOver},
    locks::{LockState, inspect},
};

use crate::{
    kinds::Kind,
    rig::{nodes, register, soon, until_free},
    support::{
        Ensemble, on_both_arms,
        waiting::{driven, until},
    },
};

fn lock(client: &Client, path: &str) -> Mutex {
    Mutex::new(client, path).unwrap()
}

on_both_arms! {
    async fn a_ticket_has_a_position_and_a_timeout_says_how_many_were_ahead(ensemble: &Ensemble) {
        let path = ensemble.unique_path("positions");
        let client = ensemble.client().await;
        let mutex = lock(&client, &path);
        let holder = mutex.lock().await.unwrap();
        let mut tickets = Vec::new();
        for number in 1..=3 {
            let ticket = mutex.enqueue().await.unwrap();
            assert_eq!(ticket.position(), number);
            tickets.push(ticket);
        }
        // Without the reply to its listing, it does not know how many are ahead.
        let mut wait = Duration::from_millis(100);
        let late = async |wait| match mutex.try_lock_for(wait).await.unwrap_err() {
            LockError::TimedOut { path: of, waited, ahead, obstacle: None, .. } if of == path => {
                assert_eq!(waited, wait);
                ahead
            }
            error => panic!("{error}"),
        };
        let mut ahead = late(wait).await;
        while ahead.is_none() {
            // The attempt before was given up, and its node may still be there.
            until("it is gone", async || inspect(&client, &path).await.unwrap().len() == 4).await;
            wait *= 2;
            ahead = late(wait).await;
        }
        assert_eq!(ahead, Some(4));
        let nodes: Vec<_> = inspect(&client, &path).await.unwrap().into_iter().map(|it| it.path).collect();
        assert_eq!(nodes[0], holder.path());
        assert_eq!(nodes[1..4], tickets.iter().map(lockkeeper::locks::Ticket::path).collect::<Vec<_>>());
        holder.release().await.unwrap();
        for ticket in tickets {
            soon(ticket.wait()).await.unwrap().release().await.unwrap();
        }
    }

    async fn every_method_of_a_guard_reports_that_its_node_was_deleted(ensemble: &Ensemble) {
        let path = ensemble.unique_path("deleted-holder");
        let client = ensemble.client().await;
        let guard = lock(&client, &path).lock().await.unwrap();
        let data = register(&client, &path).await;
        guard.transaction().set_data(&data, "1", Version::ANY).commit().await.unwrap();
        let lost = tokio::spawn(guard.lost());
        ensemble.client().await.delete(&guard.path(), Version::ANY).await.unwrap();
        assert_eq!(soon(lost).await.unwrap(), Some(Loss::Deleted));
        assert_eq!(guard.state(), LockState::Lost(Loss::Deleted));
        assert!(!guard.is_valid());
        let refused = guard.transaction().set_data(&data, "2", Version::ANY).commit().await;
        assert_eq!(refused.unwrap_err().loss(), Some(Loss::Deleted));
        assert_eq!(client.get_data(&data).await.unwrap().data.unwrap(), "1");
        assert_eq!(guard.release().await.unwrap_err().loss(), Some(Loss::Deleted));
    }

    async fn release_with_writes_releases_and_wakes_the_next_in_one_transaction(ensemble: &Ensemble) {
        let path = ensemble.unique_path("release-with");
        let (client, other) = (ensemble.client().await, ensemble.client().await);
        let mutex = lock(&client, &path);
        let guard = mutex.lock().await.unwrap();
        let data = register(&client, &path).await;
        let ticket = lock(&other, &path).enqueue().await.unwrap();
        let mut waiting = pin!(ticket.wait());
        assert!(driven(&other, waiting.as_mut()).await.is_none());
        let results = guard
            .release_with(|writes| writes.set_data(&data, "1", Version(0)))
            .await
            .unwrap();
        assert_eq!(results.len(), 1);
        soon(waiting).await.unwrap().release().await.unwrap();
        assert_eq!(nodes(Kind::Mutex, &client, &path).await, [""; 0]);
        // An error names the number of the refused write. Nothing is written, and the lock is
        // released all the same.
        let guard = mutex.lock().await.unwrap();
        let error = guard
            .release_with(|writes| writes.set_data(&data, "2", Version(7)))
            .await
            .unwrap_err();
        assert!(error.to_string().starts_with("transaction refused: operation 0: bad version (-103) ("), "{error}");
        until_free(Kind::Mutex, &client, &path).await;
        assert_eq!(client.get_data(&data).await.unwrap().data.unwrap(), "1");
    }

    async fn a_lock_is_handed_over_past_its_waiters_and_once(ensemble: &Ensemble) {
        let path = ensemble.unique_path("hand-over");
        let (client, other) = (ensemble.client().await, ensemble.client().await);
        let guard = lock(&client, &path).lock().await.unwrap();
        let (token, data) = (guard.fencing_token(), register(&other, &path).await);
        let ticket = lock(&other, &path).enqueue().await.unwrap();
        let mut waiting = pin!(ticket.wait());
        assert!(driven(&other, waiting.as_mut()).await.is_none());
        let handed = guard.hand_over().await.unwrap();
        let settings = || Client::builder(&ensemble.servers()).unwrap();
        let guard = handed.clone().take_over(settings()).await.unwrap();
        assert!(guard.is_valid() && guard.fencing_token() == token);
        soon(async {
            // Both take the session from each other.
            loop {
                match handed.clone().take_over(settings()).await.unwrap_err() {
                    LockError::NotHandedOver { reason: NotHandedOver::Spent, .. } => break,
                    error => assert!(error.is_transient(), "{error}"),
                }
            }
            while let Err(error) = guard.confirm().await {
                assert_eq!(error.loss(), None, "{error}");
            }
        })
        .await;
        guard.transaction().set_data(&data, "1", Version::ANY).commit().await.unwrap();
        assert!(driven(&other, waiting.as_mut()).await.is_none());
        guard.release().await.unwrap();
        assert!(soon(waiting).await.unwrap().fencing_token() > token);
    }

    async fn the_data_of_a_node_identify_the_contender(ensemble: &Ensemble) {
        let path = ensemble.unique_path("data");
        let client = ensemble.client().await;
        let mutex = lock(&client, &path).with_data("host-1 pid 7");
        let guard = mutex.lock().await.unwrap();
        let node = client.get_data(&guard.path()).await.unwrap();
        assert_eq!(node.data.unwrap(), "host-1 pid 7");
        assert_eq!(node.stat.ephemeral_owner, client.snapshot().session_id);
        assert_eq!(u64::try_from(node.stat.czxid.0).unwrap(), guard.fencing_token().get());
    }

    async fn a_contender_waits_for_nodes_of_other_implementations(ensemble: &Ensemble) {
        for name in [
            "_c_0f9e8d7c6b5a49388271605f4e3d2c1b-lock-",
            "0f9e8d7c6b5a49388271605f4e3d2c1b__lock__",
            "0f9e8d7c6b5a49388271605f4e3d2c1b__rlock__",
        ] {
            let path = ensemble.unique_path("others");
            let client = ensemble.client().await;
            client.create(&path, "", CreateMode::Persistent).await.unwrap();
            let node = format!("{path}/{name}");
            let theirs = client.create(&node, "", CreateMode::EphemeralSequential).await.unwrap();
            let mutex = lock(&client, &path);
            assert!(mutex.try_lock().await.unwrap().is_none());
            let ticket = mutex.enqueue().await.unwrap();
            assert_eq!(ticket.position(), 1);
            client.delete(&theirs.path, Version::ANY).await.unwrap();
            let guard = soon(ticket.wait()).await.unwrap();
            guard.release().await.unwrap();
        }
    }

    /// An earlier version compared the reader's node with the writer's. It reported a loss, and
    /// left the node behind until the end of the session.
    async fn a_downgraded_reader_reads_its_own_data(ensemble: &Ensemble) {
        let path = ensemble.unique_path("downgraded");
        let (one, two) = (ensemble.client().await, ensemble.client().await);
        let lock = RwLock::new(&one, &path).unwrap().with_data("mine");
        let writer = lock.write().await.unwrap();
        let token = writer.fencing_token();
        let reader = writer.downgrade().await.unwrap();
        assert_eq!(reader.data().await.unwrap().as_deref(), Some(&b"mine"[..]));
        assert_eq!((reader.state(), reader.fencing_token()), (LockState::Held, token));
        reader.release().await.unwrap();
        let next = RwLock::new(&two, &path).unwrap();
        soon(next.write()).await.unwrap().release().await.unwrap();
    }
}
