//! Permissions: which permission each operation needs, and which identities a connection has.
//!
//! Not here: how the server checks and stores an ACL (`acl_lists`), SASL users (`sasl`).

use crate::conformance;

const WHY: &str = "Without its ACL, a stranger could delete a lock node and so take the lock.";

conformance! {
    reading_needs_read: r#"
        a> create $/x data=secret acl=world:anyone:wcda
        a< z1 ok $/x
        a> create $/x/child
        a< z2 ok $/x/child
        a> getData $/x
        a< not authorized
        a> getChildren $/x
        a< not authorized
        a> getChildren2 $/x
        a< not authorized
        a> getAllChildrenNumber $/x
        a< not authorized
        a> multiRead
        + getData $/x
        + getChildren $/x
        a< ok
        + not authorized
        + not authorized
        # The permission covers the node itself only. Children can be counted and read without it.
        a> getAllChildrenNumber $
        a< ok 2
        a> getData $/x/child
        a< ok "" stat z2
    "#;

    read_is_enough_for_reading: r#"
        a> create $/x data=seen acl=world:anyone:r
        a< z1 ok $/x
        a> exists $/x
        a< ok stat z1 len=4
        a> getData $/x
        a< ok "seen" stat z1 len=4
        a> getChildren $/x
        a< ok []
        a> getChildren2 $/x
        a< ok [] stat z1 len=4
        a> getAllChildrenNumber $/x
        a< ok 0
        a> getACL $/x
        a< ok world:anyone:r stat z1 len=4
        a> setData $/x data=y
        a< z2 not authorized
        a> create $/x/child
        a< z3 not authorized
        a> setACL $/x
        a< z4 not authorized
    "#;

    writing_needs_write: r#"
        a> create $/x acl=world:anyone:rcda
        a< z1 ok $/x
        a> setData $/x data=y
        a< z2 not authorized
        a> create $/y acl=world:anyone:w
        a< z3 ok $/y
        a> setData $/y data=y
        a< z4 ok stat z3 m=z4 v=1 len=1
        a> getData $/y
        a< not authorized
    "#;

    creating_needs_create_on_the_parent: r#"
        a> create $/x acl=world:anyone:rwda
        a< z1 ok $/x
        a> create $/x/a
        a< z2 not authorized
        a> create2 $/x/a
        a< z3 not authorized
        a> create $/x/a- mode=ephemeral-sequential
        a< z4 not authorized
        a> createContainer $/x/a
        a< z5 not authorized
        a> createTTL $/x/a ttl=1000
        a< z6 not authorized
        a> create $/y acl=world:anyone:c
        a< z7 ok $/y
        a> create $/y/a
        a< z8 ok $/y/a
    "#;

    /// DELETE on the parent is enough to delete a child whose own ACL grants nothing.
    deleting_needs_delete_on_the_parent: r#"
        a> create $/x
        a< z1 ok $/x
        a> create $/x/a
        a< z2 ok $/x/a
        a> setACL $/x acl=world:anyone:rwca
        a< z3 ok stat z1 p=z2 cv=1 av=1 kids=1
        a> delete $/x/a
        a< z4 not authorized
        a> create $/y acl=world:anyone:cd
        a< z5 ok $/y
        a> create $/y/a acl=world:anyone:0
        a< z6 ok $/y/a
        a> delete $/y/a
        a< z7 ok
    "#;

    setting_the_acl_needs_admin: r#"
        a> create $/x acl=world:anyone:rwcd
        a< z1 ok $/x
        a> setACL $/x
        a< z2 not authorized
        a> create $/y acl=world:anyone:a
        a< z3 ok $/y
        a> setACL $/y acl=world:anyone:r
        a< z4 ok stat z3 av=1
        a> setACL $/y
        a< z5 not authorized
    "#;

    reading_the_acl_needs_read_or_admin: r#"
        a> create $/r acl=world:anyone:r
        a< z1 ok $/r
        a> create $/a acl=world:anyone:a
        a< z2 ok $/a
        a> create $/w acl=world:anyone:wcd
        a< z3 ok $/w
        a> getACL $/r
        a< ok world:anyone:r stat z1
        a> getACL $/a
        a< ok world:anyone:a stat z2
        a> getACL $/w
        a< not authorized
    "#;

    checking_needs_read: r#"
        a> create $/x acl=world:anyone:wcda
        a< z1 ok $/x
        a> multi
        + check $/x
        a< z2 ok
        + not authorized
        a> multi
        + create $/y
        + check $/x version=7
        a< z3 ok
        + ok
        + not authorized
    "#;

    a_transaction_needs_every_permission: r#"
        a> create $/x acl=world:anyone:r
        a< z1 ok $/x
        a> multi
        + create $/y
        + setData $/x data=a
        a< z2 ok
        + ok
        + not authorized
        a> multi
        + create $/y
        + create $/x/y
        + delete $/y
        a< z3 ok
        + ok
        + not authorized
        + runtime inconsistency
        a> getChildren $
        a< ok [x]
    "#;

    an_acl_may_grant_nothing: r#"
        a> create $/x acl=world:anyone:0
        a< z1 ok $/x
        a> getData $/x
        a< not authorized
        a> setACL $/x
        a< z2 not authorized
        a> delete $/x
        a< z3 ok
    "#;

    /// The server looks at each entry by itself: `w` needs a match of that entry's address.
    one_matching_entry_is_enough: r#"
        a> create $/x data=d acl=ip:10.255.255.1:w,world:anyone:r,ip:10.255.255.2:a
        a< z1 ok $/x
        a> getData $/x
        a< ok "d" stat z1 len=1
        a> setData $/x data=e
        a< z2 not authorized
    "#;

    a_connection_has_its_address_as_identity: r#"
        a> whoAmI
        a< ok [ip:$ip]
        a> create $/me data=m acl=ip:$ip:rwcda
        a< z1 ok $/me
        a> create $/near data=n acl=ip:$ip/8:r
        a< z2 ok $/near
        a> create $/all data=a acl=ip:0.0.0.0/0:r
        a< z3 ok $/all
        a> create $/other acl=ip:10.255.255.1:rwcda
        a< z4 ok $/other
        b> getData $/me
        b< ok "m" stat z1 len=1
        b> setData $/me data=n
        b< z5 ok stat z1 m=z5 v=1 len=1
        b> getData $/near
        b< ok "n" stat z2 len=1
        b> setData $/near data=n
        b< z6 not authorized
        b> getData $/all
        b< ok "a" stat z3 len=1
        b> getData $/other
        b< not authorized
    "#;

    a_digest_is_an_identity: r#"
        a> auth digest user:pass
        a< ok
        a> whoAmI
        a< ok [digest:user ip:$ip]
        a> create $/x data=d acl=digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:rwcda
        a< z1 ok $/x
        a> getData $/x
        a< ok "d" stat z1 len=1
        b> getData $/x
        b< not authorized
        b> setData $/x data=e
        b< z2 not authorized
        b> auth digest user:wrong
        b< ok
        b> getData $/x
        b< not authorized
        b> auth digest user:pass
        b< ok
        b> getData $/x
        b< ok "d" stat z1 len=1
    "#;

    /// The case does not read the ACL of `$/x`: the order of its entries is not defined.
    identities_add_up: r#"
        a> auth digest one:1
        a< ok
        a> auth digest two:2
        a< ok
        a> auth digest one:1
        a< ok
        a> whoAmI
        a< ok [digest:one digest:two ip:$ip]
        a> create $/x acl=auth::rwcda
        a< z1 ok $/x
        b> auth digest two:2
        b< ok
        b> setData $/x data=b
        b< z2 ok stat z1 m=z2 v=1 len=1
        c> auth digest one:1
        c< ok
        c> setData $/x data=c
        c< z3 ok stat z1 m=z3 v=2 len=1
        d> setData $/x data=d
        d< z4 not authorized
    "#;

    a_reader_without_admin_sees_no_digests: r#"
        a> auth digest user:pass
        a< ok
        a> create $/x acl=auth::rwcda,world:anyone:r,ip:10.255.255.1:w
        a< z1 ok $/x
        a> getACL $/x
        a< ok digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:rwcda,world:anyone:r,ip:10.255.255.1:w stat z1
        b> getACL $/x
        b< ok digest:user:x:rwcda,world:anyone:r,ip:10.255.255.1:w stat z1
        b> auth digest user:pass
        b< ok
        b> getACL $/x
        b< ok digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:rwcda,world:anyone:r,ip:10.255.255.1:w stat z1
    "#;

    an_identity_belongs_to_the_connection: r#"
        a> auth digest user:pass
        a< ok
        a> create $/x acl=auth::rwcda
        a< z1 ok $/x
        b> connect resume=a
        b< session a timeout=30000
        a< closed
        b> whoAmI
        b< ok [ip:$ip]
        b> getData $/x
        b< not authorized
        b> auth digest user:pass
        b< ok
        b> getData $/x
        b< ok "" stat z1
    "#;

    /// A real server may answer the `auth` before earlier requests, so no request is pending here.
    an_identity_counts_for_the_requests_after_it: r#"
        a> create $/x acl=auth::rwcda
        a< z1 invalid ACL
        a& auth digest user:pass
        a> create $/x acl=auth::rwcda
        a< ok
        a< z2 ok $/x
        a> getACL $/x
        a< ok digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:rwcda stat z2
    "#;

    credentials_of_any_form_are_accepted: r#"
        a> auth digest nocolon
        a< ok
        a> auth digest ""
        a< ok
        a> auth digest :
        a< ok
        a> auth digest a:b:c
        a< ok
        a> auth ip 10.255.255.1
        a< ok
        a> auth ip null
        a< ok
        a> whoAmI
        a< ok [digest: digest: digest:a digest:nocolon ip:$ip]
    "#;

    an_unknown_scheme_ends_the_connection: r#"
        a> auth nosuchscheme x
        a< authentication failed
        a< closed
        b> auth world anyone
        b< authentication failed
        b< closed
        c> auth super x
        c< authentication failed
        c< closed
        d> auth "" x
        d< authentication failed
        d< closed
        e> auth digest null
        e< authentication failed
        e< closed
        f> auth sasl me
        f< authentication failed
        f< closed
    "#;

    requests_after_a_failed_authentication_are_not_done: r#"
        b> exists $
        b< ok stat z0
        a> exists $
        a< ok stat z0
        a& auth nosuchscheme x
        a> create $/x
        a< authentication failed
        a< closed
        b> exists $/x
        b< no node
    "#;
}
