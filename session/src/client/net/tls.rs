//! TLS with rustls: encrypts the byte stream of a connector. Start with [`TlsConfig`].
//!
//! Files with certificates and keys are read again for each connection, because operators renew
//! certificates while a client lives.

use std::{
    fmt, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, InconsistentKeys, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub use rustls;

use crate::client::{
    net::{
        sockets::off_thread,
        transport::{Connector, Transport},
    },
    sync::os::{Mutex, lock},
};
use crate::{Cause, Endpoint, TlsFailure};

/// Which authorities the client trusts, and the certificate of the client.
///
/// A server's certificate must be for the host name or address of the connect string, unless
/// [`server_name`](Self::server_name) sets another name.
///
/// Servers offer TLS on a separate port (`secureClientPort`). Their certificates usually come from
/// an authority of the operator. Most servers also require a certificate from the client. All
/// certificates and keys are in PEM format.
///
/// ```no_run
/// # mod lockkeeper {
/// #     pub use lockkeeper_session::Client;
/// #     pub mod client { pub use lockkeeper_session::{Connector, tls}; }
/// # }
/// use lockkeeper::{Client, client::{Connector, tls::TlsConfig}};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = TlsConfig::from_ca_file("ca.pem")?.identity_files("client.pem", "client.key")?;
/// let client = Client::builder("zk1:2281,zk2:2281")?
///     .connector(Connector::tls(tls))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
///
/// A client reads the files again for each connection, so it needs no restart when certificates are
/// renewed. While a file cannot be used, it logs a warning and goes on with what it has read
/// before. PEM that the program passed stays as it is.
///
/// There is no setting to skip the check of a certificate or of its name. If you need that, build
/// it with rustls and [`TlsConfig::from_rustls`].
#[derive(Clone)]
pub struct TlsConfig {
    rustls: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
    ca: Option<PathBuf>,
    /// The files with the certificate of the client and its key.
    identity: Option<(PathBuf, PathBuf)>,
    /// What was in the files.
    read: Vec<Vec<u8>>,
    version: Arc<Mutex<Option<&'static str>>>,
}

impl TlsConfig {
    /// Trusts only the authorities whose certificates are in this PEM.
    ///
    /// # Errors
    /// [`TlsConfigError`] when the PEM has no certificate or a broken one.
    pub fn from_ca_pem(pem: &[u8]) -> Result<Self, TlsConfigError> {
        Self::trusting(pem, MEMORY)
    }

    /// Like [`from_ca_pem`](Self::from_ca_pem), from a file.
    ///
    /// # Errors
    /// [`TlsConfigError`] when the file cannot be read, has no certificate, or has a broken one.
    pub fn from_ca_file(path: impl AsRef<Path>) -> Result<Self, TlsConfigError> {
        let (pem, origin) = read(path.as_ref())?;
        let mut config = Self::trusting(&pem, &origin)?;
        config.ca = Some(path.as_ref().to_owned());
        config.read.push(pem);
        Ok(config)
    }

    /// Uses a configuration of rustls: other roots, other rules, hardware keys.
    ///
    /// [`rustls`] is the version of rustls to use.
    #[must_use]
    pub fn from_rustls(config: ClientConfig) -> Self {
        Self {
            rustls: Arc::new(config),
            server_name: None,
            ca: None,
            identity: None,
            read: Vec::new(),
            version: Arc::default(),
        }
    }

    fn trusting(pem: &[u8], origin: &str) -> Result<Self, TlsConfigError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem, origin)? {
            roots
                .add(certificate)
                .map_err(|_| TlsConfigError::of(origin, BROKEN))?;
        }
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|_| TlsConfigError::of(origin, BROKEN))?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Ok(Self::from_rustls(config))
    }

    /// Sets the certificate of this client and its private key.
    ///
    /// The PEM has the client's certificate first, then the certificates between it and its
    /// authority. The key is in PKCS#8, PKCS#1 or SEC1 format and not encrypted.
    ///
    /// # Errors
    /// [`TlsConfigError`] when the certificate or the key is missing or broken, or when the key
    /// belongs to another certificate.
    pub fn identity_pem(self, certificate: &[u8], key: &[u8]) -> Result<Self, TlsConfigError> {
        self.with_identity(certificate, MEMORY, key, MEMORY)
    }

    /// Like [`identity_pem`](Self::identity_pem), from files. Both may be the same file.
    ///
    /// # Errors
    /// Same as [`identity_pem`](Self::identity_pem). Also when a file cannot be read.
    pub fn identity_files(
        self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, TlsConfigError> {
        let (chain, chain_origin) = read(certificate.as_ref())?;
        let (secret, secret_origin) = read(key.as_ref())?;
        let mut config = self.with_identity(&chain, &chain_origin, &secret, &secret_origin)?;
        config.identity = Some((certificate.as_ref().to_owned(), key.as_ref().to_owned()));
        config.read.extend([chain, secret]);
        Ok(config)
    }

    /// The same with what the files have now; `None` if they have not changed. A new configuration
    /// cannot resume the encryption of a former connection.
    fn read_again(&self) -> Result<Option<Self>, TlsConfigError> {
        let identity = self.identity.iter().flat_map(|(chain, key)| [chain, key]);
        let files = self.ca.iter().chain(identity);
        let now: Result<Vec<_>, _> = files.map(|path| Ok(read(path)?.0)).collect();
        if now? == self.read {
            return Ok(None);
        }
        let mut config = Self::from_rustls((*self.rustls).clone());
        if let Some(path) = &self.ca {
            config = Self::from_ca_file(path)?;
            let resolver = self.rustls.client_auth_cert_resolver.clone();
            Arc::make_mut(&mut config.rustls).client_auth_cert_resolver = resolver;
        }
        if let Some((certificate, key)) = &self.identity {
            config = config.identity_files(certificate, key)?;
        }
        config.server_name.clone_from(&self.server_name);
        config.version.clone_from(&self.version);
        Ok(Some(config))
    }

    /// The configuration by what its files have now, or while they cannot be used, the last one.
    async fn newest(last: &Mutex<Arc<Self>>) -> Arc<Self> {
        let config = lock(last).clone();
        if config.read.is_empty() {
            return config;
        }
        let again = config.clone();
        match off_thread(move || again.read_again().map_err(io::Error::other)).await {
            Ok(None) => config,
            Ok(Some(newer)) => {
                tracing::info!("certificates have changed");
                let newer = Arc::new(newer);
                lock(last).clone_from(&newer);
                newer
            }
            Err(error) => {
                tracing::warn!(%error, "certificates not read again, the former ones stay in use");
                config
            }
        }
    }

    fn with_identity(
        mut self,
        certificate: &[u8],
        certificate_origin: &str,
        key: &[u8],
        key_origin: &str,
    ) -> Result<Self, TlsConfigError> {
        let chain = certificates(certificate, certificate_origin)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
            let missing = "no private key found (the key must not be encrypted)";
            TlsConfigError::of(key_origin, missing)
        })?;
        let identity =
            CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
                Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsConfigError::of(
                    key_origin,
                    "the private key does not belong to the certificate",
                ),
                Error::InvalidCertificate(_) => TlsConfigError::of(certificate_origin, BROKEN),
                _ => TlsConfigError::of(key_origin, "the private key has an unknown type"),
            })?;
        self.identity = None;
        self.read.truncate(usize::from(self.ca.is_some()));
        Arc::make_mut(&mut self.rustls).client_auth_cert_resolver =
            Arc::new(SingleCertAndKey::from(identity));
        Ok(self)
    }

    /// Sets the name or address that the certificate of every server must be for.
    ///
    /// # Errors
    /// [`TlsConfigError`] when it is neither a DNS name nor an IP address.
    pub fn server_name(mut self, name: &str) -> Result<Self, TlsConfigError> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            TlsConfigError(format!("{name:?} is neither a DNS name nor an IP address"))
        })?;
        self.server_name = Some(name);
        Ok(self)
    }

    /// Returns the version of TLS on the newest connection that was made with this configuration or
    /// a clone of it, such as `TLSv1_3`; `None` before the first one.
    #[must_use]
    pub fn version(&self) -> Option<&'static str> {
        *lock(&self.version)
    }
}

/// Leaves out certificates and keys.
impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig")
            .field(
                "identity",
                &self.rustls.client_auth_cert_resolver.has_certs(),
            )
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read(path: &Path) -> Result<(Vec<u8>, String), TlsConfigError> {
    let origin = path.display().to_string();
    match fs::read(path) {
        Ok(pem) => Ok((pem, origin)),
        Err(error) => Err(TlsConfigError::of(&origin, &error.to_string())),
    }
}

fn certificates(pem: &[u8], origin: &str) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsConfigError::of(origin, "no certificate found")),
        Ok(found) => Ok(found),
        Err(_) => Err(TlsConfigError::of(origin, BROKEN)),
    }
}

/// Stands for a file in the errors of PEM that the caller passed.
const MEMORY: &str = "the given PEM";
const BROKEN: &str = "a certificate is broken";

/// Why certificates or keys cannot be used. It names the file, never its content.
#[derive(Debug)]
pub struct TlsConfigError(String);

impl TlsConfigError {
    fn of(origin: &str, problem: &str) -> Self {
        Self(format!("{origin}: {problem}"))
    }
}

impl fmt::Display for TlsConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsConfigError {}

impl Connector {
    /// Makes a connector for TLS over TCP, see [`TlsConfig`]. Needs the feature `tls`.
    #[must_use]
    pub fn tls(config: TlsConfig) -> Self {
        Self::tcp().with_tls(config)
    }

    /// Adds TLS to the streams of this connector. Needs the feature `tls`.
    #[must_use]
    pub fn with_tls(self, config: TlsConfig) -> Self {
        let has_identity = config.rustls.client_auth_cert_resolver.has_certs();
        let last = Arc::new(Mutex::new(Arc::new(config)));
        Self::new(move |endpoint| {
            let last = last.clone();
            let below = self.connect(endpoint.clone());
            Box::pin(async move {
                let config = TlsConfig::newest(&last).await;
                let name = config.server_name.clone();
                let name = name.map_or_else(|| name_of(&endpoint), Ok)?;
                let settings = config.rustls.clone();
                let tls = TlsConnector::from(settings).connect(name, below.await?);
                let stream = tls.await.map_err(|error| explain(error, has_identity))?;
                let version = stream.get_ref().1.protocol_version();
                let version = version.and_then(|it| it.as_str());
                *lock(&config.version) = version;
                tracing::debug!(server = %endpoint, version, "connection encrypted");
                let stream = Encrypted {
                    stream,
                    has_identity,
                };
                Ok(Box::new(stream) as Box<dyn Transport>)
            })
        })
    }
}

/// The name that a server's certificate must be for.
fn name_of(endpoint: &Endpoint) -> io::Result<ServerName<'static>> {
    ServerName::try_from(endpoint.host.clone()).map_err(|_| {
        tell(TlsFailure::Other(
            "the host is not a valid name for a certificate".into(),
        ))
    })
}

/// An encrypted stream. Its errors carry a [`Cause`].
struct Encrypted {
    stream: TlsStream<Box<dyn Transport>>,
    has_identity: bool,
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
fn explain(error: io::Error, has_identity: bool) -> io::Error {
    let failure = match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(Error::InvalidCertificate(problem)) => of_certificate(problem),
        Some(Error::AlertReceived(alert)) => of_alert(*alert, has_identity),
        Some(Error::InvalidMessage(_)) => TlsFailure::NotTls,
        Some(other) => TlsFailure::Other(other.to_string().into()),
        None if error.kind() == ErrorKind::UnexpectedEof => TlsFailure::Other(
            "closed during the TLS handshake (the port may expect plain connections)".into(),
        ),
        None => return error,
    };
    tell(failure)
}

fn tell(failure: TlsFailure) -> io::Error {
    io::Error::other(Cause::Tls(failure))
}

fn of_certificate(problem: &CertificateError) -> TlsFailure {
    match problem {
        // The signature is bad when a trusted authority has the same name and another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            TlsFailure::UnknownIssuer
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFailure::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            TlsFailure::NotYetValid
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => TlsFailure::WrongName {
            expected: expected.to_str().into(),
            presented: presented.join(", ").into(),
        },
        other => TlsFailure::Certificate(other.to_string().into()),
    }
}

/// The failure that a server's alert reports. An alert about a certificate can only mean the
/// client's.
fn of_alert(alert: AlertDescription, has_identity: bool) -> TlsFailure {
    let text = format!("alert: {alert:?}").into();
    match alert {
        AlertDescription::CertificateRequired
        | AlertDescription::NoCertificate
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied
            if has_identity =>
        {
            TlsFailure::ClientCertificate(text)
        }
        AlertDescription::CertificateRequired
        | AlertDescription::NoCertificate
        | AlertDescription::BadCertificate => TlsFailure::NoClientCertificate(text),
        _ => TlsFailure::Other(text),
    }
}
