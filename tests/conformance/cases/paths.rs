//! Which paths each operation accepts.
//!
//! Reads accept any path; for an invalid path they answer that there is no such node. Writes check
//! the whole path, except `delete`, which checks only a part.

use crate::conformance;

const WHY: &str =
    "Clients with one path must meet at one node, and a path with a mistake must be refused.";

conformance! {
    a_path_starts_with_a_slash: r#"
        a> create ""
        a< z1 bad arguments
        a> create a
        a< z2 bad arguments
        a> create a/b
        a< z3 no node
        a> create "//a"
        a< z4 bad arguments
        a> create "/"
        a< z5 node exists
    "#;

    a_path_has_no_empty_name: r#"
        a> create $/x
        a< z1 ok $/x
        a> create $/
        a< z2 bad arguments
        a> create $/x/
        a< z3 bad arguments
        a> create $//a
        a< z4 no node
        a> create $/x//
        a< z5 no node
        a> create $/no/
        a< z6 no node
    "#;

    a_path_has_no_dots_for_names: r#"
        a> create $/.
        a< z1 bad arguments
        a> create $/..
        a< z2 bad arguments
        a> create $/./a
        a< z3 no node
        a> create $/../a
        a< z4 no node
        a> create $/...
        a< z5 ok $/...
        a> create $/a.
        a< z6 ok $/a.
        a> create $/.a
        a< z7 ok $/.a
        a> create $/a..b
        a< z8 ok $/a..b
    "#;

    control_characters_are_refused: r#"
        a> create "$/a\0"
        a< z1 bad arguments
        a> create "$/\0a"
        a< z2 bad arguments
        a> create "$/\x01"
        a< z3 bad arguments
        a> create "$/a\nb"
        a< z4 bad arguments
        a> create "$/\x1f"
        a< z5 bad arguments
        a> create "$/\x7f"
        a< z6 bad arguments
        a> create "$/\u{80}"
        a< z7 bad arguments
        a> create "$/\u{9f}"
        a< z8 bad arguments
        a> create "$/\0" mode=sequential
        a< z9 bad arguments
        a> create "$/\x01" mode=sequential
        a< z10 bad arguments
    "#;

    private_and_special_characters_are_refused: r#"
        a> create "$/\u{e000}"
        a< z1 bad arguments
        a> create "$/\u{f8ff}"
        a< z2 bad arguments
        a> create "$/\u{fff0}"
        a< z3 bad arguments
        a> create "$/\u{fffd}"
        a< z4 bad arguments
        a> create "$/\u{ffff}"
        a< z5 bad arguments
        # In Java these characters are two surrogates each, and surrogates are refused.
        a> create "$/\u{1f600}"
        a< z6 bad arguments
        a> create "$/\u{10ffff}"
        a< z7 bad arguments
    "#;

    all_other_characters_are_accepted: r#"
        a> create "$/a b"
        a< z1 ok "$/a b"
        a> create "$/ "
        a< z2 ok "$/ "
        a> create "$/\u{a0}"
        a< z3 ok "$/\u{a0}"
        a> create "$/é"
        a< z4 ok "$/\u{e9}"
        a> create "$/\u{2028}"
        a< z5 ok "$/\u{2028}"
        a> create "$/\u{d7ff}"
        a< z6 ok "$/\u{d7ff}"
        a> create "$/\u{f900}"
        a< z7 ok "$/\u{f900}"
        a> create "$/\u{fdd0}"
        a< z8 ok "$/\u{fdd0}"
        a> create "$/\u{ffef}"
        a< z9 ok "$/\u{ffef}"
        a> create "$/a\"b\\c"
        a< z10 ok "$/a\"b\\c"
        a> getChildren $
        a< ok [" " "\u{2028}" "\u{a0}" "\u{d7ff}" "\u{e9}" "\u{f900}" "\u{fdd0}" "\u{ffef}" "a b" "a\"b\\c"]
    "#;

    /// The server reads invalid UTF-8 as U+FFFD, which no path may contain.
    malformed_text_is_no_path: r#"
        a> raw create str:"$/x\xff" str:null i32:1 i32:31 str:world str:anyone i32:0
        a< z1 bad arguments
        a> raw exists str:"$/x\xff" bool:0
        a< no node
        a> raw exists str:"$/\xc3" bool:0
        a< no node
    "#;

    a_path_is_not_null: r#"
        a> raw create str:null str:null i32:1 i32:31 str:world str:anyone i32:0
        a< marshalling error
        a> raw delete str:null i32:-1
        a< marshalling error
        a> raw exists str:null bool:0
        a< marshalling error
        a> raw getData str:null bool:0
        a< marshalling error
        a> raw getACL str:null
        a< marshalling error
        a> raw getChildren str:null bool:0
        a< marshalling error
        a> raw getChildren2 str:null bool:0
        a< marshalling error
        a> raw getAllChildrenNumber str:null
        a< marshalling error
        a> exists $
        a< ok stat z0
    "#;

    reads_accept_any_path: r#"
        a> exists no-slash
        a< no node
        a> getData $/
        a< no node
        a> getData $//
        a< no node
        a> getChildren "$/\x01"
        a< no node
        a> getChildren2 $/..
        a< no node
        a> getACL /.
        a< no node
        a> getAllChildrenNumber "//"
        a< no node
        a> getData "$/\0"
        a< no node
    "#;

    reads_accept_the_empty_path_as_the_root: r#"
        a> exists "" brief
        a< ok
        a> getData "" brief
        a< ok
        a> getChildren "" brief
        a< ok
        a> getChildren2 "" brief
        a< ok
        a> getACL "" brief
        a< ok
        a> getAllChildrenNumber "" brief
        a< ok
    "#;

    an_exists_refuses_only_the_zero_character: r#"
        a> exists "$/\0"
        a< bad arguments
        a> exists "$/\x01"
        a< no node
    "#;

    a_delete_checks_only_part_of_the_path: r#"
        a> delete ""
        a< z1 bad arguments
        a> delete a
        a< z2 bad arguments
        a> delete "$/\0"
        a< z3 bad arguments
        a> delete $/
        a< z4 no node
        a> delete $//
        a< z5 no node
        a> delete $/.
        a< z6 no node
        a> delete "$/\x01"
        a< z7 no node
    "#;

    other_writes_check_the_whole_path: r#"
        a> setData "" data=x
        a< z1 bad arguments
        a> setData a data=x
        a< z2 bad arguments
        a> setData $/ data=x
        a< z3 bad arguments
        a> setData $/../a data=x
        a< z4 bad arguments
        a> setData "$/\x01" data=x
        a< z5 bad arguments
        a> setACL ""
        a< z6 bad arguments
        a> setACL $/
        a< z7 bad arguments
        a> setACL "$/\x01"
        a< z8 bad arguments
        a> multi
        + check $/
        a< z9 ok
        + bad arguments
        a> multi
        + check a
        a< z10 ok
        + bad arguments
    "#;

    a_create_in_a_transaction_checks_the_path_too: r#"
        a> multi
        + create $/ok
        + create $/.
        a< z1 ok
        + ok
        + bad arguments
        a> multi
        + create a
        a< z2 ok
        + bad arguments
        a> getChildren $
        a< ok []
    "#;
}
