//! Requests as bytes, including the frame, and the few fields of replies that this program reads.

/// The number of bytes in a frame before the request's fields: length, xid, operation.
const HEAD: usize = 12;
const CREATE: i32 = 1;
const DELETE: i32 = 2;
const GET_DATA: i32 = 4;
const GET_CHILDREN: i32 = 8;
const PING: i32 = 11;
const CLOSE_SESSION: i32 = -11;
/// The number of bytes in a reply before its fields: xid, zxid, error.
pub const REPLY_HEAD: usize = 16;
/// The number of digits that the server appends to a name.
const DIGITS: usize = 10;

/// The kind of a node: the flags on the wire.
#[derive(Clone, Copy)]
pub enum Mode {
    Persistent = 0,
    Ephemeral = 1,
    EphemeralSequential = 3,
}

pub fn connect(timeout_ms: i32) -> Vec<u8> {
    let mut fields = Vec::new();
    fields.extend(0i32.to_be_bytes()); // protocol version
    fields.extend(0i64.to_be_bytes()); // last zxid seen
    fields.extend(timeout_ms.to_be_bytes());
    fields.extend(0i64.to_be_bytes()); // session
    put(&mut fields, &[0; 16]); // password
    fields.push(0); // read-only
    let mut frame = Vec::new();
    put(&mut frame, &fields);
    frame
}

pub fn create(path: &str, data: &[u8], mode: Mode) -> Vec<u8> {
    frame(CREATE, |out| {
        put(out, path.as_bytes());
        put(out, data);
        out.extend(1i32.to_be_bytes()); // an ACL with one entry: all permissions for everyone
        out.extend(31i32.to_be_bytes());
        put(out, b"world");
        put(out, b"anyone");
        out.extend((mode as i32).to_be_bytes());
    })
}

pub fn delete(path: &[u8]) -> Vec<u8> {
    frame(DELETE, |out| {
        put(out, path);
        out.extend((-1i32).to_be_bytes()); // any version
    })
}

pub fn get_data(path: &str, watch: bool) -> Vec<u8> {
    frame(GET_DATA, |out| {
        put(out, path.as_bytes());
        out.push(watch.into());
    })
}

pub fn get_children(path: &str) -> Vec<u8> {
    frame(GET_CHILDREN, |out| {
        put(out, path.as_bytes());
        out.push(0);
    })
}

pub fn ping() -> Vec<u8> {
    let mut ping = frame(PING, |_| {});
    set_xid(&mut ping, -2);
    ping
}

pub fn close_session() -> Vec<u8> {
    frame(CLOSE_SESSION, |_| {})
}

/// Sets the xid of a request.
pub fn set_xid(request: &mut [u8], xid: i32) {
    request[4..8].copy_from_slice(&xid.to_be_bytes());
}

fn frame(operation: i32, fields: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; HEAD];
    out[8..].copy_from_slice(&operation.to_be_bytes());
    fields(&mut out);
    let length = length(out.len() - 4);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(length(bytes.len()).to_be_bytes());
    out.extend(bytes);
}

fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).expect("nothing here is that long")
}

pub fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub fn count(bytes: &[u8], at: usize) -> usize {
    usize::try_from(int(bytes, at)).expect("a count")
}

/// The buffer or string at this offset.
pub fn buffer(bytes: &[u8], at: usize) -> &[u8] {
    &bytes[at + 4..][..count(bytes, at)]
}

/// Whether the request of this reply succeeded.
pub fn succeeded(reply: &[u8]) -> bool {
    int(reply, 12) == 0
}

/// The children in a reply.
pub fn children(reply: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = REPLY_HEAD + 4;
    (0..count(reply, REPLY_HEAD)).map(move |_| {
        let name = buffer(reply, at);
        at += 4 + name.len();
        name
    })
}

/// The digits that the server appended. All have the same length, so they sort like numbers.
pub fn number(name: &[u8]) -> &[u8] {
    &name[name.len() - DIGITS..]
}
