//! Turns bytes into choices: what a server sends and what a user asks for.

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    AddWatchMode, CreateMode, ErrorCode, EventType, KeeperState, OpCode, Request, SessionId,
    Version, WatcherEvent, Xid, Zxid,
    connect::ConnectResponse,
    frame,
    header::ReplyHeader,
    jute::{Encode, Writer},
    records::{
        AddWatchRequest, CreateRequest, DeleteRequest, ExistsRequest, GetChildrenRequest,
        GetDataRequest, SyncRequest,
    },
};

use lockkeeper_session::Cause;

use crate::script::Script;

impl Script<'_> {
    fn i64(&mut self) -> i64 {
        let choice = self.byte();
        match choice % 8 {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => -1,
            _ => i64::from(choice),
        }
    }

    pub(super) fn node(&mut self) -> String {
        match self.byte() {
            choice @ 0..0xc0 => format!("/{}", choice % 8),
            choice @ 0xc0..0xf0 => format!("/{}/below", choice % 8),
            choice => format!("/{}", "long".repeat(usize::from(choice))),
        }
    }

    pub(super) fn cause(&mut self) -> Cause {
        match self.byte() % 3 {
            0 => Cause::ClosedByServer,
            1 => Cause::from(&std::io::ErrorKind::ConnectionReset.into()),
            _ => Cause::Frame(frame::FrameError::Negative(-1)),
        }
    }

    /// A correct reply to a handshake.
    pub(super) fn good_greeting(&mut self, asked: SessionId) -> Bytes {
        let session_id = if asked == SessionId::NONE {
            SessionId(i64::from(self.byte()) + 1)
        } else {
            asked
        };
        greeting(session_id, 4000, Some(Bytes::from_static(&[7; 16])), None)
    }

    /// A reply to a handshake, mostly for the session that was asked for.
    pub(super) fn greeting(&mut self, asked: SessionId) -> Bytes {
        let choice = self.byte();
        let session_id = match choice % 8 {
            0 => SessionId::NONE,
            1 => SessionId(0x999),
            _ if asked == SessionId::NONE => SessionId(i64::from(choice) + 1),
            _ => asked,
        };
        let timeout_ms = match self.byte() % 8 {
            0 => 0,
            1 => -1,
            2 => 1,
            3 => i32::MAX,
            _ => 4000,
        };
        let password = match self.byte() % 8 {
            0 => None,
            1 => Some(Bytes::new()),
            2 => Some(Bytes::from(vec![1; 100])),
            _ => Some(Bytes::from(vec![7; 16])),
        };
        let read_only = match choice % 3 {
            0 => None,
            choice => Some(choice == 2),
        };
        greeting(session_id, timeout_ms, password, read_only)
    }

    /// A reply, mostly a success with a body that may fit.
    pub(super) fn reply(&mut self, xid: Xid, op: OpCode) -> Bytes {
        let choice = self.byte();
        let xid = if choice == 0 { Xid(xid.0 + 1) } else { xid };
        let err = match choice % 16 {
            1 | 2 => ErrorCode::NO_NODE,
            3 => ErrorCode::UNIMPLEMENTED,
            4 => ErrorCode(i32::from(choice) - 300),
            5 if choice < 8 => ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH,
            _ => ErrorCode::OK,
        };
        let zxid = Zxid(self.i64());
        message(|writer| {
            ReplyHeader { xid, zxid, err }.encode(writer);
            match op {
                _ if choice > 0xf8 => writer.put_slice(&self.take()),
                // A path, then no children or no data, and as many bytes as a Stat takes.
                OpCode::SYNC => "/".to_owned().encode(writer),
                OpCode::CREATE2 => {
                    "/".to_owned().encode(writer);
                    writer.put_slice(&[0; 68]);
                }
                OpCode::EXISTS => writer.put_slice(&[0; 68]),
                _ => writer.put_slice(&[0; 72]),
            }
        })
    }

    pub(super) fn notification(&mut self) -> Bytes {
        let event = WatcherEvent {
            event_type: EventType(i32::from(self.byte() % 6)),
            state: KeeperState(3),
            path: self.node(),
        };
        let header = ReplyHeader {
            xid: Xid::NOTIFICATION,
            zxid: Zxid(self.i64()),
            err: ErrorCode::OK,
        };
        message(|writer| {
            header.encode(writer);
            event.encode(writer);
        })
    }
}

/// A request that a user may make.
pub(super) fn request(script: &mut Script<'_>) -> Request {
    let choice = script.byte();
    let (path, watch) = (script.node(), choice & 0x80 != 0);
    match choice % 6 {
        0 => Request::GetData(GetDataRequest { path, watch }),
        1 => Request::Exists(ExistsRequest { path, watch }),
        2 => Request::GetChildren(GetChildrenRequest { path, watch }),
        3 => Request::Delete(DeleteRequest {
            path,
            version: Version::ANY,
        }),
        4 => Request::Create2(CreateRequest {
            path,
            data: Some(script.take()),
            acl: None,
            flags: CreateMode::Persistent.flags(),
        }),
        _ if watch => {
            let mode = AddWatchMode(i32::from((choice >> 5) & 3) % 3);
            Request::AddWatch(AddWatchRequest { path, mode })
        }
        _ => Request::Sync(SyncRequest { path }),
    }
}

fn greeting(
    session_id: SessionId,
    timeout_ms: i32,
    password: Option<Bytes>,
    read_only: Option<bool>,
) -> Bytes {
    message(|writer| {
        ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id,
            password,
            read_only,
        }
        .encode(writer);
    })
}

fn message(write: impl FnOnce(&mut Writer<'_>)) -> Bytes {
    let mut out = BytesMut::new();
    let appended = frame::append(&mut out, write);
    assert!(appended.is_ok(), "a short message");
    let mut message = out.freeze();
    let _ = bytes::Buf::get_i32(&mut message);
    message
}
