//! ACLs in requests: how the server checks and normalises them before it stores them.
//!
//! Not here: what an ACL permits (`acl`).

use crate::conformance;

const WHY: &str =
    "A list that is stored otherwise locks the owner of a lock out, or lets others in.";

conformance! {
    an_acl_must_not_be_missing_or_empty: r#"
        a> create $/x acl=none
        a< z1 invalid ACL
        a> create $/x acl=null
        a< z2 invalid ACL
        a> create2 $/x acl=none
        a< z3 invalid ACL
        a> createContainer $/x acl=none
        a< z4 invalid ACL
        a> createTTL $/x ttl=1000 acl=none
        a< z5 invalid ACL
        a> create $/x
        a< z6 ok $/x
        a> setACL $/x acl=none
        a< z7 invalid ACL
        a> setACL $/x acl=null
        a< z8 invalid ACL
        a> multi
        + create $/y acl=none
        a< z9 ok
        + invalid ACL
        a> getACL $/x
        a< ok world:anyone:rwcda stat z6
    "#;

    duplicates_are_dropped: r#"
        a> create $/x acl=world:anyone:r,ip:10.1.2.3:w,world:anyone:r,world:anyone:rw
        a< z1 ok $/x
        a> getACL $/x
        a< ok world:anyone:r,ip:10.1.2.3:w,world:anyone:rw stat z1
    "#;

    permissions_are_stored_as_sent: r#"
        a> create $/a acl=world:anyone:0
        a< z1 ok $/a
        a> create $/b acl=world:anyone:-1
        a< z2 ok $/b
        a> create $/c acl=world:anyone:255
        a< z3 ok $/c
        a> create $/d acl=world:anyone:32,world:anyone:r
        a< z4 ok $/d
        a> getACL $/b
        a< ok world:anyone:-1 stat z2
        a> getACL $/c
        a< ok world:anyone:255 stat z3
        a> getACL $/d
        a< ok world:anyone:32,world:anyone:r stat z4
    "#;

    the_world_scheme_has_only_the_id_anyone: r#"
        a> create $/x acl=world:nobody:r
        a< z1 invalid ACL
        a> create $/x acl=world::r
        a< z2 invalid ACL
        a> create $/x acl=World:anyone:r
        a< z3 invalid ACL
    "#;

    /// The address is an identity too, but an `auth` entry does not stand for it.
    an_auth_entry_needs_an_authenticated_identity: r#"
        a> create $/x acl=auth::rwcda
        a< z1 invalid ACL
        a> create $/x acl=auth:anything:rwcda
        a< z2 invalid ACL
        a> create $/x acl=world:anyone:r,auth::rwcda
        a< z3 invalid ACL
        a> auth ip x
        a< ok
        a> create $/x acl=auth::rwcda
        a< z4 invalid ACL
        a> create $/x
        a< z5 ok $/x
        a> setACL $/x acl=auth::rwcda
        a< z6 invalid ACL
    "#;

    an_auth_entry_becomes_the_connections_identities: r#"
        a> auth digest user:pass
        a< ok
        a> create $/x acl=auth::rw
        a< z1 ok $/x
        a> getACL $/x
        a< ok digest:user:x:rw stat z1
        a> create $/y acl=auth:ignored:r,world:anyone:a,auth::r
        a< z2 ok $/y
        a> getACL $/y
        a< ok digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:r,world:anyone:a,digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:r stat z2
        a> setACL $/y acl=auth::rwcda
        a< z3 ok stat z2 av=1
        a> getACL $/y
        a< ok digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:rwcda stat z2 av=1
    "#;

    unknown_schemes_are_refused: r#"
        a> create $/x acl=nosuchscheme:x:r
        a< z1 invalid ACL
        a> create $/x acl=:x:r
        a< z2 invalid ACL
        a> create $/x acl=super:x:r
        a< z3 invalid ACL
        a> create $/x acl=sasl:x:r
        a< z4 invalid ACL
        a> create $/x acl=world:anyone:r,nosuchscheme:x:r
        a< z5 invalid ACL
    "#;

    /// Clients do send nulls: kazoo writes every empty string as null.
    a_null_id_is_valid_only_in_an_auth_entry: r#"
        a> raw create str:$/x str:null i32:1 i32:31 str:null str:anyone i32:0
        a< z1 invalid ACL
        a> raw create str:$/x str:null i32:1 i32:31 str:world str:null i32:0
        a< marshalling error
        a> raw create str:$/x str:null i32:1 i32:31 str:auth str:null i32:0
        a< z2 invalid ACL
        a> auth digest user:pass
        a< ok
        a> raw create str:$/x str:null i32:1 i32:31 str:auth str:null i32:0
        a< z3 ok $/x
        a> getACL $/x
        a< ok digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:rwcda stat z3
    "#;

    a_digest_has_two_parts: r#"
        a> create $/a acl=digest:a:b:r
        a< z1 ok $/a
        a> create $/b acl=digest::b:r
        a< z2 ok $/b
        # Empty parts at the end do not count.
        a> create $/c acl=digest:a:b::r
        a< z3 ok $/c
        a> create $/x acl=digest:a:r
        a< z4 invalid ACL
        a> create $/x acl=digest:a::r
        a< z5 invalid ACL
        a> create $/x acl=digest:a:b:c:r
        a< z6 invalid ACL
        a> create $/x acl=digest::r
        a< z7 invalid ACL
        a> getACL $/b
        a< not authorized
    "#;

    an_address_has_four_numbers: r#"
        a> create $/a acl=ip:10.1.2.3:r
        a< z1 ok $/a
        a> create $/b acl=ip:10.1.2.3/0:r
        a< z2 ok $/b
        a> create $/c acl=ip:10.1.2.3/32:r
        a< z3 ok $/c
        a> create $/d acl=ip:0.0.0.0:r
        a< z4 ok $/d
        a> create $/e acl=ip:255.255.255.255:r
        a< z5 ok $/e
        a> create $/f acl=ip:010.1.2.3:r
        a< z6 ok $/f
        a> getACL $/b
        a< ok ip:10.1.2.3/0:r stat z2
        a> create $/x acl=ip:10.1.2.3/33:r
        a< z7 invalid ACL
        a> create $/x acl=ip:10.1.2.3/-1:r
        a< z8 invalid ACL
        a> create $/x acl=ip:10.1.2.3/:r
        a< z9 invalid ACL
        a> create $/x acl=ip:10.1.2.3/a:r
        a< z10 invalid ACL
        a> create $/x acl=ip:10.1.2:r
        a< z11 invalid ACL
        a> create $/x acl=ip:10.1.2.3.4:r
        a< z12 invalid ACL
        a> create $/x acl=ip:10.1.2.256:r
        a< z13 invalid ACL
        a> create $/x acl=ip:10.1.2.a:r
        a< z14 invalid ACL
        a> create $/x acl=ip:localhost:r
        a< z15 invalid ACL
        a> create $/x acl=ip::r
        a< z16 invalid ACL
    "#;

    /// The server treats a list of negative length as an empty one, like Java's readers.
    a_negative_count_is_an_empty_list: r#"
        a> raw create str:$/x str:null i32:-2 i32:0
        a< z1 invalid ACL
        a> raw create str:$/x str:null i32:-1 i32:0
        a< z2 invalid ACL
    "#;

    setting_a_list_checks_its_version: r#"
        a> create $/x
        a< z1 ok $/x
        a> setACL $/x acl=world:anyone:ra version=0
        a< z2 ok stat z1 av=1
        a> setACL $/x acl=world:anyone:rwa version=0
        a< z3 bad version
        a> setACL $/x acl=world:anyone:rcda version=1
        a< z4 ok stat z1 av=2
        a> getACL $/x
        a< ok world:anyone:rcda stat z1 av=2
        a> setACL $/no
        a< z5 no node
    "#;
}
