//! A client that sends what a test tells it to, and notes what it hears.
//!
//! Not here: the session machine of the product, which would ping by itself.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    Acl, Request, SessionId, Version, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse, PASSWORD_LEN},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Encode, Reader, Writer},
    multi::MultiRequest,
    records::{CheckVersionRequest, CreateRequest, Empty, ExistsRequest, SetDataRequest},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    task::JoinHandle,
    time::timeout,
};

use crate::facts::record::{Of, Recorder, Sent, What};

/// A session, and its connection.
#[derive(Debug)]
pub(crate) struct Client {
    recorder: Arc<Recorder>,
    session: ConnectRequest,
    next_xid: i32,
    of: Of,
    wire: Option<Wire>,
}

/// What sends, and what notes the answers.
type Wire = (OwnedWriteHalf, JoinHandle<()>);

impl Client {
    /// Makes a session. `None` if the server does not, or not soon.
    pub(crate) async fn open(
        recorder: &Arc<Recorder>,
        server: (usize, SocketAddr),
        timeout: Duration,
    ) -> Option<Self> {
        let mut client = Self {
            recorder: recorder.clone(),
            session: ConnectRequest {
                protocol_version: 0,
                last_zxid_seen: Zxid::ZERO,
                timeout_ms: timeout.as_millis().try_into().expect("short"),
                session_id: SessionId::NONE,
                password: Some(Bytes::from_static(&[0; PASSWORD_LEN])),
                read_only: Some(false),
            },
            next_xid: 1,
            of: Of::Client(0),
            wire: None,
        };
        client.connect(server).await.then_some(client)
    }

    /// Leaves the server, if there is one, and resumes the session on this one.
    pub(crate) async fn connect(&mut self, server: (usize, SocketAddr)) -> bool {
        self.leave();
        let connected = timeout(Duration::from_secs(5), self.handshake(server)).await;
        self.wire = connected.ok().flatten();
        self.wire.is_some()
    }

    async fn handshake(&mut self, (server, address): (usize, SocketAddr)) -> Option<Wire> {
        let stream = TcpStream::connect(address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let (mut reader, mut writer) = stream.into_split();
        let (recorder, of) = (self.recorder.clone(), Of::Client(self.recorder.number()));
        self.of = of;
        let session = self.session.session_id.0;
        recorder.note(of, What::Connect(server, session));
        write(&mut writer, |out| self.session.encode(out)).await?;
        let answer = read::<ConnectResponse>(&mut reader).await;
        let Some(answer) = answer.filter(|it| it.timeout_ms > 0) else {
            recorder.note(of, What::Lost);
            return None;
        };
        (self.session.session_id, self.session.password) = (answer.session_id, answer.password);
        recorder.note(of, What::Connected(answer.session_id.0));
        let reading = async move {
            while let Some(ReplyHeader { xid, .. }) = read(&mut reader).await {
                recorder.note(of, What::Answered(xid.0));
            }
            recorder.note(of, What::Lost);
        };
        Some((writer, tokio::spawn(reading)))
    }

    pub(crate) fn is_lost(&self) -> bool {
        let wire = self.wire.as_ref();
        wire.is_none_or(|(_, reader)| reader.is_finished())
    }

    /// Sends a request. There are three kinds of writes; `choice` is one of them.
    pub(crate) async fn send(&mut self, what: Sent, choice: u64) {
        let (path, version) = ("/".to_owned(), Version::ANY);
        let request = match (what, choice % 3) {
            (Sent::Touch, _) => Request::Exists(ExistsRequest { path, watch: false }),
            (Sent::Close, _) => Request::CloseSession(Empty {}),
            (Sent::Write, 0) => Request::SetData(SetDataRequest {
                path,
                data: None,
                version,
            }),
            // It fails: the node exists.
            (Sent::Write, 1) => Request::Create(CreateRequest {
                path,
                data: None,
                acl: Some(Acl::OPEN_UNSAFE.into()),
                flags: 0,
            }),
            (Sent::Write, _) => Request::Multi(MultiRequest {
                ops: vec![Request::Check(CheckVersionRequest { path, version })],
            }),
        };
        let (xid, op) = (Xid(self.next_xid), request.op());
        self.next_xid += 1;
        self.recorder.note(self.of, What::Sent(xid.0, what));
        if let Some((writer, _)) = &mut self.wire {
            let encode = |out: &mut Writer<'_>| {
                RequestHeader { xid, op }.encode(out);
                request.encode(out);
            };
            let _ = write(writer, encode).await;
        }
    }

    fn leave(&mut self) {
        if let Some((_, reader)) = self.wire.take() {
            reader.abort();
            self.recorder.note(self.of, What::Left);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.leave();
    }
}

async fn write(writer: &mut OwnedWriteHalf, message: impl Fn(&mut Writer<'_>)) -> Option<()> {
    let mut bytes = BytesMut::new();
    frame::append(&mut bytes, message).expect("short");
    writer.write_all(&bytes).await.ok()
}

/// What a frame begins with.
async fn read<T: Decode>(reader: &mut OwnedReadHalf) -> Option<T> {
    let length = reader.read_i32().await.ok()?;
    let mut frame = BytesMut::zeroed(usize::try_from(length).ok()?);
    reader.read_exact(&mut frame).await.ok()?;
    Some(T::decode(&mut Reader::new(frame.freeze())).expect("a message of a server"))
}
