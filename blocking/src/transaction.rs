//! Several operations in one request.

use bytes::Bytes;
use lockkeeper_proto::{Acls, CreateMode, SessionId, Version};
use lockkeeper_recipes::{self as recipes, LockError};
use lockkeeper_session::{self as session, Error, OpResult, ReadResult};

use crate::{
    Client,
    methods::{builds, call},
    wait,
};

/// Several operations that are applied all together, or not at all. Made by [`Client::transaction`].
#[derive(Clone, Debug)]
pub struct Transaction {
    inner: session::Transaction,
    client: Client,
}

impl Transaction {
    pub(crate) fn new(inner: session::Transaction, client: &Client) -> Self {
        let client = client.clone();
        Self { inner, client }
    }

    builds! { "lockkeeper_session::Transaction":
        /// Limits the transaction to this session.
        fn within(session: SessionId);
        /// Requires that a node exists, and that its data have this version.
        fn check(path: &str, version: Version);
        /// Creates a node that every client may change.
        fn create(path: &str, data: impl Into<Bytes>, mode: CreateMode);
        /// Creates a node with an access control list.
        fn create_with_acl(path: &str, data: impl Into<Bytes>, mode: CreateMode, acl: impl Into<Acls>);
        /// Sets a node's data.
        fn set_data(path: &str, data: impl Into<Bytes>, version: Version);
        /// Deletes a node that has no children.
        fn delete(path: &str, version: Version);
    }

    /// Sends the operations, and waits for one result for each.
    ///
    /// See the async [`commit`](lockkeeper_session::Transaction::commit).
    ///
    /// # Errors
    /// As the async method, and [`Error::InsideRuntime`].
    pub fn commit(self) -> Result<Vec<OpResult>, Error> {
        call(&self.client, self.inner.commit())
    }
}

/// Several reads in one request. Made by [`Client::read_transaction`].
#[derive(Clone, Debug)]
pub struct ReadTransaction {
    inner: session::ReadTransaction,
    client: Client,
}

impl ReadTransaction {
    pub(crate) fn new(inner: session::ReadTransaction, client: &Client) -> Self {
        let client = client.clone();
        Self { inner, client }
    }

    builds! { "lockkeeper_session::ReadTransaction":
        /// Reads a node's data and metadata.
        fn get_data(path: &str);
        /// Lists the names of a node's children.
        fn get_children(path: &str);
    }

    /// Sends the reads, and waits for one result for each.
    ///
    /// See the async [`commit`](lockkeeper_session::ReadTransaction::commit).
    ///
    /// # Errors
    /// As the async method, and [`Error::InsideRuntime`].
    pub fn commit(self) -> Result<Vec<Result<ReadResult, Error>>, Error> {
        call(&self.client, self.inner.commit())
    }
}

/// A transaction that is applied only while a lock, or several, are held. Made by
/// [`Guard::transaction`](crate::Guard::transaction).
#[derive(Debug)]
pub struct GuardedTransaction<'a> {
    pub(crate) inner: recipes::GuardedTransaction<'a>,
}

impl GuardedTransaction<'_> {
    builds! { "lockkeeper_recipes::GuardedTransaction":
        /// Requires that a node exists, and that its data have this version.
        fn check(path: &str, version: Version);
        /// Creates a node that every client may change.
        fn create(path: &str, data: impl Into<Bytes>, mode: CreateMode);
        /// Sets a node's data.
        fn set_data(path: &str, data: impl Into<Bytes>, version: Version);
        /// Deletes a node that has no children.
        fn delete(path: &str, version: Version);
    }

    /// Sends the transaction, and waits for one result for each operation.
    ///
    /// See the async [`commit`](lockkeeper_recipes::GuardedTransaction::commit).
    ///
    /// # Errors
    /// As the async method, and [`Error::InsideRuntime`].
    pub fn commit(self) -> Result<Vec<OpResult>, LockError> {
        wait::block_on(self.inner.commit())?
    }
}
