//! SASL logins: which tokens the server accepts, and what a login permits.
//!
//! Each arm has two servers of its own. One serves clients without a login, too; the other serves
//! only clients that have logged in. The user `super` may do everything.

use crate::{
    runner::check_as,
    server::{Demands, Server},
    support::{self, Ensemble},
};

const WHY: &str = "Who may enter a lock depends on who the server believes a client to be.";

const USERS: &[(&str, &str)] = &[
    ("alice", "open sesame"),
    ("ren\u{e9}", "gar\u{e7}on"),
    ("\u{438}\u{432}", "\u{441}\u{435}"),
    ("super", "x"),
];

const LOGIN: &str = r#"super x"#;

/// Makes two tests of all these scripts, `name::embedded` and `name::needs_java`. Each test uses
/// one server.
macro_rules! with_users {
    ($name:ident, login_is_optional: $is_optional:literal; $($script_name:ident: $script:literal;)*) => {
        mod $name {
            use super::*;

            const SCRIPTS: &[(&str, &str)] = &[$((stringify!($script_name), $script)),*];

            #[tokio::test]
            async fn embedded() {
                let mut builder = support::builder();
                for (user, password) in USERS {
                    builder = builder.user(user, password);
                }
                if !$is_optional {
                    builder = builder.require_sasl();
                }
                let server = builder.start().await.expect("a free port on loopback");
                run(SCRIPTS, server.connect_string(), Some(server)).await;
            }

            #[tokio::test]
            #[ignore = "needs Java and a ZooKeeper: tests/run.sh"]
            async fn needs_java() {
                let demands = Demands { users: USERS, login_is_optional: $is_optional, ..Demands::default() };
                let server = Server::start(&demands).await;
                run(SCRIPTS, server.servers(), None).await;
            }
        }
    };
}

async fn run(scripts: &[(&str, &str)], servers: String, server: Option<lockkeeper_server::Server>) {
    let (user, password) = LOGIN.split_once(' ').expect("a password");
    let client = lockkeeper::Client::builder(&servers).expect("a server");
    let client = client.sasl(lockkeeper::client::DigestMd5::new(user, password));
    let client = client.connect().await.expect("a session");
    let ensemble = Ensemble::of(servers, server, client).await;
    for (name, script) in scripts {
        println!("{name}");
        check_as(&ensemble, LOGIN, WHY, script).await;
    }
}

with_users! { a_login_opens_the_users_nodes, login_is_optional: true;
    the_right_password_is_an_identity: r#"
        a> whoAmI
        a< ok [ip:$ip]
        a> login alice "open sesame"
        a< ok proved
        a> whoAmI
        a< ok [ip:$ip sasl:alice]
        a> auth digest user:pass
        a< ok
        a> whoAmI
        a< ok [digest:user ip:$ip sasl:alice]
        # Names and passwords may have letters outside of ASCII.
        # Names and passwords of any letters.
        b> login "ren\u{e9}" "gar\u{e7}on"
        b< ok proved
        c> login "\u{438}\u{432}" "\u{441}\u{435}"
        c< ok proved
    "#;

    a_wrong_password_or_an_unknown_user_ends_the_connection: r#"
        a> login alice "open barley"
        a< authentication failed
        a< closed
        b> login bob "hunter2"
        b< authentication failed
        b< closed
        c> login alice ""
        c< authentication failed
        c< closed
        # The session stays alive, and the client can resume it.
        a> connect resume=a
        a< session a timeout=30000
        a> exists $
        a< ok stat z0
        a> login alice "open sesame"
        a< ok proved
    "#;

    an_identity_lasts_for_one_connection: r#"
        a> login alice "open sesame"
        a< ok proved
        a> create $/x data=hers acl=sasl:alice:rwcda
        a< z1 ok $/x
        a! drop
        a> connect resume=a
        a< session a timeout=30000
        a> getData $/x
        a< not authorized
        a> login alice "open sesame"
        a< ok proved
        a> getData $/x
        a< ok "hers" stat z1 len=4
    "#;

    only_the_owner_and_super_may_use_a_users_node: r#"
        a> login alice "open sesame"
        a< ok proved
        a> create $/x data=hers acl=sasl:alice:rwcda
        a< z1 ok $/x
        a> create $/y acl=auth::rwcda
        a< z2 ok $/y
        a> getACL $/y
        a< ok sasl:alice:rwcda stat z2
        b> getData $/x
        b< not authorized
        b> getACL $/y
        b< not authorized
        c> login "ren\u{e9}" "gar\u{e7}on"
        c< ok proved
        c> setData $/x data=his
        c< z3 not authorized
        d> login super x
        d< ok proved
        d> setData $/x data=mine
        d< z4 ok stat z1 m=z4 v=1 len=4
        # alice gives the node to rené and may no longer read it.
        a> setACL $/x acl=sasl:rené:rwcda
        a< z5 ok stat z1 m=z4 v=1 av=1 len=4
        a> getData $/x
        a< not authorized
        c> getData $/x
        c< ok "mine" stat z1 m=z4 v=1 av=1 len=4
    "#;

    an_acl_may_name_a_kerberos_principal: r#"
        a> create $/a acl=sasl:a@b:r
        a< z1 ok $/a
        a> create $/b acl=sasl:a/h@b:r
        a< z2 ok $/b
        a> create $/c acl=sasl:a/b/c:r
        a< z3 ok $/c
        a> create $/d acl=sasl::r
        a< z4 ok $/d
        a> create $/e acl=sasl:a@b@c:r
        a< z5 invalid ACL
        a> create $/f acl=sasl:a/b/c@d:r
        a< z6 invalid ACL
        a> create $/g acl=sasl:a@b/c:r
        a< z7 invalid ACL
        a> auth sasl alice
        a< authentication failed
        a< closed
    "#;

    any_first_token_gets_the_challenge: r#"
        a> sasl ""
        a< ok 101 bytes
        b> sasl "hello"
        b< ok 101 bytes
        c> sasl "" xid=-8
        c< xid=-8 ok 101 bytes
        d> sasl null
        d< closed
        e> sasl "" cut=1
        e< closed
    "#;

    a_token_out_of_turn_ends_the_connection: r#"
        a> sasl ""
        a< ok 101 bytes
        a> sasl ""
        a< authentication failed
        a< closed
        b> sasl ""
        b< ok 101 bytes
        b> sasl "hello"
        b< authentication failed
        b< closed
        c> login alice "open sesame"
        c< ok proved
        c> sasl ""
        c< authentication failed
        c< closed
        d& sasl ""
        d& sasl ""
        d> create $/x
        d< ok 101 bytes
        d< authentication failed
        d< closed
        e> exists $/x
        e< no node
    "#;

    a_response_may_omit_only_optional_fields: r#"
        a> login alice "open sesame" swap="charset=utf-8,/"
        a< ok proved
        b> login alice "open sesame" swap=",nc=00000001/"
        b< ok proved
        c> login alice "open sesame" swap=",qop=auth/"
        c< ok proved
        d> login alice "open sesame" swap="username=\"alice\",/"
        d< authentication failed
        d< closed
        e> login alice "open sesame" swap="realm=\"zk-sasl-md5\",/"
        e< authentication failed
        e< closed
        f> login alice "open sesame" swap=",nonce=/,once="
        f< authentication failed
        f< closed
        g> login alice "open sesame" swap=",cnonce=/,conce="
        g< authentication failed
        g< closed
        h> login alice "open sesame" swap="response=/respond="
        h< authentication failed
        h< closed
        i> login alice "open sesame" swap="digest-uri=/uri="
        i< authentication failed
        i< closed
    "#;

    variants_of_a_response_are_accepted_or_refused: r#"
        a> login alice "open sesame" swap="nc=00000001/nc=7,nc=8"
        a< ok proved
        b> login alice "open sesame" swap="qop=auth/QOP = \"auth\" , what=ever,what=ever"
        b< ok proved
        c> login alice "open sesame" swap="username=\"alice\"/username=alice"
        c< ok proved
        d> login alice "open sesame" swap="alice/al\\ice"
        d< ok proved
        e> login alice "open sesame" swap="qop=auth/qop=auth-int"
        e< authentication failed
        e< closed
        f> login alice "open sesame" swap="qop=auth/qop=auth,qop=auth"
        f< authentication failed
        f< closed
        g> login alice "open sesame" swap="charset=utf-8/charset=UTF-8"
        g< authentication failed
        g< closed
        h> login alice "open sesame" swap="realm=\"zk/realm=\"kz"
        h< authentication failed
        h< closed
        i> login alice "open sesame" swap="qop=auth/qop=auth,authzid=bob"
        i< authentication failed
        i< closed
        j> login alice "open sesame" swap="qop=auth/qop=\"auth"
        j< authentication failed
        j< closed
        k> login alice "open sesame" swap="alice\"/alice\"x"
        k< authentication failed
        k< closed
        l> login alice "open sesame" swap="username/response"
        l< authentication failed
        l< closed
    "#;
}

with_users! { a_login_is_required, login_is_optional: false;
    a_client_is_served_after_its_login: r#"
        a> login alice "open sesame"
        a< ok proved
        a> create $/x acl=sasl:alice:rwcda
        a< z1 ok $/x
        a> whoAmI
        a< ok [ip:$ip sasl:alice]
    "#;

    every_request_without_a_login_is_refused: r#"
        a> exists $
        a< authentication required
        a< closed
        b> create $/x
        b< authentication required
        b< closed
        c> ping
        c< authentication required
        c< closed
        d> closeSession
        d< authentication required
        d< closed
        e> whoAmI
        e< authentication required
        e< closed
        # The server refuses before it looks at the operation or its body.
        f> raw 999
        f< authentication required
        f< closed
        g> raw create i32:1
        g< authentication required
        g< closed
        # The refusal has the xid of the request, even for a ping.
        i> ping xid=5
        i< xid=5 authentication required
        i< closed
        h> login super x
        h< ok proved
        h> exists $/x
        h< no node
    "#;

    requests_behind_a_refused_one_are_not_done: r#"
        a& exists $
        a> create $/x
        a< authentication required
        a< closed
        b> login super x
        b< ok proved
        b> exists $/x
        b< no node
    "#;

    a_wrong_password_gives_authentication_required: r#"
        a> login alice "open barley"
        a< authentication required
        a< closed
        b> login bob "hunter2"
        b< authentication required
        b< closed
        c> login alice "open sesame"
        c< ok proved
        c> sasl ""
        c< authentication required
        c< closed
        d& sasl ""
        d> sasl ""
        d< ok 101 bytes
        d< authentication required
        d< closed
    "#;

    a_session_without_a_login_can_be_resumed: r#"
        a> exists $
        a< authentication required
        a< closed
        a> connect resume=a
        a< session a timeout=30000
        a?
        a< closed
    "#;

    an_identity_of_another_scheme_is_no_login: r#"
        a& auth digest user:pass
        a> exists $
        a< ok
        a< authentication required
        a< closed
    "#;
}
