//! GSSAPI with Kerberos (RFC 4752), by the system's library.
//!
//! The system's library may block, in a KDC or in a look-up of a name, and the client's task must
//! not. So a connector asks it for the first token, on a thread of its own (`apart`): an attempt to
//! connect ends at its time. What is left for the exchange needs no network.
//!
//! A token belongs to a server and to no connection. So connectors leave tokens, the newest last,
//! and each exchange takes the newest one of its server, which is at most one attempt old.
//!
//! Not here: integrity and privacy layers, which ZooKeeper does not use.

use std::{
    collections::HashMap,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use libgssapi::{
    context::{ClientCtx, CtxFlags, SecurityContext as _},
    credential::{Cred, CredUsage},
    name::Name,
    oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, GSS_NT_KRB5_PRINCIPAL},
};
use lockkeeper_session::{
    AuthFailure, Builder, Connector, Endpoint,
    sasl::{Authenticator, Exchange, Step},
};
use tokio::time::timeout;

use crate::apart::Apart;

/// How long a token is kept that no exchange has taken. Servers refuse one of five minutes.
const KEPT: Duration = Duration::from_secs(120);
/// The first byte of both sides' last tokens: no layer is put around the connection.
const NO_LAYER: u8 = 1;
/// How long an attempt to connect waits for the system's library, which tries a KDC that hangs for
/// half a minute. A later attempt gets its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Logs in with Kerberos, by GSSAPI with `qop=auth`.
///
/// The ticket comes from the ticket cache (`kinit`, `KRB5CCNAME`) or from a keytab
/// (`KRB5_CLIENT_KTNAME`), as the system's library finds them. Each connection looks again, so
/// renewed tickets need no restart. A connection that is there does not need the KDC.
///
/// ```no_run
/// # mod lockkeeper {
/// #     pub use lockkeeper_session::Client;
/// #     pub mod client { pub use lockkeeper_sasl as sasl; }
/// # }
/// use lockkeeper::{Client, client::sasl::Kerberos};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = Client::builder("zk1:2181,zk2:2181")?;
/// let client = Kerberos::new().log_in(builder).connect().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Kerberos {
    principal: Option<String>,
    service: Option<String>,
    host: Option<String>,
}

impl Kerberos {
    /// The default principal of the system's library, and the service `zookeeper` on the host of
    /// each server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the client's principal, such as `jobs@EXAMPLE.COM`.
    #[must_use]
    pub fn principal(mut self, principal: &str) -> Self {
        self.principal = Some(principal.to_owned());
        self
    }

    /// Sets the name of the servers' service. Default: `zookeeper`.
    #[must_use]
    pub fn service(mut self, service: &str) -> Self {
        self.service = Some(service.to_owned());
        self
    }

    /// Sets the host in the principal of every server, which is needed behind an alias. Default:
    /// the host of each server.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// Has the clients of these settings log in, over TCP.
    pub fn log_in(self, builder: Builder) -> Builder {
        self.log_in_over(builder, Connector::tcp())
    }

    /// Has the clients of these settings log in, over the streams of a connector, such as that of
    /// `TlsConfig`.
    pub fn log_in_over(self, builder: Builder, below: Connector) -> Builder {
        let shared = Arc::new(Shared::default());
        let user = self.principal.clone().unwrap_or("of the ticket".to_owned());
        let login = Login {
            user,
            shared: shared.clone(),
        };
        let connector = Connector::new(move |endpoint| {
            let (kerberos, shared) = (self.clone(), shared.clone());
            let below = below.connect(endpoint.clone());
            Box::pin(async move {
                let stream = below.await?;
                let token = kerberos.ask(&endpoint, &shared).await?;
                let mut tokens = lock(&shared.tokens);
                tokens.retain(|kept| kept.since.elapsed() < KEPT);
                tokens.push(token);
                Ok(stream)
            })
        });
        builder.sasl(login).connector(connector)
    }

    /// Asks the system's library for the first token to this server.
    async fn ask(&self, server: &Endpoint, shared: &Shared) -> io::Result<Token> {
        let service = self.service.as_deref().unwrap_or("zookeeper");
        let host = self.host.as_deref().unwrap_or(&server.host);
        let target = format!("{service}@{host}");
        let (principal, server) = (self.principal.clone(), server.clone());
        let apart = lock(&shared.asked)
            .entry(server.clone())
            .or_default()
            .clone();
        let begun = target.clone();
        let asked =
            apart.ask(move || first_token(principal.as_deref(), &begun, server).map_err(reason));
        let asked = timeout(PATIENCE, asked).await;
        let hangs = |_| Err(io::Error::other("no answer of any KDC for 2 s"));
        let no_ticket = |why: io::Error| io::Error::other(format!("no ticket for {target}: {why}"));
        asked.unwrap_or_else(hangs).map_err(no_ticket)
    }
}

fn first_token(
    principal: Option<&str>,
    target: &str,
    server: Endpoint,
) -> Result<Token, libgssapi::error::Error> {
    let principal = principal.map(|name| Name::new(name.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL)));
    let principal = principal.transpose()?;
    let credentials = Cred::acquire(principal.as_ref(), None, CredUsage::Initiate, None)?;
    let target = Name::new(target.as_bytes(), Some(GSS_NT_HOSTBASED_SERVICE))?;
    let (flags, mechanism) = (CtxFlags::GSS_C_MUTUAL_FLAG, Some(GSS_MECH_KRB5));
    let mut context = ClientCtx::new(Some(credentials), target, flags, mechanism);
    let token = context.step(None, None)?;
    Ok(Token {
        server,
        since: Instant::now(),
        context,
        first: token.map_or(Bytes::new(), |token| Bytes::copy_from_slice(&token)),
    })
}

/// What MIT's library says to an operator, on the thread of the call: of "what failed in GSSAPI
/// (why)" the latter.
fn reason(error: libgssapi::error::Error) -> io::Error {
    let error = error.to_string();
    let why = error
        .split_once(" (")
        .and_then(|(_, it)| it.strip_suffix(')'));
    io::Error::other(why.unwrap_or(&error))
}

/// What the connectors of a login share with its exchanges.
#[derive(Default)]
struct Shared {
    asked: Mutex<HashMap<Endpoint, Arc<Apart<Token>>>>,
    tokens: Mutex<Vec<Token>>,
}

struct Token {
    server: Endpoint,
    since: Instant,
    context: ClientCtx,
    first: Bytes,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Login {
    user: String,
    shared: Arc<Shared>,
}

/// Leaves out the tokens.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Kerberos");
        shown.field("user", &self.user).finish_non_exhaustive()
    }
}

impl Authenticator for Login {
    fn user(&self) -> &str {
        &self.user
    }

    fn begin(&self, server: &Endpoint) -> Box<dyn Exchange> {
        let mut tokens = lock(&self.shared.tokens);
        let newest = tokens.iter().rposition(|token| token.server == *server);
        let newest = newest.map(|at| tokens.remove(at));
        let (context, first) = newest.map(|it| (it.context, it.first)).unzip();
        Box::new(Conversation {
            context,
            first: first.unwrap_or_default(),
        })
    }
}

/// The exchange of one connection: the ticket, the server's proof, an empty token, and which layers
/// each side wants.
struct Conversation {
    context: Option<ClientCtx>,
    first: Bytes,
}

impl Exchange for Conversation {
    fn first(&mut self) -> Bytes {
        self.first.clone()
    }

    fn answer(&mut self, token: &[u8]) -> Result<Step, AuthFailure> {
        let missing = AuthFailure::BadChallenge("no ticket was asked for");
        let context = self.context.as_mut().ok_or(missing)?;
        let unproven = |_| AuthFailure::ServerNotProven;
        if !context.is_complete() {
            let next = context.step(Some(token), None).map_err(unproven)?;
            let next = next.map_or(Bytes::new(), |token| Bytes::copy_from_slice(&token));
            return Ok(Step::Send(next));
        }
        let offer = context.unwrap(token).map_err(unproven)?;
        if offer.first().is_none_or(|layers| layers & NO_LAYER == 0) {
            return Err(AuthFailure::BadChallenge(
                "it offers no plain authentication",
            ));
        }
        // No layer, so no length of its messages; and no other identity than that of the ticket.
        let ours = context
            .wrap(false, &[NO_LAYER, 0, 0, 0])
            .map_err(unproven)?;
        Ok(Step::SendLast(Bytes::copy_from_slice(&ours)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_takes_the_newest_token_of_its_server() {
        let server = |host: &str| {
            let (host, port) = (host.to_owned(), 2181);
            Endpoint { host, port }
        };
        let shared = Arc::new(Shared::default());
        for (host, token) in [("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")] {
            let name = Name::new(b"zookeeper@a", Some(GSS_NT_HOSTBASED_SERVICE)).unwrap();
            lock(&shared.tokens).push(Token {
                server: server(host),
                since: Instant::now(),
                context: ClientCtx::new(None, name, CtxFlags::empty(), None),
                first: token.into(),
            });
        }
        let user = "alice".to_owned();
        let login = Login { user, shared };
        for (host, token) in [("a", "3"), ("b", "4"), ("a", "1"), ("a", ""), ("b", "2")] {
            assert_eq!(login.begin(&server(host)).first(), token);
        }
        let refused = login.begin(&server("a")).answer(b"token");
        let why = AuthFailure::BadChallenge("no ticket was asked for");
        assert_eq!(refused, Err(why));
        assert!(!format!("{login:?}").contains("shared"));
    }
}
