//! An engine on a clock that the test moves, and helpers that make frames.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use lockkeeper_proto::{
    CreateMode, ErrorCode, Request, Response, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::ReplyHeader,
    jute::{Decode, Reader},
    records::CreateTtlRequest,
};
use lockkeeper_server::engine::{Config, ConnId, Engine, Now, Output, Received, ServerId};
use lockkeeper_test_support::peer;
pub(crate) use peer::{delete, framed, get_data, new_session, request_frame, set_data, sync};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// An engine, its clock, and its output.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Now,
    /// For each connection: the bytes that it got, and whether it was closed.
    pub(crate) sent: Vec<(BytesMut, bool)>,
}

impl World {
    pub(crate) fn new(tick_ms: u32) -> Self {
        let now = Now {
            instant: origin(),
            unix_ms: 1_000_000,
        };
        let mut config = Config::default();
        config.tick_time = MS * tick_ms;
        config.container_check_interval = Duration::from_secs(60);
        Self {
            engine: Engine::new(config, now),
            now,
            sent: Vec::new(),
        }
    }

    /// Lets time pass, and calls the engine at every deadline on the way.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.instant + time;
        loop {
            let due = self.engine.next_deadline().min(end).max(self.now.instant);
            let step = due - self.now.instant;
            self.now.instant = due;
            self.now.unix_ms += i64::try_from(step.as_millis()).unwrap();
            self.engine.tick(self.now);
            self.collect();
            if due == end && self.engine.next_deadline() > end {
                return;
            }
        }
    }

    pub(crate) fn connect(&mut self) -> ConnId {
        self.connect_to(ServerId::FIRST)
    }

    pub(crate) fn connect_to(&mut self, server: ServerId) -> ConnId {
        let id = ConnId(u64::try_from(self.sent.len()).unwrap());
        self.sent.push((BytesMut::new(), false));
        self.engine
            .connected(server, id, "127.0.0.1:5".parse().unwrap(), self.now);
        id
    }

    pub(crate) fn send(&mut self, id: ConnId, bytes: &[u8]) {
        let mut received = self.engine.received(id, BytesMut::from(bytes), self.now);
        self.collect();
        while received == Received::Partly {
            received = self.engine.received(id, BytesMut::new(), self.now);
            self.collect();
        }
    }

    pub(crate) fn collect(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send(id, bytes) => {
                    let (sent, closed) = self.of(id);
                    assert!(!*closed);
                    sent.unsplit(bytes);
                }
                Output::Close(id) | Output::Cut(id) => self.of(id).1 = true,
                Output::Resume(id) => self.send(id, &[]),
            }
        }
    }

    pub(crate) fn of(&mut self, id: ConnId) -> &mut (BytesMut, bool) {
        &mut self.sent[usize::try_from(id.0).unwrap()]
    }

    pub(crate) fn frame(&mut self, id: ConnId) -> Reader {
        let (sent, _) = self.of(id);
        Reader::new(frame::split(sent, usize::MAX >> 1).unwrap().unwrap())
    }

    pub(crate) fn join(&mut self, timeout_ms: i32) -> (ConnId, ConnectResponse) {
        let id = self.connect();
        self.send(id, &connect_frame(timeout_ms));
        let response = ConnectResponse::decode(&mut self.frame(id)).unwrap();
        (id, response)
    }

    pub(crate) fn call(&mut self, id: ConnId, request: &Request) -> Result<Response, ErrorCode> {
        self.send(id, &request_frame(Xid(1), request));
        let mut reply = self.frame(id);
        let header = ReplyHeader::decode(&mut reply).unwrap();
        assert_eq!(header.xid, Xid(1));
        if header.err.is_ok() {
            Ok(Response::decode(request.op(), &mut reply).unwrap())
        } else {
            Err(header.err)
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "an origin; nothing measures with it"
)]
pub(crate) fn origin() -> Instant {
    Instant::now()
}

pub(crate) fn connect_frame(timeout_ms: i32) -> Vec<u8> {
    peer::framed(&ConnectRequest {
        read_only: None,
        ..peer::new_session(timeout_ms)
    })
}

pub(crate) fn create(path: &str, mode: CreateMode) -> Request {
    let Request::Create(record) = peer::create(path, b"", mode) else {
        unreachable!("it is a create");
    };
    match mode {
        CreateMode::Container => Request::CreateContainer(record),
        CreateMode::PersistentWithTtl(ttl) => Request::CreateTtl(CreateTtlRequest {
            path: record.path,
            data: record.data,
            acl: record.acl,
            flags: record.flags,
            ttl_ms: i64::try_from(ttl.as_millis()).unwrap(),
        }),
        _ => Request::Create(record),
    }
}
