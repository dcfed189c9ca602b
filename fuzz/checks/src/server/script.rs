//! Turns bytes into choices: what hostile clients send.

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    Acl, AddWatchMode, Id, OpCode, Perms, Request, SessionId, Version, WatcherType, Xid, Zxid,
    connect::ConnectRequest,
    frame,
    header::RequestHeader,
    jute::{Encode, Writer},
    multi::{MultiOp, MultiReadOp, MultiReadRequest, MultiRequest},
    records::{
        AddWatchRequest, AuthPacket, CheckVersionRequest, CheckWatchesRequest, CreateRequest,
        CreateTtlRequest, DeleteRequest, Empty, ExistsRequest, GetAclRequest,
        GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest, GetEphemeralsRequest,
        ReconfigRequest, RemoveWatchesRequest, SaslRequest, SetAclRequest, SetDataRequest,
        SetWatches, SetWatches2, SyncRequest,
    },
};

/// The bytes of the choices that are still to be made. When they have run out, every choice is the
/// first one.
pub(super) struct Script<'a>(pub(super) &'a [u8]);

impl Script<'_> {
    pub(super) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    fn number(&mut self) -> i32 {
        match self.byte() {
            0 => i32::MAX,
            1 => i32::MIN,
            2 => -1,
            choice => i32::from(choice).saturating_sub(3),
        }
    }

    /// Takes a length byte, and then that many bytes, or all that are left.
    pub(super) fn take(&mut self) -> Bytes {
        let length = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at_checked(length).unwrap_or_default();
        self.0 = rest;
        Bytes::copy_from_slice(taken)
    }

    /// A path. There are few different ones, so that requests meet. Some are long, malformed, or
    /// the server's own.
    pub(super) fn path(&mut self) -> String {
        match self.byte() {
            choice @ 0..0x80 => {
                let name = |bits: u8| char::from(b'a'.saturating_add(bits % 4));
                match choice >> 5 {
                    0 => format!("/{}", name(choice)),
                    1 => format!("/{}/{}", name(choice), name(choice >> 2)),
                    2 => format!("/{}/", name(choice)),
                    _ => format!("/a/{}/{}", name(choice), name(choice >> 2)),
                }
            }
            choice @ 0x80..0xa0 => "/long".repeat(usize::from(choice)),
            0xa0..0xb0 => "/".to_owned(),
            0xb0 => "/zookeeper".to_owned(),
            0xb1 => "/zookeeper/config".to_owned(),
            0xb2 => String::new(),
            0xb3 => "/\0".to_owned(),
            0xb4 => "//".to_owned(),
            0xb5 => "a".to_owned(),
            _ => String::from_utf8_lossy(&self.take()).into_owned(),
        }
    }

    fn paths(&mut self) -> Vec<String> {
        let count = self.byte() % 4;
        (0..count).map(|_| self.path()).collect()
    }

    fn data(&mut self) -> Option<Bytes> {
        match self.byte() {
            0 => None,
            1 => Some(Bytes::from(vec![7; 40_000])),
            _ => Some(self.take()),
        }
    }

    fn version(&mut self) -> Version {
        Version(self.number())
    }

    fn acl(&mut self) -> Option<Vec<Acl>> {
        let count = match self.byte() {
            0 => return None,
            1..0xc0 => return Some(Acl::OPEN_UNSAFE.to_vec()),
            0xff => 300,
            choice => usize::from(choice % 8),
        };
        let (scheme, id) = match self.byte() % 7 {
            0 => ("auth", ""),
            1 => ("world", "anyone"),
            2 => ("ip", "127.0.0.0/8"),
            3 => ("ip", "::/0"),
            4 => ("digest", "user:hash"),
            5 => ("sasl", "alice"),
            _ => ("nobody", "knows"),
        };
        let perms = i32::from(self.byte());
        let entry = |more: usize| Acl {
            perms: Perms(perms.wrapping_add(i32::try_from(more).unwrap_or(0))),
            id: Id {
                scheme: scheme.into(),
                id: id.into(),
            },
        };
        Some((0..count).map(entry).collect())
    }

    fn create(&mut self) -> CreateRequest {
        CreateRequest {
            path: self.path(),
            data: self.data(),
            acl: self.acl().map(Into::into),
            flags: i32::from(self.byte() % 9),
        }
    }

    fn create_ttl(&mut self) -> CreateTtlRequest {
        let CreateRequest {
            path,
            data,
            acl,
            flags,
        } = self.create();
        CreateTtlRequest {
            path,
            data,
            acl,
            flags,
            ttl_ms: i64::from(self.number()),
        }
    }

    fn get_data(&mut self) -> GetDataRequest {
        GetDataRequest {
            watch: self.byte() & 1 != 0,
            path: self.path(),
        }
    }

    fn get_children(&mut self) -> GetChildrenRequest {
        GetChildrenRequest {
            watch: self.byte() & 1 != 0,
            path: self.path(),
        }
    }

    fn delete(&mut self) -> DeleteRequest {
        DeleteRequest {
            path: self.path(),
            version: self.version(),
        }
    }

    fn set_data(&mut self) -> SetDataRequest {
        SetDataRequest {
            path: self.path(),
            data: self.data(),
            version: self.version(),
        }
    }

    fn multi_op(&mut self) -> MultiOp {
        match self.byte() % 7 {
            0 => MultiOp::Create(self.create()),
            1 => MultiOp::Create2(self.create()),
            2 => MultiOp::CreateContainer(self.create()),
            3 => MultiOp::CreateTtl(self.create_ttl()),
            4 => MultiOp::Delete(self.delete()),
            5 => MultiOp::SetData(self.set_data()),
            _ => MultiOp::Check(CheckVersionRequest {
                path: self.path(),
                version: self.version(),
            }),
        }
    }

    fn multi_read(&mut self) -> MultiReadRequest {
        // 255 times 40,000 bytes are more than the server answers.
        let repeat = match self.byte() {
            0xff => 0xff,
            choice => choice % 4,
        };
        let op = match self.byte() % 2 {
            0 => MultiReadOp::GetData(self.get_data()),
            _ => MultiReadOp::GetChildren(self.get_children()),
        };
        MultiReadRequest {
            ops: (0..repeat).map(|_| op.clone()).collect(),
        }
    }

    /// A well-formed request with arbitrary contents.
    pub(super) fn request(&mut self) -> Request {
        match self.byte() % 30 {
            0 => Request::Create(self.create()),
            1 | 2 => Request::Create2(self.create()),
            3 => Request::CreateContainer(self.create()),
            4 => Request::CreateTtl(self.create_ttl()),
            5 | 6 => Request::Delete(self.delete()),
            7 => Request::Exists(ExistsRequest {
                watch: self.byte() & 1 != 0,
                path: self.path(),
            }),
            8 => Request::GetData(self.get_data()),
            9 => Request::SetData(self.set_data()),
            10 => Request::GetAcl(GetAclRequest { path: self.path() }),
            11 => Request::SetAcl(SetAclRequest {
                path: self.path(),
                acl: self.acl().map(Into::into),
                version: self.version(),
            }),
            12 => Request::GetChildren(self.get_children()),
            13 => Request::GetChildren2(self.get_children()),
            14 => Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: self.path() }),
            15 => Request::GetEphemerals(GetEphemeralsRequest {
                prefix_path: (self.byte() & 1 != 0).then(|| self.path()),
            }),
            16 => Request::Sync(SyncRequest { path: self.path() }),
            17 => Request::Ping(Empty {}),
            18 | 19 => {
                let count = self.byte() % 6;
                let ops = (0..count).map(|_| self.multi_op()).collect();
                Request::Multi(MultiRequest { ops })
            }
            20 => Request::MultiRead(self.multi_read()),
            21 => Request::Reconfig(ReconfigRequest {
                joining_servers: None,
                leaving_servers: None,
                new_members: None,
                cur_config_id: -1,
            }),
            22 => Request::SetWatches(SetWatches {
                relative_zxid: Zxid(i64::from(self.number())),
                data_watches: self.paths(),
                exist_watches: self.paths(),
                child_watches: self.paths(),
            }),
            23 => Request::SetWatches2(SetWatches2 {
                relative_zxid: Zxid(i64::from(self.number())),
                data_watches: self.paths(),
                exist_watches: self.paths(),
                child_watches: self.paths(),
                persistent_watches: self.paths(),
                persistent_recursive_watches: self.paths(),
            }),
            24 => Request::AddWatch(AddWatchRequest {
                path: self.path(),
                mode: AddWatchMode(i32::from(self.byte() % 3)),
            }),
            25 => Request::CheckWatches(CheckWatchesRequest {
                path: self.path(),
                watcher_type: WatcherType(i32::from(self.byte() % 7)),
            }),
            26 => Request::RemoveWatches(RemoveWatchesRequest {
                path: self.path(),
                watcher_type: WatcherType(i32::from(self.byte() % 7)),
            }),
            27 => Request::Auth(AuthPacket {
                auth_type: 0,
                scheme: match self.byte() % 4 {
                    0 => "ip".to_owned(),
                    1 => "nobody knows".to_owned(),
                    _ => "digest".to_owned(),
                },
                auth: self.data(),
            }),
            28 => match self.byte() % 4 {
                0 => Request::CloseSession(Empty {}),
                1 => Request::Sasl(SaslRequest { token: self.data() }),
                _ => Request::WhoAmI(Empty {}),
            },
            _ => Request::Check(CheckVersionRequest {
                path: self.path(),
                version: self.version(),
            }),
        }
    }

    /// A well-formed request in its frame.
    pub(super) fn request_frame(&mut self) -> BytesMut {
        let xid = Xid(self.number());
        let request = self.request();
        let op = request.op();
        framed(|writer| {
            RequestHeader { xid, op }.encode(writer);
            request.encode(writer);
        })
    }

    /// A request with an arbitrary operation and an arbitrary body.
    pub(super) fn raw_request_frame(&mut self) -> BytesMut {
        let xid = Xid(self.number());
        let op = OpCode(match self.byte() {
            choice @ 0..0x80 => i32::from(choice),
            choice => i32::from(choice).saturating_sub(0x90),
        });
        let body = self.take();
        framed(|writer| {
            RequestHeader { xid, op }.encode(writer);
            writer.put_slice(&body);
        })
    }

    /// A handshake for this session, well-formed for most choices.
    pub(super) fn handshake(&mut self, session: Option<(SessionId, Bytes)>) -> BytesMut {
        let (session_id, password) = match session {
            Some((id, password)) => (id, Some(password)),
            None => (SessionId::NONE, Some(Bytes::from_static(&[0; 16]))),
        };
        let mut request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: 4000,
            session_id,
            password,
            read_only: Some(false),
        };
        match self.byte() {
            0 => request.password = None,
            1 => request.last_zxid_seen = Zxid(i64::from(self.number())),
            2 => request.timeout_ms = self.number(),
            3 => request.session_id = SessionId(i64::from(self.number())),
            4 => request.read_only = None,
            5 => request.password = Some(self.take()),
            6 => request.protocol_version = self.number(),
            _ => {}
        }
        framed(|writer| request.encode(writer))
    }

    /// A four-letter word.
    pub(super) fn word(&mut self) -> BytesMut {
        let words = [
            "ruok", "isro", "srvr", "stat", "mntr", "cons", "dump", "wchs", "conf", "envi", "wchc",
            "crst", "nope", "ruo",
        ];
        let choice = usize::from(self.byte()) % words.len();
        BytesMut::from(words.get(choice).copied().unwrap_or_default())
    }
}

fn framed(write: impl FnOnce(&mut Writer<'_>)) -> BytesMut {
    let mut out = BytesMut::new();
    let appended = frame::append(&mut out, write);
    assert!(appended.is_ok(), "a short message");
    out
}
