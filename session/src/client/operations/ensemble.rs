//! The servers behind the client: being up to date, and which there are.
//!
//! The configuration is a node like others, but for its place: it is outside every chroot.

use lockkeeper_proto::{
    Request,
    records::{GetDataRequest, GetDataResponse, ReconfigRequest, SyncRequest},
};

use crate::Error;
use crate::client::{Client, Watcher, operations::reply::record_of};

/// Where servers keep the configuration of the ensemble. Source: `ZooDefs.CONFIG_NODE`.
const CONFIG_NODE: &str = "/zookeeper/config";

impl Client {
    /// Brings this client's server up to date with its leader: reads made after it see all that was written before it.
    ///
    /// The node need not exist. A single server is always up to date.
    ///
    /// # Errors
    /// [`Error::Refused`] with "server is read-only"; and what every request may fail with.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing. Requests made behind it are ordered behind it, awaited or not.
    ///
    /// # Ordering
    /// A read behind it, by this client, sees every write that anybody was told of before it was made.
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

    /// Reads the configuration of the ensemble: a line `server.ID=...` for each server, and `version=` with a number in
    /// hexadecimal, which [`EnsembleConfig`](lockkeeper_proto::EnsembleConfig) parses. Empty on a server that stands alone.
    /// Servers from 3.5.0.
    ///
    /// # Errors
    /// [`Error::Refused`] with "no node" from older servers; and what every request may fail with.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    ///
    /// # Ordering
    /// As [`exists`](Self::exists).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper_proto::EnsembleConfig;
    ///
    /// let found = client.get_config().await?;
    /// let config = EnsembleConfig::parse(&found.data.unwrap_or_default())?;
    /// assert_eq!((config.servers.len(), config.version), (0, None));
    /// # Ok(()) }
    /// ```
    pub async fn get_config(&self) -> Result<GetDataResponse, Error> {
        let reply = self.ask(CONFIG_NODE, get_config(false)).await?;
        record_of!(reply, GetData)
    }

    /// As [`get_config`](Self::get_config), and watches for the next change.
    ///
    /// # Errors
    /// As [`get_data_and_watch`](Self::get_data_and_watch).
    ///
    /// # Cancel safety
    /// As [`get_data_and_watch`](Self::get_data_and_watch).
    ///
    /// # Ordering
    /// As [`get_data_and_watch`](Self::get_data_and_watch).
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
    pub async fn get_config_and_watch(&self) -> Result<(GetDataResponse, Watcher), Error> {
        let (reply, watcher) = self.submit_watching(get_config(true)).await;
        let read = reply.await.map_err(|error| error.on(CONFIG_NODE))?;
        Ok((record_of!(read, GetData)?, watcher?))
    }

    /// Lets servers join and leave the ensemble, and returns the new configuration. Servers from 3.5.0, where the
    /// ensemble allows it (`reconfigEnabled`).
    ///
    /// `joining` names servers as the configuration does, `server.5=host:2888:3888;2181`, separated by commas; `leaving`
    /// their ids, separated by commas; either may be empty. `from_config` is the version of the configuration that is to
    /// be replaced ([`EnsembleConfig::version`](lockkeeper_proto::EnsembleConfig::version)), `None` for whichever it is.
    ///
    /// A server that has left goes on to serve its clients, as a follower without a vote, until somebody stops it.
    ///
    /// # Errors
    /// [`Error::Refused`] with "reconfiguration is disabled", "unimplemented" from a server that stands alone,
    /// "reconfiguration in progress", "no quorum of the new configuration", "bad version", "bad arguments", "not
    /// authorized" (WRITE on the configuration, which by default only a super user has); and what every request may
    /// fail with.
    ///
    /// # Cancel safety
    /// Once polled, the ensemble may change whether or not the reply is awaited.
    ///
    /// # Ordering
    /// In the order of this client's requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// use lockkeeper_proto::ErrorCode;
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
    ) -> Result<GetDataResponse, Error> {
        let given = |servers: &str| (!servers.is_empty()).then(|| servers.to_owned());
        self.ask_to_reconfigure(ReconfigRequest {
            joining_servers: given(joining),
            leaving_servers: given(leaving),
            new_members: None,
            cur_config_id: from_config.unwrap_or(ANY_CONFIG),
        })
        .await
    }

    /// Replaces the whole list of servers, and returns the new configuration: `members` as `joining` in
    /// [`reconfig`](Self::reconfig).
    ///
    /// # Errors
    /// As [`reconfig`](Self::reconfig).
    ///
    /// # Cancel safety
    /// As [`reconfig`](Self::reconfig).
    ///
    /// # Ordering
    /// As [`reconfig`](Self::reconfig).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// let alone = "server.1=localhost:2888:3888;2181";
    /// assert!(client.reconfig_to_members(alone, None).await.is_err()); // not enabled here
    /// # Ok(()) }
    /// ```
    pub async fn reconfig_to_members(
        &self,
        members: &str,
        from_config: Option<i64>,
    ) -> Result<GetDataResponse, Error> {
        self.ask_to_reconfigure(ReconfigRequest {
            joining_servers: None,
            leaving_servers: None,
            new_members: Some(members.to_owned()),
            cur_config_id: from_config.unwrap_or(ANY_CONFIG),
        })
        .await
    }

    async fn ask_to_reconfigure(&self, request: ReconfigRequest) -> Result<GetDataResponse, Error> {
        let [reply] = self
            .submit_with_backpressure([Request::Reconfig(request)])
            .await;
        record_of!(reply.await?, Reconfig)
    }
}

/// Matches every configuration. Source: `ZooKeeperAdmin.reconfigure`.
const ANY_CONFIG: i64 = -1;

fn get_config(watch: bool) -> Request {
    let path = CONFIG_NODE.to_owned();
    Request::GetData(GetDataRequest { path, watch })
}
