//! What the replies to creates must say: the node that was asked for, created by the transaction
//! that the reply names.
//!
//! A caller takes the node of such a reply for its own, deletes it, and may fence others with its
//! `czxid`. So a reply that names another node, or another transaction, counts as one that cannot
//! be read: its effect is unknown, and the connection ends.

use lockkeeper_proto::{
    CreateMode, Request, Response, Stat, Zxid,
    jute::{DecodeError, DecodeErrorKind},
    path::SEQUENCE_DIGITS,
};

/// The nodes that a request creates.
#[derive(Debug)]
#[non_exhaustive]
pub enum Asked {
    /// None.
    Nothing,
    /// One.
    #[non_exhaustive]
    Node {
        /// The path in the request.
        path: String,
        /// Whether the server appends a number to it.
        is_sequential: bool,
    },
    /// Those of each operation of a transaction.
    Each(Vec<Self>),
}

impl Asked {
    /// The nodes that this request creates.
    #[must_use]
    pub fn of(request: Request) -> Self {
        let node = |path, flags| Self::Node {
            path,
            is_sequential: CreateMode::from_flags(flags, 0).is_some_and(CreateMode::is_sequential),
        };
        match request {
            Request::Create(create)
            | Request::Create2(create)
            | Request::CreateContainer(create) => node(create.path, create.flags),
            Request::CreateTtl(create) => node(create.path, create.flags),
            Request::Multi(multi) => Self::Each(multi.ops.into_iter().map(Self::of).collect()),
            _ => Self::Nothing,
        }
    }

    /// Checks a reply whose header names this transaction.
    ///
    /// # Errors
    /// The field that belongs to another node or transaction.
    pub fn check(&self, zxid: Zxid, response: &Response) -> Result<(), DecodeError> {
        match (self, response) {
            (Self::Node { .. }, Response::Create(reply)) => self.names(&reply.path, None, zxid),
            (
                Self::Node { .. },
                Response::Create2(reply)
                | Response::CreateContainer(reply)
                | Response::CreateTtl(reply),
            ) => self.names(&reply.path, Some(&reply.stat), zxid),
            (Self::Each(asked), Response::Multi(reply)) if reply.failure().is_none() => {
                let mut results = reply.results.iter();
                asked
                    .iter()
                    .try_for_each(|asked| match (asked, results.next()) {
                        (Self::Nothing, _) => Ok(()),
                        (asked, Some(Ok(result))) => asked.check(zxid, result),
                        _ => Err(unasked("MultiResponse.results")),
                    })
            }
            (Self::Node { .. }, _) => Err(unasked("MultiResponse.results")),
            _ => Ok(()),
        }
    }

    fn names(&self, path: &str, stat: Option<&Stat>, zxid: Zxid) -> Result<(), DecodeError> {
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
        let Self::Node {
            path: asked,
            is_sequential,
        } = self
        else {
            return false;
        };
        let Some(number) = path.strip_prefix(asked.as_str()) else {
            return false;
        };
        if !is_sequential {
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
