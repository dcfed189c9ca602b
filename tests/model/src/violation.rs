//! What must not be, in any state.

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Violation {
    /// Somebody holds the lock while another, ahead in the line, is there with whom it must not be shared: two holders, or
    /// one who was skipped.
    NotAlone,
    /// More hold leases than there are, or a lease was granted although there was no room at any time since the look.
    TooMany,
    /// A lease was granted past somebody who came earlier and waits.
    Overtaken,
    /// A delete by name has hit the node of somebody else.
    DeletedAnothers,
    /// The lock was granted to a contender whose node was gone by then.
    GrantedWithoutNode,
    /// The lock was granted in a session that was over.
    GrantedAfterExpiry,
    /// A node of a live session whom nobody will delete.
    Orphan,
    /// A try that had not seen the line free has created a node, and somebody was in the way.
    WroteInVain,
    /// A try waits.
    TryWaits,
    /// Nothing can happen any more, and not everybody is done.
    Stuck,
    /// Things happen without end, and not everybody gets done.
    Livelock,
}
