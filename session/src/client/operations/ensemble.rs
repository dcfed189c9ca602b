//! Operations on the ensemble: bringing a server up to date, reading and changing the
//! configuration.
//!
//! The configuration is an ordinary node, but its path is outside every chroot.

use lockkeeper_proto::{
    Request,
    records::{GetDataRequest, ReconfigRequest, SyncRequest},
};

use crate::client::{Client, Watcher, operations::reply::node_data, operations::reply::record_of};
use crate::{Error, NodeData};

/// The node in which the servers keep the configuration of the ensemble. Source:
/// `ZooDefs.CONFIG_NODE`.
const CONFIG_NODE: &str = "/zookeeper/config";

impl Client {
    /// Brings this client's server up to date with its leader.
    ///
    /// Reads that follow see all writes that were made before the call. The node need not exist. A
    /// server that runs alone is always up to date.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "server is read-only". Also the errors of every
    /// request, see [`Client`].
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing. Later requests are handled after it, even if the future is
    /// dropped.
    ///
    /// # Ordering
    /// A later read of this client sees every write whose client got the reply before `sync` was
    /// called.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// client.sync("/").await?;
    /// # Ok(()) }
    /// ```
    pub async fn sync(&self, path: &str) -> Result<(), Error> {
        let request = SyncRequest {
            path: self.resolve(path)?,
        };
        record_of!(self.ask(path, Request::Sync(request)).await?, Sync).map(|_| ())
    }

    /// Reads the configuration of the ensemble. Servers from 3.5.0.
    ///
    /// It has a line `server.ID=...` for each server, and `version=` with a hexadecimal number.
    /// It is empty on a server that runs alone.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with "no node" from older servers. Also the errors of
    /// every request, see [`Client`].
    ///
    /// # Cancel safety
    /// Safe: the method changes nothing.
    ///
    /// # Ordering
    /// Same as [`exists`](Self::exists).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// let config = client.get_config().await?.data.unwrap_or_default();
    /// assert!(config.is_empty(), "this server runs alone");
    /// # Ok(()) }
    /// ```
    pub async fn get_config(&self) -> Result<NodeData, Error> {
        let reply = self.ask(CONFIG_NODE, get_config(false)).await?;
        record_of!(reply, GetData).map(node_data)
    }

    /// Like [`get_config`](Self::get_config), and watches for the next change.
    ///
    /// # Errors
    /// Same as [`get_data_and_watch`](Self::get_data_and_watch).
    ///
    /// # Cancel safety
    /// Same as [`get_data_and_watch`](Self::get_data_and_watch).
    ///
    /// # Ordering
    /// Same as [`get_data_and_watch`](Self::get_data_and_watch).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// let (config, changed) = client.get_config_and_watch().await?;
    /// tokio::select! {
    ///     event = changed => println!("{:?}", event?),
    ///     _ = client.sync("/") => println!("as it was"),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn get_config_and_watch(&self) -> Result<(NodeData, Watcher), Error> {
        let (reply, watcher) = self.ask_and_watch(CONFIG_NODE, get_config(true)).await;
        Ok((node_data(record_of!(reply?, GetData)?), watcher?))
    }

    /// Adds and removes servers of the ensemble, and returns the new configuration.
    ///
    /// Servers from 3.5.0, if the ensemble allows it (`reconfigEnabled`).
    ///
    /// - `joining`: the servers to add, as in the configuration, separated by commas:
    ///   `server.5=host:2888:3888;2181`. It may be empty.
    /// - `leaving`: the ids of the servers to remove, separated by commas. It may be empty.
    /// - `from_config`: the version of the configuration to replace, from its line `version=`.
    ///   `None` replaces any version.
    ///
    /// A removed server continues to serve its clients, as a follower without a vote, until an
    /// operator stops it.
    ///
    /// # Errors
    /// [`Refused`](crate::ErrorKind::Refused) with
    /// - "reconfiguration is disabled";
    /// - "unimplemented" from a server that runs alone;
    /// - "reconfiguration in progress", "no quorum of the new configuration", "bad version", "bad
    ///   arguments";
    /// - "not authorized": the client needs WRITE on the configuration, which by default only a
    ///   super user has.
    ///
    /// Also the errors of every request, see [`Client`].
    ///
    /// # Cancel safety
    /// Once the future was polled, the ensemble may change even if the future is dropped.
    ///
    /// # Ordering
    /// The server handles the request in order with this client's other requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # mod lockkeeper { pub mod error { pub use lockkeeper_proto::ErrorCode; } }
    /// use lockkeeper::error::ErrorCode;
    ///
    /// let refused = client.reconfig("", "3", None).await.unwrap_err();
    /// assert_eq!(refused.code(), Some(ErrorCode::RECONFIG_DISABLED));
    /// # Ok(()) }
    /// ```
    pub async fn reconfig(
        &self,
        joining: &str,
        leaving: &str,
        from_config: Option<i64>,
    ) -> Result<NodeData, Error> {
        let given = |servers: &str| (!servers.is_empty()).then(|| servers.to_owned());
        self.ask_to_reconfigure([given(joining), given(leaving), None], from_config)
            .await
    }

    /// Replaces the whole list of servers, and returns the new configuration.
    ///
    /// `members` has the format of `joining` in [`reconfig`](Self::reconfig).
    ///
    /// # Errors
    /// Same as [`reconfig`](Self::reconfig).
    ///
    /// # Cancel safety
    /// Same as [`reconfig`](Self::reconfig).
    ///
    /// # Ordering
    /// Same as [`reconfig`](Self::reconfig).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// let alone = "server.1=localhost:2888:3888;2181";
    /// assert!(client.reconfig_to_members(alone, None).await.is_err()); // disabled on this server
    /// # Ok(()) }
    /// ```
    pub async fn reconfig_to_members(
        &self,
        members: &str,
        from_config: Option<i64>,
    ) -> Result<NodeData, Error> {
        // An empty list is sent, too: without a list, the request is one that adds and removes servers.
        self.ask_to_reconfigure([None, None, Some(members.to_owned())], from_config)
            .await
    }

    async fn ask_to_reconfigure(
        &self,
        [joining_servers, leaving_servers, new_members]: [Option<String>; 3],
        from_config: Option<i64>,
    ) -> Result<NodeData, Error> {
        let request = ReconfigRequest {
            joining_servers,
            leaving_servers,
            new_members,
            // -1 stands for any version.
            cur_config_id: from_config.unwrap_or(-1),
        };
        let reply = self.ask("", Request::Reconfig(request)).await?;
        record_of!(reply, Reconfig).map(node_data)
    }
}

fn get_config(watch: bool) -> Request {
    let path = CONFIG_NODE.to_owned();
    Request::GetData(GetDataRequest { path, watch })
}
