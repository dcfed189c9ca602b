//! SASL: the client authenticates on each new connection before it sends anything else.
//!
//! The exchange comes after the answer to the handshake, and before identities, watches and
//! requests. The machine carries the tokens and knows no mechanism. The session exists already, but
//! the machine reports nothing before the exchange is done.
//!
//! Not here: what the machine sends (`attempt`), mechanisms (`lockkeeper-sasl`).

use std::fmt;

use bytes::Bytes;

use crate::{AuthFailure, Endpoint};

/// A SASL mechanism together with its credentials.
///
/// It must draw the randomness that it needs when it is made: what it does for a connection must
/// follow from its own state alone. Its `Debug` must not print the credentials.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// The user's name, for error messages.
    fn user(&self) -> &str;

    /// Begins the exchange of a new connection to this server.
    fn begin(&self, server: &Endpoint) -> Box<dyn Exchange>;
}

/// The exchange of one connection.
pub trait Exchange: Send {
    /// The first token. It is empty in a mechanism in which the server speaks first.
    fn first(&mut self) -> Bytes;

    /// The answer to a token of the server.
    ///
    /// # Errors
    /// [`AuthFailure`] when the server breaks the mechanism's rules, or fails to prove its own
    /// identity.
    fn answer(&mut self, token: &[u8]) -> Result<Step, AuthFailure>;
}

/// How an exchange goes on.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Send this token to the server.
    Send(Bytes),
    /// Send this token: when the server has accepted it, both sides are authenticated. Servers
    /// accept the last token of some mechanisms without a token of their own.
    SendLast(Bytes),
    /// Both sides are authenticated, and the server waits for nothing.
    Done,
}

/// Prints no token.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send(_) => "Send",
            Self::SendLast(_) => "SendLast",
            Self::Done => "Done",
        })
    }
}
