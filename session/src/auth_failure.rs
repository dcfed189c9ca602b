//! Why a server and a client do not trust each other. Nothing here holds a secret, so all of it may be printed.

use std::{fmt, sync::Arc};

use lockkeeper_proto::ErrorCode;

/// Why authentication failed. The client has ended: the same credentials would fail again, and some servers count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthFailure {
    /// The server refused an identity that was given with `Builder::auth`: it does not know the scheme, or the
    /// credentials are wrong.
    Refused {
        /// The scheme of the identity.
        scheme: String,
        /// The server's reason.
        code: ErrorCode,
    },
    /// The server answers only those who have authenticated, and this client did not in a way that it accepts.
    Required,
    /// The server refused the user: the password is wrong, or there is no such user. Servers do not tell which.
    Sasl {
        /// Who the client said it is.
        user: Arc<str>,
        /// The server's reason.
        code: ErrorCode,
    },
    /// The client was told to authenticate with SASL, and the server knows none.
    SaslNotOffered,
    /// The server could not show that it knows the password, too: it may be an impostor.
    ServerNotProven,
    /// The server's part of the exchange breaks the rules of the mechanism.
    BadChallenge(&'static str),
}

impl fmt::Display for AuthFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { scheme, code } => {
                write!(f, "the identity of scheme {scheme} was refused: {code}")
            }
            Self::Required => {
                f.write_str("the server answers only clients that have authenticated")
            }
            Self::Sasl { user, code } => {
                write!(
                    f,
                    "user {user} was refused: wrong password, or no such user ({code})"
                )
            }
            Self::SaslNotOffered => f.write_str("the server knows no SASL"),
            Self::ServerNotProven => {
                f.write_str("the server did not show that it knows the password")
            }
            Self::BadChallenge(what) => write!(f, "the server's challenge is unusable: {what}"),
        }
    }
}
