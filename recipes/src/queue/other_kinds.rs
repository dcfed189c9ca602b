//! Nodes of another kind of lock in the directory of a lock: the two kinds do not exclude each other, so one of them is refused.
//!
//! A contender sees such nodes in a listing that it makes anyway. Names alone prove nothing: applications choose names, too. So
//! the contender looks at the suspects, and at nothing if there are none. A node of a contender is ephemeral. A semaphore shows
//! in its directory `leases`.
//!
//! Invariant: of two contenders of different kinds, the second one is refused. Each creates its node before it lists, and a
//! semaphore creates a lease before it looks at the directory above.
//!
//! Not here: a plain lock that is not free creates its node without a listing (`kinds::plain`).

use lockkeeper_proto::{
    Request, Response, SessionId, path,
    records::{ExistsRequest, GetChildrenRequest},
};
use lockkeeper_session::Client;

use super::rank;
use crate::{
    backoff::Backoff,
    error::LockError,
    inspect::Recipe,
    node::{directory::Directory, name},
};

/// The kind of lock to which a child with this name may belong, and its number in the queue, if it has one.
fn suspect(child: &str) -> Option<(Recipe, Option<i32>)> {
    const MARKERS: [&str; 7] = [
        name::LOCK,
        name::READ,
        name::WRITE,
        name::KAZOO_LOCK,
        name::KAZOO_READ,
        name::LATCH,
        name::LEASE,
    ];
    if child == name::PLAIN {
        return Some((Recipe::Plain, None));
    }
    if child == name::LEASES {
        return Some((Recipe::Semaphore, None));
    }
    let (marker, number) = name::parse(child, &MARKERS)?;
    let recipe = match marker {
        name::READ | name::KAZOO_READ => Recipe::Read,
        name::WRITE => Recipe::Write,
        name::LATCH => Recipe::Latch,
        name::LEASE => Recipe::Semaphore,
        _ => Recipe::Mutex,
    };
    Some((recipe, Some(number)))
}

/// Whether a child that is not in the queue may belong to another kind of lock, and came before the contender with this number.
/// Whoever comes later is refused itself.
pub(super) fn may_be_ahead(child: &str, own: i32) -> bool {
    suspect(child).is_some_and(|(_, number)| number.is_none_or(|number| number < own))
}

/// Refuses if one of these children belongs to a kind of lock that does not exclude this one.
///
/// # Cancel safety
/// It changes nothing.
pub(crate) async fn refuse(
    client: &Client,
    directory: &Directory,
    ours: Recipe,
    children: impl IntoIterator<Item = &str>,
) -> Result<(), LockError> {
    let suspects: Vec<_> = children
        .into_iter()
        .filter_map(|child| suspect(child).map(|(recipe, _)| (recipe, child)))
        .filter(|(recipe, _)| !ours.excludes(*recipe))
        .collect();
    if suspects.is_empty() {
        return Ok(());
    }
    let look = |(_, child): &(Recipe, &str)| {
        directory.count();
        let path = path::join(&directory.server_path, child);
        match *child {
            name::LEASES => Request::GetChildren2(GetChildrenRequest { path, watch: false }),
            _ => Request::Exists(ExistsRequest { path, watch: false }),
        }
    };
    let mut backoff = Backoff::default();
    'again: loop {
        let requests = suspects.iter().map(look).collect();
        let replies = client.raw().submit_all_with_backpressure(requests).await;
        for (reply, (found, node)) in replies.into_iter().zip(&suspects) {
            let is_lock = match reply.await {
                Ok(Response::Exists(stat)) => stat.stat.ephemeral_owner != SessionId::NONE,
                // An application's node has had no child, or has others.
                Ok(Response::GetChildren2(list)) => {
                    let children = list.children.iter().map(String::as_str);
                    let is_empty = list.children.is_empty() && list.stat.next_sequence() > 0;
                    is_empty || rank::leases(children).next().is_some()
                }
                // A repeated read does no harm. The client itself pauses between connections.
                Err(error) if error.is_transient() => {
                    backoff.after(client, &error).await;
                    continue 'again;
                }
                // It is gone, or it belongs to somebody who hides it from the users of this lock.
                Ok(_) => false,
                Err(error) if error.code().is_some() => false,
                Err(error) => return Err(LockError::of_session(error)),
            };
            if is_lock {
                return Err(LockError::OtherKind {
                    path: directory.path.to_string(),
                    node: (*node).to_owned(),
                    found: *found,
                });
            }
        }
        return Ok(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_look_like_those_of_another_kind_are_suspect() {
        let of = |child| suspect(child).map(|(recipe, _)| recipe);
        assert_eq!(of("lock"), Some(Recipe::Plain));
        assert_eq!(of("leases"), Some(Recipe::Semaphore));
        assert_eq!(of("x-lease-0000000001"), Some(Recipe::Semaphore));
        assert_eq!(of("x-latch-0000000001"), Some(Recipe::Latch));
        assert_eq!(of("x-lock-0000000001"), Some(Recipe::Mutex));
        assert_eq!(of("x__WRIT__0000000001"), Some(Recipe::Write));
        for child in ["locks", "lock-", "leases2", "000", "x-latch-", "worker-1"] {
            assert_eq!(of(child), None, "{child}");
        }
    }

    #[test]
    fn whoever_comes_later_is_refused_itself() {
        assert!(may_be_ahead("x-latch-0000000001", 2));
        assert!(!may_be_ahead("x-latch-0000000003", 2));
        assert!(may_be_ahead("lock", 2) && may_be_ahead("leases", 2));
    }
}
