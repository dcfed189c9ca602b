//! `lockkeeper ls`, `get`, `stat`, `set`, `create` and `rm`.
//!
//! Not here: refusals (`errors`), bad arguments (`usage`).

use crate::support::{Arm, Ended, Running, ended, objects};
use lockkeeper::{
    CreateMode,
    node::{Acl, Perms},
};
use serde_json::Value;

on_both_arms!(
    the_metadata_of_nodes_are_shown,
    a_node_that_may_not_be_read_does_not_hide_the_others,
    a_tree_with_a_lock_in_use_is_deleted_only_with_force,
    a_command_that_waits_ends_when_nobody_reads,
    the_holder_that_is_asked_to_release_a_lock_is_named,
);

/// The request replaces the name of the holder. If the holder is dead, nobody else tells which process to look for.
fn the_holder_that_is_asked_to_release_a_lock_is_named(arm: &Arm) {
    let guard = arm.hold(&arm.path());
    let node = guard.path();
    arm.set_data(&node, "host=a pid=7");
    let asked = ended(&mut arm.on(&["set", &node, "__REVOKE__"])).is(0, "");
    let told = format!("lockkeeper: {node}: asking host=a pid=7 to release the lock\n");
    assert_eq!(
        (asked.stderr, arm.data(&node)),
        (told, "__REVOKE__".to_owned())
    );
    arm.release(guard);
}

fn the_metadata_of_nodes_are_shown(arm: &Arm) {
    let top = arm.path();
    let (one, two) = (format!("{top}/one"), format!("{top}/two"));
    arm.said(&["create", "--parents", &one, "12345"]);
    arm.said(&["set", &one, "123"]);
    arm.said(&["create", &format!("{one}/child")]);
    arm.create_ephemeral(&two);
    let long = arm.said(&["ls", "--long", &top]);
    let rows = long.lines().map(|line| line.split_whitespace().collect());
    let [head, first, second] = &rows.collect::<Vec<Vec<_>>>()[..] else {
        panic!("{long}");
    };
    let names = "VERSION BYTES CHILDREN CHANGED SESSION NAME";
    assert_eq!(head.join(" "), names);
    assert_eq!(
        [first[0], first[1], first[2], first[4], first[5]],
        ["1", "3", "1", "-", "one"]
    );
    assert!(second[4].starts_with("0x"), "{long}");

    let stat = arm.said(&["stat", &one]);
    let value = |name: &str| {
        let mut lines = stat.lines().filter(|line| line.starts_with(name));
        let line = lines.next().unwrap();
        line[name.len()..].trim().to_owned()
    };
    assert_eq!(value("path"), one);
    assert_eq!(value("bytes"), "3");
    assert_eq!(value("version"), "1");
    assert_eq!(value("changed"), first[3]);

    let listed = objects(&arm.said(&["ls", "--json", &top]));
    let [first, second] = listed.as_slice() else {
        panic!("{listed:?}");
    };
    assert_eq!([&first["path"], &second["path"]], [&*one, &*two]);
    assert_eq!((&first["version"], &first["bytes"]), (&1.into(), &3.into()));
    assert_eq!(first["session"], Value::Null);
    assert!(second["session"].as_str().unwrap().starts_with("0x"));
    let stat = objects(&arm.said(&["stat", "--json", &one]));
    assert_eq!(stat, std::slice::from_ref(first));
    assert!(stat[0]["changed_ms"].as_i64() > Some(1_600_000_000_000));
}

fn a_node_that_may_not_be_read_does_not_hide_the_others(arm: &Arm) {
    let top = arm.path();
    for below in ["a/b", "d/e"] {
        arm.create(&format!("{top}/{below}"));
    }
    let closed = ["c", "d/f"].map(|below| format!("{top}/{below}"));
    let delete = Acl::new(Perms::DELETE, "world", "anyone");
    for path in &closed {
        arm.create_with_acl(path, CreateMode::Persistent, vec![delete.clone()]);
    }
    let paths = ["a", "a/b", "c", "d", "d/e", "d/f"].map(|below| format!("{top}/{below}\n"));
    let why = "no permission by the ACL; give an identity that has it with --auth-file, --tls-cert or --kerberos";
    let refused = closed.map(|path| format!("lockkeeper: {path}: {why}\n"));
    let ends_with = |ended: Ended, stdout: &str| {
        assert_eq!(ended.is(1, stdout).stderr, refused.concat());
    };
    ends_with(ended(&mut arm.on(&["ls", "-R", &top])), &paths.concat());
    let long = ended(&mut arm.on(&["ls", "-R", "-l", &top])).ends(1);
    assert!(
        [1, 4].iter().all(|it| long.stdout.contains(&paths[*it])),
        "{long:?}"
    );
    assert_eq!(long.stderr, refused.concat());
    // Nothing is deleted if not everything can be.
    arm.refused(&["rm", "-r", &top]);
    assert_eq!(arm.nodes(&top).len(), 3);
}

fn a_tree_with_a_lock_in_use_is_deleted_only_with_force(arm: &Arm) {
    let top = arm.path();
    let lock = format!("{top}/locks/a");
    arm.create(&format!("{top}/other"));
    let guard = arm.hold(&lock);
    for path in [&top, &lock] {
        let refused = arm.refused(&["rm", "-r", path]);
        let why = "uses it; nothing was deleted; --force";
        let node = format!("lockkeeper: {}: session 0x", guard.path());
        assert!(
            refused.starts_with(&node) && refused.contains(why),
            "{refused}"
        );
    }
    assert_eq!((arm.nodes(&top).len(), arm.nodes(&lock).len()), (2, 1));
    arm.said(&["rm", "-r", "--force", &lock]);
    drop(guard);
    arm.said(&["rm", "-r", &top]);
}

/// `head -1` ended, and the command waited for an event that never came.
fn a_command_that_waits_ends_when_nobody_reads(arm: &Arm) {
    let path = arm.path();
    arm.create(&path);
    let mut waits = Running::start(&mut arm.on(&["queue", "-f", &path]));
    waits.line();
    assert!(waits.is_running());
    waits.read_no_more();
    waits.end().ends(141);
    // A pipe whose reading end is closed from the start.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ls = arm.on(&["ls"]).stdout(writer).output().unwrap();
    assert_eq!((ls.status.code(), ls.stderr), (Some(141), vec![]));
}

#[test]
fn a_tree_of_many_nodes_is_walked_and_deleted() {
    let arm = Arm::embedded();
    for child in 0..10 {
        (0..100).for_each(|number| arm.create(&format!("/many/{child}/{number}")));
    }
    let all = arm.said(&["ls", "-R", "/many"]);
    assert_eq!(all.lines().count(), 10 + 1000);
    arm.said(&["rm", "-r", "/many"]);
    arm.refused(&["stat", "/many"]);
}
