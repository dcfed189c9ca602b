//! Deletes a node whose owner has gone, or whose hold has reached its limit. It runs in the client's
//! task, without the caller's deadline, and outlives the caller.
//!
//! Not here: what to send (`life`), sending it (`requests`).

use std::{future::Future, mem};

use lockkeeper_session::AsRaw;

use super::{
    Node, Pending,
    identity::NodeIdentity,
    life::{Answer, Ask, Failure, Next, NodeLife},
};
use crate::error::LockError;

/// The rest goes on in the client's task.
impl Drop for Node {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        if self.abandon() {
            client.raw().run_in_background(self.rest().clean_up());
        }
    }
}

impl Node {
    /// Deletes the node on behalf of the limit of its hold, and goes on until it is gone. The
    /// caller has made sure that nobody else deletes it.
    pub(crate) fn delete_for_limit(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let node = self.node()?.clone();
        let mut life = NodeLife::live(node, self.identity.is_fixed());
        life.release();
        Some(Self::without_client(self.identity.clone(), life).clean_up())
    }

    /// A node of an attempt that was given up is there after all: deletes it, if it is ours.
    pub(super) fn found_late(identity: NodeIdentity, name: &str) {
        let (client, mut life) = (identity.client().clone(), NodeLife::new(false));
        for answer in [
            Answer::Created(Err(Failure::Unknown)),
            Answer::Found(Ok(Some(name.into()))),
        ] {
            // Neither is an error.
            let _ = life.answered(answer);
            life.abandon();
        }
        let mut node = Self::without_client(identity, life);
        node.counts_clean_up = true;
        client.raw().run_in_background(node.clean_up());
    }

    /// The owner has gone. Sends a delete at once, in the order of the session: a create after it
    /// finds the queue free. Returns whether there is something left to do.
    fn abandon(&mut self) -> bool {
        self.counts_clean_up = !self.life.is_live();
        self.life.abandon();
        self.send_delete_now();
        self.life.end().is_none()
    }

    /// Takes from the reserve of request capacity, since a `Drop` cannot wait.
    fn send_delete_now(&mut self) {
        let retry = self.retry.as_ref();
        if retry.is_some_and(|retry| retry.backoff.is_due()) {
            return;
        }
        if let Next::Send(Ask::Delete(node)) = self.life.next() {
            let raw = self.identity.raw(Some(node.tag.session_id));
            let [reply] = raw.submit([self.identity.directory.delete_request(&node.name)]);
            self.pending = Pending::Reply(reply);
            self.life.sent();
        }
    }

    /// What is left to do, without the owner: the watches on other nodes go with it, and so does the
    /// lease.
    fn rest(&mut self) -> Self {
        let watches = self.watches.take();
        if let Some(watches) = &watches {
            watches.retain(|name| name == self.name());
        }
        let settled = NodeLife::new(self.identity.is_fixed());
        let life = mem::replace(&mut self.life, settled);
        let mut rest = Self::without_client(self.identity.clone(), life);
        rest.pending = mem::take(&mut self.pending);
        rest.retry = self.retry.take();
        rest.counts_clean_up = self.counts_clean_up;
        rest.watches = watches;
        rest
    }

    /// Goes on until nothing is left of the node.
    async fn clean_up(mut self) {
        while let Err(error) = self.settle().await {
            self.note_stuck(&error);
        }
    }

    /// A server refused to delete the node, or to say where it is. The client repeats the request
    /// while the session lives.
    pub(super) fn note_stuck(&mut self, error: &LockError) {
        if mem::replace(&mut self.retry().is_stuck, true) {
            return;
        }
        let (directory, name) = (self.directory(), self.name());
        directory.count(|it| it.not_deleted += 1);
        let path: &str = &directory.parent;
        tracing::warn!(path, name, %error, "node not deleted, trying again while the session lives");
    }
}
