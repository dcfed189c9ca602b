//! Leaving a session to another process.
//!
//! Not here: what the other process needs (`machine::ticket`), going on with the session (`builder`).

use lockkeeper_proto::{Request, Response, records::GetEphemeralsRequest};

use super::{
    AsRaw, Client, PendingReply, Raw,
    sync::{oneshot, select::select},
};
use crate::{
    Error, Peer,
    machine::{Encoded, SessionTicket},
};

impl Client {
    /// Ends this client without its session, and returns what another process needs to go on with the
    /// session: its ephemeral nodes stay.
    ///
    /// All clones of the client end. The requests made before the call are answered first. The other
    /// process has as much time as is left of the session timeout: then the servers end the session.
    /// The locks of this client count as lost; a guard has a `hand_over` of its own.
    ///
    /// While a server may have a write whose connection ended first, the future waits, at most for a
    /// minute: the write could be applied after the session has moved.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) from servers before 3.6.0; the errors of every
    /// request. The client has ended then, unless the error came before it was told so; the
    /// session is left to its timeout.
    ///
    /// # Cancel safety
    /// Dropping the future drops the client. Its session may then be left to its timeout, in place of
    /// being closed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let servers = server.connect_string();
    /// # use lockkeeper_session::{self as lockkeeper, Client};
    /// # use lockkeeper_proto::CreateMode;
    /// let old = Client::connect(&servers).await?;
    /// old.create("/here", "", CreateMode::Ephemeral).await?;
    /// let secret = old.hand_over().await?.to_bytes();
    /// // in another process:
    /// let ticket = lockkeeper::SessionTicket::from_bytes(&secret)?;
    /// let new = Client::builder(&servers)?.session(ticket).connect().await?;
    /// assert!(new.exists("/here").await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn hand_over(self) -> Result<SessionTicket, Error> {
        let raw = self.raw();
        raw.ephemerals().await?;
        Ok(raw.leave_session().await?.0)
    }
}

impl Raw<'_> {
    /// The server's paths of the ephemeral nodes of the session.
    #[doc(hidden)]
    pub async fn ephemerals(self) -> Result<Vec<String>, Error> {
        let listing = self.submit_one(list()).await;
        listing.await.map(paths)
    }

    /// Ends the client without its session: the one [within](Self::within) which the requests are sent,
    /// or the present one. Returns what another client needs to go on with it, and its ephemeral nodes.
    /// Waits until no server may have a write from an earlier connection.
    ///
    /// The caller has told the users of the session.
    #[doc(hidden)]
    pub async fn leave_session(self) -> Result<(SessionTicket, Vec<String>), Error> {
        let shared = &self.client.shared;
        let session = self
            .within
            .unwrap_or(shared.lock().machine.link().session_id());
        let listing = loop {
            let (sender, receiver) = oneshot::channel();
            let changed = shared.snapshot.changed().notified();
            let request = list();
            let op = request.op();
            let submitted = shared.act(|core| {
                let (now, link) = (core.clock.now(), core.machine.link());
                // The next session has none of the nodes.
                if link.session_id() != session && !link.is_closing() {
                    return Err(None);
                }
                let submitted = core.machine.submit_last(now, sender, request);
                submitted.map_err(|until| Some(until.saturating_duration_since(now)))
            });
            match submitted {
                Ok(()) => break PendingReply { op, receiver },
                Err(Some(wait)) => _ = select(self.sleep(wait), changed).await,
                Err(None) => {
                    let server = None;
                    return Err(Error::expired(Peer { server, session }));
                }
            }
        };
        // Whoever holds a lock in this session.
        shared.announce_close();
        let ephemerals = listing.await.map(paths)?;
        let mut ticket = shared.act(|core| {
            let ticket = core.machine.link().ticket();
            core.machine.abort();
            ticket
        });
        self.client.chroot().prefix().clone_into(&mut ticket.chroot);
        Ok((ticket, ephemerals))
    }

    /// From now on the session ends with this client.
    #[doc(hidden)]
    pub fn own_session(self) {
        self.client.shared.act(|core| core.machine.own_session());
    }
}

/// Lists the ephemeral nodes of the session.
fn list() -> Encoded {
    Request::GetEphemerals(GetEphemeralsRequest { prefix_path: None }).into()
}

fn paths(response: Response) -> Vec<String> {
    match response {
        Response::GetEphemerals(listing) => listing.ephemerals,
        _ => Vec::new(),
    }
}
