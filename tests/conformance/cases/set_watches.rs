//! Restored watches: `setWatches` and `setWatches2`.
//!
//! If a node has changed in the meantime, the server sends an event before the reply. Otherwise it
//! sets the watch again.

use crate::conformance;

const WHY: &str = "A waiter that reconnects must hear of what it missed, or it waits forever.";

conformance! {
    changed_data_give_an_event: r#"
        a> create $/same
        a< z1 ok $/same
        a> create $/changed
        a< z2 ok $/changed
        a> create $/gone
        a< z3 ok $/gone
        a> create $/again
        a< z4 ok $/again
        b> setData $/changed data=1
        b< z5 ok stat z2 m=z5 v=1 len=1
        b> delete $/gone
        b< z6 ok
        b> delete $/again
        b< z7 ok
        b> create $/again
        b< z8 ok $/again
        a> setWatches zxid=z4 data=$/same,$/changed,$/gone,$/again xid=-8
        a< event changed $/changed
        a< event deleted $/gone
        a< event changed $/again
        a< xid=-8 ok
        b> setData $/same data=1
        b< z9 ok stat z1 m=z9 v=1 len=1
        a< event changed $/same
        b> setData $/changed data=2
        b< z10 ok stat z2 m=z10 v=2 len=1
        b> create $/gone
        b< z11 ok $/gone
    "#;

    an_existing_node_gives_a_created_event_even_if_it_is_old: r#"
        a> create $/old
        a< z1 ok $/old
        b> create $/new
        b< z2 ok $/new
        a> setWatches zxid=z2 exist=$/old,$/new,$/no xid=-8
        a< event created $/old
        a< event created $/new
        a< xid=-8 ok
        b> create $/no
        b< z3 ok $/no
        a< event created $/no
        b> setData $/old data=1
        b< z4 ok stat z1 m=z4 v=1 len=1
    "#;

    changed_children_give_an_event: r#"
        a> create $/same
        a< z1 ok $/same
        a> create $/grown
        a< z2 ok $/grown
        a> create $/gone
        a< z3 ok $/gone
        a> create $/same/old
        a< z4 ok $/same/old
        b> create $/grown/new
        b< z5 ok $/grown/new
        b> delete $/gone
        b< z6 ok
        b> setData $/same/old data=1
        b< z7 ok stat z4 m=z7 v=1 len=1
        a> setWatches zxid=z4 child=$/same,$/grown,$/gone xid=-8
        a< event children $/grown
        a< event deleted $/gone
        a< xid=-8 ok
        b> create $/same/new
        b< z8 ok $/same/new
        a< event children $/same
        b> create $/grown/newer
        b< z9 ok $/grown/newer
    "#;

    the_order_of_the_lists_is_data_exist_child: r#"
        a> create $/x
        a< z1 ok $/x
        b> create $/x/y
        b< z2 ok $/x/y
        b> setData $/x data=1
        b< z3 ok stat z1 m=z3 p=z2 v=1 cv=1 len=1 kids=1
        b> create $/z
        b< z4 ok $/z
        a> setWatches zxid=z1 child=$/x exist=$/z data=$/x xid=-8
        a< event changed $/x
        a< event created $/z
        a< event children $/x
        a< xid=-8 ok
    "#;

    a_deleted_node_gives_an_event_for_each_list: r#"
        a> create $/x
        a< z1 ok $/x
        b> delete $/x
        b< z2 ok
        a> setWatches zxid=z1 data=$/x child=$/x xid=-8
        a< event deleted $/x
        a< event deleted $/x
        a< xid=-8 ok
    "#;

    unchanged_nodes_give_no_event: r#"
        a> create $/x
        a< z1 ok $/x
        a> setWatches zxid=z1 data=$/x exist=$/no child=$/x xid=-8
        a< xid=-8 ok
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
        a< event changed $/x
        b> create $/x/y
        b< z3 ok $/x/y
        a< event children $/x
        b> create $/no
        b< z4 ok $/no
        a< event created $/no
        b> setData $/x data=2
        b< z5 ok stat z1 m=z5 p=z3 v=2 cv=1 len=1 kids=1
    "#;

    /// The first zxid is 1, so every node is newer than zxid 0.
    every_node_is_newer_than_zxid_zero: r#"
        a> create $/x
        a< z1 ok $/x
        a> setWatches zxid=0 data=$/x child=$/x xid=-8
        a< event changed $/x
        a< event children $/x
        a< xid=-8 ok
    "#;

    set_watches_works_with_any_xid: r#"
        a> create $/x
        a< z1 ok $/x
        a> setWatches zxid=z1 data=$/x
        a< ok
        a> setWatches2 zxid=z1 child=$/x persistent=$/p xid=77
        a< xid=77 ok
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
        a< event changed $/x
        b> create $/x/y
        b< z3 ok $/x/y
        a< event children $/x
        b> create $/p
        b< z4 ok $/p
        a< event created $/p
    "#;

    set_watches_is_answered_in_its_turn: r#"
        a> create $/x
        a< z1 ok $/x
        a& setData $/x data=1
        a& setWatches zxid=z1 data=$/x
        a& setData $/x data=2
        a> getData $/x
        a< z2 ok stat z1 m=z2 v=1 len=1
        a< event changed $/x
        a< ok
        a< z3 ok stat z1 m=z3 v=2 len=1
        a< ok "2" stat z1 m=z3 v=2 len=1
        b> setData $/x data=3
        b< z4 ok stat z1 m=z4 v=3 len=1
    "#;

    persistent_watches_get_no_catch_up_events: r#"
        a> create $/x
        a< z1 ok $/x
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
        b> create $/x/y
        b< z3 ok $/x/y
        a> setWatches2 zxid=z1 persistent=$/x,$/no recursive=$/x/y xid=-8
        a< xid=-8 ok
        b> setData $/x data=2
        b< z4 ok stat z1 m=z4 p=z3 v=2 cv=1 len=1 kids=1
        a< event changed $/x
        b> create $/no
        b< z5 ok $/no
        a< event created $/no
        b> setData $/x/y data=1
        b< z6 ok stat z3 m=z6 v=1 len=1
        a< event changed $/x/y
        b> delete $/x/y
        b< z7 ok
        a< event deleted $/x/y
        a< event children $/x
    "#;

    all_five_lists_work_in_one_request: r#"
        a> create $/d
        a< z1 ok $/d
        a> create $/c
        a< z2 ok $/c
        a> create $/r
        a< z3 ok $/r
        a> setWatches2 zxid=z3 data=$/d exist=$/e child=$/c persistent=$/p recursive=$/r xid=-8
        a< xid=-8 ok
        b> setData $/d data=1
        b< z4 ok stat z1 m=z4 v=1 len=1
        a< event changed $/d
        b> create $/e
        b< z5 ok $/e
        a< event created $/e
        b> create $/c/c
        b< z6 ok $/c/c
        a< event children $/c
        b> create $/p
        b< z7 ok $/p
        a< event created $/p
        b> create $/r/r
        b< z8 ok $/r/r
        a< event created $/r/r
        b> setData $/d data=2
        b< z9 ok stat z1 m=z9 v=2 len=1
        b> setData $/p data=2
        b< z10 ok stat z7 m=z10 v=1 len=1
        a< event changed $/p
    "#;

    a_resumed_session_catches_up: r#"
        a> create $/x
        a< z1 ok $/x
        a> getData $/x watch
        a< ok "" stat z1
        a> getChildren $ watch
        a< ok [x]
        a! drop
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
        b> create $/y
        b< z3 ok $/y
        a> connect resume=a zxid=z1
        a< session a timeout=30000
        a> setWatches zxid=z1 data=$/x child=$ xid=-8
        a< event changed $/x
        a< event children $
        a< xid=-8 ok
        b> setData $/x data=2
        b< z4 ok stat z1 m=z4 v=2 len=1
    "#;

    paths_are_not_checked: r#"
        a> setWatches zxid=z0 data=no-path exist=other//one child=x/ xid=-8
        a< event deleted no-path
        a< event deleted x/
        a< xid=-8 ok
    "#;

    restored_watches_can_be_checked_and_removed: r#"
        a> create $/x
        a< z1 ok $/x
        a> setWatches zxid=z1 data=$/x child=$/x
        a< ok
        a> checkWatches $/x kind=data
        a< ok
        a> removeWatches $/x kind=children
        a< ok
        b> create $/x/y
        b< z2 ok $/x/y
        b> setData $/x data=1
        b< z3 ok stat z1 m=z3 p=z2 v=1 cv=1 len=1 kids=1
        a< event changed $/x
    "#;

    /// Java reads a count of -1 as null, which the server refuses, and other negative counts as
    /// empty lists.
    counts_are_read_as_java_reads_them: r#"
        a> raw setWatches i64:0 i32:-3 i32:0 i32:-2
        a< ok
        a> raw setWatches i64:0 i32:-1 i32:0 i32:0
        a< marshalling error
        a> raw setWatches2 i64:0 i32:0 i32:0 i32:0 i32:-1 i32:0
        a< marshalling error
        a> raw setWatches i64:0 i32:1
        a< marshalling error
        a> exists $
        a< ok stat z0
    "#;
}
