//! An independent description of the layout of every message: the schema as text, and a walk over
//! the bytes of a message.
//!
//! Invariant: nothing here uses the crate's records or its reader.
//! Source of the schema: `zookeeper.jute`, `ZooDefs.OpCode` and `MultiOperationRecord`.

use crate::message::Kind;

const RECORDS: &str = "
    Id                           {str scheme; str id}
    ACL                          {i32 perms; Id id}
    Stat                         {i64 czxid; i64 mzxid; i64 ctime; i64 mtime; i32 version; i32 cversion; i32 aversion;
                                  i64 ephemeralOwner; i32 dataLength; i32 numChildren; i64 pzxid}
    ClientInfo                   {str authScheme; str user}
    ConnectRequest               {i32 protocolVersion; i64 lastZxidSeen; i32 timeOut; i64 sessionId; buf passwd; rest readOnly}
    ConnectResponse              {i32 protocolVersion; i32 timeOut; i64 sessionId; buf passwd; rest readOnly}
    RequestHeader                {i32 xid; i32 type}
    ReplyHeader                  {i32 xid; i64 zxid; i32 err}
    MultiHeader                  {i32 type; bool done; i32 err}
    WatcherEvent                 {i32 type; i32 state; str path}
    ErrorResponse                {i32 err}
    AuthPacket                   {i32 type; str scheme; buf auth}
    GetSASLRequest               {buf token}
    SetSASLResponse              {buf token}
    CreateRequest                {str path; buf data; vec<ACL> acl; i32 flags}
    CreateTTLRequest             {str path; buf data; vec<ACL> acl; i32 flags; i64 ttl}
    CreateResponse               {str path}
    Create2Response              {str path; Stat stat}
    DeleteRequest                {str path; i32 version}
    CheckVersionRequest          {str path; i32 version}
    ExistsRequest                {str path; bool watch}
    ExistsResponse               {Stat stat}
    GetDataRequest               {str path; bool watch}
    GetDataResponse              {buf data; Stat stat}
    SetDataRequest               {str path; buf data; i32 version}
    SetDataResponse              {Stat stat}
    GetACLRequest                {str path}
    GetACLResponse               {vec<ACL> acl; Stat stat}
    SetACLRequest                {str path; vec<ACL> acl; i32 version}
    SetACLResponse               {Stat stat}
    GetChildrenRequest           {str path; bool watch}
    GetChildrenResponse          {vec<str> children}
    GetChildren2Request          {str path; bool watch}
    GetChildren2Response         {vec<str> children; Stat stat}
    GetAllChildrenNumberRequest  {str path}
    GetAllChildrenNumberResponse {i32 totalNumber}
    GetEphemeralsRequest         {str prefixPath}
    GetEphemeralsResponse        {vec<str> ephemerals}
    SyncRequest                  {str path}
    SyncResponse                 {str path}
    SetWatches                   {i64 relativeZxid; vec<str> dataWatches; vec<str> existWatches; vec<str> childWatches}
    SetWatches2                  {i64 relativeZxid; vec<str> dataWatches; vec<str> existWatches; vec<str> childWatches;
                                  vec<str> persistentWatches; vec<str> persistentRecursiveWatches}
    AddWatchRequest              {str path; i32 mode}
    CheckWatchesRequest          {str path; i32 type}
    RemoveWatchesRequest         {str path; i32 type}
    ReconfigRequest              {str joiningServers; str leavingServers; str newMembers; i64 curConfigId}
    WhoAmIResponse               {vec<ClientInfo> clientInfo}
    -                            {}
";

/// Opcode, request record, reply record. The walk also finds the parts of a multi here, by the
/// opcode in their header.
const OPERATIONS: &str = "
      1 CreateRequest               CreateResponse
      2 DeleteRequest               -
      3 ExistsRequest               ExistsResponse
      4 GetDataRequest              GetDataResponse
      5 SetDataRequest              SetDataResponse
      6 GetACLRequest               GetACLResponse
      7 SetACLRequest               SetACLResponse
      8 GetChildrenRequest          GetChildrenResponse
      9 SyncRequest                 SyncResponse
     11 -                           -
     12 GetChildren2Request         GetChildren2Response
     13 CheckVersionRequest         -
     14 multi                       multi
     15 CreateRequest               Create2Response
     16 ReconfigRequest             GetDataResponse
     17 CheckWatchesRequest         -
     18 RemoveWatchesRequest        -
     19 CreateRequest               Create2Response
     21 CreateTTLRequest            Create2Response
     22 multi                       multi
    100 AuthPacket                  -
    101 SetWatches                  -
    102 GetSASLRequest              SetSASLResponse
    103 GetEphemeralsRequest        GetEphemeralsResponse
    104 GetAllChildrenNumberRequest GetAllChildrenNumberResponse
    105 SetWatches2                 -
    106 AddWatchRequest             ErrorResponse
    107 -                           WhoAmIResponse
    -11 -                           -
     -1 -                           ErrorResponse
";

/// The place of a primitive value in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: usize,
    pub(crate) holds: Holds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Bool,
    Int,
    Long,
    /// The length of a string or buffer.
    Length,
    /// The count of a vector.
    Count,
}

/// The places of all primitive values of a message, in order. Panics when the bytes do not follow
/// the schema.
pub(crate) fn places(kind: Kind, bytes: &[u8]) -> Vec<Place> {
    let mut walk = Walk {
        bytes,
        offset: 0,
        places: Vec::new(),
    };
    match kind {
        Kind::ConnectRequest => walk.over_type("ConnectRequest"),
        Kind::ConnectResponse => walk.over_type("ConnectResponse"),
        Kind::RequestHeader => walk.over_type("RequestHeader"),
        Kind::ReplyHeader => walk.over_type("ReplyHeader"),
        Kind::WatcherEvent => walk.over_type("WatcherEvent"),
        Kind::Request(op) => walk.over_body(op.0, Direction::Request),
        Kind::Response(op) => walk.over_body(op.0, Direction::Response),
    }
    assert_eq!(walk.offset, bytes.len(), "{kind:?}: bytes left over");
    walk.places
}

#[derive(Clone, Copy)]
enum Direction {
    Request,
    Response,
}

struct Walk<'a> {
    bytes: &'a [u8],
    offset: usize,
    places: Vec<Place>,
}

impl Walk<'_> {
    fn over_body(&mut self, op: i32, direction: Direction) {
        let (request, response) = operation(op);
        let body = match direction {
            Direction::Request => request,
            Direction::Response => response,
        };
        if body != "multi" {
            return self.over_type(body);
        }
        loop {
            let header = self.offset;
            self.over_type("MultiHeader");
            let op = self.int_at(header);
            if self.bytes[header + 4] != 0 {
                return;
            }
            self.over_body(op, direction);
        }
    }

    fn over_type(&mut self, name: &str) {
        if let Some(element) = name
            .strip_prefix("vec<")
            .and_then(|it| it.strip_suffix('>'))
        {
            for _ in 0..self.take(Holds::Count, 4) {
                self.over_type(element);
            }
            return;
        }
        match name {
            "bool" => {
                self.take(Holds::Bool, 1);
            }
            "i32" => {
                self.take(Holds::Int, 4);
            }
            "i64" => {
                self.take(Holds::Long, 8);
            }
            "str" | "buf" => {
                let length = self.take(Holds::Length, 4);
                self.offset += usize::try_from(length).unwrap_or(0);
            }
            // The optional last byte.
            "rest" if self.offset == self.bytes.len() => {}
            "rest" => self.over_type("bool"),
            record => {
                for field in fields(record) {
                    self.over_type(field);
                }
            }
        }
    }

    /// Steps over a value of `width` bytes. Returns the value if it has four bytes, and 0
    /// otherwise.
    fn take(&mut self, holds: Holds, width: usize) -> i32 {
        let offset = self.offset;
        self.places.push(Place { offset, holds });
        self.offset += width;
        assert!(self.offset <= self.bytes.len(), "{holds:?} at {offset}");
        if width == 4 { self.int_at(offset) } else { 0 }
    }

    fn int_at(&self, offset: usize) -> i32 {
        let bytes = self.bytes[offset..].first_chunk();
        i32::from_be_bytes(*bytes.unwrap())
    }
}

/// The types of a record's fields.
fn fields(record: &str) -> impl Iterator<Item = &'static str> {
    let body = RECORDS
        .split('}')
        .filter_map(|line| line.split_once('{'))
        .find_map(|(name, body)| (name.trim() == record).then_some(body));
    let body = body.unwrap_or_else(|| panic!("no record {record}"));
    let fields = body.split(';').map(str::trim).filter(|it| !it.is_empty());
    fields.map(|field| field.split_once(' ').map_or(field, |(kind, _)| kind))
}

/// The types of an operation's request and reply.
fn operation(op: i32) -> (&'static str, &'static str) {
    let mut lines = OPERATIONS.lines().map(|line| {
        let mut words = line.split_whitespace();
        (words.next(), words.next(), words.next())
    });
    let op = op.to_string();
    match lines.find(|(code, _, _)| *code == Some(&*op)) {
        Some((_, Some(request), Some(response))) => (request, response),
        _ => panic!("no operation {op}"),
    }
}
