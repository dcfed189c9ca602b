//! `lockkeeper ls`, `tree`, `get`, `stat`, `set`, `create`, `rm` and `watch`.
//!
//! Not here: bad arguments (`usage`).

mod support;

use std::{
    io::Write as _,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use lockkeeper::CreateMode;
use rustix::process::Signal;
use support::{Arm, Ended, Running, ended, is_ignored, lockkeeper};

on_both_arms!(
    a_tree_is_created_shown_and_deleted,
    data_are_written_and_read_unchanged,
    a_change_for_another_version_is_refused,
    a_missing_node_gives_status_1_and_an_error_that_names_it,
    ls_long_and_stat_show_the_metadata,
    watch_prints_each_event,
);

/// `lockkeeper COMMAND ARGUMENTS` on this server.
fn on(arm: &Arm, command: &str, arguments: &[&str]) -> Command {
    let mut lockkeeper = lockkeeper(&[command, "--connect", &arm.connect]);
    lockkeeper.args(arguments);
    lockkeeper
}

/// Runs a command that must succeed, and returns its stdout.
fn said(arm: &Arm, command: &str, arguments: &[&str]) -> String {
    let ended = ended(&mut on(arm, command, arguments));
    let Ended { status, stderr, .. } = &ended;
    assert_eq!(
        (*status, stderr.as_str()),
        (0, ""),
        "{command} {arguments:?}"
    );
    ended.stdout
}

/// Runs a command that the server must refuse, and returns its stderr.
fn refused(arm: &Arm, command: &str, arguments: &[&str]) -> String {
    let ended = ended(&mut on(arm, command, arguments));
    assert_eq!(
        (ended.status, &*ended.stdout),
        (1, ""),
        "{command} {arguments:?}"
    );
    ended.stderr
}

fn a_tree_is_created_shown_and_deleted(arm: &Arm) {
    let top = arm.path();
    let create = |options: &[&str], below: &str| {
        let path = format!("{top}{below}");
        said(arm, "create", &[options, &[&path]].concat())
    };
    assert_eq!(create(&["--parents"], "/b/c"), format!("{top}/b/c\n"));
    create(&[], "/a");
    create(&["--container"], "/b/d");
    assert_eq!(
        create(&["--sequential"], "/b/e-"),
        format!("{top}/b/e-0000000002\n")
    );
    assert_eq!(said(arm, "ls", &[&top]), "a\nb\n");
    let tree = format!("{top}\n├── a\n└── b\n    ├── c\n    ├── d\n    └── e-0000000002\n");
    assert_eq!(said(arm, "tree", &[&top]), tree);
    let cut = format!("{top}\n├── a\n└── b\n");
    assert_eq!(said(arm, "tree", &["--depth", "1", &top]), cut);
    assert_eq!(
        said(arm, "tree", &["--depth", "0", &top]),
        format!("{top}\n")
    );

    let error = refused(arm, "rm", &[&top]);
    assert!(error.contains("the node has children"), "{error}");
    said(arm, "rm", &[&format!("{top}/a")]);
    assert_eq!(said(arm, "ls", &[&top]), "b\n");
    said(arm, "rm", &["--recursive", &top]);
    refused(arm, "ls", &[&top]);
}

fn data_are_written_and_read_unchanged(arm: &Arm) {
    let path = arm.path();
    let bytes = [0xff, 0, b'\n', 0x1b, b'x'];
    let mut create = on(arm, "create", &["--parents", &path, "-"]);
    let mut create = create
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    create.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(create.wait().unwrap().success());
    let get = || on(arm, "get", &[&path]).output().unwrap().stdout;
    assert_eq!(get(), bytes);
    said(arm, "set", &[&path, "-x text"]);
    assert_eq!(get(), b"-x text");
    said(arm, "set", &[&path, ""]);
    assert_eq!(get(), b"");
}

fn a_change_for_another_version_is_refused(arm: &Arm) {
    let path = arm.path();
    said(arm, "create", &["--parents", &path, "zero"]);
    said(arm, "set", &["--version", "0", &path, "one"]);
    for (command, arguments) in [
        ("set", &["--version", "0", &path, "two"][..]),
        ("rm", &["--version", "0", &path]),
    ] {
        let error = refused(arm, command, arguments);
        assert!(
            error.contains("not 0; nothing was changed") && error.contains(&path),
            "{error}"
        );
    }
    assert_eq!(said(arm, "get", &[&path]), "one");
    said(arm, "rm", &["--version", "1", &path]);
}

fn a_missing_node_gives_status_1_and_an_error_that_names_it(arm: &Arm) {
    let path = arm.path();
    for arguments in [
        &["ls"][..],
        &["ls", "--long"],
        &["tree"],
        &["get"],
        &["stat"],
        &["rm"],
        &["rm", "-r"],
    ] {
        let (command, options) = arguments.split_first().unwrap();
        let error = refused(arm, command, &[options, &[&path]].concat());
        assert!(error.contains("no") && error.contains("node"), "{error}");
        assert!(error.contains(&path), "{error}");
    }
}

fn ls_long_and_stat_show_the_metadata(arm: &Arm) {
    let top = arm.path();
    let below = |name: &str| format!("{top}/{name}");
    said(arm, "create", &["--parents", &below("plain"), "12345"]);
    said(arm, "set", &[&below("plain"), "123"]);
    said(arm, "create", &[&below("plain/child")]);
    arm.create_with_acl(
        &below("mine"),
        CreateMode::Ephemeral,
        lockkeeper::node::Acl::OPEN_UNSAFE.to_vec(),
    );
    let long = said(arm, "ls", &["--long", &top]);
    let rows: Vec<Vec<&str>> = long
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let [head, mine, plain] = rows.as_slice() else {
        panic!("{long}");
    };
    assert_eq!(
        head.join(" "),
        "VERSION BYTES CHILDREN CHANGED SESSION NAME"
    );
    assert_eq!(
        [mine[0], mine[1], mine[2], mine[5]],
        ["0", "0", "0", "mine"]
    );
    assert!(mine[4].starts_with("0x"), "{long}");
    assert_eq!([plain[0], plain[1], plain[2]], ["1", "3", "1"]);
    assert_eq!(plain[4..], ["-", "plain"]);

    let stat = said(arm, "stat", &[&below("plain")]);
    let value = |name: &str| {
        let line = stat.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].trim().to_owned()
    };
    assert_eq!(value("path"), below("plain"));
    assert_eq!(value("data"), "3 bytes");
    assert_eq!(value("version"), "1");
    assert_eq!(value("children"), "1");
    assert_eq!(value("changed"), plain[3]);
}

fn watch_prints_each_event(arm: &Arm) {
    let top = arm.path();
    let child = format!("{top}/child");
    said(arm, "create", &["--parents", &top]);
    let mut recursive = watching(arm, &["--recursive"], &top);
    let mut single = watching(arm, &[], &top);
    said(arm, "create", &[&child]);
    said(arm, "set", &[&child, "x"]);
    said(arm, "rm", &[&child]);
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
        assert_eq!(single.end().status, 143);
    }
    let mut first = watching(arm, &["--count", "1"], &top);
    assert_eq!(first.line(), "");
    assert_eq!(first.end().status, 0);
}

/// Starts `lockkeeper watch`, and changes the node until the command prints a line. So the server has the watch.
fn watching(arm: &Arm, options: &[&str], path: &str) -> Running {
    let mut watch = Running::start(&mut on(arm, "watch", &[options, &[path]].concat()));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                arm.set_data(path, "");
                thread::sleep(Duration::from_millis(10));
            }
        });
        let line = watch.line();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(what_happened(&line), format!("changed {path}"));
    });
    watch
}

/// A line without its time.
fn what_happened(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    words[1..].join(" ")
}

#[test]
fn a_closed_pipe_on_stdout_gives_status_141_and_no_message() {
    let arm = Arm::embedded();
    let top = arm.path();
    for number in 0..3 {
        said(&arm, "create", &["-p", &format!("{top}/{number}")]);
    }
    // A pipe whose reading end is closed.
    let mut ls = on(&arm, "ls", &[&top]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = ls.stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_tree_of_many_nodes_is_walked_and_deleted() {
    let arm = Arm::embedded();
    let top = "/many";
    arm.create_many("/many", 1000);
    let tree = said(&arm, "tree", &[top]);
    assert_eq!(tree.lines().count(), 1 + 10 + 1000);
    said(&arm, "rm", &["-r", top]);
    refused(&arm, "stat", &[top]);
}

#[test]
fn rm_recursive_refuses_the_root_and_the_nodes_of_zookeeper() {
    let arm = Arm::embedded();
    for path in ["/", "/zookeeper"] {
        let rm = ended(&mut on(&arm, "rm", &["-r", path]));
        assert_eq!(rm.status, 64, "{}", rm.stderr);
    }
    assert_eq!(said(&arm, "ls", &["/zookeeper"]), "config\nquota\n");
}
