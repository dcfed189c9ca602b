//! SASL: a client proves its identity in an exchange of tokens, before the server answers anything else.
//!
//! The engine passes tokens on and knows no mechanism. Without a mechanism it answers every token with null, and the
//! client continues without an identity. The rule for clients that have not logged in (`sasl_required`) is here, too.
//!
//! Not here: mechanisms (`digest_md5`), what an identity may do (`acl`).
//!
//! Source: `ZooKeeperServer.processSasl`, `AuthenticationHelper.enforceAuthentication`.

use std::fmt;

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, Id, Response, Xid, Zxid,
    header::ReplyHeader,
    jute::Encode,
    records::{SaslRequest, SaslResponse},
};
use sha1::{Digest, Sha1};

use super::{ConnId, Engine, auth};

/// A mechanism with its users. Its `Debug` must not show their secrets.
pub(crate) trait Mechanism: fmt::Debug + Send + Sync {
    /// Begins the exchange of a connection. The nonce is unique, and no client can predict it.
    fn begin(&self, nonce: String) -> Box<dyn Exchange>;
}

/// The exchange of one connection.
pub(crate) trait Exchange: fmt::Debug + Send {
    /// The answer to a token; `None` if the token proves nothing or comes out of turn.
    fn answer(&mut self, token: &[u8]) -> Option<Step>;
}

/// The result of one step of an exchange.
pub(crate) struct Step {
    /// The token for the client.
    pub(crate) token: Bytes,
    /// The user's name, once the client has proved it.
    pub(crate) identity: Option<String>,
}

/// The scheme of ACL entries that name a SASL user.
pub(crate) const SCHEME: &str = "sasl";

impl Engine {
    /// Whether the server must refuse the requests of this connection, because it has not logged in.
    pub(super) fn is_nobody(&self, id: ConnId) -> bool {
        self.config.sasl_required
            && !(self.connections.get(&id))
                .is_some_and(|connection| connection.ids.iter().any(|id| id.scheme == SCHEME))
    }

    /// The error that a refused client gets before the server closes the connection.
    pub(super) fn refusal(&self) -> ErrorCode {
        if self.config.sasl_required {
            ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH
        } else {
            ErrorCode::AUTH_FAILED
        }
    }

    /// The answer to a token.
    pub(super) fn log_in(
        &mut self,
        id: ConnId,
        request: &SaslRequest,
    ) -> Result<Response, ErrorCode> {
        let mut answer = SaslResponse { token: None };
        let refusal = self.refusal();
        if let Some(mechanism) = &self.config.sasl {
            let nonce = || nonce(self.config.seed, id);
            let connection = self.connections.get_mut(&id).ok_or(refusal)?;
            let exchange = (connection.login).get_or_insert_with(|| mechanism.begin(nonce()));
            let token = request.token.as_deref().unwrap_or_default();
            let step = exchange.answer(token).ok_or(refusal)?;
            if let Some(user) = step.identity {
                let identity = Id {
                    scheme: SCHEME.into(),
                    id: user.into(),
                };
                connection.ids = auth::with(&connection.ids, identity).ok_or(refusal)?;
            }
            answer.token = Some(step.token);
        }
        Ok(Response::Sasl(answer))
    }

    /// Refuses a token. Unlike all other errors, this one has a body: a null token.
    pub(super) fn refuse_token(&mut self, id: ConnId, xid: Xid, err: ErrorCode) {
        self.counters.replies = self.counters.replies.saturating_add(1);
        self.with(id, |connection| {
            connection.send(|writer| {
                let zxid = Zxid::ZERO;
                ReplyHeader { xid, zxid, err }.encode(writer);
                SaslResponse { token: None }.encode(writer);
            });
        });
    }
}

/// 160 bits that depend on the seed and do not reveal it.
fn nonce(seed: u64, id: ConnId) -> String {
    let hash = Sha1::new()
        .chain_update("SASL")
        .chain_update(seed.to_be_bytes())
        .chain_update(id.0.to_be_bytes());
    format!("{:x}", hash.finalize())
}
