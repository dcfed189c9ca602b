//! Who leads, for programs that only want to know.
//!
//! Not here: taking part (`election`). An observer has no node, so no contender knows of it.

use std::fmt;

use bytes::Bytes;
use lockkeeper_proto::path;
use lockkeeper_session::{Client, Error, Watcher};

use crate::{
    error::LockError,
    guard::FencingToken,
    order::{name::Kind, rank},
};

/// The leader of an election, as its node shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The token of the leadership. A later leader has a higher one.
    pub token: FencingToken,
    /// What the leader says of itself: see [`Election::with_data`](crate::Election::with_data).
    /// `None` for null data. Curator's contenders write their ids.
    pub data: Option<Bytes>,
}

/// Sees who leads, without taking part. Made by [`Election::observe`](crate::Election::observe).
#[must_use = "an observer sees nothing until it is asked"]
pub struct Observer {
    client: Client,
    path: String,
    /// What the caller knows, once there was an answer.
    known: Option<Leader>,
    has_answered: bool,
    /// Ends when there may be something new.
    watch: Option<Watcher>,
}

impl Observer {
    pub(super) fn new(client: &Client, path: &str) -> Self {
        Self {
            client: client.clone(),
            path: path.to_owned(),
            known: None,
            has_answered: false,
            watch: None,
        }
    }

    /// The leader, or `None` while there is none. The first call returns at once, each later one
    /// when the answer is another than the last: another leader, or other data.
    ///
    /// The answer may be out of date when it arrives, and leaders that follow each other quickly may
    /// be left out. Only the leader itself knows for how long it leads.
    ///
    /// # Errors
    /// [`LockError::Session`] when a request fails, and when this client may not read the leader's
    /// node. The next call looks again.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again: no answer is lost.
    ///
    /// # Cost
    /// A listing, a read and a watch on one node for each leader. The end of a leader is told to all
    /// observers.
    pub async fn next(&mut self) -> Result<Option<Leader>, LockError> {
        loop {
            if let Some(watch) = &mut self.watch {
                // An error means that the watch has ended with its session: time to look again, too.
                let _ = watch.await;
                self.watch = None;
            }
            let (leader, watch) = self.look().await?;
            self.watch = Some(watch);
            if !self.has_answered || self.known != leader {
                self.has_answered = true;
                self.known.clone_from(&leader);
                return Ok(leader);
            }
        }
    }

    /// The present leader, and what ends when there may be another.
    async fn look(&self) -> Result<(Option<Leader>, Watcher), Error> {
        let first = |names: &[String]| {
            let names = names.iter().map(String::as_str);
            rank::in_order(Kind::Latch, names).into_iter().next()
        };
        loop {
            let names = match self.client.get_children(&self.path).await {
                Err(error) if error.is_no_node() => Vec::new(),
                names => names?,
            };
            if let Some(leader) = first(&names) {
                match self.read(&leader).await {
                    Err(error) if error.is_no_node() => continue,
                    read => return read,
                }
            }
            match self.client.get_children_and_watch(&self.path).await {
                Ok((names, watch)) if first(&names).is_none() => return Ok((None, watch)),
                Err(error) if error.is_no_node() => {
                    let (stat, watch) = self.client.exists_and_watch(&self.path).await?;
                    if stat.is_none() {
                        return Ok((None, watch));
                    }
                }
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
    }

    /// Reads and watches the leader's node. All observers and the next contender watch this node
    /// alone, so a contender that comes or goes elsewhere costs them nothing.
    async fn read(&self, name: &str) -> Result<(Option<Leader>, Watcher), Error> {
        let path = path::join(&self.path, name);
        let (node, watch) = self.client.get_data_and_watch(&path).await?;
        let token = FencingToken::of(node.stat.czxid);
        let data = node.data;
        Ok((Some(Leader { token, data }), watch))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("path", &self.path)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}
