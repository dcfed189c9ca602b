//! A client that is configured to log in with SASL, at a server that knows no SASL.
//!
//! Not here: the states of an exchange (`session/src/machine/tests/sasl.rs`), a whole mechanism
//! (`sasl/`), servers with SASL (`tests/real/secure/` of the workspace).

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_server::Server;
use lockkeeper_session::{
    AuthFailure, Client, Endpoint, ErrorKind,
    sasl::{Authenticator, Exchange, Step},
};
use tokio::time::Instant;

/// How long the client tries to connect. The error must come in less than half of this.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// A mechanism with an empty first token.
#[derive(Debug)]
struct Listener;

impl Authenticator for Listener {
    fn user(&self) -> &'static str {
        "alice"
    }

    fn begin(&self, _: &Endpoint) -> Box<dyn Exchange> {
        Box::new(Self)
    }
}

impl Exchange for Listener {
    fn first(&mut self) -> Bytes {
        Bytes::new()
    }

    fn answer(&mut self, _: &[u8]) -> Result<Step, AuthFailure> {
        Ok(Step::Done)
    }
}

#[tokio::test]
async fn a_server_without_sasl_is_not_trusted() {
    let server = Server::builder().start().await.unwrap();
    let builder = Client::builder(&server.connect_string()).unwrap();
    let begin = Instant::now();
    let builder = builder.sasl(Listener).connect_timeout(PROBE_TIMEOUT);
    let error = builder.connect().await.unwrap_err();
    assert!(begin.elapsed() < PROBE_TIMEOUT / 2, "{error}");
    let reason = ErrorKind::AuthFailed(AuthFailure::SaslNotOffered);
    assert_eq!(error.kind(), &reason);
    let text = error.to_string();
    assert!(text.ends_with("the server does not support SASL"), "{text}");
}
