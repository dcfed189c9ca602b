//! Servers that send nothing, or send very slowly.

use std::time::Duration;

use lockkeeper_session::{Cause, Effect};

use super::{assert_well, lost, scripted::Server, waiting::soon};

/// A session timeout that tests wait out. The client pings after 250 ms, and 1 s of silence ends
/// the connection.
const SHORT: Duration = Duration::from_millis(1500);
/// The pause of a server that sends one byte at a time.
const PAUSE: Duration = Duration::from_millis(50);

#[tokio::test]
async fn silence_after_the_handshake_ends_the_connection() {
    // A frame that never ends.
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        peer.request().await;
        peer.send(&100_000_i32.to_be_bytes()).await;
        peer.drip(&[0; 1000], PAUSE).await;
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied, "it is a read");
    assert_eq!(lost(&error), Cause::Silent(SHORT * 2 / 3));
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}
