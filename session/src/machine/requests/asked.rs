//! What the replies to creates must say: the node that was asked for, created by the transaction
//! that the reply names.
//!
//! A caller takes the node of such a reply for its own, deletes it, and may fence others with its
//! `czxid`. So a reply that names another node, or another transaction, counts as one that cannot
//! be read: its effect is unknown, and the connection ends.

use lockkeeper_proto::{
    CreateMode, Request, Response, Stat, Zxid,
    jute::{DecodeError, DecodeErrorKind},
    multi::{MultiOp, MultiResult},
    path::SEQUENCE_DIGITS,
    records::CreateTtlRequest,
};

/// A node that a request creates.
#[derive(Debug)]
pub struct NewNode {
    path: String,
    is_sequential: bool,
}

/// The nodes that a request creates.
#[derive(Debug)]
#[non_exhaustive]
pub enum Asked {
    /// None.
    Nothing,
    /// One.
    Node(NewNode),
    /// Those of a transaction, each with the index of its operation.
    Nodes(Vec<(usize, NewNode)>),
}

impl Asked {
    /// The nodes that this request creates.
    #[must_use]
    pub fn of(request: Request) -> Self {
        match request {
            Request::Create(create)
            | Request::Create2(create)
            | Request::CreateContainer(create) => {
                Self::Node(NewNode::new(create.path, create.flags))
            }
            Request::CreateTtl(create) => Self::Node(NewNode::with_ttl(create)),
            Request::Multi(multi) => {
                let nodes = multi.ops.into_iter().enumerate();
                Self::Nodes(
                    nodes
                        .filter_map(|(index, op)| Some((index, NewNode::of(op)?)))
                        .collect(),
                )
            }
            _ => Self::Nothing,
        }
    }

    /// Checks a reply whose header names this transaction.
    ///
    /// # Errors
    /// The field that belongs to another node or transaction.
    pub fn check(&self, zxid: Zxid, response: &Response) -> Result<(), DecodeError> {
        match (self, response) {
            (Self::Node(node), Response::Create(reply)) => node.check(&reply.path, None, zxid),
            (
                Self::Node(node),
                Response::Create2(reply)
                | Response::CreateContainer(reply)
                | Response::CreateTtl(reply),
            ) => node.check(&reply.path, Some(&reply.stat), zxid),
            (Self::Nodes(nodes), Response::Multi(reply)) if reply.failure().is_none() => nodes
                .iter()
                .try_for_each(|(index, node)| match reply.results.get(*index) {
                    Some(MultiResult::Create(made)) => node.check(&made.path, None, zxid),
                    Some(MultiResult::Create2(made)) => {
                        node.check(&made.path, Some(&made.stat), zxid)
                    }
                    _ => Err(unasked("MultiResponse.results")),
                }),
            _ => Ok(()),
        }
    }
}

impl NewNode {
    fn new(path: String, flags: i32) -> Self {
        let mode = CreateMode::from_flags(flags, 0);
        Self {
            path,
            is_sequential: mode.is_some_and(CreateMode::is_sequential),
        }
    }

    fn with_ttl(create: CreateTtlRequest) -> Self {
        Self::new(create.path, create.flags)
    }

    fn of(op: MultiOp) -> Option<Self> {
        Some(match op {
            MultiOp::Create(create)
            | MultiOp::Create2(create)
            | MultiOp::CreateContainer(create) => Self::new(create.path, create.flags),
            MultiOp::CreateTtl(create) => Self::with_ttl(create),
            _ => return None,
        })
    }

    fn check(&self, path: &str, stat: Option<&Stat>, zxid: Zxid) -> Result<(), DecodeError> {
        if !self.is(path) {
            return Err(unasked("CreateResponse.path"));
        }
        match stat {
            Some(stat) if stat.czxid != zxid || zxid <= Zxid::ZERO => Err(unasked("Stat.czxid")),
            _ => Ok(()),
        }
    }

    /// Whether the server may give this path to the node: the one that was asked for, and the
    /// number of a sequential node.
    ///
    /// Source: `PrepRequestProcessor.java`, `%010d` of a number of any sign. It has ten digits, one
    /// of which may be a minus sign instead, or more.
    fn is(&self, path: &str) -> bool {
        let Some(number) = path.strip_prefix(self.path.as_str()) else {
            return false;
        };
        if !self.is_sequential {
            return number.is_empty();
        }
        let digits = number.strip_prefix('-').unwrap_or(number);
        number.len() >= SEQUENCE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())
    }
}

fn unasked(field: &'static str) -> DecodeError {
    DecodeError {
        field,
        offset: 0,
        kind: DecodeErrorKind::Unasked,
    }
}
