//! The table of operations, and the bytes of a request as a script writes it.
//!
//! Not here: the text of a reply (`reply`), splitting a line into words (`words`).

use bytes::{BufMut, BytesMut};
use lockkeeper::proto::{OpCode, Xid, frame, jute::Encode};

use super::{names::Names, words::Words};

/// Each operation, the fields of its request (see [`put`]), and those of its reply (see `reply`).
const OPERATIONS: &str = "\
create str data acl i32/mode=0 -> path
create2 str data acl i32/mode=0 -> path stat
createContainer str data acl i32/mode=4 -> path stat
createTTL str data acl i32/mode=5 i64/ttl -> path stat
delete str version ->
exists str watch -> stat
getData str watch -> data stat
setData str data version -> stat
getACL str -> acl stat
setACL str acl version -> stat
getChildren str watch -> names
getChildren2 str watch -> names stat
getAllChildrenNumber str -> count
getEphemerals str -> paths
sync str -> path
ping ->
check str version ->
multi operations -> results
multiRead operations -> results
reconfig str/joining str:null str:null i64:-1 -> data stat
setWatches i64/zxid list/data list/exist list/child ->
setWatches2 i64/zxid list/data list/exist list/child list/persistent list/recursive ->
addWatch str i32/kind -> err
checkWatches str i32/kind ->
removeWatches str i32/kind ->
auth i32:0 str str ->
sasl str -> token
whoAmI -> identities
closeSession ->";

/// The fields of the request and of the reply of an operation.
pub(crate) fn fields_of(op: OpCode) -> [&'static str; 2] {
    let of_row = |row: &'static str| {
        let (name, fields) = row.split_once(' ')?;
        let (request, reply) = fields.split_once("->")?;
        (op.name() == Some(name)).then_some([request, reply.trim_start()])
    };
    let mut rows = OPERATIONS.lines();
    let fields = rows.find_map(of_row);
    fields.unwrap_or_else(|| panic!("not in the table: {op}"))
}

/// A request, complete except for its xid.
pub(crate) struct Request {
    pub(crate) op: OpCode,
    /// The xid, if the script asks for one; then the transcript shows the xid of the reply.
    pub(crate) xid: Option<Xid>,
    /// Whether the transcript shows only success or failure.
    pub(crate) is_brief: bool,
    body: BytesMut,
}

impl Request {
    /// Parses a request. `more` holds the operations of a list.
    pub(crate) fn parse(line: &str, more: &[&str], names: &Names) -> Self {
        let mut words = Words::new(line, names);
        let xid = words.option("xid").map(|xid| Xid(names.number(&xid)));
        let is_brief = words.flag("brief");
        let (cut, extra) = (words.number("cut", 0), words.number("extra", 0));
        let (op, mut body) = operation(words, more);
        body.truncate(body.len() - cut);
        body.put_bytes(0x5a, extra);
        Self {
            op,
            xid,
            is_brief,
            body,
        }
    }

    /// Appends the request as a frame.
    pub(crate) fn frame(&self, xid: Xid, out: &mut BytesMut) {
        frame::append(out, |writer| {
            xid.encode(writer);
            self.op.encode(writer);
            writer.put_slice(&self.body);
        })
        .expect("a frame");
    }
}

/// An operation and its fields: those of the table, or those behind `raw`, for bodies of any form.
fn operation(mut words: Words<'_>, more: &[&str]) -> (OpCode, BytesMut) {
    let mut name = words.next();
    let is_raw = name == "raw";
    if is_raw {
        name = words.next();
    }
    let mut named = OpCode::NAMED.iter().copied();
    let op = named
        .find(|op| op.name() == Some(&name))
        .unwrap_or_else(|| OpCode(words.names.number(&name)));
    let fields = if is_raw {
        words.rest()
    } else {
        let fields = fields_of(op)[0].split_whitespace();
        fields.map(str::to_owned).collect()
    };
    let mut body = BytesMut::new();
    for field in &fields {
        put(&mut body, field, &mut words, more);
    }
    assert!(
        more.is_empty() || fields == ["operations"],
        "{name} is no list"
    );
    words.end();
    (op, body)
}

/// Appends a field: `KIND` is the next word of the line, `KIND:VALUE` has that value, and
/// `KIND/NAME=DEFAULT` is an option. The other names are short for what many requests have.
fn put(body: &mut BytesMut, field: &str, words: &mut Words<'_>, more: &[&str]) {
    let names = words.names;
    let field = match field {
        "data" => match words.option("fill") {
            None => "str/data=\"\"",
            Some(message) => {
                // The message begins with its header. Behind the data come an ACL with the one
                // entry `world:anyone`, and the flags.
                let length = names.number::<usize>(&message) - 8 - body.len() - 4 - 31;
                return put_text(body, Some(&vec![b'x'; length]));
            }
        },
        "acl" => "acl/acl=world:anyone:rwcda",
        "version" => "i32/version=-1",
        "watch" if words.flag("watch") => "bool:1",
        "watch" => "bool:0",
        "operations" => return put_operations(body, more, names),
        other => other,
    };
    let (kind, value) = field.split_at(field.find([':', '/']).unwrap_or(field.len()));
    let value = match value.split_at_checked(1) {
        None => words.next(),
        Some((":", value)) => value.to_owned(),
        Some((_, option)) => {
            let (name, default) = option.split_once('=').unwrap_or((option, ""));
            let value = words.option(name);
            value.unwrap_or_else(|| default.to_owned())
        }
    };
    match kind {
        "i32" => body.put_i32(names.number(&value)),
        "i64" => body.put_i64(names.number(&value)),
        "bool" => body.put_u8(names.number(&value)),
        "str" => put_text(body, names.bytes(&value).as_deref()),
        "list" | "acl" if value == "null" => body.put_i32(-1),
        "list" | "acl" => {
            let list = names.expand(&value);
            let mut entries: Vec<_> = list.split(',').collect();
            entries.retain(|entry| !matches!(*entry, "" | "none"));
            put_length(body, entries.len());
            for entry in entries {
                let mut id = entry;
                if kind == "acl" {
                    let (identity, perms) = entry.rsplit_once(':').expect("permissions");
                    let (scheme, rest) = identity.split_once(':').expect("a scheme");
                    let letters = perms.chars().map(|letter| PERMS.find(letter));
                    let bits: Option<i32> = letters.map(|bit| bit.map(|bit| 1 << bit)).sum();
                    body.put_i32(bits.unwrap_or_else(|| names.number(perms)));
                    put_text(body, Some(scheme.as_bytes()));
                    id = rest;
                }
                put_text(body, Some(id.as_bytes()));
            }
        }
        _ => panic!("no kind of field: {kind}"),
    }
}

/// Appends a list of operations: before each of them, and at the end, there is a header.
fn put_operations(body: &mut BytesMut, lines: &[&str], names: &Names) {
    let header = |body: &mut BytesMut, op: OpCode, is_end: u8| {
        body.put_i32(op.0);
        body.put_u8(is_end);
        body.put_i32(-1);
    };
    for line in lines {
        let (op, part) = operation(Words::new(line, names), &[]);
        header(body, op, 0);
        body.put_slice(&part);
    }
    header(body, OpCode::ERROR, 1);
}

fn put_length(body: &mut BytesMut, length: usize) {
    body.put_i32(length.try_into().expect("a short list"));
}

fn put_text(body: &mut BytesMut, text: Option<&[u8]>) {
    let Some(text) = text else {
        return body.put_i32(-1);
    };
    put_length(body, text.len());
    body.put_slice(text);
}

/// Permissions as zkCli writes them, in the order of their bits.
pub(crate) const PERMS: &str = "rwcda";
