//! A proxy in front of the embedded server. It ends the encryption and forwards the plain bytes.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use lockkeeper_server::Server;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinHandle, JoinSet},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig, SupportedProtocolVersion,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
        version::{TLS12, TLS13},
    },
};

use crate::certificates::{Authority, Identity};

/// A gate; it stops accepting when this value is dropped.
pub struct Gate {
    pub address: SocketAddr,
    entered: Arc<AtomicUsize>,
    inside: Arc<std::sync::Mutex<Vec<AbortHandle>>>,
    task: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Gate {
    pub async fn new(server: &Server, tls: ServerConfig) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::at(any, server, Arc::new(tls)).await.unwrap()
    }

    pub async fn at(
        address: SocketAddr,
        server: &Server,
        tls: Arc<ServerConfig>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let behind = server.connect_string();
        let entered = Arc::new(AtomicUsize::new(0));
        let inside = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (count, handles) = (entered.clone(), inside.clone());
        let task = tokio::spawn(async move {
            let mut visits = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, behind, count) = (tls.clone(), behind.clone(), count.clone());
                let visit = visits.spawn(async move {
                    // Refused and lost connections are expected.
                    let _ = visit(stream, &behind, tls, &count).await;
                });
                handles.lock().unwrap().push(visit);
            }
        });
        Ok(Self {
            address,
            entered,
            inside,
            task,
        })
    }

    /// The number of connections that passed TLS.
    pub fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    /// Ends all connections.
    pub fn throw_out(&self) {
        for visit in self.inside.lock().unwrap().drain(..) {
            visit.abort();
        }
    }
}

async fn visit(
    stream: TcpStream,
    behind: &str,
    tls: Arc<ServerConfig>,
    entered: &AtomicUsize,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut server = TcpStream::connect(behind).await?;
    let mut client = TlsAcceptor::from(tls).accept(stream).await?;
    entered.fetch_add(1, Ordering::SeqCst);
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// The TLS configuration of a server with this certificate. With `clients`, it requires a client
/// certificate of that authority.
pub fn server_tls(identity: &Identity, clients: Option<&Authority>) -> ServerConfig {
    server_tls_of(identity, clients, &[&TLS12, &TLS13])
}

pub fn server_tls_of(
    identity: &Identity,
    clients: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(versions).unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(der(&authority.certificate)).unwrap();
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let chain = vec![der(&identity.certificate)];
    builder.with_single_cert(chain, key).unwrap()
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}
