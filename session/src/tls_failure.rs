//! Why encryption with a server failed. It exists without the feature `tls` too, because a custom
//! connector may report it. Nothing here holds a secret.

use std::{fmt, sync::Arc};

/// Why encryption with a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The server's certificate is not signed by an authority that this client trusts.
    UnknownIssuer,
    /// The server's certificate is for other names.
    WrongName {
        /// The name that the client expected.
        expected: Arc<str>,
        /// The names in the certificate, separated by commas. Empty if they are not known.
        presented: Arc<str>,
    },
    /// The server's certificate has expired.
    Expired,
    /// The server's certificate is not valid yet, or the clock of this computer is wrong.
    NotYetValid,
    /// The server's certificate is invalid for another reason.
    Certificate(Arc<str>),
    /// The server requires a certificate from the client, and none is configured.
    NoClientCertificate(Arc<str>),
    /// The server refused the client's certificate.
    ClientCertificate(Arc<str>),
    /// The server's answer is not TLS: the port is probably for plain connections.
    NotTls,
    /// Another reason: no common version or cipher, a broken message.
    Other(Arc<str>),
}

impl TlsFailure {
    /// Whether the failure lasts until somebody changes a setting or a certificate.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownIssuer => {
                f.write_str("the server's certificate is not signed by a trusted authority")
            }
            Self::WrongName {
                expected,
                presented,
            } => {
                write!(f, "the server's certificate is not for {expected}")?;
                match &**presented {
                    "" => Ok(()),
                    names => write!(f, " (but for {names})"),
                }
            }
            Self::Expired => f.write_str("the server's certificate has expired"),
            Self::NotYetValid => f.write_str(
                "the server's certificate is not valid yet (or this computer's clock is wrong)",
            ),
            Self::Certificate(why) => write!(f, "the server's certificate is invalid: {why}"),
            Self::NoClientCertificate(alert) => write!(
                f,
                "the server requires a client certificate, and none is configured ({alert})"
            ),
            Self::ClientCertificate(alert) => {
                write!(f, "the server refused the client certificate ({alert})")
            }
            Self::NotTls => f.write_str("the server does not speak TLS on this port"),
            Self::Other(why) => write!(f, "TLS failed: {why}"),
        }
    }
}
