//! An independent description of the layout of every message: the schema as text, a walk over the
//! bytes of a message, and arbitrary messages.
//!
//! Invariant: nothing here uses the crate's records, its reader or its writer.
//! Source of the schema: `zookeeper.jute`, `ZooDefs.OpCode` and `MultiOperationRecord`.

use proptest::{collection::vec, option, prelude::*, strategy::Union};

use crate::message::Kind;

/// A field is `type name`, or `type name:other` if the crate has another name for it. A value
/// whose type has a `?` may be null.
const RECORDS: &str = include_str!("records.txt");

/// Opcode, request record, reply record. The walk also finds the parts of a multi here, by the
/// opcode in their header.
const OPERATIONS: &str = include_str!("operations.txt");

/// The place of a primitive value in a message.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The crate's name of the field.
    pub(crate) field: String,
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
    match body(kind) {
        Body::Record(record) => walk.over_type(record, ""),
        Body::List(side, _) => walk.over_list(side),
    }
    assert_eq!(walk.offset, bytes.len(), "{kind:?}: bytes left over");
    walk.places
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Request,
    Response,
}

/// What a message consists of.
enum Body {
    Record(&'static str),
    /// A list of parts of these operations.
    List(Side, &'static [i32]),
}

fn body(kind: Kind) -> Body {
    let (op, side) = match kind {
        Kind::ConnectRequest => return Body::Record("ConnectRequest"),
        Kind::ConnectResponse => return Body::Record("ConnectResponse"),
        Kind::RequestHeader => return Body::Record("RequestHeader"),
        Kind::ReplyHeader => return Body::Record("ReplyHeader"),
        Kind::WatcherEvent => return Body::Record("WatcherEvent"),
        Kind::Request(op) => (op.0, Side::Request),
        Kind::Response(op) => (op.0, Side::Response),
    };
    match (op, side) {
        (14, Side::Request) => Body::List(side, &[1, 2, 5, 13, 15, 19, 21]),
        (22, Side::Request) => Body::List(side, &[4, 8]),
        (14 | 22, Side::Response) => Body::List(side, &[1, 2, 4, 5, 8, 13, 15, -1]),
        _ => Body::Record(record(op, side)),
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    offset: usize,
    places: Vec<Place>,
}

impl Walk<'_> {
    fn over_list(&mut self, side: Side) {
        loop {
            let header = self.offset;
            self.over_type("MultiHeader", "");
            if self.bytes[header + 4] != 0 {
                return;
            }
            self.over_type(record(self.int_at(header), side), "");
        }
    }

    fn over_type(&mut self, name: &str, field: &str) {
        let name = name.strip_suffix('?').unwrap_or(name);
        match (name, element(name)) {
            (_, Some(element)) => {
                for _ in 0..self.take(field, Holds::Count, 4) {
                    self.over_type(element, field);
                }
            }
            // The optional last byte.
            ("rest", _) if self.offset == self.bytes.len() => {}
            ("rest" | "bool", _) => drop(self.take(field, Holds::Bool, 1)),
            ("i32", _) => drop(self.take(field, Holds::Int, 4)),
            ("i64", _) => drop(self.take(field, Holds::Long, 8)),
            ("str" | "buf", _) => {
                let length = self.take(field, Holds::Length, 4);
                self.offset += usize::try_from(length).unwrap_or(0);
            }
            (record, _) => {
                for (kind, field) in fields(record) {
                    self.over_type(kind, &field);
                }
            }
        }
    }

    /// Steps over a value of `width` bytes. Returns the value if it has four bytes, and 0
    /// otherwise.
    fn take(&mut self, field: &str, holds: Holds, width: usize) -> i32 {
        let (field, offset) = (field.to_owned(), self.offset);
        self.offset += width;
        assert!(self.offset <= self.bytes.len(), "{field} at {offset}");
        self.places.push(Place {
            field,
            offset,
            holds,
        });
        if width == 4 { self.int_at(offset) } else { 0 }
    }

    fn int_at(&self, offset: usize) -> i32 {
        let bytes = self.bytes[offset..].first_chunk();
        i32::from_be_bytes(*bytes.unwrap())
    }
}

/// The type of a vector's elements.
fn element(name: &str) -> Option<&str> {
    name.strip_prefix("vec<")?.strip_suffix('>')
}

/// The fields of a record: the type of each, and the crate's name.
fn fields(record: &str) -> impl Iterator<Item = (&'static str, String)> {
    let body = RECORDS
        .split('}')
        .filter_map(|line| line.split_once('{'))
        .find_map(|(name, body)| (name.trim() == record).then_some(body));
    let body = body.unwrap_or_else(|| panic!("no record {record}"));
    let fields = body.split(';').map(str::trim).filter(|it| !it.is_empty());
    fields.map(|field| {
        let (kind, name) = field.split_once(' ').unwrap();
        let name = name
            .split_once(':')
            .map_or_else(|| snake(name), |(_, it)| it.to_owned());
        (kind, name)
    })
}

/// `readOnly` as `read_only`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_uppercase() {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

/// The record of an operation's request or reply.
fn record(op: i32, side: Side) -> &'static str {
    let op = op.to_string();
    let mut lines = OPERATIONS.lines().map(str::split_whitespace);
    let line = lines.find_map(|mut words| (words.next()? == op).then_some(words));
    let mut line = line.unwrap_or_else(|| panic!("no operation {op}"));
    let index = usize::from(side == Side::Response);
    line.nth(index).unwrap()
}

type Part = BoxedStrategy<Vec<u8>>;

/// Arbitrary messages of a kind.
///
/// The values are small, so that a test has time to cut a message at each of its bytes.
pub(crate) fn messages(kind: Kind) -> Part {
    match body(kind) {
        Body::Record(record) => of_type(record),
        Body::List(side, ops) => {
            let parts = ops.iter().map(|op| part(*op, side));
            let end = header(-1, true, -1);
            let list = vec(Union::new(parts), 0..5);
            list.prop_map(move |parts| [&parts.concat()[..], &end].concat())
                .boxed()
        }
    }
}

/// A request or a result in a list.
fn part(op: i32, side: Side) -> Part {
    let err = match (op, side) {
        (-1, _) => any::<i32>().boxed(),
        (_, Side::Request) => Just(-1).boxed(),
        (_, Side::Response) => Just(0).boxed(),
    };
    let body = of_type(record(op, side));
    let part = (err, body).prop_map(move |(err, body)| {
        // The header of an error and its body have the same code.
        let body = if op == -1 {
            err.to_be_bytes().to_vec()
        } else {
            body
        };
        [&header(op, false, err)[..], &body].concat()
    });
    part.boxed()
}

fn header(op: i32, done: bool, err: i32) -> Vec<u8> {
    [&op.to_be_bytes()[..], &[done.into()], &err.to_be_bytes()].concat()
}

fn of_type(name: &str) -> Part {
    if let Some(name) = name.strip_suffix('?') {
        let null = (-1_i32).to_be_bytes().to_vec();
        let value = option::of(of_type(name));
        return value
            .prop_map(move |it| it.unwrap_or_else(|| null.clone()))
            .boxed();
    }
    match (name, element(name)) {
        (_, Some(element)) => vec(of_type(element), 0..4)
            .prop_map(|each| counted(each.len(), &each.concat()))
            .boxed(),
        ("bool", _) => any::<bool>().prop_map(|it| vec![it.into()]).boxed(),
        ("rest", _) => vec(of_type("bool"), 0..2)
            .prop_map(|it| it.concat())
            .boxed(),
        ("i32", _) => any::<i32>()
            .prop_map(|it| it.to_be_bytes().to_vec())
            .boxed(),
        ("i64", _) => any::<i64>()
            .prop_map(|it| it.to_be_bytes().to_vec())
            .boxed(),
        // Text that looks like a path, or text of arbitrary characters.
        ("str", _) => Union::new([
            "(/[a-z.]{0,3}){0,4}".boxed(),
            vec(any::<char>(), 0..6).prop_map(String::from_iter).boxed(),
        ])
        .prop_map(|text| counted(text.len(), text.as_bytes()))
        .boxed(),
        ("buf", _) => vec(any::<u8>(), 0..20)
            .prop_map(|bytes| counted(bytes.len(), &bytes))
            .boxed(),
        (record, _) => {
            let each: Vec<Part> = fields(record).map(|(kind, _)| of_type(kind)).collect();
            each.prop_map(|each| each.concat()).boxed()
        }
    }
}

/// Bytes behind a length or a count.
fn counted(count: usize, bytes: &[u8]) -> Vec<u8> {
    let count = i32::try_from(count).unwrap();
    [&count.to_be_bytes()[..], bytes].concat()
}
