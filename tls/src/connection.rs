//! An encrypted connection, and why encryption failed.
//!
//! Not here: what the client trusts and shows (`lib`).

use std::{
    io::{self, ErrorKind},
    pin::Pin,
    task::{Context, Poll},
};

use lockkeeper_session::{Cause, Transport};
use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

/// An encrypted stream. Its errors carry a [`Cause`].
pub(crate) struct Encrypted {
    pub(crate) stream: TlsStream<Box<dyn Transport>>,
    pub(crate) has_identity: bool,
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        read.map(|read| match read {
            // The server closed the connection without the closing message of TLS. This is safe: an
            // incomplete frame is useless, so an attacker cannot cut off data unnoticed.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(()),
            read => read.map_err(|error| explain(error, self.has_identity)),
        })
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Converts an I/O error of TLS to an error with a [`Cause`]. Other errors stay as they are.
pub(crate) fn explain(error: io::Error, has_identity: bool) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(error) => {
            let (reason, is_permanent) = reason(error, has_identity);
            failure(&reason, is_permanent)
        }
        None if error.kind() == ErrorKind::UnexpectedEof => {
            let closed = "closed during the TLS handshake (the port may expect plain connections)";
            failure(&format!("TLS failed: {closed}"), false)
        }
        None => error,
    }
}

pub(crate) fn failure(reason: &str, is_permanent: bool) -> io::Error {
    io::Error::other(Cause::tls(reason, is_permanent))
}

/// What users read, and whether the failure lasts until somebody changes a setting or a certificate.
fn reason(error: &Error, has_identity: bool) -> (String, bool) {
    let text = match error {
        Error::InvalidMessage(_) => "the server does not speak TLS on this port".to_owned(),
        Error::InvalidCertificate(problem) => {
            format!("the server's certificate {}", flaw(problem))
        }
        // An alert about a certificate can only mean the client's.
        Error::AlertReceived(
            alert @ (Alert::CertificateRequired | Alert::NoCertificate | Alert::BadCertificate),
        ) if !has_identity => format!(
            "the server requires a client certificate, and none is configured (alert: {alert:?})"
        ),
        Error::AlertReceived(
            alert @ (Alert::CertificateRequired
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied),
        ) if has_identity => {
            format!("the server refused the client certificate (alert: {alert:?})")
        }
        Error::AlertReceived(alert) => return (format!("TLS failed: alert: {alert:?}"), false),
        other => return (format!("TLS failed: {other}"), false),
    };
    (text, true)
}

/// What is wrong with a certificate, and what to change.
pub(crate) fn flaw(problem: &Certificate) -> String {
    let text = match problem {
        // The signature is bad when a trusted authority has the same name and another key.
        Certificate::UnknownIssuer | Certificate::BadSignature => {
            "is not signed by a trusted authority"
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => "has expired",
        Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
            "is not valid yet (or this computer's clock is wrong)"
        }
        Certificate::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names: Vec<_> = presented.iter().filter_map(|it| name(it)).collect();
            let expected = expected.to_str();
            return match &names[..] {
                [] => format!(
                    "is not for {expected}: it has no name in its subjectAltName, and its CN does not count; issue it with \
                     that name there"
                ),
                names => format!("is not for {expected} (but for {})", names.join(", ")),
            };
        }
        // Errors of the library that checks certificates, which rustls passes on.
        Certificate::Other(other) => match &*other.to_string() {
            "CaUsedAsEndEntity" => {
                "is that of an authority (CA:TRUE); issue one without CA:TRUE, signed by that authority"
            }
            "UnsupportedCertVersion" => "has an old version of X.509; issue it with version 3",
            other => return format!("is invalid: {other}"),
        },
        other => return format!("is invalid: {other}"),
    };
    text.to_owned()
}

/// The name in what rustls says of a name in a certificate: `DnsName("zk1")`, `IpAddress(10.1.2.3)`.
fn name(told: &str) -> Option<&str> {
    let (kind, name) = told.strip_suffix(')')?.split_once('(')?;
    matches!(kind, "DnsName" | "IpAddress").then(|| name.trim_matches('"'))
}
