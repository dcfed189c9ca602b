//! TLS for the connections of a ZooKeeper client, with rustls. Start with [`TlsConfig`].
//!
//! Files with certificates and keys are read again for each connection, because operators renew
//! certificates while a client lives. While a file system hangs, connections use what was read last.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod connection;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, SystemTime},
};

use lockkeeper_session::Connector;
use rustls::{
    CertificateError, ClientConfig, Error, InconsistentKeys, RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_rustls::TlsConnector;

pub use rustls;

use connection::{Encrypted, explain, failure, flaw};

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
/// #     pub mod client { pub use lockkeeper_tls as tls; }
/// # }
/// use lockkeeper::{Client, client::tls::TlsConfig};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = TlsConfig::from_ca_file("ca.pem")?.identity_files("client.pem", "client.key")?;
/// let client = Client::builder("zk1:2281,zk2:2281")?
///     .connector(tls.connector())
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
    ca: Option<Pem>,
    /// The certificate of the client and its key.
    identity: Option<(Pem, Pem)>,
    newest: Arc<Mutex<Newest>>,
}

/// What is known of the newest connection.
#[derive(Clone, Copy, Default)]
struct Newest {
    version: Option<&'static str>,
    certificate_end: Option<SystemTime>,
}

impl TlsConfig {
    /// Trusts only the authorities whose certificates are in this PEM.
    ///
    /// # Errors
    /// [`TlsConfigError`] when the PEM has no certificate or a broken one.
    pub fn from_ca_pem(pem: &[u8]) -> Result<Self, TlsConfigError> {
        Self::trusting(Pem::given(pem))
    }

    /// Like [`from_ca_pem`](Self::from_ca_pem), from a file.
    ///
    /// # Errors
    /// [`TlsConfigError`] when the file cannot be read, has no certificate, or has a broken one.
    pub fn from_ca_file(path: impl AsRef<Path>) -> Result<Self, TlsConfigError> {
        Self::trusting(Pem::read(path.as_ref())?)
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
            newest: Arc::default(),
        }
    }

    fn trusting(ca: Pem) -> Result<Self, TlsConfigError> {
        let mut roots = RootCertStore::empty();
        for certificate in ca.certificates()? {
            roots.add(certificate).map_err(|_| ca.error(BROKEN))?;
        }
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|_| ca.error(BROKEN))?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let ca = Some(ca);
        Ok(Self {
            ca,
            ..Self::from_rustls(config)
        })
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
        self.with_identity(Pem::given(certificate), Pem::given(key))
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
        self.with_identity(Pem::read(certificate.as_ref())?, Pem::read(key.as_ref())?)
    }

    fn with_identity(mut self, certificate: Pem, key: Pem) -> Result<Self, TlsConfigError> {
        let chain = certificate.certificates()?;
        let secret = PrivateKeyDer::from_pem_slice(&key.bytes)
            .map_err(|_| key.error("no private key found (the key must not be encrypted)"))?;
        let identity =
            CertifiedKey::from_der(chain, secret, &provider()).map_err(|error| match error {
                Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    key.error("the private key does not belong to the certificate")
                }
                Error::InvalidCertificate(CertificateError::BadEncoding) => {
                    certificate.error(BROKEN)
                }
                Error::InvalidCertificate(problem) => {
                    certificate.error(&format!("the certificate {}", flaw(&problem)))
                }
                _ => key.error("the private key has an unknown type"),
            })?;
        Arc::make_mut(&mut self.rustls).client_auth_cert_resolver =
            Arc::new(SingleCertAndKey::from(identity));
        self.identity = Some((certificate, key));
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
        lock(&self.newest).version
    }

    /// Returns when the server's certificate ends, on the newest connection that was made with this
    /// configuration or a clone of it; `None` before the first one.
    #[must_use]
    pub fn certificate_end(&self) -> Option<SystemTime> {
        lock(&self.newest).certificate_end
    }

    /// Makes a connector for TLS over TCP.
    #[must_use]
    pub fn connector(self) -> Connector {
        self.over(Connector::tcp())
    }

    /// Makes a connector for TLS over the streams of another connector.
    #[must_use]
    pub fn over(self, below: Connector) -> Connector {
        let (config, reading) = (self, None);
        let last = Arc::new(Mutex::new(Last { config, reading }));
        Connector::new(move |endpoint| {
            let last = last.clone();
            let below = below.connect(endpoint.clone());
            async move {
                let config = Self::newest(&last).await;
                let name = match config.server_name {
                    Some(name) => name,
                    None => ServerName::try_from(endpoint.host.clone()).map_err(|_| {
                        let problem = "the host is not a valid name for a certificate";
                        failure(&format!("TLS failed: {problem}"), false)
                    })?,
                };
                let has_identity = config.rustls.client_auth_cert_resolver.has_certs();
                let tls = TlsConnector::from(config.rustls).connect(name, below.await?);
                let stream = tls.await.map_err(|error| explain(error, has_identity))?;
                let connection = stream.get_ref().1;
                let version = connection.protocol_version();
                let version = version.and_then(|it| it.as_str());
                let chain = connection.peer_certificates();
                *lock(&config.newest) = Newest {
                    version,
                    certificate_end: chain.and_then(|chain| end(chain.first()?)),
                };
                tracing::debug!(server = %endpoint, version, "connection encrypted");
                Ok(Encrypted {
                    stream,
                    has_identity,
                })
            }
        })
    }

    /// The configuration by what its files have now, or while they cannot be used, the last one.
    async fn newest(last: &Arc<Mutex<Last>>) -> Self {
        let Reading { until, mut outcome } = Last::read_again(last);
        let read = match timeout_at(until, outcome.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => (*outcome).clone(),
            // The thread has panicked, or there was none.
            Ok(Err(_)) => Some(Err("there is no thread for it".into())),
            Err(_) => Some(Err("the files were not read within 2 s".into())),
        };
        match read {
            Some(Err(error)) => {
                tracing::warn!(%error, "certificates not read again, the former ones stay in use");
            }
            Some(Ok(true)) => tracing::info!("certificates have changed"),
            Some(Ok(false)) | None => {}
        }
        lock(last).config.clone()
    }

    /// The configuration with what the files have now; `None` if they have not changed. A new
    /// configuration cannot resume the encryption of a former connection.
    fn read_again(&self) -> Result<Option<Self>, TlsConfigError> {
        let ca = self.ca.as_ref().map(Pem::again).transpose()?;
        let identity = match &self.identity {
            Some((certificate, key)) => Some((certificate.again()?, key.again()?)),
            None => None,
        };
        if (&ca, &identity) == (&self.ca, &self.identity) {
            return Ok(None);
        }
        let mut config = match ca {
            Some(ca) => Self::trusting(ca)?,
            None => Self::from_rustls((*self.rustls).clone()),
        };
        if let Some((certificate, key)) = identity {
            config = config.with_identity(certificate, key)?;
        }
        config.server_name.clone_from(&self.server_name);
        config.newest.clone_from(&self.newest);
        Ok(Some(config))
    }
}

/// How long connections wait for the files. A file system that hangs must not cost the session.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last configuration of a connector.
struct Last {
    config: TlsConfig,
    /// The last reading of its files, which may have ended.
    reading: Option<Reading>,
}

/// The files are read again.
#[derive(Clone)]
struct Reading {
    /// How long connections wait for it.
    until: Instant,
    /// Whether the files have changed, or why they cannot be used; `None` while they are being read.
    outcome: watch::Receiver<Option<Result<bool, Arc<str>>>>,
}

impl Reading {
    fn is_under_way(&self) -> bool {
        self.outcome.borrow().is_none() && self.outcome.has_changed().is_ok()
    }
}

impl Last {
    /// Reads the files again, unless they are being read: a file system that hangs gets one thread.
    fn read_again(last: &Arc<Mutex<Self>>) -> Reading {
        let mut it = lock(last);
        if let Some(reading) = it.reading.as_ref().filter(|it| it.is_under_way()) {
            return reading.clone();
        }
        let (sender, outcome) = watch::channel(None);
        let until = Instant::now() + PATIENCE;
        let (config, last) = (it.config.clone(), last.clone());
        let work = move || {
            let read = config.read_again().map(|newer| {
                let newer = newer.map(|newer| lock(&last).config = newer);
                newer.is_some()
            });
            let read = read.map_err(|error| error.to_string().into());
            sender.send_replace(Some(read));
        };
        // Reading a file blocks, and the threads of the runtime may all be busy.
        let builder = thread::Builder::new().name("lockkeeper-tls".to_owned());
        let _ = builder.spawn(work);
        it.reading.insert(Reading { until, outcome }).clone()
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When a certificate ends. Whoever checks it long afterwards is told.
fn end(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let late = UnixTime::since_unix_epoch(Duration::MAX);
    let certificate = ParsedCertificate::try_from(certificate).ok()?;
    let algorithms = provider().signature_verification_algorithms.all;
    let nobody = RootCertStore::empty();
    let checked =
        verify_server_cert_signed_by_trust_anchor(&certificate, &nobody, &[], late, algorithms);
    match checked {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(not_after.as_secs()))
        }
        _ => None,
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Certificates or a key, and their file, unless the program passed them.
#[derive(Clone, PartialEq)]
struct Pem {
    bytes: Vec<u8>,
    file: Option<PathBuf>,
}

const BROKEN: &str = "a certificate is broken";

impl Pem {
    fn given(bytes: &[u8]) -> Self {
        let (bytes, file) = (bytes.to_owned(), None);
        Self { bytes, file }
    }

    fn read(path: &Path) -> Result<Self, TlsConfigError> {
        let bytes = fs::read(path)
            .map_err(|error| TlsConfigError(format!("{}: {error}", path.display())))?;
        let file = Some(path.to_owned());
        Ok(Self { bytes, file })
    }

    fn again(&self) -> Result<Self, TlsConfigError> {
        match &self.file {
            Some(path) => Self::read(path),
            None => Ok(self.clone()),
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        match found {
            Ok(found) if found.is_empty() => Err(self.error("no certificate found")),
            Ok(found) => Ok(found),
            Err(_) => Err(self.error(BROKEN)),
        }
    }

    fn error(&self, problem: &str) -> TlsConfigError {
        TlsConfigError(match &self.file {
            Some(path) => format!("{}: {problem}", path.display()),
            None => format!("the given PEM: {problem}"),
        })
    }
}

/// Why certificates or keys cannot be used. It names the file, never its content.
#[derive(Debug)]
pub struct TlsConfigError(String);

impl fmt::Display for TlsConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsConfigError {}
