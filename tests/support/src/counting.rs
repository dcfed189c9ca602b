//! A transport that records which requests each write to the socket carries.
//!
//! Not here: the limits that the counts must keep (the facade's tests `wire_counts`).

use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use lockkeeper_proto::{
    OpCode, frame,
    header::RequestHeader,
    jute::{Decode, Reader},
};
use lockkeeper_session::Connector;
use tokio::{io::join, net::TcpStream};
use tokio_util::io::InspectWriter;

/// The requests of each write on all connections, without handshakes and pings.
///
/// A write that ends within a frame counts, too: as one with the requests that it completes, or
/// with none.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Vec<Vec<OpCode>>>>);

impl Tally {
    /// Forgets all requests recorded so far.
    pub fn clear(&self) {
        let mut writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writes.clear();
    }

    /// The operations in each write, in order.
    pub fn writes(&self) -> Vec<Vec<OpCode>> {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writes.clone()
    }

    /// A TCP connector whose connections are recorded here.
    pub fn connector(&self) -> Connector {
        let tally = self.clone();
        Connector::new(move |endpoint| {
            let tally = tally.clone();
            async move {
                let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
                stream.set_nodelay(true)?;
                let (reader, writer) = stream.into_split();
                let writer = InspectWriter::new(writer, tally.of_connection());
                Ok(join(reader, writer))
            }
        })
    }

    /// Counts what one connection writes.
    fn of_connection(self) -> impl FnMut(&[u8]) {
        // The handshake, the first frame, has no header.
        let (mut sent, mut is_handshake) = (BytesMut::new(), true);
        move |written| {
            sent.extend_from_slice(written);
            let mut requests = Vec::new();
            while let Some(message) = frame::split(&mut sent, usize::MAX).unwrap() {
                if !std::mem::take(&mut is_handshake) {
                    let header = RequestHeader::decode(&mut Reader::new(message)).unwrap();
                    requests.push(header.op);
                }
            }
            requests.retain(|op| *op != OpCode::PING);
            if !requests.is_empty() || !sent.is_empty() {
                self.0.lock().unwrap().push(requests);
            }
        }
    }
}
