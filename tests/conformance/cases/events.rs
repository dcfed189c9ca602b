//! Watch events: one case for each kind of change, with every kind of watch.
//!
//! Each watch has a connection of its own:
//! - On `$/n`: `d` getData, `e` exists on an existing node, `m` exists on a missing node, `c`
//!   getChildren, `p` persistent, `r` recursive.
//! - On the parent of `$/n`: `R` recursive, `C` getChildren, `P` persistent.
//!
//! Where a change can be repeated, the case repeats it; this shows which watches fire only once.
//!
//! Not here: how watches are set and removed (`watches`), restored watches (`set_watches`).

use crate::conformance;

const WHY: &str =
    "A waiter sleeps until an event says that the node ahead is gone: without it, forever.";

/// Makes a case of what happens before the watches are set, and what happens then. The watches are
/// all but `m`.
macro_rules! watched {
    ($($name:ident: $before:literal, $then:literal;)*) => {
        conformance! {$(
            $name: concat!($before, r#"
                d> getData $/n watch brief
                d< ok
                e> exists $/n watch brief
                e< ok
                c> getChildren $/n watch brief
                c< ok
                p> addWatch $/n kind=persistent
                p< ok
                r> addWatch $/n kind=recursive
                r< ok
                R> addWatch $ kind=recursive
                R< ok
                C> getChildren $ watch brief
                C< ok
                P> addWatch $ kind=persistent
                P< ok
            "#, $then);
        )*}
    };
}

watched! {
    a_node_whose_data_are_set: r#"
        a> create $/n
        a< z1 ok $/n
    "#, r#"
        a> setData $/n data=1
        a< z2 ok stat z1 m=z2 v=1 len=1
        R< event changed $/n
        d< event changed $/n
        e< event changed $/n
        p< event changed $/n
        r< event changed $/n
        a> setData $/n data=1
        a< z3 ok stat z1 m=z3 v=2 len=1
        R< event changed $/n
        p< event changed $/n
        r< event changed $/n
    "#;

    a_deleted_node: r#"
        a> create $/n
        a< z1 ok $/n
    "#, r#"
        a> delete $/n
        a< z2 ok
        C< event children $
        P< event children $
        R< event deleted $/n
        c< event deleted $/n
        d< event deleted $/n
        e< event deleted $/n
        p< event deleted $/n
        r< event deleted $/n
        a> create $/n
        a< z3 ok $/n
        P< event children $
        R< event created $/n
        p< event created $/n
        r< event created $/n
        a> delete $/n
        a< z4 ok
        P< event children $
        R< event deleted $/n
        p< event deleted $/n
        r< event deleted $/n
    "#;

    a_node_whose_acl_is_set: r#"
        a> create $/n
        a< z1 ok $/n
    "#, r#"
        a> setACL $/n
        a< z2 ok stat z1 av=1
    "#;

    a_created_child: r#"
        a> create $/n
        a< z1 ok $/n
    "#, r#"
        a> create $/n/c
        a< z2 ok $/n/c
        R< event created $/n/c
        c< event children $/n
        p< event children $/n
        r< event created $/n/c
        a> create $/n/c2
        a< z3 ok $/n/c2
        R< event created $/n/c2
        p< event children $/n
        r< event created $/n/c2
    "#;

    a_child_whose_data_are_set: r#"
        a> create $/n
        a< z1 ok $/n
        a> create $/n/c
        a< z2 ok $/n/c
    "#, r#"
        a> setData $/n/c data=1
        a< z3 ok stat z2 m=z3 v=1 len=1
        R< event changed $/n/c
        r< event changed $/n/c
        a> setData $/n/c data=1
        a< z4 ok stat z2 m=z4 v=2 len=1
        R< event changed $/n/c
        r< event changed $/n/c
    "#;

    a_deleted_child: r#"
        a> create $/n
        a< z1 ok $/n
        a> create $/n/c
        a< z2 ok $/n/c
        a> create $/n/c2
        a< z3 ok $/n/c2
    "#, r#"
        a> delete $/n/c
        a< z4 ok
        R< event deleted $/n/c
        c< event children $/n
        p< event children $/n
        r< event deleted $/n/c
        a> delete $/n/c2
        a< z5 ok
        R< event deleted $/n/c2
        p< event children $/n
        r< event deleted $/n/c2
    "#;

    the_end_of_a_session: r#"
        s> create $/n mode=ephemeral
        s< z1 ok $/n
    "#, r#"
        s> closeSession
        s< z2 ok
        s< closed
        C< event children $
        P< event children $
        R< event deleted $/n
        c< event deleted $/n
        d< event deleted $/n
        e< event deleted $/n
        p< event deleted $/n
        r< event deleted $/n
    "#;
}

conformance! {
    a_created_node: r#"
        m> exists $/n watch
        m< no node
        p> addWatch $/n kind=persistent
        p< ok
        r> addWatch $/n kind=recursive
        r< ok
        R> addWatch $ kind=recursive
        R< ok
        C> getChildren $ watch
        C< ok []
        P> addWatch $ kind=persistent
        P< ok
        a> create $/n
        a< z1 ok $/n
        C< event children $
        P< event children $
        R< event created $/n
        m< event created $/n
        p< event created $/n
        r< event created $/n
        a> delete $/n
        a< z2 ok
        P< event children $
        R< event deleted $/n
        p< event deleted $/n
        r< event deleted $/n
        a> create $/n
        a< z3 ok $/n
        P< event children $
        R< event created $/n
        p< event created $/n
        r< event created $/n
    "#;

    /// The events are the same as for a delete by a client.
    a_node_that_the_server_deletes: r#"
        a> createTTL $/n ttl=4000
        a< z1 ok $/n stat z1
        p> addWatch $/n kind=persistent
        p< ok
        R> addWatch $ kind=recursive
        R< ok
        C> getChildren $ watch
        C< ok [n]
        p?
        p< event deleted $/n
        R?
        R< event deleted $/n
        C?
        C< event children $
    "#;

    failed_writes_fire_no_watch: r#"
        a> create $/n
        a< z1 ok $/n
        d> getData $/n watch
        d< ok "" stat z1
        m> exists $/no watch
        m< no node
        c> getChildren $/n watch
        c< ok []
        r> addWatch $ kind=recursive
        r< ok
        a> create $/n
        a< z2 node exists
        a> setData $/n data=1 version=7
        a< z3 bad version
        a> delete $/n version=7
        a< z4 bad version
        a> delete $/no
        a< z5 no node
        a> setACL $/n version=7
        a< z6 bad version
        a> multi
        + setData $/n data=1
        + check $/no
        a< z7 ok
        + ok
        + no node
    "#;
}
