//! Long waits: whether the node that a contender waits for is still there, asked once a session
//! timeout.
//!
//! An event does not always come. Servers withhold the events of a node from clients that may not
//! read it (CVE-2024-23944), a relay may lose one, and a server may keep a node whose session is
//! over. So a contender that has waited for a session timeout asks the leader, by a transaction that
//! only checks the node. Its answer comes after this server has applied what was committed before.
//! A server that goes on showing a node that its leader does not have is wrong, and the client
//! leaves it.
//!
//! Of the contenders of a client in a queue only the first one asks; one that nobody polls any more does
//! not count. If it learns that events are missing, the others look at the queue as well, when they
//! have waited for as long.
//!
//! The first one also looks for nodes of this client that nobody knows (`node::late`).
//!
//! Not here: what a contender does then (`waiter`, `kinds`).

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use lockkeeper_proto::{ErrorCode, path};
use lockkeeper_session::{AsRaw, Client, Sleep, sync::os::lock};

use crate::{
    common::Common,
    error::Obstacle,
    node::{directory::Directory, late::LateCreates},
};

/// What the contenders of a client know that have waited for long in one queue.
#[derive(Debug, Default)]
struct Queue {
    /// The numbers of the contenders, in any order, and when each last wanted to ask.
    waiting: Vec<(u64, Instant)>,
    /// How often an event was missing.
    missed: u64,
    obstacle: Option<Obstacle>,
}

impl Queue {
    /// A contender wants to ask. Returns whether it is the first one that does, once a session
    /// timeout.
    fn is_first(&mut self, number: u64, now: Instant, session_timeout: Duration) -> bool {
        let mut is_first = true;
        for (other, wanted) in &mut self.waiting {
            if *other == number {
                *wanted = now;
            }
            let is_polled = now.saturating_duration_since(*wanted) < 2 * session_timeout;
            is_first &= *other >= number || !is_polled;
        }
        is_first
    }

    /// The obstacle goes, if it is a node for whose name this holds.
    fn not_in_the_way(&mut self, are_gone: impl Fn(&str) -> bool) {
        if let Some(Obstacle::Unreadable { node } | Obstacle::Stale { node, .. }) = &self.obstacle {
            if are_gone(path::name(node)) {
                self.obstacle = None;
            }
        }
    }
}

/// The name under which they find it.
const LONG_WAITS: &str = "long waits";

/// What is in the way of the contenders for the lock at this path, as far as it is known.
pub(crate) fn obstacle(client: &Client, server_path: &str) -> Option<Obstacle> {
    let queues = Common::of_lock::<Mutex<Queue>>(client, LONG_WAITS, server_path);
    queues.iter().find_map(|queue| lock(queue).obstacle.clone())
}

/// How a contender waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// With this number in a queue, for the node just ahead.
    Numbered(i32),
    /// For a node, without a number.
    Watching,
    /// For a change of the directory, without a number: whether it may read the nodes is nothing to
    /// it.
    Counting,
}

/// The stall check of one contender that waits.
#[derive(Debug, Default)]
pub(crate) struct StallCheck {
    /// In a box: futures have several copies of a contender.
    pause: Option<Box<Sleep>>,
    /// In a box, as it is rare.
    asker: Option<Box<Asker>>,
}

/// One of the contenders of its client that have waited for long.
#[derive(Debug)]
struct Asker {
    queue: Arc<Mutex<Queue>>,
    directory: Arc<Directory>,
    number: u64,
    /// How many missing events this contender knows of.
    missed: u64,
    /// The node that is gone, as the leader says, until a listing was made.
    gone: Option<String>,
}

impl Asker {
    fn queue<R>(&self, act: impl FnOnce(&mut Queue) -> R) -> R {
        act(&mut lock(&self.queue))
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.queue(|queue| queue.waiting.retain(|it| it.0 != self.number));
    }
}

impl StallCheck {
    /// Waits until there is a reason to look at the queue again, although no event has come.
    /// `ahead` are the names of the nodes that the contender waits for.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub(crate) async fn ends(&mut self, directory: &Arc<Directory>, role: Role, ahead: &[&str]) {
        loop {
            self.pause(&directory.client).await;
            // In a box, as it is rare.
            if Box::pin(self.asks(directory, role, ahead)).await {
                return;
            }
        }
    }

    /// Waits until it is time to ask.
    ///
    /// # Cancel safety
    /// The rest of the pause comes with the next call.
    pub(crate) async fn pause(&mut self, client: &Client) {
        let pause = self.pause.get_or_insert_with(|| {
            let session_timeout = client.snapshot().session_timeout;
            Box::new(client.raw().sleep(session_timeout))
        });
        pause.await;
    }

    /// Asks now. Returns whether there is a reason to look at the queue again.
    ///
    /// # Cancel safety
    /// The future may be dropped. Then it is still time to ask.
    pub(crate) async fn asks(
        &mut self,
        directory: &Arc<Directory>,
        role: Role,
        ahead: &[&str],
    ) -> bool {
        let has_reason = self.has_reason(directory, role, ahead).await;
        self.pause = None;
        has_reason
    }

    async fn has_reason(&mut self, directory: &Arc<Directory>, role: Role, ahead: &[&str]) -> bool {
        let client = &directory.client;
        let (now, session_timeout) = (client.now(), client.snapshot().session_timeout);
        let asker = self.asker.get_or_insert_with(|| {
            let number = match role {
                Role::Numbered(number) => u64::from(number.unsigned_abs()),
                Role::Watching | Role::Counting => client.raw().random_u64(),
            };
            let queue = Common::at(client, LONG_WAITS, &directory.server_path);
            let mut asker = Asker {
                queue,
                directory: directory.clone(),
                number,
                missed: 0,
                gone: None,
            };
            asker.missed = asker.queue(|queue| {
                queue.waiting.push((number, now));
                queue.missed
            });
            Box::new(asker)
        });
        let (missed, is_first) = asker.queue(|queue| {
            let is_first = queue.is_first(asker.number, now, session_timeout);
            (queue.missed, is_first)
        });
        if missed != asker.missed {
            asker.missed = missed;
            return true;
        }
        if !is_first {
            return false;
        }
        LateCreates::look(directory).await;
        for node in ahead {
            let path = path::join(&directory.parent, node);
            match directory.check(node, None).await {
                Err(error) => match error.code() {
                    Some(ErrorCode::NO_NODE) => {
                        asker.gone = Some((*node).to_owned());
                        asker.missed = asker.queue(|queue| {
                            queue.missed += 1;
                            queue.obstacle = None;
                            queue.missed
                        });
                        if role == Role::Watching {
                            let shown = directory.stat(node).await;
                            self.listed(|_| matches!(shown, Ok(Some(_))));
                        }
                        return true;
                    }
                    // It is there, and we may not read it.
                    Some(ErrorCode::NO_AUTH) if role != Role::Counting => {
                        asker.in_the_way(&Obstacle::Unreadable { node: path });
                    }
                    // No server answers: the next question comes in its time.
                    _ => {}
                },
                Ok(()) => asker.queue(|queue| queue.obstacle = None),
            }
        }
        false
    }

    /// This node was deleted, so it is no longer in the way.
    pub(crate) fn gone(&self, name: &str) {
        if let Some(asker) = &self.asker {
            asker.queue(|queue| queue.not_in_the_way(|node| node == name));
        }
    }

    /// The queue was listed. If the server still shows the node that is gone, the client leaves it.
    pub(crate) fn listed(&mut self, shows: impl Fn(&str) -> bool) {
        let Some(asker) = &mut self.asker else {
            return;
        };
        asker.queue(|queue| queue.not_in_the_way(|node| !shows(node)));
        let Some(gone) = asker.gone.take().filter(|gone| shows(gone)) else {
            return;
        };
        let client = &asker.directory.client;
        let server = client.snapshot().server;
        client.raw().leave_server();
        let node = path::join(&asker.directory.parent, &gone);
        asker.in_the_way(&Obstacle::Stale { node, server });
    }
}

impl Asker {
    /// Something is in the way. It is logged once.
    fn in_the_way(&self, obstacle: &Obstacle) {
        let is_new = self.queue(|queue| {
            let former = queue.obstacle.replace(obstacle.clone());
            former.as_ref() != Some(obstacle)
        });
        if is_new {
            let (path, kind) = self.directory.names();
            tracing::warn!(path, kind, %obstacle, "waiting for long");
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_proto::OpCode;
    use lockkeeper_server::{Server, When};

    use super::*;
    use crate::order::name::Kind;

    /// It was named until a contender asked again, up to a session timeout later.
    #[tokio::test]
    async fn what_is_gone_is_in_nobodys_way() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let directory = Directory::new(&client, "/lock", None, Kind::Mutex).unwrap();
        let (mut stall, role) = (StallCheck::default(), Role::Numbered(7));
        let ahead = "x-lock-0000000001";
        for is_listed in [true, false] {
            let refused = When::op(OpCode::MULTI);
            server.faults().refuse(refused, ErrorCode::NO_AUTH);
            assert!(!stall.asks(&directory, role, &[ahead]).await);
            stall.gone("x-lock-0000000002");
            stall.listed(|_| true);
            assert!(obstacle(&client, "/lock").is_some());
            if is_listed {
                stall.listed(|node| node != ahead);
            } else {
                stall.gone(ahead);
            }
            assert_eq!(obstacle(&client, "/lock"), None);
        }
    }
}
