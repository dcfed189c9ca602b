//! A proxy in front of the embedded server. It ends the encryption and forwards the plain bytes.
//!
//! The embedded server checks users and passwords. The gate itself can be an impostor that only
//! pretends to know them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use lockkeeper_server::Server;
use lockkeeper_session::tls::rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use crate::certificates::{Authority, Identity};

/// The properties of a gate.
#[derive(Clone, Default)]
pub struct Demands {
    pub tls: Option<Arc<ServerConfig>>,
    /// It pretends to be a SASL server: it accepts any response, and it cannot prove that it knows
    /// the password.
    pub is_impostor: bool,
}

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
    pub async fn new(server: &Server, demands: Demands) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::at(any, server, demands).await.unwrap()
    }

    pub async fn at(
        address: SocketAddr,
        server: &Server,
        demands: Demands,
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
                let (demands, behind, count) = (demands.clone(), behind.clone(), count.clone());
                let visit = visits.spawn(async move {
                    // Refused and lost connections are expected.
                    let _ = visit(stream, &behind, demands, &count).await;
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

    /// The number of connections that passed TLS and, at an impostor, SASL.
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
    demands: Demands,
    entered: &AtomicUsize,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let server = TcpStream::connect(behind).await?;
    match demands.tls.clone() {
        Some(config) => {
            let stream = TlsAcceptor::from(config).accept(stream).await?;
            pass_on(stream, server, demands, entered).await
        }
        None => pass_on(stream, server, demands, entered).await,
    }
}

async fn pass_on(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: TcpStream,
    demands: Demands,
    entered: &AtomicUsize,
) -> std::io::Result<()> {
    if demands.is_impostor {
        let handshake = frame(&mut client).await?;
        send(&mut server, &handshake).await?;
        let answer = frame(&mut server).await?;
        send(&mut client, &answer).await?;
        for token in [CHALLENGE, "rspauth=0123"] {
            let response = frame(&mut client).await?;
            send(&mut client, &reply(&response[..4], token)).await?;
        }
    }
    entered.fetch_add(1, Ordering::SeqCst);
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

const CHALLENGE: &str = r#"realm="zk-sasl-md5",nonce="no,nce",charset=utf-8,algorithm=md5-sess"#;

/// A reply that contains this SASL token.
fn reply(xid: &[u8], token: &str) -> Vec<u8> {
    let mut message = [xid, &[0; 12]].concat();
    let length = i32::try_from(token.len()).unwrap();
    message.extend(length.to_be_bytes());
    message.extend(token.as_bytes());
    message
}

async fn frame(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let mut message = vec![0; length.try_into().unwrap()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> std::io::Result<()> {
    stream.write_u32(message.len().try_into().unwrap()).await?;
    stream.write_all(message).await?;
    stream.flush().await
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
