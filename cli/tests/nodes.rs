//! `lockkeeper ls`, `tree`, `get`, `stat`, `set`, `create`, `rm` and `watch`.
//!
//! Not here: refusals (`errors`), bad arguments (`usage`).

mod support;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use lockkeeper::{
    CreateMode,
    node::{Acl, Perms},
};
use rustix::process::Signal;
use serde_json::Value;
use support::{Arm, Ended, Running, ended, is_ignored, objects};

on_both_arms!(
    the_metadata_of_nodes_are_shown,
    a_node_that_may_not_be_read_does_not_hide_the_others,
    a_tree_with_a_lock_in_use_is_deleted_only_with_force,
    watch_prints_each_event,
    a_command_that_waits_ends_when_nobody_reads,
);

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
    let why = "no permission by the ACL; give an identity that has it with --auth-file";
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

fn watch_prints_each_event(arm: &Arm) {
    let top = arm.path();
    let child = format!("{top}/child");
    arm.create(&top);
    let mut recursive = watching(arm, &["--recursive"], &top);
    let mut single = watching(arm, &[], &top);
    arm.said(&["create", &child]);
    arm.said(&["set", &child, "x"]);
    arm.said(&["rm", &child]);
    // `watching` may have changed the node more than once.
    let next = |watch: &mut Running| loop {
        let what = what_happened(&watch.line());
        if what != format!("changed {top}") {
            return what;
        }
    };
    for what in ["created", "changed", "deleted"] {
        assert_eq!(next(&mut recursive), format!("{what} {child}"));
    }
    for _ in 0..2 {
        assert_eq!(next(&mut single), format!("children {top}"));
    }
    if !is_ignored(Signal::TERM) {
        single.signal(Signal::TERM);
        single.end().ends(143);
    }
    watching(arm, &["--count", "1"], &top).end().is(0, "");
    let mut json = arm.on(&["watch", "--json", "--count", "1", &top]);
    let mut json = Running::start(&mut json);
    wait_for_event(arm, &top, || !json.is_running());
    let event = &objects(&json.end().stdout)[0];
    assert_eq!(
        (&event["event"], &event["path"]),
        (&"changed".into(), &Value::from(top))
    );
}

/// Starts `lockkeeper watch`, and waits until it has printed a line. So the server has the watch.
fn watching(arm: &Arm, options: &[&str], path: &str) -> Running {
    let mut watch = Running::start(&mut arm.on(&[&["watch"], options, &[path]].concat()));
    let has_line = AtomicBool::new(false);
    let line = thread::scope(|scope| {
        scope.spawn(|| wait_for_event(arm, path, || has_line.load(Ordering::Relaxed)));
        let line = watch.line();
        has_line.store(true, Ordering::Relaxed);
        line
    });
    assert_eq!(what_happened(&line), format!("changed {path}"));
    watch
}

/// Changes the node again and again until this is so.
fn wait_for_event(arm: &Arm, path: &str, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        arm.set_data(path, "");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A line without its time.
fn what_happened(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    words[1..].join(" ")
}

/// `head -1` ended, and the command waited for an event that never came.
fn a_command_that_waits_ends_when_nobody_reads(arm: &Arm) {
    let path = arm.path();
    arm.create(&path);
    for arguments in [&["queue", "-f", &path][..], &["watch", &path]] {
        let mut waits = Running::start(&mut arm.on(arguments));
        if arguments[0] == "queue" {
            waits.line();
        }
        assert!(waits.is_running(), "{arguments:?}");
        waits.read_no_more();
        waits.end().ends(141);
    }
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
