//! Why encryption with a server did not come about. Known without the feature `tls` too: a connector of one's own may
//! say it as well. Nothing here holds a secret.

use std::{fmt, sync::Arc};

/// Why encryption with a server did not come about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The server's certificate is signed by nobody whom this client trusts.
    UnknownIssuer,
    /// The server's certificate is for other names.
    WrongName {
        /// The name that was looked for.
        expected: Arc<str>,
        /// The names in the certificate, separated by commas; empty where they are not known.
        presented: Arc<str>,
    },
    /// The server's certificate is not valid any more.
    Expired,
    /// The server's certificate is not valid yet, or the clock of this machine is wrong.
    NotYetValid,
    /// Something else is wrong with the server's certificate.
    Certificate(Arc<str>),
    /// The server wants a certificate of the client, and none is configured.
    NoClientCertificate(Arc<str>),
    /// The server refused the client's certificate.
    ClientCertificate(Arc<str>),
    /// What the server answered is no TLS: its port is probably one for plain connections.
    NotTls,
    /// Anything else: no common version or cipher, a broken message.
    Other(Arc<str>),
}

impl TlsFailure {
    /// Whether it stays so until somebody changes a setting or a certificate.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownIssuer => {
                f.write_str("the server's certificate is signed by nobody who is trusted here")
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
                "the server's certificate is not valid yet (or the clock of this machine is wrong)",
            ),
            Self::Certificate(why) => write!(f, "the server's certificate is unusable: {why}"),
            Self::NoClientCertificate(alert) => write!(
                f,
                "the server wants a client certificate, and none is configured ({alert})"
            ),
            Self::ClientCertificate(alert) => {
                write!(f, "the server refused the client certificate ({alert})")
            }
            Self::NotTls => f.write_str("the server does not speak TLS on this port"),
            Self::Other(why) => write!(f, "no TLS: {why}"),
        }
    }
}
