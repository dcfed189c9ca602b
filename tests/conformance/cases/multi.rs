//! Transactions (`multi`), and several reads in one request (`multiRead`).

use crate::conformance;

const WHY: &str =
    "A write under a lock goes with a check of the lock node, and must fail if the node is gone.";

conformance! {
    a_transaction_does_everything: r#"
        a> create $/x
        a< z1 ok $/x
        a> multi
        + check $/x version=0
        + create $/m1 data=a
        + create2 $/m2 data=b
        + setData $/x data=z version=0
        + delete $/m1
        + create $/s- mode=sequential
        + createContainer $/c
        + createTTL $/t ttl=60000
        + create $/e mode=ephemeral
        a< z2 ok
        + checked
        + created $/m1
        + created $/m2
        + set stat z1 m=z2 v=1 len=1
        + deleted
        + created $/s-0000000003
        + created $/c
        + created $/t
        + created $/e
        a> getChildren $
        a< ok [c e m2 s-0000000003 t x]
        a> getEphemerals /
        a< ok [$/e]
        a> exists $/m2
        a< ok stat z2 len=1
    "#;

    a_transaction_that_fails_does_nothing: r#"
        a> create $/x
        a< z1 ok $/x
        b> getChildren $ watch
        b< ok [x]
        a> multi
        + create $/m1
        + check $/x version=9
        + delete $/x
        + delete $/no
        a< z2 ok
        + ok
        + bad version
        + runtime inconsistency
        + runtime inconsistency
        a> getChildren $
        a< ok [x]
        a> exists $
        a< ok stat z0 p=z1 cv=1 kids=1
        b> ping
        b< ok
    "#;

    a_transaction_names_the_operation_that_failed: r#"
        a> create $/x
        a< z1 ok $/x
        a> multi
        + delete $/no
        + create $/y
        a< z2 ok
        + no node
        + runtime inconsistency
        a> multi
        + create $/y
        + create $/y
        a< z3 ok
        + ok
        + node exists
        a> multi
        + create $/y
        + setData $/y data=1 version=1
        a< z4 ok
        + ok
        + bad version
        a> multi
        + create $/y mode=ephemeral
        + create $/y/z
        a< z5 ok
        + ok
        + ephemeral nodes have no children
        a> multi
        + create $/x/y
        + delete $/x
        a< z6 ok
        + ok
        + not empty
        a> multi
        + check $/no
        a< z7 ok
        + no node
    "#;

    an_empty_transaction_succeeds: r#"
        a> multi
        a< z1 ok
        a> multiRead
        a< ok
    "#;

    an_operation_sees_those_before_it: r#"
        a> multi
        + create $/a
        + check $/a version=0
        + create $/a/b
        + setData $/a data=1 version=0
        + setData $/a data=2 version=1
        + check $/a version=2
        + create $/a/s- mode=sequential
        + create $/a/s- mode=sequential
        + delete $/a/b
        + delete $/a/s-0000000001
        + delete $/a/s-0000000002
        + delete $/a version=2
        + create $/a data=new
        a< z1 ok
        + created $/a
        + checked
        + created $/a/b
        + set stat z1 v=1 cv=1 len=1 kids=1
        + set stat z1 v=2 cv=1 len=1 kids=1
        + checked
        + created $/a/s-0000000001
        + created $/a/s-0000000002
        + deleted
        + deleted
        + deleted
        + deleted
        + created $/a
        a> getData $/a
        a< ok "new" stat z1 len=3
        a> getChildren $
        a< ok [a]
    "#;

    any_version_is_a_check_for_existence: r#"
        a> create $/x
        a< z1 ok $/x
        a> setData $/x data=1
        a< z2 ok stat z1 m=z2 v=1 len=1
        a> multi
        + check $/x
        a< z3 ok
        + checked
        a> multi
        + check $/x version=1
        a< z4 ok
        + checked
        a> multi
        + check $/x version=0
        a< z5 ok
        + bad version
    "#;

    /// The server numbers the nodes of a failed transaction, too. The next create gets the same
    /// number again.
    a_failed_transaction_takes_no_number: r#"
        a> multi
        + create $/s- mode=sequential
        + check $/no
        a< z1 ok
        + ok
        + no node
        a> create $/s- mode=sequential
        a< z2 ok $/s-0000000000
    "#;

    events_of_a_transaction_come_in_its_order: r#"
        b> getChildren $ watch
        b< ok []
        b> exists $/a watch
        b< no node
        b> exists $/b watch
        b< no node
        a> multi
        + create $/a
        + create $/b
        + setData $/a data=1
        + delete $/b
        a< z1 ok
        + created $/a
        + created $/b
        + set stat z1 v=1 len=1
        + deleted
        b< event created $/a
        b< event children $
        b< event created $/b
    "#;

    a_persistent_watch_sees_every_operation_of_a_transaction: r#"
        b> addWatch $ kind=recursive
        b< ok
        c> addWatch $ kind=persistent
        c< ok
        a> multi
        + create $/a
        + create $/a/b
        + setData $/a data=1
        + delete $/a/b
        + setData $ data=2
        a< z1 ok
        + created $/a
        + created $/a/b
        + set stat z1 v=1 cv=1 len=1 kids=1
        + deleted
        + set stat z0 m=z1 p=z1 v=1 cv=1 len=1 kids=1
        b< event created $/a
        b< event created $/a/b
        b< event changed $/a
        b< event deleted $/a/b
        b< event changed $
        c< event children $
        c< event changed $
    "#;

    own_events_come_before_the_reply: r#"
        a> exists $/x watch
        a< no node
        a> getChildren $ watch
        a< ok []
        a> multi
        + create $/x
        a< event created $/x
        a< event children $
        a< z1 ok
        + created $/x
    "#;

    each_read_of_a_list_succeeds_or_fails_alone: r#"
        a> create $/x data=x
        a< z1 ok $/x
        a> create $/x/y
        a< z2 ok $/x/y
        a> multiRead
        + getData $/x
        + getChildren $/x
        + getData $/no
        + getChildren $/no
        + getData $/x/y
        a< ok
        + "x" stat z1 p=z2 cv=1 len=1 kids=1
        + [y]
        + no node
        + no node
        + "" stat z2
    "#;

    reads_of_a_list_leave_no_watch: r#"
        a> create $/x
        a< z1 ok $/x
        a> multiRead
        + getData $/x watch
        + getChildren $/x watch
        a< ok
        + "" stat z1
        + []
        b> setData $/x data=1
        b< z2 ok stat z1 m=z2 v=1 len=1
        b> create $/x/y
        b< z3 ok $/x/y
        a> checkWatches $/x kind=any
        a< no such watch
    "#;

    reads_and_writes_do_not_mix: r#"
        # getData in a multi
        a> raw multi i32:4 bool:0 i32:-1 str:$ bool:0 i32:-1 bool:1 i32:-1
        a< marshalling error
        # delete in a multiRead
        a> raw multiRead i32:2 bool:0 i32:-1 str:$ i32:-1 i32:-1 bool:1 i32:-1
        a< marshalling error
        # setACL, a write that is in neither
        a> raw multi i32:7 bool:0 i32:-1 str:$ i32:0 i32:-1 bool:1 i32:-1
        a< marshalling error
        # exists, which is in neither
        a> raw multi i32:3 bool:0 i32:-1 str:$ bool:0 i32:-1 bool:1 i32:-1
        a< marshalling error
        a> raw multiRead i32:3 bool:0 i32:-1 str:$ bool:0 i32:-1 bool:1 i32:-1
        a< marshalling error
        a> exists $
        a< ok stat z0
    "#;

    a_list_needs_its_end: r#"
        a> multi cut=9
        a< marshalling error
        a> multi cut=1
        + create $/x
        a< marshalling error
        a> multiRead cut=9
        + getData $
        a< marshalling error
        a> getChildren $
        a< ok []
    "#;

    /// The list ends at the header with `done`. The server ignores its other fields.
    bytes_after_the_end_are_ignored: r#"
        a> multi extra=7
        + create $/x
        a< z1 ok
        + created $/x
        a> raw multi i32:2 bool:1 i32:7
        a< z2 ok
        a> getChildren $
        a< ok [x]
    "#;

    /// In a transaction, any create with flag 4 makes a container. `createTTL` with a flag that has
    /// no TTL makes a node of that kind, without a TTL.
    flags_decide_the_kind_of_node_in_a_transaction: r#"
        a> connect timeout=60000
        a< session a timeout=60000
        a> multi
        + create $/a mode=container
        + createTTL $/b ttl=1 mode=persistent
        + createTTL $/e ttl=1 mode=ephemeral
        a< z1 ok
        + created $/a
        + created $/b
        + created $/e
        a> getEphemerals /
        a< ok [$/e]
        a> multi
        + create $/x mode=ttl
        a< marshalling error
        a> multi
        + create $/y
        + create2 $/x mode=ttl-sequential
        a< marshalling error
        a> exists $/y
        a< no node
        a> exists $/a watch
        a< ok stat z1
        a> create $/a/child
        a< z2 ok $/a/child
        # The event may come at any time from now on.
        a! hush
        a> delete $/a/child
        a< z3 ok
        a?
        a< event deleted $/a
    "#;

    a_transaction_checks_acls_and_ttls: r#"
        a> multi
        + create $/x acl=nosuch:x:r
        a< z1 ok
        + invalid ACL
        a> multi
        + createTTL $/x ttl=0
        a< z2 ok
        + bad arguments
        a> multi
        + create $/no/x
        a< z3 ok
        + no node
        a> getChildren $
        a< ok []
    "#;
}
