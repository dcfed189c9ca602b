//! What must not happen.

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Violation {
    /// Somebody holds the lock while another, ahead in the queue, is there with whom it must not be
    /// shared: there are two holders, or one was overtaken.
    NotAlone,
    /// There are more holders than permits. Or a permit was granted although the limit was exceeded
    /// at all times since the listing.
    TooMany,
    /// A permit was granted to a contender although another one, who came earlier, waits.
    Overtaken,
    /// A delete has hit the node of another contender.
    DeletedAnothers,
    /// The lock was granted to a contender whose node had been deleted, as its session had seen.
    GrantedWithoutNode,
    /// The lock was granted in a session that was over.
    GrantedAfterExpiry,
    /// A node of a live session that nobody will delete.
    Orphan,
    /// A try that had not seen the queue free has created a node, and somebody was in the way.
    WroteInVain,
    /// A try waits.
    TryWaits,
    /// Nothing can happen any more, and not all contenders have ended.
    Stuck,
    /// Things happen without end, and not all contenders ever end.
    Livelock,
}
