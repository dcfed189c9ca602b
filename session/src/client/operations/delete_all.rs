//! Deleting a node together with everything below it.
//!
//! Not here: deleting one node (`nodes`).

use lockkeeper_proto::{ErrorCode, OpCode, Version, path};

use crate::{
    Effect, Error, ErrorKind,
    client::{Client, Transaction, raw::AsRaw},
    machine::Encoded,
};

/// How often the tree is listed and deleted. More than once only if other clients create nodes in
/// it meanwhile.
const ROUNDS: usize = 10;

/// The most listings under way at once, and the most nodes of one transaction: while servers apply
/// a transaction, they apply nothing else.
const AT_ONCE: usize = 256;

/// The bytes of a delete in a transaction beside the path of the node: the header of the operation
/// (9), the length of the path (4), and the version (4). The request has as many bytes beside its
/// operations.
const BESIDE_PATH: usize = 17;

impl Client {
    /// Deletes a node and everything below it, whatever the versions. Ephemeral nodes go too, those
    /// of locks included: their holders are told of the loss.
    ///
    /// Nodes that other clients delete meanwhile do not matter. If they create some, the method
    /// lists the tree again, at most ten times.
    ///
    /// The client lists the tree, level by level, and deletes it in transactions, children first.
    /// Each deletes at most 256 nodes, and is at most as long as
    /// [`Builder::max_request`](crate::Builder::max_request) says. So a small tree goes as a whole,
    /// and of a large one other clients see parts for a while. Where the servers refuse a
    /// transaction because of one of its nodes, the client deletes the nodes one by one.
    ///
    /// # Errors
    /// - Same as [`delete`](Self::delete) when the node itself cannot be deleted: "no node", "not
    ///   authorized", "bad arguments" for `/`. Nothing was deleted.
    /// - [`Refused`](crate::ErrorKind::Refused) with "not authorized" when a node cannot be listed
    ///   (needs READ). Nothing was deleted, unless another client has created it meanwhile.
    /// - [`NotAllDeleted`](crate::ErrorKind::NotAllDeleted) with the nodes that were left, and why.
    ///   All others that can go were deleted.
    ///
    /// Also the errors of every request, see [`Client`]: a part of the tree may be deleted then, unless
    /// the [`effect`](Error::effect) says that nothing was. Call the method again; "no node" says that
    /// nothing was left.
    ///
    /// A [deadline](Self::with_deadline) counts for each round trip.
    ///
    /// # Cancel safety
    /// Once the future was polled, nodes may be deleted even if the future is dropped: some of
    /// them, always with everything below them.
    ///
    /// # Ordering
    /// Same as [`delete`](Self::delete), for each of the requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// client.ensure_path("/apps/shop/colours/green").await?;
    /// client.delete_all("/apps").await?;
    /// assert_eq!(client.exists("/apps").await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn delete_all(&self, path: &str) -> Result<(), Error> {
        // Whoever may not delete the node itself deletes nothing below it.
        match self.delete(path, Version::ANY).await {
            Err(error) if is_not_empty(&error) => {}
            deleted => return deleted,
        }
        let mut has_begun = false;
        let deleted = self.delete_tree(path, &mut has_begun).await;
        deleted.map_err(|error| if has_begun { error.in_part() } else { error })
    }

    /// Deletes a node that is not empty. Notes whether a node of the tree was deleted.
    async fn delete_tree(&self, path: &str, has_begun: &mut bool) -> Result<(), Error> {
        let mut left: Vec<(String, Error)> = Vec::new();
        for _ in 0..ROUNDS {
            let mut refused = Vec::new();
            let mut rest = self.tree(path).await?.into_iter().rev().peekable();
            while rest.peek().is_some() {
                let batch = self.batch(&mut rest);
                self.delete_batch(batch, &mut refused, has_begun).await?;
            }
            let full;
            (full, left) = refused.into_iter().partition(|(_, why)| is_not_empty(why));
            // A node is not empty because of what is left below it, or because of a new node.
            let is_above_left = |full: &str| left.iter().any(|(it, _)| path::is_within(it, full));
            if full.iter().all(|(full, _)| is_above_left(full)) {
                break;
            }
            left.extend(full);
        }
        let Some((_, first)) = left.first() else {
            return Ok(());
        };
        let peer = first.peer().clone();
        let left = left.into_iter().map(|(_, why)| why).collect();
        let kind = ErrorKind::NotAllDeleted { left };
        Err(Error::new(kind, peer, Effect::Unknown))
    }

    /// The node and all below it, parents before their children.
    async fn tree(&self, top: &str) -> Result<Vec<String>, Error> {
        // A server that lags may not know of the nodes because of which a delete was refused.
        self.sync(top).await?;
        let (mut found, mut level) = (Vec::new(), vec![top.to_owned()]);
        while !level.is_empty() {
            let mut below = Vec::new();
            for parents in level.chunks(AT_ONCE) {
                let list = |path: &String| {
                    let path = self.resolve_in_pieces(path)?;
                    Ok(Encoded::read(OpCode::GET_CHILDREN, &path))
                };
                let requests = parents.iter().map(list).collect::<Result<_, Error>>()?;
                let replies = self.raw().submit_all_with_backpressure(requests).await;
                for (parent, reply) in parents.iter().zip(replies) {
                    match reply.names().await {
                        Ok(names) => below.extend(names.iter().map(|it| path::join(parent, it))),
                        Err(error) if error.is_no_node() => {}
                        Err(error) => return Err(error.on(parent)),
                    }
                }
            }
            found.append(&mut level);
            level = below;
        }
        Ok(found)
    }

    /// The next nodes that one transaction can delete.
    fn batch(&self, rest: &mut std::iter::Peekable<impl Iterator<Item = String>>) -> Vec<String> {
        let limit = self.shared.lock().machine.link().config().max_request;
        let chroot = self.chroot().prefix().len();
        let (mut batch, mut bytes) = (Vec::new(), BESIDE_PATH);
        while let Some(path) = rest.next_if(|path| {
            bytes += BESIDE_PATH + chroot + path.len();
            batch.is_empty() || batch.len() < AT_ONCE && bytes <= limit
        }) {
            batch.push(path);
        }
        batch
    }

    /// Deletes nodes, in this order. Notes those that are refused.
    async fn delete_batch(
        &self,
        batch: Vec<String>,
        refused: &mut Vec<(String, Error)>,
        has_begun: &mut bool,
    ) -> Result<(), Error> {
        if batch.len() > 1 {
            let transaction = self.transaction();
            let delete = |all: Transaction, it: &String| all.delete(it, Version::ANY);
            match batch.iter().fold(transaction, delete).commit().await {
                Err(error) if matches!(error.kind(), ErrorKind::TransactionRefused { .. }) => {}
                deleted => {
                    *has_begun |= deleted.is_ok();
                    return deleted.map(drop);
                }
            }
        }
        let delete = |path: &String| {
            let path = self.resolve_in_pieces(path)?;
            Ok(Encoded::delete(&path, Version::ANY))
        };
        let requests = batch.iter().map(delete).collect::<Result<_, Error>>()?;
        let replies = self.raw().submit_all_with_backpressure(requests).await;
        for (path, reply) in batch.into_iter().zip(replies) {
            match reply.await {
                Ok(_) => *has_begun = true,
                Err(error) if error.is_no_node() => {}
                Err(error) if matches!(error.kind(), ErrorKind::Refused { .. }) => {
                    let error = error.on(&path);
                    refused.push((path, error));
                }
                Err(error) => return Err(error.on(&path)),
            }
        }
        Ok(())
    }
}

fn is_not_empty(error: &Error) -> bool {
    error.code() == Some(ErrorCode::NOT_EMPTY)
}
