//! The kinds of node: which operation and flags create them, their sequence numbers, and when the
//! server deletes them.

use crate::conformance;

const WHY: &str =
    "Sequence numbers are the order of the queue; an ephemeral node frees a dead client's lock.";

conformance! {
    a_number_counts_all_children_ever_created: r#"
        a> create $/s- mode=sequential
        a< z1 ok $/s-0000000000
        a> create $/s- mode=sequential
        a< z2 ok $/s-0000000001
        a> create $/t- mode=ephemeral-sequential
        a< z3 ok $/t-0000000002
        a> create $/plain
        a< z4 ok $/plain
        a> create $/e mode=ephemeral
        a< z5 ok $/e
        a> createContainer $/container
        a< z6 ok $/container stat z6
        a> createTTL $/ttl ttl=60000
        a< z7 ok $/ttl stat z7
        a> create $/s- mode=sequential
        a< z8 ok $/s-0000000007
        a> createTTL $/s- ttl=60000 mode=ttl-sequential
        a< z9 ok $/s-0000000008 stat z9
        # Failed creates and deletes do not count.
        a> create $/plain
        a< z10 node exists
        a> delete $/plain
        a< z11 ok
        a> delete $/s-0000000007
        a< z12 ok
        a> create $/s- mode=sequential
        a< z13 ok $/s-0000000009
        a> exists $
        a< ok stat z0 p=z13 cv=12 kids=8
    "#;

    a_number_can_be_the_whole_name: r#"
        a> create $/ mode=sequential
        a< z1 ok $/0000000000
        a> create2 $/ mode=ephemeral-sequential
        a< z2 ok $/0000000001 stat z2 owner=a
        a> getChildren $
        a< ok [0000000000 0000000001]
    "#;

    a_number_is_appended_to_any_name: r#"
        a> create $/a. mode=sequential
        a< z1 ok $/a.0000000000
        a> create $/. mode=sequential
        a< z2 ok $/.0000000001
        a> create $/0000000003 mode=sequential
        a< z3 ok $/00000000030000000002
        a> create $/0000000003
        a< z4 ok $/0000000003
        a> getChildren $
        a< ok [.0000000001 0000000003 00000000030000000002 a.0000000000]
    "#;

    every_parent_has_its_own_counter: r#"
        a> create $/d
        a< z1 ok $/d
        a> create $/d/s- mode=sequential
        a< z2 ok $/d/s-0000000000
        a> create $/s- mode=sequential
        a< z3 ok $/s-0000000001
        a> create $/d/s- mode=sequential
        a< z4 ok $/d/s-0000000001
        a> delete $/d/s-0000000000
        a< z5 ok
        a> delete $/d/s-0000000001
        a< z6 ok
        a> delete $/d
        a< z7 ok
        a> create $/d
        a< z8 ok $/d
        a> create $/d/s- mode=sequential
        a< z9 ok $/d/s-0000000000
    "#;

    numbers_of_an_ended_session_are_not_used_again: r#"
        a> create $/s- mode=ephemeral-sequential
        a< z1 ok $/s-0000000000
        b> create $/s- mode=ephemeral-sequential
        b< z2 ok $/s-0000000001
        a> closeSession
        a< z3 ok
        a< closed
        b> create $/s- mode=ephemeral-sequential
        b< z4 ok $/s-0000000002
        b> getChildren $
        b< ok [s-0000000001 s-0000000002]
    "#;

    ephemeral_nodes_show_their_owner: r#"
        a> create2 $/e mode=ephemeral
        a< z1 ok $/e stat z1 owner=a
        a> create2 $/e- mode=ephemeral-sequential
        a< z2 ok $/e-0000000001 stat z2 owner=a
        b> exists $/e
        b< ok stat z1 owner=a
        b> create2 $/f mode=ephemeral
        b< z3 ok $/f stat z3 owner=b
        a> exists $/f
        a< ok stat z3 owner=b
    "#;

    containers_and_ttl_nodes_look_persistent: r#"
        a> createContainer $/c data=x
        a< z1 ok $/c stat z1 len=1
        a> createTTL $/t ttl=60000 data=y
        a< z2 ok $/t stat z2 len=1
        a> createTTL $/t- ttl=1 mode=ttl-sequential
        a< z3 ok $/t-0000000002 stat z3
        a> exists $/c
        a< ok stat z1 len=1
        a> exists $/t
        a< ok stat z2 len=1
    "#;

    /// A plain create with flag 4 makes a permanent node. Lock recipes with this mistake leave
    /// their directories behind.
    flags_need_their_operation: r#"
        a> create $/a mode=container
        a< z1 ok $/a
        a> create2 $/b mode=container
        a< z2 ok $/b stat z2
        a> create $/c mode=ttl
        a< z3 bad arguments
        a> create2 $/c mode=ttl-sequential
        a< z4 bad arguments
        a> createContainer $/c mode=ttl
        a< z5 bad arguments
        a> createContainer $/c mode=ttl-sequential
        a< z6 bad arguments
        a> createTTL $/c ttl=1000 mode=persistent
        a< z7 bad arguments
        a> createTTL $/c ttl=1000 mode=ephemeral
        a< z8 bad arguments
        a> createTTL $/c ttl=1000 mode=sequential
        a< z9 bad arguments
        a> createTTL $/c ttl=1000 mode=ephemeral-sequential
        a< z10 bad arguments
        a> createTTL $/c ttl=1000 mode=container
        a< z11 bad arguments
        a> getChildren $
        a< ok [a b]
    "#;

    create_container_makes_a_container_under_any_valid_flags: r#"
        a> createContainer $/a mode=persistent
        a< z1 ok $/a stat z1
        a> createContainer $/b mode=ephemeral
        a< z2 ok $/b stat z2
        a> createContainer $/c- mode=sequential
        a< z3 ok $/c-0000000002 stat z3
        a> createContainer $/d- mode=ephemeral-sequential
        a< z4 ok $/d-0000000003 stat z4
        a> create $/b/child
        a< z5 ok $/b/child
        a> getEphemerals /
        a< ok []
    "#;

    unknown_flags_are_refused: r#"
        a> create $/x mode=7
        a< z1 bad arguments
        a> create $/x mode=-1
        a< z2 bad arguments
        a> create2 $/x mode=8
        a< z3 bad arguments
        a> createContainer $/x mode=7
        a< z4 bad arguments
        a> createTTL $/x ttl=1000 mode=7
        a< z5 bad arguments
        a> createTTL $/x ttl=1000 mode=-1
        a< z6 bad arguments
        a> getChildren $
        a< ok []
    "#;

    a_time_to_live_has_bounds: r#"
        a> createTTL $/a ttl=0
        a< z1 bad arguments
        a> createTTL $/a ttl=-1
        a< z2 bad arguments
        a> createTTL $/a ttl=1099511627776
        a< z3 bad arguments
        a> createTTL $/a ttl=9223372036854775807
        a< z4 bad arguments
        a> createTTL $/a ttl=0 mode=ttl-sequential
        a< z5 bad arguments
        a> createTTL $/b ttl=1099511627775
        a< z6 ok $/b stat z6
        a> createTTL $/c ttl=1
        a< z7 ok $/c stat z7
    "#;

    /// The same run of the reaper keeps a container that never had a child, and a container that
    /// still has one.
    an_emptied_container_is_deleted: r#"
        a> connect timeout=60000
        a< session a timeout=60000
        a> createContainer $/used
        a< z1 ok $/used stat z1
        a> createContainer $/unused
        a< z2 ok $/unused stat z2
        a> createContainer $/full
        a< z3 ok $/full stat z3
        a> create $/full/child
        a< z4 ok $/full/child
        a> create $/plain mode=container
        a< z5 ok $/plain
        a> create $/plain/child
        a< z6 ok $/plain/child
        a> delete $/plain/child
        a< z7 ok
        a> exists $/used watch
        a< ok stat z1
        a> create $/used/child
        a< z8 ok $/used/child
        # The event may come at any time from now on.
        a! hush
        a> delete $/used/child
        a< z9 ok
        a?
        a< event deleted $/used
        a> exists $/used
        a< no node
        a> getChildren $
        a< ok [full plain unused]
    "#;

    an_expired_ttl_node_is_deleted: r#"
        a> createTTL $/full ttl=1
        a< z1 ok $/full stat z1
        a> create $/full/child
        a< z2 ok $/full/child
        a> createTTL $/young ttl=3600000
        a< z3 ok $/young stat z3
        a> getChildren $ watch
        a< ok [full young]
        a> createTTL $/old ttl=4000
        a< event children $
        a< z4 ok $/old stat z4
        a> exists $/old watch
        a< ok stat z4
        a?
        a< event deleted $/old
        a> getChildren $
        a< ok [full young]
    "#;
}
