//! Creating a node together with the nodes above it.
//!
//! Not here: creating one node (`nodes`), the directory of a lock, which is made of containers
//! behind a create that found no parent (`recipes/src/node`).

use bytes::Bytes;
use lockkeeper_proto::{CreateMode, Request, Response, path};

use crate::{
    Created, Error,
    client::raw::AsRaw,
    client::{Client, operations::nodes::create_request, operations::reply::record_of},
};

/// How often the missing parents are created. More than one attempt is needed only if another
/// client deletes parents at the same time.
const ATTEMPTS: usize = 10;

impl Client {
    /// Like [`create`](Self::create). It also creates the nodes above the new one that are missing,
    /// those of the chroot included.
    ///
    /// The new parents are persistent, have empty data, and the client's
    /// [default ACL](crate::Builder::default_acl). Parents that exist stay as they are.
    ///
    /// If the parent exists, this is one request. Otherwise one more round trip follows, with the
    /// creation of all parents and of the node, however many levels are missing. Each is a write
    /// for the servers, also for a level that exists. It does not matter if other clients create
    /// the same parents meanwhile. If another client deletes one in between, the method tries
    /// again, at most ten times.
    ///
    /// # Errors
    /// Same as [`create`](Self::create): "node exists" when the node itself exists. When a parent
    /// cannot be created, the error is about the parent and has its path. The parents above it
    /// stay.
    ///
    /// A [deadline](Self::with_deadline) counts for each round trip, and for each request that waits
    /// for capacity.
    ///
    /// # Cancel safety
    /// Once the future was polled, parents and the node may be created even if the future is
    /// dropped.
    ///
    /// # Ordering
    /// Same as [`create`](Self::create), from the last round trip on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto as lockkeeper;
    /// use lockkeeper::CreateMode;
    ///
    /// let mode = CreateMode::Persistent;
    /// client.create_all("/apps/shop/colour", "green", mode).await?;
    /// assert_eq!(client.get_children("/apps").await?, ["shop"]);
    /// let again = client.create_all("/apps/shop/colour", "blue", mode).await;
    /// assert!(again.unwrap_err().is_node_exists());
    /// # Ok(()) }
    /// ```
    pub async fn create_all(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        mode: CreateMode,
    ) -> Result<Created, Error> {
        let acl = self.shared.default_acl.clone();
        let node = self.request_to_create(path, data.into(), mode, acl)?;
        let mut created = self.ask(path, node.clone()).await;
        for _ in 0..ATTEMPTS {
            match created {
                Err(error) if error.is_no_node() => {}
                created => return self.created(created?),
            }
            created = self.create_below(path, &node).await?;
        }
        self.created(created?)
    }

    /// Makes sure that a persistent node exists at this path: creates the node, with empty data, and
    /// those above it, as far as they are missing. A node that exists stays as it is, of whatever
    /// kind.
    ///
    /// If the node exists, this is one read, which needs no right to create anything. Otherwise
    /// [`create_all`](Self::create_all) follows, and it does not matter if another client creates
    /// the same nodes meanwhile.
    ///
    /// # Errors
    /// Same as [`exists`](Self::exists), and as [`create_all`](Self::create_all), without "node
    /// exists".
    ///
    /// # Cancel safety
    /// Once the future was polled, nodes may be created even if the future is dropped.
    ///
    /// # Ordering
    /// Same as [`exists`](Self::exists): if another client has just deleted the node, the method
    /// may still find it on a server that lags. Call [`sync`](Self::sync) first if that matters.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// client.ensure_path("/apps/shop").await?;
    /// client.ensure_path("/apps/shop").await?; // it exists already
    /// assert_eq!(client.get_children("/apps").await?, ["shop"]);
    /// # Ok(()) }
    /// ```
    pub async fn ensure_path(&self, path: &str) -> Result<(), Error> {
        if self.exists(path).await?.is_some() {
            return Ok(());
        }
        match self.create_all(path, "", CreateMode::Persistent).await {
            Err(error) if !error.is_node_exists() => Err(error),
            _ => Ok(()),
        }
    }

    /// Creates all parents and the node, with one round trip. Fails when a parent cannot
    /// be created. The result is that of the node.
    async fn create_below(
        &self,
        path: &str,
        node: &Request,
    ) -> Result<Result<Response, Error>, Error> {
        let above = node.path().and_then(|path| path.rsplit_once('/'));
        let parent = above.map_or("", |(parent, _)| parent);
        let mut levels: Vec<_> = path::levels(parent)
            .filter(|level| !level.is_empty())
            .collect();
        levels.reverse();
        let make = |level: &&str| {
            let (mode, acl) = (CreateMode::Persistent, self.shared.default_acl.clone());
            create_request((*level).to_owned(), Bytes::new(), mode, acl)
        };
        let requests = levels.iter().map(make).chain([node.clone()]);
        let requests = requests.map(Into::into).collect();
        let mut replies = self.raw().submit_all_with_backpressure(requests).await;
        let Some(last) = replies.pop() else {
            return Err(crate::client::shared::driver_gone());
        };
        let mut results = Vec::with_capacity(replies.len());
        for (level, reply) in levels.into_iter().zip(replies) {
            results.push((level, reply.await));
        }
        let created = last.await.map_err(|error| error.on(path));
        if !created.as_ref().is_err_and(Error::is_no_node) {
            return Ok(created);
        }
        // The lowest parent is missing. If a level above it is missing, too, the reason is there.
        for (level, result) in results.into_iter().rev() {
            match result {
                Err(error) if error.is_no_node() => {}
                Err(error) if !error.is_node_exists() => {
                    return Err(error.on(&self.chroot().client_path(level.to_owned())));
                }
                // It was there: another client has deleted it since.
                _ => break,
            }
        }
        Ok(created)
    }

    /// The result of a successful create.
    pub(super) fn created(&self, reply: Response) -> Result<Created, Error> {
        let created = record_of!(reply, Create2 | CreateContainer | CreateTtl)?;
        Ok(Created {
            path: self.chroot().client_path(created.path),
            stat: created.stat,
        })
    }
}
