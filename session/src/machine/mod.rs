//! The session as a pure state machine.
//!
//! Time, bytes and randomness are arguments. There are four kinds of methods:
//!
//! - getters: [`link`](Machine::link), [`metrics`](Machine::metrics),
//!   [`lease_deadline`](Machine::lease_deadline);
//! - the world to the machine: [`handle`](Machine::handle);
//! - the user to the machine: [`submit`](Machine::submit), [`watch_nodes`](Machine::watch_nodes),
//!   [`cancel`](Machine::cancel), [`close`](Machine::close);
//! - the machine to the world. Call these after any of the above, in this order:
//!   [`poll_output`](Machine::poll_output) until it returns `None`,
//!   [`transmit`](Machine::transmit), [`next_deadline`](Machine::next_deadline).
//!
//! The machine has parts, which know nothing of each other, and passes facts between them:
//!
//! | part | what it owns |
//! |---|---|
//! | `link` | the connection or the way to the next one, the servers, the session |
//! | `requests` | requests that wait, and those under way; what operations servers know |
//! | `watches` | who listens to which node, and what the server has |
//! | `lease` | until when the session lives for certain, and what proves it |
//!
//! Here are the doors of the machine. They lend the parts to the `router`, which says what a
//! request, a message, a change of the link, or a deadline means to each of them, and what a reply is
//! for.
//!
//! All parts use these files:
//!
//! | file | what |
//! |---|---|
//! | `encoded` | a request, and what the machine must know of it later |
//! | `deadlines` | what the machine does by itself when its time has come |
//! | `proving` | the router's part for the lease: what requests prove |
//! | `kinds` | the kinds of watches, and the id of a listener |
//! | `reply` | a reply, in bytes until its caller decodes it |
//! | `output` | what goes in, and what comes out |
//! | `config` | the settings, and the policies of a lease |
//! | `ticket` | what another process needs to go on with the session |
//! | `timing` | the durations that follow from the session timeout |
//! | `pace` | how long the slowest answer of late has taken |
//! | `metrics`, `rng`, `spare` | counters; seeded random choices; the room that queues keep |
//!
//! Not here: sockets and tasks (`client`), records (`lockkeeper-proto`).

mod config;
mod deadlines;
mod encoded;
mod kinds;
mod lease;
mod link;
mod metrics;
mod output;
mod pace;
mod proving;
mod reply;
mod requests;
pub(crate) mod rng;
mod router;
pub(crate) mod spare;
#[doc(hidden)]
pub mod ticket;
mod timing;
mod watches;

use std::{fmt, sync::Arc, time::Instant};

/// The buffers of [`Machine::transmit`] and [`Input::Frame`].
pub use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{OpCode, Request, WatcherType, records::Empty};

pub use config::{Auth, Config, LeasePolicy};
#[doc(hidden)]
pub use encoded::Asked;
pub use encoded::Encoded;
#[cfg(feature = "tokio")]
pub(crate) use kinds::ById;
pub use kinds::WatchId;
pub use lease::LeaseToken;
/// For `tests/model`, not for users.
#[doc(hidden)]
pub use lease::{Lengths, Proof, Validity};
pub(crate) use link::earlier;
/// For `tests/model`, not for users.
#[doc(hidden)]
pub use link::servers::Servers;
pub use link::{Link, sasl};
pub use metrics::Metrics;
pub use output::{Event, Input, Notice, Output, RequestOptions, Snapshot, State};
pub use reply::Reply;
pub use ticket::SessionTicket;

use crate::{Cause, Slow};
use kinds::Kinds;
use lease::Lease;
use requests::Requests;
use router::{Outbox, ReplyTo, Router};
use watches::{PendingWatch, Watches};

/// About how many bytes are handed over at a time. A request that waits here can still be given up,
/// and is in memory only once.
pub(crate) const BURST: usize = 256 * 1024;

/// A session. The caller gives a `T` with each request, and gets it back with the reply.
pub struct Machine<T> {
    link: Link,
    requests: Requests<ReplyTo<T>>,
    watches: Watches,
    lease: Lease,
    out: Outbox<T>,
    /// Whether the end of this machine leaves the session to others.
    leaves_session: bool,
}

impl<T> Machine<T> {
    /// A machine without a connection. The first [`Input::Tick`] starts the first one.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        let config = config.bounded();
        let too_large = config.too_large();
        let mut machine = Self {
            requests: Requests::new(&config, now),
            watches: Watches::default(),
            lease: Lease::new(config.lease),
            out: Outbox::new(),
            leaves_session: config.leaves_session,
            link: Link::new(config, now),
        };
        if let Some(error) = too_large {
            machine.link.end_with(State::Closed, error, Cause::ByClient);
            machine.router().hear();
        }
        machine
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        let mut router = self.router();
        match input {
            Input::Connected => router.link.connected(now),
            Input::Frame(frame) => router.frame(now, frame),
            Input::Reached(other) => {
                let pending = self.pending();
                self.link.reached(now, &other, pending);
            }
            Input::Disconnected(cause) => router.link.disconnected(now, cause),
            Input::Oversized { length, limit } => router.oversized(now, length, limit),
            Input::Tick => self.tick(now),
        }
        self.router().hear();
    }

    fn router(&mut self) -> Router<'_, T> {
        Router {
            link: &mut self.link,
            requests: &mut self.requests,
            watches: &mut self.watches,
            lease: &mut self.lease,
            out: &mut self.out,
        }
    }

    /// The next thing that the world must know, in order; `None` when there is nothing more.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output<T>> {
        self.out.queue.pop_front()
    }

    /// All that the world must know, oldest first: for a caller that takes all at once. It is the
    /// same as [`poll_output`](Self::poll_output) until that returns `None`.
    #[cfg(feature = "tokio")]
    pub(crate) fn outputs(&mut self) -> &mut std::collections::VecDeque<Output<T>> {
        &mut self.out.queue
    }

    /// Appends what is to be sent now, and counts it as sent. With very much to send this is a part
    /// of it, and the result is true: call it again when these bytes have left.
    ///
    /// A request gets its number only here. All requests that were submitted meanwhile go out in one
    /// write, and a request that was never asked for was never sent.
    pub fn transmit(&mut self, now: Instant, out: &mut BytesMut) -> bool {
        let before = out.len();
        self.link.transmit(out);
        if self.requests.queued() > 0 {
            let mut router = self.router();
            while out.len() - before < BURST && router.send_next(now, out) {}
            router.requests.waits_from(now);
        }
        let sent = out.len() - before;
        if sent > 0 {
            self.out.metrics.bytes_sent += metrics::bytes(sent);
        }
        sent >= BURST && self.router().next_to_send().is_some()
    }

    /// Since when the server owes an answer, and from when less is left of a kept lease than a grant
    /// needs.
    fn pending(&self) -> (Option<Instant>, Option<Instant>) {
        let scarce = self.lease.scarce(self.link.timing());
        (self.requests.unanswered_since(), scarce)
    }

    // From the user.

    /// Submits a request. Requests are sent in the order in which they are submitted. A request
    /// that waits for a connection fails when there is none within the session timeout.
    ///
    /// A request that leaves a watch (its `watch` is true) returns an id: the event comes with it.
    pub fn submit(
        &mut self,
        now: Instant,
        token: T,
        request: impl Into<Encoded>,
        options: RequestOptions,
    ) -> Option<WatchId> {
        let (mut request, mut router) = (request.into(), self.router());
        let watch = match router.accept(now, &mut request, &options) {
            Ok(watch) => watch,
            Err(error) => {
                router.out.complete(request.op(), token, Err(error));
                return None;
            }
        };
        let id = watch.as_ref().map(PendingWatch::id);
        let reply_to = ReplyTo::Caller(Some(token), watch);
        router.requests.push(request, reply_to, Some(options));
        id
    }

    /// Whether a caller that can wait may submit a request now, or would get an error at once.
    ///
    /// [`submit`](Self::submit) accepts twice as many requests and bytes. That reserve is for
    /// callers that cannot wait: the release of a lock in a `Drop` must not fail because other
    /// callers submit much.
    #[must_use]
    pub fn has_capacity(&self, now: Instant, bytes: usize, options: &RequestOptions) -> bool {
        self.link.is_closing() || options.is_over(now) || self.requests.has_capacity(bytes)
    }

    /// There was capacity for all that is submitted from now on: none of it is one too many. Or
    /// there was not.
    #[cfg(feature = "tokio")]
    pub(crate) fn admit(&mut self, is_admitted: bool) {
        self.requests.admit(is_admitted);
    }

    /// Adds an identity, on this connection and on every later one.
    ///
    /// The machine keeps the identity at once, without waiting for the server's answer. It does not
    /// keep it if the request is too long or the machine has ended. After the deadline of `options` the
    /// machine keeps it, too.
    pub fn add_auth(&mut self, now: Instant, token: T, auth: Auth, options: RequestOptions) {
        let request = auth.packet();
        let router = self.router();
        if let Some(error) = router.refusal(now, &request, &options) {
            return router.out.complete(OpCode::AUTH, token, Err(error));
        }
        let reply_to = ReplyTo::Identity(Some(token), auth.scheme.clone());
        router.link.add_identity(auth);
        router.requests.push(request, reply_to, Some(options));
    }

    /// Watches nodes that exist. All of them take one request, unless they are very many. Each id
    /// gets one event.
    ///
    /// The event is the first of these that the server finds when it processes the request:
    ///
    /// - the node does not exist (deleted);
    /// - a transaction newer than all that the replies of this session have reported has set its
    ///   data (changed).
    ///
    /// Otherwise the event is the next change of the data, or the deletion. Without a connection,
    /// the next connection sets the watches, by the same rule. No id gets its event before the
    /// server has answered.
    pub fn watch_nodes(
        &mut self,
        paths: impl IntoIterator<Item = impl Into<String>>,
    ) -> Vec<WatchId> {
        let (newest, longest) = (self.link.newest_zxid(), self.link.config().max_request);
        let mut router = self.router();
        let (watches, mut voice) = router.watches();
        let paths = paths.into_iter().map(Into::into);
        let ids = watches.watch_nodes(paths, newest, longest, &mut voice);
        if let Some(error) = router.link.ended().cloned() {
            router.end_watches(Kinds::ALL, &error);
        }
        ids
    }

    /// Gives up a watch. The machine removes the server's watch when its last listener goes.
    pub fn cancel(&mut self, id: WatchId) {
        self.router().cancel(id);
    }

    /// Ends all watches of a type on a path, and returns how many there were. Their listeners get
    /// [`WatchRemoved`](crate::ErrorKind::WatchRemoved). A watch whose request is not answered
    /// yet goes on.
    pub fn remove_watches(&mut self, path: &str, watcher_type: WatcherType) -> usize {
        let mut router = self.router();
        let (watches, mut voice) = router.watches();
        watches.remove(path, Kinds::of_type(watcher_type), &mut voice)
    }

    /// Goes on with another server, in the same session, and does not come back to the present one for
    /// a minute, unless all others fail. Requests under way fail as with a lost connection. For a
    /// server that shows what its leader does not have.
    pub fn leave_server(&mut self, now: Instant) {
        if self.link.leave(now) {
            self.out.metrics.servers_left += 1;
            self.router().hear();
        }
    }

    /// Ends the session and the machine. With a connection, the machine first sends what was
    /// submitted, then `closeSession`. If it [leaves the session](Config::leaves_session), it ends as by
    /// [`abort`](Self::abort).
    pub fn close(&mut self, now: Instant) {
        if self.leaves_session {
            return self.abort();
        }
        if !self.link.is_closing() && self.link.close(now) {
            let request = Request::CloseSession(Empty {});
            self.requests.push(request.into(), ReplyTo::Close, None);
        }
        self.router().hear();
    }

    /// From now on the session is this machine's to end.
    pub fn own_session(&mut self) {
        self.leaves_session = false;
    }

    /// Submits the last request. Its reply says that all earlier ones are answered: the session can be
    /// left to another machine then, by [`abort`](Self::abort).
    ///
    /// # Errors
    /// Until when a server may have a write of the session whose connection ended first. Nothing is
    /// submitted.
    pub fn submit_last(
        &mut self,
        now: Instant,
        token: T,
        request: impl Into<Encoded>,
    ) -> Result<(), Instant> {
        if self.link.is_closing() {
            // Nobody waits for what a machine that ends may owe: the reply is an error.
            self.submit(now, token, request, RequestOptions::at(now));
            return Ok(());
        }
        if let Some(until) = self.link.owed_until(now) {
            return Err(until);
        }
        self.submit(now, token, request, RequestOptions::at(now));
        self.leaves_session = true;
        // The lease is not proved any more: that takes a write, which a server could have when the
        // session has moved.
        self.lease.disconnected();
        self.link.close(now);
        self.router().hear();
        Ok(())
    }

    /// Ends the machine at once and sends nothing: the servers expire the session later.
    pub fn abort(&mut self) {
        self.link.end(State::Closed, Cause::ByClient);
        self.router().hear();
    }

    /// Frees the capacity that requests have left. Call it now and then, best while none is under
    /// way.
    pub fn shrink_to_fit(&mut self) {
        self.router().shrink_to_fit();
    }

    // What is known.

    /// The connection, or the way to the next one, and the session.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// How many requests wait to be sent or answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.requests.queued() + self.requests.in_flight()
    }

    /// What the client has done so far, and what it does now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            connections: self.link.connections(),
            in_flight: self.requests.in_flight(),
            queued: self.requests.queued(),
            queued_bytes: self.requests.queued_bytes(),
            watches: self.watches.len(),
            ..self.out.metrics.clone()
        }
    }

    /// The watches that the server should have: paths and types, in order. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn wanted_watches(&self) -> Vec<(String, WatcherType)> {
        self.watches.wanted()
    }

    // The lease.

    /// The instant until which no server can have ended the session: see [`LeasePolicy`]. `None`
    /// without a session.
    #[must_use]
    pub fn lease_deadline(&self) -> Option<Instant> {
        self.lease.deadline(self.link.timing())
    }

    /// Returns a token for the holder of this node of a directory, as the server names them; while
    /// any token lives, the client proves the lease often enough, and checks the node with it. Also
    /// returns whether the lease is not good for a grant any more before the next ping is due: then
    /// look at [`next_deadline`](Self::next_deadline).
    #[must_use]
    pub fn keep_lease(&mut self, directory: Arc<str>, name: Arc<str>) -> (LeaseToken, bool) {
        let timing = self.link.timing();
        let ping = self.link.next_ping(self.lease.ping_interval(timing));
        let is_scarce = ping.is_some() && self.lease.good_until(timing) < ping;
        let token = self.lease.keep(directory, name);
        (token, is_scarce)
    }

    /// Whether the lease is good for a grant to a contender that waits for it since `since`: a
    /// quarter of the session timeout is left. After a quarter of waiting, less is enough: the
    /// lease must reach to half a session timeout after `since`. With slow servers, it must also reach
    /// to the next proof. If so, somebody may rely on the lease from now on.
    #[must_use]
    pub fn is_lease_good(&mut self, now: Instant, since: Instant) -> bool {
        let (answer, timing) = (self.link.slowest(), self.link.timing());
        self.lease.is_good(now, since, answer, timing)
    }

    /// Whether servers answer too slowly to prove a lease with this session timeout.
    #[must_use]
    pub fn slow(&self) -> Option<Slow> {
        let (answer, timing) = (self.link.slowest(), self.link.timing());
        let is_slow = timing.longest_proof(answer) > timing.lease && !self.lease.is_assumed();
        is_slow.then(|| Slow {
            answer,
            session_timeout: self.link.session_timeout(),
        })
    }

    /// Asks for [`Output::LeaseRenewed`] once the lease is good for a grant to a contender that waits
    /// since `since`. Needs a [`LeaseToken`].
    pub fn await_lease(&mut self, since: Instant) {
        self.lease.await_good(since);
    }
}

/// Prints nothing that passes through the machine: no passwords, credentials or data.
impl<T> fmt::Debug for Machine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("link", &self.link)
            .field("queue", &self.requests.queued())
            .field("watches", &self.watches.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
