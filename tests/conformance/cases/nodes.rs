//! Creating, reading, changing and deleting nodes, and reads that cover more than one node.

use crate::conformance;

const WHY: &str =
    "Creating a node enters the queue, listing shows the turn, and deleting releases the lock.";

conformance! {
    a_create_answers_with_the_path: r#"
        a> create $/x data=hello
        a< z1 ok $/x
        a> getData $/x
        a< ok "hello" stat z1 len=5
    "#;

    a_create2_answers_with_the_stat_too: r#"
        a> create2 $/x data=hello
        a< z1 ok $/x stat z1 len=5
        a> create2 $/x- mode=sequential
        a< z2 ok $/x-0000000001 stat z2
    "#;

    null_and_empty_data_are_different: r#"
        a> create $/null data=null
        a< z1 ok $/null
        a> create $/empty data=""
        a< z2 ok $/empty
        a> getData $/null
        a< ok null stat z1
        a> getData $/empty
        a< ok "" stat z2
        a> setData $/null data=""
        a< z3 ok stat z1 m=z3 v=1
        a> setData $/empty data=null
        a< z4 ok stat z2 m=z4 v=1
        a> getData $/null
        a< ok "" stat z1 m=z3 v=1
        a> getData $/empty
        a< ok null stat z2 m=z4 v=1
    "#;

    data_are_bytes: r#"
        a> create $/x data="\x00\xff\xfe\n"
        a< z1 ok $/x
        a> getData $/x
        a< ok "\x00\xff\xfe\n" stat z1 len=4
    "#;

    a_node_is_created_once: r#"
        a> create $/x
        a< z1 ok $/x
        a> create $/x
        a< z2 node exists
        a> create2 $/x data=other mode=ephemeral
        a< z3 node exists
        a> createContainer $/x
        a< z4 node exists
        a> createTTL $/x ttl=60000
        a< z5 node exists
        a> getData $/x
        a< ok "" stat z1
    "#;

    a_node_needs_its_parent: r#"
        a> create $/no/x
        a< z1 no node
        a> create2 $/no/x
        a< z2 no node
        a> createContainer $/no/x
        a< z3 no node
        a> createTTL $/no/x ttl=60000
        a< z4 no node
        a> create $/no/x- mode=ephemeral-sequential
        a< z5 no node
    "#;

    ephemeral_nodes_have_no_children: r#"
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        a> create $/e/x
        a< z2 ephemeral nodes have no children
        a> create $/e/x mode=ephemeral
        a< z3 ephemeral nodes have no children
        a> create2 $/e/x- mode=sequential
        a< z4 ephemeral nodes have no children
        a> createContainer $/e/x
        a< z5 ephemeral nodes have no children
        a> createTTL $/e/x ttl=60000
        a< z6 ephemeral nodes have no children
        a> createTTL $/e/x ttl=60000 mode=ttl-sequential
        a< z7 ephemeral nodes have no children
    "#;

    a_delete_checks_version_and_children: r#"
        a> create $/x
        a< z1 ok $/x
        a> create $/x/y
        a< z2 ok $/x/y
        a> delete $/x version=1
        a< z3 bad version
        a> delete $/x version=0
        a< z4 not empty
        a> delete $/x
        a< z5 not empty
        a> delete $/x/y version=0
        a< z6 ok
        a> delete $/x
        a< z7 ok
        a> delete $/x
        a< z8 no node
        a> delete $/no/x
        a< z9 no node
    "#;

    data_are_set_if_they_have_the_version: r#"
        a> create $/x data=0
        a< z1 ok $/x
        a> setData $/x data=1 version=0
        a< z2 ok stat z1 m=z2 v=1 len=1
        a> setData $/x data=2 version=0
        a< z3 bad version
        a> setData $/x data=3 version=2
        a< z4 bad version
        a> setData $/x data=4
        a< z5 ok stat z1 m=z5 v=2 len=1
        a> setData $/x data=5 version=-2
        a< z6 bad version
        a> getData $/x
        a< ok "4" stat z1 m=z5 v=2 len=1
        a> setData $/no data=1
        a< z7 no node
    "#;

    setting_data_keeps_the_owner: r#"
        a> create $/e mode=ephemeral data=a
        a< z1 ok $/e
        b> setData $/e data=b
        b< z2 ok stat z1 m=z2 v=1 len=1 owner=a
        b> getData $/e
        b< ok "b" stat z1 m=z2 v=1 len=1 owner=a
        b> delete $/e
        b< z3 ok
        a> getEphemerals /
        a< ok []
    "#;

    a_missing_node_cannot_be_read: r#"
        a> exists $/no
        a< no node
        a> getData $/no
        a< no node
        a> getACL $/no
        a< no node
        a> setACL $/no
        a< z1 no node
        a> getChildren $/no
        a< no node
        a> getChildren2 $/no
        a< no node
        a> getAllChildrenNumber $/no
        a< no node
    "#;

    children_are_names: r#"
        a> getChildren $
        a< ok []
        a> getChildren2 $
        a< ok [] stat z0
        a> create $/b
        a< z1 ok $/b
        a> create $/a
        a< z2 ok $/a
        a> create $/a/deeper
        a< z3 ok $/a/deeper
        a> getChildren $
        a< ok [a b]
        a> getChildren2 $
        a< ok [a b] stat z0 p=z2 cv=2 kids=2
        a> exists $
        a< ok stat z0 p=z2 cv=2 kids=2
    "#;

    all_descendants_are_counted: r#"
        a> getAllChildrenNumber $
        a< ok 0
        a> create $/a
        a< z1 ok $/a
        a> create $/a/b
        a< z2 ok $/a/b
        a> create $/a/b/c mode=ephemeral
        a< z3 ok $/a/b/c
        a> create $/ab
        a< z4 ok $/ab
        a> getAllChildrenNumber $
        a< ok 4
        a> getAllChildrenNumber $/a
        a< ok 2
        a> getAllChildrenNumber $/ab
        a< ok 0
    "#;

    /// The reply lists only the caller's own nodes. The prefix is one of the text, not of whole
    /// path names.
    ephemerals_are_listed: r#"
        a> create $/e1 mode=ephemeral
        a< z1 ok $/e1
        a> create $/e2 mode=ephemeral
        a< z2 ok $/e2
        a> create $/f mode=ephemeral
        a< z3 ok $/f
        a> create $/p
        a< z4 ok $/p
        b> create $/e3 mode=ephemeral
        b< z5 ok $/e3
        a> getEphemerals /
        a< ok [$/e1 $/e2 $/f]
        a> getEphemerals null
        a< ok [$/e1 $/e2 $/f]
        a> getEphemerals ""
        a< ok [$/e1 $/e2 $/f]
        a> getEphemerals " "
        a< ok [$/e1 $/e2 $/f]
        a> getEphemerals $/e
        a< ok [$/e1 $/e2]
        a> getEphemerals $/e1/
        a< ok []
        b> getEphemerals $/e
        b< ok [$/e3]
        c> getEphemerals /
        c< ok []
    "#;

    a_sync_echoes_any_path: r#"
        a> sync $
        a< ok $
        a> sync $/no
        a< ok $/no
        a> sync /
        a< ok /
        a> sync ""
        a< ok ""
        a> sync "no path//at all"
        a< ok "no path//at all"
    "#;

    a_ping_is_answered: r#"
        a> ping
        a< ok
        a> ping
        a< ok
    "#;

    the_system_nodes_exist: r#"
        a> exists /zookeeper
        a< ok stat 0 cv=-2 kids=2
        a> getChildren /zookeeper
        a< ok [config quota]
        a> exists /zookeeper/quota
        a< ok stat 0
        a> exists /zookeeper/config brief
        a< ok
        a> getACL /zookeeper
        a< ok world:anyone:rwcda stat 0 cv=-2 kids=2
        a> getACL /zookeeper/config brief
        a< ok
    "#;

    the_system_nodes_cannot_be_changed: r#"
        a> delete /
        a< z1 bad arguments
        a> delete /zookeeper
        a< z2 bad arguments
        a> delete /zookeeper/quota
        a< z3 bad arguments
        a> delete /zookeeper/config
        a< z4 bad arguments
        a> setData /zookeeper/config data=x
        a< z5 not authorized
        a> create /zookeeper/config/x
        a< z6 not authorized
        a> multi
        + delete /zookeeper/quota
        a< z7 ok
        + bad arguments
        a> create /
        a< z8 node exists
    "#;

    a_reconfiguration_is_disabled: r#"
        a> reconfig joining="server.7=a:1:2;3"
        a< z1 reconfiguration is disabled
    "#;

    a_server_without_sasl_answers_null_and_goes_on: r#"
        a> sasl ""
        a< ok null
        a> sasl "token"
        a< ok null
        a> exists $
        a< ok stat z0
        # A null token and a token that is cut short end the connection.
        b> sasl null
        b< closed
        c> sasl "" cut=1
        c< closed
    "#;
}
