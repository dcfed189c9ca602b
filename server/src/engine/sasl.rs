//! SASL: who a connection is, proved in an exchange of tokens before anything else is answered.
//!
//! The engine carries tokens and knows no mechanism; without one, every token is answered with null, and the client is let
//! in as nobody. What a server demands of those who have proved nothing is here, too.
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

/// A mechanism, with whoever it lets in. Its `Debug` must not show their secrets.
pub(crate) trait Mechanism: fmt::Debug + Send + Sync {
    /// Begins the exchange of a connection. No other has the same nonce, and no client foresees it.
    fn begin(&self, nonce: String) -> Box<dyn Exchange>;
}

/// The exchange of one connection.
pub(crate) trait Exchange: fmt::Debug + Send {
    /// The answer to a token; `None` when it proves nothing, or comes out of turn.
    fn answer(&mut self, token: &[u8]) -> Option<Step>;
}

/// How an exchange goes on.
pub(crate) struct Step {
    /// What the client is sent.
    pub(crate) token: Bytes,
    /// Who the client is, once it has proved it.
    pub(crate) identity: Option<String>,
}

/// The scheme of ACL entries that name who a client has proved to be.
pub(crate) const SCHEME: &str = "sasl";

impl Engine {
    /// Whether nothing that this connection asks for is answered.
    pub(super) fn is_nobody(&self, id: ConnId) -> bool {
        self.config.sasl_required
            && !(self.connections.get(&id))
                .is_some_and(|connection| connection.ids.iter().any(|id| id.scheme == SCHEME))
    }

    /// What is said to whoever is refused, and then closed.
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

    /// Refuses a token: unlike all other errors this one has a body, a null token.
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

/// 160 bits that follow from the seed and say nothing about it.
fn nonce(seed: u64, id: ConnId) -> String {
    let hash = Sha1::new()
        .chain_update("SASL")
        .chain_update(seed.to_be_bytes())
        .chain_update(id.0.to_be_bytes());
    format!("{:x}", hash.finalize())
}
