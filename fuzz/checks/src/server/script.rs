//! Turns bytes into choices: what hostile clients send.

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    Acl, Id, OpCode, Perms, SessionId, Xid, Zxid,
    connect::ConnectRequest,
    frame,
    header::RequestHeader,
    jute::{Encode, Writer},
};

use crate::script::Script;

/// The requests, with the fields of their bodies: see [`Script::body`]. Some stand here twice, to
/// be chosen more often.
const REQUESTS: [(OpCode, &str); 30] = [
    (OpCode::CREATE, "pdaf"),
    (OpCode::CREATE2, "pdaf"),
    (OpCode::CREATE2, "pdaf"),
    (OpCode::CREATE_CONTAINER, "pdaf"),
    (OpCode::CREATE_TTL, "pdafl"),
    (OpCode::DELETE, "pi"),
    (OpCode::DELETE, "pi"),
    (OpCode::EXISTS, "w"),
    (OpCode::GET_DATA, "w"),
    (OpCode::SET_DATA, "pdi"),
    (OpCode::GET_ACL, "p"),
    (OpCode::SET_ACL, "pai"),
    (OpCode::GET_CHILDREN, "w"),
    (OpCode::GET_CHILDREN2, "w"),
    (OpCode::GET_ALL_CHILDREN_NUMBER, "p"),
    (OpCode::GET_EPHEMERALS, "o"),
    (OpCode::SYNC, "p"),
    (OpCode::PING, ""),
    (OpCode::MULTI, "M"),
    (OpCode::MULTI, "M"),
    (OpCode::MULTI_READ, "R"),
    (OpCode::RECONFIG, "c"),
    (OpCode::SET_WATCHES, "lPPP"),
    (OpCode::SET_WATCHES2, "lPPPPP"),
    (OpCode::ADD_WATCH, "pm"),
    (OpCode::CHECK_WATCHES, "pt"),
    (OpCode::REMOVE_WATCHES, "pt"),
    (OpCode::AUTH, "sd"),
    // Or another request without a path.
    (OpCode::CLOSE_SESSION, ""),
    (OpCode::CHECK, "pi"),
];

/// The header that ends a list of operations.
const END_OF_LIST: &[u8] = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff";

impl Script<'_> {
    fn number(&mut self) -> i32 {
        match self.byte() {
            0 => i32::MAX,
            1 => i32::MIN,
            2 => -1,
            choice => i32::from(choice).saturating_sub(3),
        }
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

    fn data(&mut self) -> Option<Bytes> {
        match self.byte() {
            0 => None,
            1 => Some(Bytes::from(vec![7; 40_000])),
            _ => Some(self.take()),
        }
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

    /// Writes the body of a request: one field for each letter.
    fn body(&mut self, fields: &str, writer: &mut Writer<'_>) {
        for field in fields.chars() {
            match field {
                'p' => self.path().encode(writer),
                // A path, and whether to watch it.
                'w' => {
                    let watch = self.byte() & 1 != 0;
                    self.path().encode(writer);
                    watch.encode(writer);
                }
                'o' => (self.byte() & 1 != 0).then(|| self.path()).encode(writer),
                'P' => {
                    let count = self.byte() % 4;
                    let paths: Vec<_> = (0..count).map(|_| self.path()).collect();
                    paths.encode(writer);
                }
                'd' => self.data().encode(writer),
                'a' => self.acl().encode(writer),
                'i' => self.number().encode(writer),
                'l' => i64::from(self.number()).encode(writer),
                // The flags of a create, the mode of a watch, and the type of a watch.
                'f' => i32::from(self.byte() % 9).encode(writer),
                'm' => i32::from(self.byte() % 3).encode(writer),
                't' => i32::from(self.byte() % 7).encode(writer),
                's' => {
                    let schemes = ["ip", "nobody knows", "digest", "digest"];
                    0_i32.encode(writer);
                    one_of(&schemes, self.byte()).to_owned().encode(writer);
                }
                // No change of the configuration.
                'c' => writer.put_slice(&[0xff; 4 * 3 + 8]),
                'M' => self.multi(writer),
                'R' => self.multi_read(writer),
                _ => unreachable!("no such field: {field}"),
            }
        }
    }

    fn multi(&mut self, writer: &mut Writer<'_>) {
        const OPS: [(u8, &str); 7] = [
            (1, "pdaf"),
            (15, "pdaf"),
            (19, "pdaf"),
            (21, "pdafl"),
            (2, "pi"),
            (5, "pdi"),
            (13, "pi"),
        ];
        for _ in 0..self.byte() % 6 {
            let (op, fields) = one_of(&OPS, self.byte());
            writer.put_slice(&[0, 0, 0, op, 0, 0xff, 0xff, 0xff, 0xff]);
            self.body(fields, writer);
        }
        writer.put_slice(END_OF_LIST);
    }

    fn multi_read(&mut self, writer: &mut Writer<'_>) {
        // 255 times 40,000 bytes are more than the server answers.
        let repeat = match self.byte() {
            0xff => 0xff,
            choice => choice % 4,
        };
        let op = if self.byte() % 2 == 0 { 4 } else { 8 };
        let mut part = BytesMut::new();
        let mut one = Writer::new(&mut part);
        one.put_slice(&[0, 0, 0, op, 0, 0xff, 0xff, 0xff, 0xff]);
        self.body("w", &mut one);
        writer.put_slice(&part.repeat(repeat.into()));
        writer.put_slice(END_OF_LIST);
    }

    /// A well-formed request with arbitrary contents, in its frame.
    pub(super) fn request_frame(&mut self) -> BytesMut {
        let xid = Xid(self.number());
        let (mut op, mut fields) = one_of(&REQUESTS, self.byte());
        if op == OpCode::CLOSE_SESSION {
            (op, fields) = match self.byte() % 4 {
                0 => (op, fields),
                1 => (OpCode::SASL, "d"),
                _ => (OpCode::WHO_AM_I, ""),
            };
        }
        framed(|writer| {
            RequestHeader { xid, op }.encode(writer);
            self.body(fields, writer);
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
        BytesMut::from(one_of(&words, self.byte()))
    }
}

fn one_of<T: Copy>(these: &[T], choice: u8) -> T {
    these[usize::from(choice) % these.len()]
}

fn framed(write: impl FnOnce(&mut Writer<'_>)) -> BytesMut {
    let mut out = BytesMut::new();
    let appended = frame::append(&mut out, write);
    assert!(appended.is_ok(), "a short message");
    out
}
