//! The refusals of servers, in words for people: what is wrong, and what to do.
//!
//! `-v` prints the client's own error as well (`exit::report`). Not here: exit statuses.

use lockkeeper::{
    Error,
    error::ErrorKind,
    proto::{ErrorCode, OpCode},
};

/// The words for a missing node.
pub(crate) const NO_NODE: &str = "there is no such node";

/// The words for a server that throttles: the embedded one of `serve` does so until the leases of the clients of its predecessor have ended.
pub(crate) const TOO_EARLY: &str = "the server grants no lock yet: after a restart, lockkeeper serve waits for the clients of \
     the former server (a ZooKeeper that answers so is overloaded)";

/// An error of the client, in words for people.
pub(crate) fn plain(error: &Error) -> String {
    let ErrorKind::Refused { op, path, code, .. } = error.kind() else {
        return error.to_string();
    };
    let reason = reason(*op, *code);
    match (path.as_str(), op.name()) {
        ("", Some(op)) => format!("{op}: {reason}"),
        ("", None) => reason,
        (path, _) => format!("{path}: {reason}"),
    }
}

/// Why a server refuses an operation.
pub(crate) fn reason(op: OpCode, code: ErrorCode) -> String {
    let text = match code {
        ErrorCode::NO_NODE if op.is_create() => "its parent does not exist; --parents creates it",
        ErrorCode::NO_NODE => NO_NODE,
        ErrorCode::NODE_EXISTS => "the node exists already",
        ErrorCode::NOT_EMPTY => "the node has children; --recursive deletes them, too",
        ErrorCode::BAD_VERSION => "the version is another one",
        ErrorCode::NO_AUTH => {
            "no permission by the ACL; give an identity that has it with --auth-file, --tls-cert or --kerberos"
        }
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS => {
            "its parent is ephemeral, and can have no children"
        }
        ErrorCode::INVALID_ACL => {
            "the server does not accept the ACL; an entry for the creator needs an identity (--auth-file)"
        }
        ErrorCode::UNIMPLEMENTED if op == OpCode::CREATE_TTL => {
            "the servers do not support --ttl: it needs zookeeper.extendedTypesEnabled=true"
        }
        ErrorCode::BAD_ARGUMENTS if op == OpCode::DELETE => {
            "the servers need this node: it cannot be deleted"
        }
        ErrorCode::QUOTA_EXCEEDED => "a quota does not allow it",
        ErrorCode::THROTTLED_OP => TOO_EARLY,
        ErrorCode::NOT_READ_ONLY => "the server has lost its ensemble, and only answers reads",
        other => return other.to_string(),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_without_words_of_its_own_is_the_code() {
        assert_eq!(
            reason(OpCode::CREATE2, ErrorCode::NO_NODE),
            "its parent does not exist; --parents creates it"
        );
        assert_eq!(reason(OpCode::GET_DATA, ErrorCode::NO_NODE), NO_NODE);
        assert_eq!(
            reason(OpCode::SYNC, ErrorCode::AUTH_FAILED),
            "authentication failed (-115)"
        );
    }
}
