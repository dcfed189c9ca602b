//! Sessions: how they begin, move from one connection to another, and end.

use crate::conformance;

const WHY: &str = "A lock ends with its session: one that ends early gives the lock to two, one that stays to nobody.";

conformance! {
    a_session_begins_with_a_handshake: r#"
        a> connect timeout=10000
        a< session a timeout=10000
        a> ping
        a< ok
    "#;

    /// Clients before 3.4 do not send the read-only byte, and their reply has none either.
    a_client_before_3_4_gets_no_read_only_byte: r#"
        a> connect timeout=10000 readonly=absent
        a< session a timeout=10000 readonly=absent
        a> ping
        a< ok
        b> connect timeout=10000 resume=a readonly=absent
        b< session a timeout=10000 readonly=absent
        a< closed
        b> ping
        b< ok
    "#;

    a_client_that_accepts_read_only_gets_a_full_server: r#"
        a> connect timeout=10000 readonly=true
        a< session a timeout=10000
        a> create $/x
        a< z1 ok $/x
    "#;

    /// Both arms are started with these bounds. Each handshake replaces the connection before it,
    /// because sessions this short may end at any time.
    timeouts_are_kept_within_bounds: r#"
        a> connect timeout=1234
        a< session a timeout=1234
        a! hush
        a> connect timeout=0
        a< session a timeout=500
        a! hush
        a> connect timeout=-5
        a< session a timeout=500
        a! hush
        a> connect timeout=1
        a< session a timeout=500
        a! hush
        a> connect timeout=499
        a< session a timeout=500
        a! hush
        a> connect timeout=500
        a< session a timeout=500
        a! hush
        a> connect timeout=60000
        a< session a timeout=60000
        a> connect timeout=60001
        a< session a timeout=60000
        a> connect timeout=2147483647
        a< session a timeout=60000
    "#;

    a_new_session_needs_no_password: r#"
        a> connect timeout=10000 password=null
        a< session a timeout=10000
        b> connect timeout=10000 password=""
        b< session b timeout=10000
        c> connect timeout=10000 password=short
        c< session c timeout=10000
        d> connect timeout=10000 version=7
        d< session d timeout=10000
        d> ping
        d< ok
    "#;

    a_session_moves_to_a_new_connection: r#"
        a> connect timeout=10000
        a< session a timeout=10000
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        a! drop
        b> connect timeout=10000 resume=a
        b< session a timeout=10000
        b> exists $/e
        b< ok stat z1 owner=a
        b> getEphemerals /
        b< ok [$/e]
    "#;

    moving_a_session_closes_its_old_connection: r#"
        a> connect timeout=10000
        a< session a timeout=10000
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        a> getData $/e watch
        a< ok "" stat z1 owner=a
        b> connect timeout=10000 resume=a
        b< session a timeout=10000
        a< closed
        b> setData $/e data=1
        b< z2 ok stat z1 m=z2 v=1 len=1 owner=a
        b> getEphemerals /
        b< ok [$/e]
    "#;

    the_timeout_is_negotiated_again: r#"
        a> connect timeout=10000
        a< session a timeout=10000
        a! drop
        a> connect timeout=20000 resume=a
        a< session a timeout=20000
        a! drop
        a> connect timeout=70000 resume=a
        a< session a timeout=60000
    "#;

    a_session_is_resumed_only_with_its_password: r#"
        a> connect timeout=10000
        a< session a timeout=10000
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        a! drop
        b> connect resume=a password="0123456789abcdef"
        b< refused
        b< closed
        c> connect resume=a password=null
        c< refused
        c< closed
        d> connect resume=a password=""
        d< refused
        d< closed
        a> connect timeout=10000 resume=a
        a< session a timeout=10000
        a> getEphemerals /
        a< ok [$/e]
    "#;

    an_unknown_session_is_refused: r#"
        a> connect session=81985529216486895
        a< refused
        a< closed
        b> connect session=-1
        b< refused
        b< closed
        c> connect session=1 readonly=absent
        c< refused readonly=absent
        c< closed
    "#;

    /// The server sends no reply. The session's existing connection stays open.
    a_server_that_is_behind_closes_the_connection: r#"
        a> connect timeout=10000
        a< session a timeout=10000
        b> connect zxid=9223372036854775807
        b< closed
        c> connect resume=a zxid=9223372036854775807
        c< closed
        a> exists $
        a< ok stat z0
        d> connect timeout=10000 zxid=-1
        d< session d timeout=10000
        e> connect timeout=10000 zxid=z0
        e< session e timeout=10000
    "#;

    closing_a_session_deletes_its_ephemeral_nodes: r#"
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        a> create $/p
        a< z2 ok $/p
        b> exists $/e watch
        b< ok stat z1 owner=a
        c> getChildren $ watch
        c< ok [e p]
        a> closeSession
        a< z3 ok
        a< closed
        b< event deleted $/e
        c< event children $
        b> exists $/e
        b< no node
        b> getChildren $
        b< ok [p]
    "#;

    a_closing_session_gets_the_events_of_its_own_nodes: r#"
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        a> exists $/e watch
        a< ok stat z1 owner=a
        a> closeSession
        a< event deleted $/e
        a< z2 ok
        a< closed
    "#;

    a_closed_session_cannot_be_resumed: r#"
        a> connect timeout=10000
        a< session a timeout=10000
        a> closeSession
        a< z1 ok
        a< closed
        a> connect timeout=10000 resume=a
        a< refused
        a< closed
    "#;

    /// Requests behind the close are not done. Whether the server answers them depends on how fast
    /// it closes the connection, so this case has none.
    a_close_is_done_after_the_requests_before_it: r#"
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        a& setData $/e data=1
        a& getData $/e
        a> closeSession
        a< z2 ok stat z1 m=z2 v=1 len=1 owner=a
        a< ok "1" stat z1 m=z2 v=1 len=1 owner=a
        a< z3 ok
        a< closed
        b> getChildren $
        b< ok []
    "#;

    a_lost_connection_does_not_end_its_session: r#"
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        b> exists $/e watch
        b< ok stat z1 owner=a
        a! drop
        b> exists $/e
        b< ok stat z1 owner=a
        a> connect resume=a
        a< session a timeout=30000
        a> delete $/e
        a< z2 ok
        b< event deleted $/e
    "#;

    /// The server does not report the expiry: it only closes the connection.
    a_silent_session_expires: r#"
        a> connect timeout=5000
        a< session a timeout=5000
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        b> exists $/e watch
        b< ok stat z1 owner=a
        c> addWatch $ kind=persistent
        c< ok
        a! hush
        a? after=5000
        a< closed
        b?
        b< event deleted $/e
        c?
        c< event children $
        b> exists $/e
        b< no node
        b> exists $
        b< ok stat z0 p=z2 cv=2
        a> connect timeout=5000 resume=a
        a< refused
        a< closed
        a> connect timeout=10000
        a< session a timeout=10000
        a> create $/e mode=ephemeral
        a< z3 ok $/e
        c< event children $
    "#;

    a_session_without_a_connection_expires: r#"
        a> connect timeout=5000
        a< session a timeout=5000
        a> create $/e mode=ephemeral
        a< z1 ok $/e
        b> exists $/e watch
        b< ok stat z1 owner=a
        a! drop
        b? after=5000
        b< event deleted $/e
        # A server that ends a session tells the watchers first, and then closes what is connected with
        # it, also a new connection, without an answer. It answers other requests after that.
        b> getChildren $
        b< ok []
        a> connect timeout=5000 resume=a
        a< refused
        a< closed
    "#;
}
