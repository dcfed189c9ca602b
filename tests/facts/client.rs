//! One connection of a client that sends what a test tells it to, and notes what it hears.
//!
//! Not here: the session machine of the product, which would ping by itself.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
    time::timeout,
};

use crate::record::{Event, Recorder, Sent};

/// A session, as a client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: i64,
    password: Bytes,
    pub(crate) timeout: Duration,
    next_xid: i32,
}

impl Session {
    /// One that is not there yet.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            id: 0,
            password: Bytes::from_static(&[0; 16]),
            timeout,
            next_xid: 1,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    recorder: Arc<Recorder>,
    number: usize,
    writer: OwnedWriteHalf,
    reader: JoinHandle<()>,
}

impl Client {
    /// Makes or resumes a session. `None` if the server does not, or not soon.
    pub(crate) async fn open(
        recorder: &Arc<Recorder>,
        (server, address): (usize, SocketAddr),
        session: &mut Session,
    ) -> Option<Self> {
        let connect = async {
            let stream = TcpStream::connect(address).await.ok()?;
            stream.set_nodelay(true).ok()?;
            let (mut reader, mut writer) = stream.into_split();
            let client = recorder.number();
            recorder.note(Event::Connect {
                client,
                server,
                session: session.id,
            });
            let mut request = BytesMut::new();
            request.put_i32(0);
            request.put_i64(0);
            request.put_i32(i32::try_from(session.timeout.as_millis()).expect("short"));
            request.put_i64(session.id);
            request.put_i32(16);
            request.put_slice(&session.password);
            request.put_u8(0);
            write(&mut writer, &request).await?;
            let Some(mut answer) = read(&mut reader).await else {
                recorder.note(Event::Lost { client });
                return None;
            };
            let (_, granted) = (answer.get_i32(), answer.get_i32());
            session.id = answer.get_i64();
            if granted <= 0 {
                recorder.note(Event::Lost { client });
                return None;
            }
            let length = answer.get_i32();
            session.password = answer.split_to(usize::try_from(length).ok()?).freeze();
            recorder.note(Event::Connected {
                client,
                session: session.id,
            });
            let noted = recorder.clone();
            let reader = tokio::spawn(async move {
                while let Some(mut reply) = read(&mut reader).await {
                    noted.note(Event::Answered {
                        client,
                        xid: reply.get_i32(),
                    });
                }
                noted.note(Event::Lost { client });
            });
            let recorder = recorder.clone();
            Some(Self {
                recorder,
                number: client,
                writer,
                reader,
            })
        };
        timeout(Duration::from_secs(5), connect).await.ok()?
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.reader.is_finished()
    }

    /// Sends a request of this kind. There are several kinds of each; `choice` is one of them.
    pub(crate) async fn send(&mut self, session: &mut Session, what: Sent, choice: u64) {
        let mut request = BytesMut::new();
        let xid = session.next_xid;
        session.next_xid += 1;
        let mut header = |op| {
            request.put_i32(xid);
            request.put_i32(op);
        };
        match (what, choice % 3) {
            (Sent::Touch, _) => {
                header(3); // exists
                put_root(&mut request);
                request.put_u8(0);
            }
            (Sent::Close, _) => header(-11),
            (Sent::Write, 0) => {
                header(5); // setData
                put_root(&mut request);
                request.put_i32(0);
                request.put_i32(-1);
            }
            (Sent::Write, 1) => {
                header(1); // create, which fails
                put_root(&mut request);
                request.put_i32(0);
                request.put_i32(1);
                request.put_i32(31);
                for word in ["world", "anyone"] {
                    request.put_i32(i32::try_from(word.len()).expect("short"));
                    request.put_slice(word.as_bytes());
                }
                request.put_i32(0);
            }
            (Sent::Write, _) => {
                header(14); // multi, with one check
                request.put_i32(13);
                request.put_u8(0);
                request.put_i32(-1);
                put_root(&mut request);
                request.put_i32(-1);
                request.put_i32(-1);
                request.put_u8(1);
                request.put_i32(-1);
            }
        }
        self.recorder.note(Event::Sent {
            client: self.number,
            xid,
            what,
        });
        let _ = write(&mut self.writer, &request).await;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.reader.abort();
        self.recorder.note(Event::Left {
            client: self.number,
        });
    }
}

fn put_root(request: &mut BytesMut) {
    request.put_i32(1);
    request.put_u8(b'/');
}

async fn write(writer: &mut OwnedWriteHalf, frame: &[u8]) -> Option<()> {
    let mut bytes = BytesMut::new();
    bytes.put_i32(i32::try_from(frame.len()).expect("short"));
    bytes.put_slice(frame);
    writer.write_all(&bytes).await.ok()
}

async fn read(reader: &mut OwnedReadHalf) -> Option<BytesMut> {
    let length = reader.read_i32().await.ok()?;
    let mut frame = BytesMut::zeroed(usize::try_from(length).ok()?);
    reader.read_exact(&mut frame).await.ok()?;
    Some(frame)
}
