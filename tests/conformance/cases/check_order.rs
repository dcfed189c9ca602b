//! Which error a request with two mistakes gets: the order of the server's checks.
//!
//! Not here: each error on its own (`acl`, `nodes`, `paths`).

use crate::conformance;

const WHY: &str = "By the error a client creates what is missing, tries again, or gives up.";

conformance! {
    a_create_checks_the_flags_first: r#"
        a> create a mode=9 acl=none
        a< z1 bad arguments
        a> create $/no/x mode=9
        a< z2 bad arguments
        a> createTTL $/no/x ttl=0 acl=none
        a< z3 bad arguments
    "#;

    a_create_checks_the_first_slash_before_the_acl: r#"
        a> create a acl=none
        a< z1 bad arguments
        a> create "$/\0" acl=none
        a< z2 bad arguments
    "#;

    a_create_checks_the_acl_before_the_tree: r#"
        a> create $/no/x acl=none
        a< z1 invalid ACL
        a> create $/x
        a< z2 ok $/x
        a> create $/x acl=none
        a< z3 invalid ACL
        a> create "$/\x01" acl=none
        a< z4 invalid ACL
    "#;

    a_create_checks_the_parent_before_the_characters: r#"
        a> create "$/no/\x01"
        a< z1 no node
        a> create $/no/.
        a< z2 no node
        a> create $/no//
        a< z3 no node
    "#;

    a_create_checks_the_permission_before_the_name: r#"
        a> create $/x
        a< z1 ok $/x
        a> create $/x/y
        a< z2 ok $/x/y
        a> setACL $/x acl=world:anyone:r
        a< z3 ok stat z1 p=z2 cv=1 av=1 kids=1
        a> create "$/x/\x01"
        a< z4 not authorized
        a> create $/x/.
        a< z5 not authorized
        a> create $/x/y
        a< z6 not authorized
    "#;

    a_create_checks_the_name_before_the_kind_of_parent: r#"
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        a> create "$/e/\x01"
        a< z2 bad arguments
        a> create $/e/.
        a< z3 bad arguments
        a> create $/e/x
        a< z4 ephemeral nodes have no children
    "#;

    a_create_checks_the_permission_before_the_kind_of_parent: r#"
        a> create $/e mode=ephemeral acl=world:anyone:r
        a< z1 ok $/e
        a> create $/e/x
        a< z2 not authorized
    "#;

    a_delete_checks_the_permission_before_the_node: r#"
        a> create $/x acl=world:anyone:rwca
        a< z1 ok $/x
        a> create $/x/y
        a< z2 ok $/x/y
        a> delete $/x/no
        a< z3 not authorized
        a> delete $/x/y version=7
        a< z4 not authorized
        a> delete $/no/y version=7
        a< z5 no node
    "#;

    a_delete_checks_the_version_before_the_children: r#"
        a> create $/x
        a< z1 ok $/x
        a> create $/x/y
        a< z2 ok $/x/y
        a> delete $/x version=7
        a< z3 bad version
        a> delete $/x version=0
        a< z4 not empty
    "#;

    setting_data_checks_the_permission_before_the_version: r#"
        a> create $/x acl=world:anyone:r
        a< z1 ok $/x
        a> setData $/x version=7 data=x
        a< z2 not authorized
        a> setData $/no version=7 data=x
        a< z3 no node
        a> setData $/no/ version=7 data=x
        a< z4 bad arguments
    "#;

    setting_the_acl_checks_the_acl_before_the_node: r#"
        a> setACL $/no acl=none
        a< z1 invalid ACL
        a> setACL $/no/ acl=none
        a< z2 bad arguments
        a> setACL $/no version=7
        a< z3 no node
        a> create $/x acl=world:anyone:r
        a< z4 ok $/x
        a> setACL $/x acl=none
        a< z5 invalid ACL
        a> setACL $/x version=7
        a< z6 not authorized
    "#;

    a_check_looks_at_the_permission_before_the_version: r#"
        a> create $/x acl=world:anyone:w
        a< z1 ok $/x
        a> multi
        + check $/x version=7
        a< z2 ok
        + not authorized
        a> multi
        + check $/no version=7
        a< z3 ok
        + no node
        a> multi
        + check $/no/ version=7
        a< z4 ok
        + bad arguments
    "#;

    reads_check_the_node_before_the_permission: r#"
        a> create $/x acl=world:anyone:w
        a< z1 ok $/x
        a> getData $/x/no
        a< no node
        a> getChildren $/x/no
        a< no node
        a> getACL $/x/no
        a< no node
        a> getAllChildrenNumber $/x/no
        a< no node
    "#;
}
