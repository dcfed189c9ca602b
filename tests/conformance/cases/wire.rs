//! Frames, headers, xids, and requests that the server cannot parse.

use crate::conformance;

const WHY: &str =
    "A reply that a client pairs with another request could grant a lock that nobody has.";

conformance! {
    a_reply_has_the_xid_of_its_request: r#"
        a> exists $ xid=5
        a< xid=5 ok stat z0
        a> exists $ xid=5
        a< xid=5 ok stat z0
        a> exists $ xid=0
        a< xid=0 ok stat z0
        a> exists $ xid=-3
        a< xid=-3 ok stat z0
        a> exists $ xid=2147483647
        a< xid=2147483647 ok stat z0
        a> exists $ xid=-2147483648
        a< xid=-2147483648 ok stat z0
        a> create $/x xid=-8
        a< xid=-8 z1 ok $/x
    "#;

    the_reply_to_a_ping_always_has_the_ping_xid: r#"
        a> ping xid=5
        a< xid=-2 ok
        a> ping xid=0
        a< xid=-2 ok
    "#;

    an_authentication_keeps_its_xid: r#"
        a> auth digest a:b xid=9
        a< xid=9 ok
        a> auth digest a:b
        a< ok
    "#;

    replies_come_in_the_order_of_the_requests: r#"
        a& create $/x
        a& exists $/x
        a& getData $/no
        a& setData $/x data=1
        a& create $/x
        a& getData $/x
        a& sync $/x
        a& delete $/x
        a> getChildren $
        a< z1 ok $/x
        a< ok stat z1
        a< no node
        a< z2 ok stat z1 m=z2 v=1 len=1
        a< z3 node exists
        a< ok "1" stat z1 m=z2 v=1 len=1
        a< ok $/x
        a< z4 ok
        a< ok []
    "#;

    /// Each request waits for its reply: the end of the connection could lose earlier replies.
    an_unknown_operation_ends_the_connection: r#"
        a> raw 999
        a< unimplemented
        a< closed
        b> raw 10
        b< unimplemented
        b< closed
        c> raw 23
        c< unimplemented
        c< closed
        d> raw -100
        d< unimplemented
        d< closed
        e> raw 108 str:"some body"
        e< unimplemented
        e< closed
        f> raw 0
        f< unimplemented
        f< closed
        g> raw -2
        g< unimplemented
        g< closed
        h> raw 99
        h< unimplemented
        h< closed
        i> raw -1
        i< unimplemented
        i< closed
    "#;

    a_body_that_is_too_short_is_refused: r#"
        a> create $/x cut=1
        a< marshalling error
        a> create2 $/x cut=5
        a< marshalling error
        a> delete $/x cut=4
        a< marshalling error
        a> setData $/x cut=1
        a< marshalling error
        a> getData $ cut=1
        a< marshalling error
        a> exists $ cut=2
        a< marshalling error
        a> getChildren $ cut=1
        a< marshalling error
        a> getACL $ cut=1
        a< marshalling error
        a> setACL $ cut=1
        a< marshalling error
        a> sync $ cut=1
        a< marshalling error
        a> addWatch $ kind=recursive cut=1
        a< marshalling error
        a> removeWatches $ kind=any cut=1
        a< marshalling error
        a> getEphemerals / cut=1
        a< marshalling error
        a> raw create
        a< marshalling error
        a> raw getData
        a< marshalling error
        a> exists $
        a< ok stat z0
    "#;

    impossible_lengths_are_refused: r#"
        a> raw getData i32:-2 bool:0
        a< marshalling error
        a> raw getData i32:2147483647 bool:0
        a< marshalling error
        a> raw setData str:$ i32:-7 i32:-1
        a< marshalling error
        a> raw create str:$/x i32:9999 i32:1
        a< marshalling error
        a> raw create str:$/x str:null i32:1000000 i32:31 str:world str:anyone i32:0
        a< marshalling error
        a> exists $
        a< ok stat z0
    "#;

    bytes_after_a_body_are_ignored: r#"
        a> create $/x extra=3
        a< z1 ok $/x
        a> getData $/x extra=100
        a< ok "" stat z1
        a> ping extra=1
        a< ok
        a> whoAmI extra=5
        a< ok [ip:$ip]
        a> sync $ extra=1
        a< ok $
    "#;

    any_nonzero_byte_is_true: r#"
        a> raw exists str:$/x bool:2
        a< no node
        a> raw exists str:$/y bool:255
        a< no node
        b> create $/x
        b< z1 ok $/x
        a< event created $/x
        b> create $/y
        b< z2 ok $/y
        a< event created $/y
    "#;

    a_frame_too_long_ends_the_connection: r#"
        a> exists $
        a< ok stat z0
        a! bytes "\x00\x10\x00\x00"
        a?
        a< closed
        b> exists $
        b< ok stat z0
        b! bytes "\x7f\xff\xff\xff"
        b?
        b< closed
    "#;

    a_frame_of_negative_length_ends_the_connection: r#"
        a> exists $
        a< ok stat z0
        a! bytes "\xff\xff\xff\xff"
        a?
        a< closed
    "#;

    a_frame_too_short_for_a_header_ends_the_connection: r#"
        a> exists $
        a< ok stat z0
        a! bytes "\x00\x00\x00\x00"
        a?
        a< closed
        b> exists $
        b< ok stat z0
        b! bytes "\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00"
        b?
        b< closed
    "#;

    the_longest_frame_is_accepted: r#"
        a> create $/x fill=1048575
        a< z1 ok $/x
        a> exists $/x brief
        a< ok
        a> getData $/x brief
        a< ok
    "#;

    a_malformed_handshake_ends_the_connection: r#"
        a! bytes "\x00\x00\x00\x04\x00\x00\x00\x00"
        a?
        a< closed
        b! bytes "\x00\x00\x00\x00"
        b?
        b< closed
        c! bytes "\xff\xff\xff\xff"
        c?
        c< closed
        d! bytes "\x00\x00\x00\x1b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        d?
        d< closed
    "#;

    a_short_authentication_body_ends_the_connection: r#"
        a> exists $
        a< ok stat z0
        a> auth digest a:b cut=1
        a< closed
        b> exists $
        b< ok stat z0
        b> raw auth
        b< closed
    "#;

    a_four_letter_word_is_answered: r#"
        a> word ruok
        a< imok
        a< closed
        a> word isro
        a< rw
        a< closed
        a> word srvr
        a< Zookeeper version
        a< Latency min/avg/max
        a< Received
        a< Sent
        a< Connections
        a< Outstanding
        a< Zxid
        a< Mode
        a< Node count
        a< closed
    "#;

    other_letters_are_read_as_a_frame_length: r#"
        a> word zzzz
        a< closed
        a> word RUOK
        a< closed
        b> exists $
        b< ok stat z0
        b! bytes ruok
        b?
        b< closed
    "#;
}
