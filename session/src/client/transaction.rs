//! Several operations at once: all of them happen, or none.

use bytes::Bytes;
use lockkeeper_proto::{
    Acl, Acls, CreateMode, Request, Response, Version,
    multi::{MultiOp, MultiRequest, OpResult},
    path,
    records::{
        CheckVersionRequest, Create2Response, CreateResponse, DeleteRequest, SetDataRequest,
    },
};

use super::{Client, nodes::create_request};
use crate::Error;

/// A list of operations that happen all or not at all. Made by [`Client::transaction`].
///
/// Later operations see the effects of earlier ones. The order of the results is that of the operations.
#[derive(Clone, Debug)]
#[must_use = "a transaction does nothing until `commit`"]
pub struct Transaction {
    client: Client,
    request: MultiRequest,
    bad_path: Option<path::PathError>,
}

impl Client {
    /// Starts a transaction.
    pub fn transaction(&self) -> Transaction {
        Transaction {
            client: self.clone(),
            request: MultiRequest::default(),
            bad_path: None,
        }
    }
}

impl Transaction {
    /// The node must be there and its data have this version ([`Version::ANY`] for any).
    pub fn check(mut self, path: &str, version: Version) -> Self {
        let path = self.resolve(path, path::check(path));
        self.push(MultiOp::Check(CheckVersionRequest { path, version }))
    }

    /// Creates a node that anybody may change.
    pub fn create(mut self, path: &str, data: impl Into<Bytes>, mode: CreateMode) -> Self {
        let checked = if mode.is_sequential() {
            path::check_sequential(path)
        } else {
            path::check(path)
        };
        let path = self.resolve(path, checked);
        let acl = Acls::Borrowed(Acl::OPEN_UNSAFE);
        match create_request(path, data.into(), mode, acl) {
            Request::CreateContainer(create) => self.push(MultiOp::CreateContainer(create)),
            Request::CreateTtl(create) => self.push(MultiOp::CreateTtl(create)),
            Request::Create2(create) => self.push(MultiOp::Create2(create)),
            _ => self,
        }
    }

    /// Sets a node's data, if they have this version ([`Version::ANY`] for any).
    pub fn set_data(mut self, path: &str, data: impl Into<Bytes>, version: Version) -> Self {
        let path = self.resolve(path, path::check(path));
        self.push(MultiOp::SetData(SetDataRequest {
            path,
            data: Some(data.into()),
            version,
        }))
    }

    /// Deletes a node without children, if its data have this version ([`Version::ANY`] for any).
    pub fn delete(mut self, path: &str, version: Version) -> Self {
        let path = self.resolve(path, path::check(path));
        self.push(MultiOp::Delete(DeleteRequest { path, version }))
    }

    /// Sends the operations and waits for their results.
    ///
    /// # Errors
    /// [`Error::TransactionRefused`] with the first operation that failed; nothing was applied then.
    /// [`Error::BadPath`] for the first bad path; nothing was sent then.
    pub async fn commit(self) -> Result<Vec<OpResult>, Error> {
        if let Some(error) = self.bad_path {
            return Err(Error::BadPath(error));
        }
        let [reply] = self.client.submit([Request::Multi(self.request)]);
        let Response::Multi(response) = reply.await? else {
            return Ok(Vec::new());
        };
        if let Some((index, code)) = response.failure() {
            return Err(Error::TransactionRefused { index, code });
        }
        let client_path = |path| self.client.client_path(path);
        Ok(response
            .results
            .into_iter()
            .map(|result| match result {
                OpResult::Create(CreateResponse { path }) => OpResult::Create(CreateResponse {
                    path: client_path(path),
                }),
                OpResult::Create2(Create2Response { path, stat }) => {
                    OpResult::Create2(Create2Response {
                        path: client_path(path),
                        stat,
                    })
                }
                other => other,
            })
            .collect())
    }

    fn push(mut self, op: MultiOp) -> Self {
        self.request.ops.push(op);
        self
    }

    /// The server's name of a path; the first bad one is remembered for `commit`.
    fn resolve(&mut self, path: &str, checked: Result<(), path::PathProblem>) -> String {
        if let (Err(problem), None) = (checked, &self.bad_path) {
            self.bad_path = Some(path::PathError::new(path, problem));
        }
        self.client.server_path(path)
    }
}
