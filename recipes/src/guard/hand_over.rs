//! Handing a held lock over to another process, without a release in between.
//!
//! The lock node stays: its session goes on in the other process. The process that gives the lock away
//! claims nothing from before its ticket exists. The process that takes the lock over first sets the data
//! of the lock node at the version of the ticket, which only one process can do. Then it proves its lease,
//! as after the end of a lease (`lease/validity.rs` in `lockkeeper-session`). Before that it claims nothing.
//!
//! Not here: leaving a session (`Raw::leave_session`).

use std::{fmt, future::Future};

use lockkeeper_proto::{
    Version, Zxid,
    jute::{DecodeError, DecodeErrorKind, record},
    path,
};
use lockkeeper_session::{
    AsRaw, Builder, Client, Error, SessionTicket,
    machine::ticket::{bytes_of, ticket_of},
};

use super::{Attempt, FencingToken, Guard};
use crate::{
    error::{LockError, Loss, NotHandedOver},
    node::{
        Node,
        directory::Directory,
        identity::{OwnNode, Tag},
    },
    order::name,
};

record! {
    /// What a ticket says.
    struct Content {
        session: SessionTicket,
        /// The path of the lock, as the handle that held it names it.
        path: String,
        /// The child of it that is the directory of the lock node; empty if the path is.
        below: String,
        /// The name of the lock node.
        name: String,
        czxid: Zxid,
        /// Of a writer that has become a reader it is that of the writer.
        token: Zxid,
        /// The version of the data of the lock node, until the ticket is spent.
        version: Version,
    }
}

/// A lock that was handed over, for the process that takes it over: [`Guard::hand_over`].
///
/// It is a secret: whoever has it can hold the lock, or end its session. `Debug` shows the path only.
#[must_use = "nobody holds the lock before the ticket is used, and it is free after a session timeout"]
#[derive(Clone, PartialEq, Eq)]
pub struct LockTicket(Content);

impl Guard {
    /// Hands the lock over to another process, which goes on with the session of this client: the
    /// same lock node and the same token, without a release in between. The waiters stay behind it.
    ///
    /// This process claims nothing from then on: the client, with all its clones, has ended, the views
    /// of the guard are not valid, and [`lost`](Self::lost) ends with `None`. The other process has to
    /// take the lock over within what is left of the session timeout. Otherwise the lock is free, as
    /// that of a process that was killed.
    ///
    /// The session must have no other ephemeral node, since nobody would own that: use a client for
    /// this lock alone. A [limit](Self::limit_hold) of the hold is not handed over. Nobody may set the
    /// data of the lock node between the call and the end of the take-over: that spends the ticket.
    ///
    /// While a server may have a write of this session whose connection ended first, the future waits,
    /// at most for a minute.
    ///
    /// # Errors
    /// - [`LockError::NotHandedOver`]: the lock is that of a [`PlainMutex`](crate::PlainMutex), or the
    ///   session has another ephemeral node.
    /// - [`LockError::Lost`] when the lock is lost, or there is no connection at the end.
    /// - [`LockError::Session`] when a request failed;
    ///   [`Unsupported`](lockkeeper_session::ErrorKind::Unsupported) from servers before 3.6.0.
    ///
    /// The lock is released then. But if the client has ended already ([`Client::is_closed`]), the lock
    /// is free after a session timeout: the connection was lost at the end, or another node was made
    /// meanwhile.
    ///
    /// # Cancel safety
    /// The lock is released when the future is dropped or, if that is too late, free after a session
    /// timeout.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let builder = lockkeeper_server::Server::builder();
    /// # let server = builder.tick_time(std::time::Duration::from_millis(50)).start().await?;
    /// # let servers = server.connect_string();
    /// # use {lockkeeper_recipes as lockkeeper, lockkeeper_session::Client};
    /// let client = Client::connect(&servers).await?;
    /// let guard = lockkeeper::Mutex::new(&client, "/locks/leader")?.lock().await?;
    /// let token = guard.fencing_token();
    /// let secret = guard.hand_over().await?.to_bytes();
    /// // in the next process:
    /// let ticket = lockkeeper::LockTicket::from_bytes(&secret)?;
    /// let guard = ticket.take_over(Client::builder(&servers)?).await?;
    /// assert!(guard.is_valid() && guard.fencing_token() == token);
    /// # Ok(()) }
    /// ```
    pub async fn hand_over(mut self) -> Result<LockTicket, LockError> {
        let left = self.leave().await;
        left.map_err(|error| self.named(error))
    }

    async fn leave(&mut self) -> Result<LockTicket, LockError> {
        self.refuse_if_lost()?;
        if self.node().is_fixed() {
            return Err(LockError::not_handed_over(NotHandedOver::Plain));
        }
        let read = self.node().read().await;
        let (_, stat) = self.of_own_node(read)?;
        let client = self.client().clone();
        let raw = client.raw();
        let own = raw.server_path(&self.path());
        let is_alone = |ephemerals: Vec<String>| match ephemerals.into_iter().find(|it| *it != own)
        {
            None => Ok(()),
            Some(other) => {
                let other = NotHandedOver::OtherNode(raw.client_path(other));
                Err(LockError::not_handed_over(other))
            }
        };
        is_alone(raw.ephemerals().await?)?;
        // From here on nobody claims the lock.
        self.give_up()?;
        let (session, ephemerals) = raw.within(self.session_id).leave_session().await?;
        // Somebody may have made a node meanwhile.
        is_alone(ephemerals)?;
        let directory = self.node().directory();
        let below = directory.parent.strip_prefix(&*directory.path);
        Ok(LockTicket(Content {
            session,
            path: directory.path.as_ref().to_owned(),
            below: below.map_or("", |it| it.trim_start_matches('/')).to_owned(),
            name: self.node().name().to_owned(),
            czxid: stat.czxid,
            token: Zxid(self.fencing_token().into()),
            version: stat.version,
        }))
    }
}

impl LockTicket {
    /// The path of the lock.
    #[must_use]
    pub fn lock_path(&self) -> &str {
        &self.0.path
    }

    /// The ticket in bytes, for the other process. They are a secret.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes_of(&self.0)
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`DecodeError`] says what is not as a ticket has it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let content: Content = ticket_of(bytes)?;
        let is_path = path::check(&content.path).is_ok() && !content.name.contains('/');
        if !is_path || content.below.contains('/') || name::parse(&content.name).is_none() {
            return Err(DecodeError {
                field: "LockTicket.name",
                offset: bytes.len(),
                kind: DecodeErrorKind::Unasked,
            });
        }
        Ok(Self(content))
    }

    /// Takes the lock over, by a client that goes on with the session of the one that held it: with
    /// the chroot of that client, and otherwise with these settings. It must have the same identities,
    /// as far as the lock node's ACL needs them.
    ///
    /// A ticket is spent once. The guard is handed out with a proved lease, which takes a sixth of the
    /// session timeout. The client of the guard is [`Guard::client`]; the session ends with the last of
    /// its handles.
    ///
    /// # Errors
    /// - [`LockError::NotHandedOver`] when the ticket was spent before. The session, and whoever holds
    ///   the lock by it, is left alone. But while both are connected, each takes the session from the
    ///   other, so the error may also be a lost connection.
    /// - [`LockError::Lost`] when the session has expired, or the lock node was deleted.
    /// - [`LockError::Session`] when no server was reached, or a request failed. If the
    ///   [effect](LockError::effect) is unknown, this call may have spent the ticket; then the lock is
    ///   free after a session timeout.
    ///
    /// # Cancel safety
    /// If the future is dropped, the ticket may be spent, and the lock is free after a session timeout.
    pub async fn take_over(self, settings: Builder) -> Result<Guard, LockError> {
        self.take_over_by(settings, Builder::connect).await
    }

    /// As [`take_over`](Self::take_over), with this way to connect. For simulations.
    #[doc(hidden)]
    pub async fn take_over_by<F>(
        self,
        settings: Builder,
        connect: impl FnOnce(Builder) -> F,
    ) -> Result<Guard, LockError>
    where
        F: Future<Output = Result<Client, Error>>,
    {
        // The session may be that of another process which has spent the ticket.
        let settings = settings.session(self.0.session.clone()).leaves_session();
        let taken = match connect(settings).await {
            Ok(client) => self.take(client).await,
            Err(error) => Err(error.into()),
        };
        taken.map_err(|error| error.at(self.lock_path()))
    }

    async fn take(&self, client: Client) -> Result<Guard, LockError> {
        let Self(of) = self;
        let session_id = of.session.session_id();
        let (kind, _) = name::parse(&of.name).ok_or(LockError::lost(Loss::Deleted))?;
        let below = Some(&*of.below).filter(|below| !below.is_empty());
        let directory = Directory::new(&client, &of.path, below, kind)?;
        let attempt = Attempt::new(&directory);
        let node = OwnNode {
            name: of.name.as_str().into(),
            tag: Tag {
                czxid: of.czxid,
                session_id,
            },
        };
        let mut node = Node::of_another_process(directory, kind, node);
        node.spend(of.version).await?;
        client.raw().own_session();
        node.own_by(client);
        let hold = attempt.granted(FencingToken::of(of.token));
        let guard = Guard::new(node, session_id, hold);
        let is_proved = guard.lease_renewed().await;
        match guard.loss() {
            None if is_proved => Ok(guard),
            loss => Err(guard.lost_by(loss)),
        }
    }
}

impl fmt::Debug for LockTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockTicket")
            .field("path", &self.0.path)
            .finish_non_exhaustive()
    }
}
