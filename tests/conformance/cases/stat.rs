//! Which change alters which field of a `Stat`.

use crate::conformance;

const WHY: &str =
    "The czxid is the fencing token, the owner tells whose a node is, and versions guard writes.";

conformance! {
    a_fresh_node_shows_its_transaction_three_times: r#"
        a> create2 $/x data=hello
        a< z1 ok $/x stat z1 len=5
        a> exists $/x
        a< ok stat z1 len=5
    "#;

    setting_the_same_data_counts_too: r#"
        a> create $/x data=same
        a< z1 ok $/x
        a> setData $/x data=same
        a< z2 ok stat z1 m=z2 v=1 len=4
        a> setData $/x data=same
        a< z3 ok stat z1 m=z3 v=2 len=4
        a> setData $/x data=longer
        a< z4 ok stat z1 m=z4 v=3 len=6
        a> exists $/x
        a< ok stat z1 m=z4 v=3 len=6
    "#;

    setting_the_acl_changes_nothing_but_its_version: r#"
        a> create $/x data=a
        a< z1 ok $/x
        a> setACL $/x acl=world:anyone:rwcda version=0
        a< z2 ok stat z1 av=1 len=1
        a> setACL $/x version=1
        a< z3 ok stat z1 av=2 len=1
        a> setACL $/x version=1
        a< z4 bad version
        a> setACL $/x
        a< z5 ok stat z1 av=3 len=1
        a> getData $/x
        a< ok "a" stat z1 av=3 len=1
    "#;

    created_and_deleted_children_count: r#"
        a> create $/d
        a< z1 ok $/d
        a> create $/d/a
        a< z2 ok $/d/a
        a> exists $/d
        a< ok stat z1 p=z2 cv=1 kids=1
        a> create $/d/b mode=ephemeral
        a< z3 ok $/d/b
        a> exists $/d
        a< ok stat z1 p=z3 cv=2 kids=2
        a> delete $/d/a
        a< z4 ok
        a> exists $/d
        a< ok stat z1 p=z4 cv=3 kids=1
        a> delete $/d/b
        a< z5 ok
        a> exists $/d
        a< ok stat z1 p=z5 cv=4
    "#;

    changes_inside_children_do_not_count: r#"
        a> create $/d
        a< z1 ok $/d
        a> create $/d/a
        a< z2 ok $/d/a
        a> setData $/d/a data=x
        a< z3 ok stat z2 m=z3 v=1 len=1
        a> setACL $/d/a
        a< z4 ok stat z2 m=z3 v=1 av=1 len=1
        a> create $/d/a/grandchild
        a< z5 ok $/d/a/grandchild
        a> delete $/d/a/grandchild
        a< z6 ok
        a> delete $/d/no
        a< z7 no node
        a> create $/d/a
        a< z8 node exists
        a> exists $/d
        a< ok stat z1 p=z2 cv=1 kids=1
        a> exists $/d/a
        a< ok stat z2 m=z3 p=z6 v=1 cv=2 av=1 len=1
    "#;

    setting_data_keeps_the_child_counters: r#"
        a> create $/d
        a< z1 ok $/d
        a> create $/d/a
        a< z2 ok $/d/a
        a> setData $/d data=x
        a< z3 ok stat z1 m=z3 p=z2 v=1 cv=1 len=1 kids=1
        a> create $/d/b
        a< z4 ok $/d/b
        a> exists $/d
        a< ok stat z1 m=z3 p=z4 v=1 cv=2 len=1 kids=2
    "#;

    a_failed_write_takes_a_transaction_and_changes_nothing: r#"
        a> create $/x
        a< z1 ok $/x
        a> setData $/x data=a version=5
        a< z2 bad version
        a> delete $/x version=5
        a< z3 bad version
        a> setACL $/x version=5
        a< z4 bad version
        a> create $/x
        a< z5 node exists
        a> exists $/x
        a< ok stat z1
        a> exists $
        a< ok stat z0 p=z1 cv=1 kids=1
    "#;

    a_recreated_node_starts_with_fresh_counters: r#"
        a> create $/x data=a
        a< z1 ok $/x
        a> setData $/x data=b
        a< z2 ok stat z1 m=z2 v=1 len=1
        a> setACL $/x
        a< z3 ok stat z1 m=z2 v=1 av=1 len=1
        a> create $/x/c
        a< z4 ok $/x/c
        a> delete $/x/c
        a< z5 ok
        a> exists $/x
        a< ok stat z1 m=z2 p=z5 v=1 cv=2 av=1 len=1
        a> delete $/x
        a< z6 ok
        a> create $/x
        a< z7 ok $/x
        a> exists $/x
        a< ok stat z7
    "#;

    a_transaction_has_one_zxid: r#"
        a> create $/x
        a< z1 ok $/x
        a> multi
        + create $/x/a
        + create $/x/b
        + setData $/x data=1
        + setData $/x data=22 version=1
        + delete $/x/a
        + setData $/x/b data=c
        a< z2 ok
        + created $/x/a
        + created $/x/b
        + set stat z1 m=z2 p=z2 v=1 cv=2 len=1 kids=2
        + set stat z1 m=z2 p=z2 v=2 cv=2 len=2 kids=2
        + deleted
        + set stat z2 v=1 len=1
        a> exists $/x
        a< ok stat z1 m=z2 p=z2 v=2 cv=3 len=2 kids=1
        a> exists $/x/b
        a< ok stat z2 v=1 len=1
        a> exists $
        a< ok stat z0 p=z1 cv=1 kids=1
    "#;

    the_end_of_a_session_is_one_transaction: r#"
        a> create $/e1 mode=ephemeral
        a< z1 ok $/e1
        a> create $/e2 mode=ephemeral
        a< z2 ok $/e2
        a> create $/d
        a< z3 ok $/d
        a> create $/d/e3 mode=ephemeral
        a< z4 ok $/d/e3
        a> closeSession
        a< z5 ok
        a< closed
        b> exists $
        b< ok stat z0 p=z5 cv=5 kids=1
        b> exists $/d
        b< ok stat z3 p=z5 cv=2
    "#;
}
