//! Setting, checking and removing watches, and the events of several watches on one node.
//!
//! The cases avoid three differences of servers before 3.9:
//! - These keep one watch mode for each path of a connection. No case sets a persistent watch and
//!   another watch on the same path of one connection.
//! - They do not know the types 4 and 5 when a client removes watches. No case uses these types.
//! - When they check watches, they also find those of other connections. No case checks a path that
//!   another connection watches.
//!
//! Not here: the events of each kind of change (`events`).

use crate::conformance;

const WHY: &str =
    "A waiter watches the node ahead: a watch that is lost or elsewhere does not wake it.";

conformance! {
    only_exists_sets_a_watch_on_a_missing_node: r#"
        a> getData $/x watch
        a< no node
        a> getChildren $/x watch
        a< no node
        a> getChildren2 $/x watch
        a< no node
        a> checkWatches $/x kind=any
        a< no such watch
        a> exists $/x watch
        a< no node
        a> checkWatches $/x kind=any
        a< ok
        b> create $/x
        b< z1 ok $/x
        a< event created $/x
    "#;

    a_refused_read_sets_no_watch: r#"
        a> create $/x acl=world:anyone:wcda
        a< z1 ok $/x
        a> getData $/x watch
        a< not authorized
        a> getChildren $/x watch
        a< not authorized
        a> checkWatches $/x kind=any
        a< no such watch
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
    "#;

    repeated_data_watches_fire_once: r#"
        a> create $/x
        a< z1 ok $/x
        a> getData $/x watch
        a< ok "" stat z1
        a> exists $/x watch
        a< ok stat z1
        a> getData $/x watch
        a< ok "" stat z1
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
        a< event changed $/x
        b> setData $/x data=2
        b< z3 ok stat z1 m=z3 v=2 len=1
    "#;

    a_deleted_node_gives_one_event_for_two_watches: r#"
        a> create $/x
        a< z1 ok $/x
        a> getData $/x watch
        a< ok "" stat z1
        a> getChildren $/x watch
        a< ok []
        b> delete $/x
        b< z2 ok
        a< event deleted $/x
        b> create $/x
        b< z3 ok $/x
        b> create $/x/y
        b< z4 ok $/x/y
        b> setData $/x data=1
        b< z5 ok stat z3 m=z5 p=z4 v=1 cv=1 len=1 kids=1
    "#;

    a_read_without_a_watch_keeps_the_existing_watch: r#"
        a> create $/x
        a< z1 ok $/x
        a> getData $/x watch
        a< ok "" stat z1
        a> getData $/x
        a< ok "" stat z1
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
        a< event changed $/x
    "#;

    a_recursive_watch_and_a_plain_one_both_fire: r#"
        a> create $/x
        a< z1 ok $/x
        a> addWatch $ kind=recursive
        a< ok
        a> getChildren $/x watch
        a< ok []
        a> getData $/x watch
        a< ok "" stat z1
        b> create $/x/y
        b< z2 ok $/x/y
        a< event created $/x/y
        a< event children $/x
        b> setData $/x data=1
        b< z3 ok stat z1 m=z3 p=z2 v=1 cv=1 len=1 kids=1
        a< event changed $/x
        b> delete $/x/y
        b< z4 ok
        a< event deleted $/x/y
    "#;

    two_nested_recursive_watches_give_one_event: r#"
        a> create $/x
        a< z1 ok $/x
        a> addWatch $ kind=recursive
        a< ok
        a> addWatch $/x kind=recursive
        a< ok
        b> create $/x/y
        b< z2 ok $/x/y
        a< event created $/x/y
        b> setData $/x/y data=1
        b< z3 ok stat z2 m=z3 v=1 len=1
        a< event changed $/x/y
        b> delete $/x/y
        b< z4 ok
        a< event deleted $/x/y
    "#;

    a_recursive_watch_covers_all_descendants: r#"
        a> addWatch $/x kind=recursive
        a< ok
        b> create $/x
        b< z1 ok $/x
        a< event created $/x
        b> create $/x/y
        b< z2 ok $/x/y
        a< event created $/x/y
        b> create $/x/y/z
        b< z3 ok $/x/y/z
        a< event created $/x/y/z
        b> setData $/x/y/z data=1
        b< z4 ok stat z3 m=z4 v=1 len=1
        a< event changed $/x/y/z
        b> create $/xx
        b< z5 ok $/xx
        b> delete $/x/y/z
        b< z6 ok
        a< event deleted $/x/y/z
        b> delete $/x/y
        b< z7 ok
        a< event deleted $/x/y
        b> delete $/x
        b< z8 ok
        a< event deleted $/x
        b> create $/x
        b< z9 ok $/x
        a< event created $/x
    "#;

    persistent_watches_need_no_node: r#"
        a> addWatch $/x kind=persistent
        a< ok
        a> addWatch "no path" kind=recursive
        a< ok
        b> create $/x
        b< z1 ok $/x
        a< event created $/x
        b> delete $/x
        b< z2 ok
        a< event deleted $/x
        b> create $/x
        b< z3 ok $/x
        a< event created $/x
    "#;

    an_unknown_watch_mode_is_refused: r#"
        a> addWatch $ kind=2
        a< marshalling error
        a> addWatch $ kind=-1
        a< marshalling error
        a> checkWatches $ kind=any
        a< no such watch
    "#;

    own_changes_give_their_event_before_the_reply: r#"
        a> create $/x
        a< z1 ok $/x
        a> getData $/x watch
        a< ok "" stat z1
        a> getChildren $ watch
        a< ok [x]
        a> setData $/x data=1
        a< event changed $/x
        a< z2 ok stat z1 m=z2 v=1 len=1
        a> delete $/x
        a< event children $
        a< z3 ok
    "#;

    a_watch_sent_together_with_the_change_fires: r#"
        a& exists $/x watch
        a& getChildren $ watch
        a> create $/x
        a< no node
        a< ok []
        a< event created $/x
        a< event children $
        a< z1 ok $/x
    "#;

    watches_end_with_their_connection: r#"
        a> create $/x
        a< z1 ok $/x
        a> getData $/x watch
        a< ok "" stat z1
        a> addWatch $ kind=recursive
        a< ok
        a! drop
        a> connect resume=a
        a< session a timeout=30000
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
        b> create $/y
        b< z3 ok $/y
    "#;

    watches_are_checked_by_kind: r#"
        a> create $/x
        a< z1 ok $/x
        a> checkWatches $/x kind=children
        a< no such watch
        a> checkWatches $/x kind=data
        a< no such watch
        a> checkWatches $/x kind=any
        a< no such watch
        a> getData $/x watch
        a< ok "" stat z1
        a> checkWatches $/x kind=children
        a< no such watch
        a> checkWatches $/x kind=data
        a< ok
        a> checkWatches $/x kind=any
        a< ok
        a> getChildren $ watch
        a< ok [x]
        a> checkWatches $ kind=children
        a< ok
        a> checkWatches $ kind=data
        a< no such watch
    "#;

    watches_are_removed_by_kind: r#"
        a> create $/x
        a< z1 ok $/x
        a> getData $/x watch
        a< ok "" stat z1
        a> getChildren $/x watch
        a< ok []
        a> removeWatches $/x kind=data
        a< ok
        a> removeWatches $/x kind=data
        a< no such watch
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
        b> create $/x/y
        b< z3 ok $/x/y
        a< event children $/x
        a> removeWatches $/x kind=children
        a< no such watch
        a> getData $/x watch
        a< ok "1" stat z1 m=z2 p=z3 v=1 cv=1 len=1 kids=1
        a> getChildren $/x watch
        a< ok [y]
        a> removeWatches $/x kind=any
        a< ok
        a> removeWatches $/x kind=any
        a< no such watch
        b> setData $/x data=2
        b< z4 ok stat z1 m=z4 p=z3 v=2 cv=1 len=1 kids=1
    "#;

    a_watch_on_a_missing_node_is_removed_as_a_data_watch: r#"
        a> exists $/x watch
        a< no node
        a> removeWatches $/x kind=children
        a< no such watch
        a> removeWatches $/x kind=data
        a< ok
        b> create $/x
        b< z1 ok $/x
    "#;

    /// The server finds a recursive watch only at its own path, not below it.
    persistent_watches_are_removed_only_at_their_own_path: r#"
        a> addWatch $/x kind=recursive
        a< ok
        a> addWatch $/y kind=persistent
        a< ok
        a> checkWatches $/x/z kind=any
        a< no such watch
        a> removeWatches $/x/z kind=any
        a< no such watch
        a> checkWatches $/x kind=any
        a< ok
        a> removeWatches $/x kind=any
        a< ok
        a> removeWatches $/y kind=any
        a< ok
        b> create $/x
        b< z1 ok $/x
        b> create $/y
        b< z2 ok $/y
    "#;

    an_unknown_watcher_type_is_refused: r#"
        a> exists $ watch
        a< ok stat z0
        a> checkWatches $ kind=0
        a< marshalling error
        a> checkWatches $ kind=6
        a< marshalling error
        a> removeWatches $ kind=9
        a< marshalling error
        a> removeWatches $ kind=-1
        a< marshalling error
        a> checkWatches $ kind=any
        a< ok
    "#;

    /// Apache's releases check this from 3.8.4 and 3.9.2, Debian's 3.8.0 too. The change uses up
    /// the watch all the same.
    an_event_needs_read_permission: r#"
        a> auth digest user:pass
        a< ok
        a> create $/x acl=world:anyone:rwcda
        a< z1 ok $/x
        b> getData $/x watch
        b< ok "" stat z1
        b> addWatch $ kind=persistent
        b< ok
        a> setACL $/x acl=auth::rwcda
        a< z2 ok stat z1 av=1
        a> setData $/x data=1
        a< z3 ok stat z1 m=z3 v=1 av=1 len=1
        a> setACL $/x
        a< z4 ok stat z1 m=z3 v=1 av=2 len=1
        a> setData $/x data=2
        a< z5 ok stat z1 m=z5 v=2 av=2 len=1
        a> setACL $ acl=auth::rwcda
        a< z6 ok stat z0 p=z1 cv=1 av=1 kids=1
        a> create $/y
        a< z7 ok $/y
        a> delete $/y
        a< z8 ok
        a> setACL $
        a< z9 ok stat z0 p=z8 cv=3 av=2 kids=1
        a> delete $/x
        a< z10 ok
        b< event children $
    "#;
}
