//! Why authentication failed. Nothing here holds a secret, so all of it may be printed.

use std::{fmt, sync::Arc};

use lockkeeper_proto::ErrorCode;

/// Why authentication failed.
///
/// The client has ended. It does not retry, because the same credentials would fail again, and some
/// servers count failures.
///
/// A session that was connected before goes on when a SASL login fails, since a password may change
/// on one server after the other, and a ticket may be renewed. The client tries the other servers,
/// and then all of them again, for a session timeout. Meanwhile the reason for the missing connection
/// is [`Cause::LoginFailed`](crate::Cause::LoginFailed).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthFailure {
    /// The server refused an identity of `Builder::auth`: it does not know the scheme, or the
    /// credentials are wrong.
    #[non_exhaustive]
    Refused {
        /// The scheme of the identity.
        scheme: String,
        /// The server's reason.
        code: ErrorCode,
    },
    /// The server answers only authenticated clients, and this client did not authenticate in a way
    /// that the server accepts.
    Required,
    /// The server refused the user: the password is wrong, the user does not exist, or the server
    /// does not accept the ticket. Servers do not say which.
    #[non_exhaustive]
    Sasl {
        /// The name of the user.
        user: Arc<str>,
        /// The server's reason.
        code: ErrorCode,
    },
    /// The client was configured to authenticate with SASL, and the server does not support SASL.
    SaslNotOffered,
    /// The server could not prove that it knows the password, or its own key: it may be an impostor.
    ServerNotProven,
    /// The server broke the rules of the SASL mechanism.
    BadChallenge(&'static str),
}

impl fmt::Display for AuthFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { scheme, code } => {
                write!(f, "the identity of scheme {scheme} was refused: {code}")
            }
            Self::Required => f.write_str("the server answers only authenticated clients"),
            Self::Sasl { user, code } => {
                write!(
                    f,
                    "user {user} was refused: wrong password, no such user, or a ticket that the \
                     server does not accept ({code})"
                )
            }
            Self::SaslNotOffered => f.write_str("the server does not support SASL"),
            Self::ServerNotProven => {
                f.write_str("the server did not prove that it knows its secret")
            }
            Self::BadChallenge(what) => write!(f, "the server's SASL challenge is invalid: {what}"),
        }
    }
}
