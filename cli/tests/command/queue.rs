//! `lockkeeper queue`: shows who holds a lock, and who waits for it.
//!
//! Not here: free, missing and closed locks (`transcripts/queue.txt`).

use std::{sync::mpsc, thread};

use crate::support::{Arm, LIMIT, Running, in_a_terminal, is_ignored, objects, state_of, wait_for};
use rustix::process::Signal;
use serde_json::Value;

on_both_arms!(
    holders_and_waiters_are_shown_in_queue_order,
    json_shows_holders_and_waiters,
    follow_prints_each_change_of_the_queue,
    nodes_of_other_clients_and_those_without_a_session_are_marked,
);

/// Starts `lockkeeper run`, and waits until it is in the queue.
fn in_queue(arm: &Arm, options: &[&str], path: &str) -> Running {
    let before = arm.nodes(path).len();
    let running = Running::start(&mut arm.run(options, path, &["sleep", "600"]));
    arm.until_nodes(path, before + 1);
    running
}

fn holders_and_waiters_are_shown_in_queue_order(arm: &Arm) {
    let path = arm.path();
    let _reader = in_queue(arm, &["--shared"], &path);
    let _other = in_queue(arm, &["--shared"], &path);
    let writer = in_queue(arm, &[], &path);
    let shown = arm.said(&["queue", "--long", &path]);
    let lines: Vec<_> = shown.lines().collect();
    let [head, columns, first, second, third] = lines.as_slice() else {
        panic!("{shown}");
    };
    assert_eq!(*head, format!("{path}: 2 hold, 1 waits"));
    assert!(columns.ends_with("WHO"), "{columns}");
    for (line, state) in [(first, "holds"), (second, "holds"), (third, "waits  2")] {
        assert!(line.starts_with(state), "{line}");
        assert!(line.contains(" pid=") && line.contains(&path), "{line}");
    }
    assert!(
        first.contains("reader") && third.contains("mutex"),
        "{third}"
    );
    let pid = format!("pid={} command=sleep", writer.pid());
    assert!(third.contains(&pid), "{third}");
}

fn json_shows_holders_and_waiters(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    let _waiter = in_queue(arm, &[], &path);
    let shown = arm.said(&["queue", "--json", &path]);
    let [look] = objects(&shown).try_into().unwrap();
    assert_eq!(look["path"], *path);
    let contenders = look["contenders"].as_array().unwrap();
    let [holder, waiter] = contenders.as_slice() else {
        panic!("{shown}");
    };
    let all = |key| [holder[key].clone(), waiter[key].clone()];
    assert_eq!(all("holds"), [true, false]);
    assert_eq!(all("ahead"), [0, 1]);
    assert_eq!(holder["node"], *guard.path());
    let token = guard.fencing_token();
    assert_eq!(holder["czxid"].to_string(), token.to_string());
    assert_eq!(holder["as"], "mutex");
    assert!(waiter["data"].as_str().unwrap().contains("command=sleep"));
    assert_eq!(waiter["data_hex"], Value::Null);
    arm.release(guard);
}

fn follow_prints_each_change_of_the_queue(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    let mut follow = Running::start(&mut arm.on(&["queue", "--follow", &path]));
    assert_eq!(follow.line(), format!("{path}: 1 holds, 0 wait"));
    assert!(follow.line().contains("SESSION"));
    assert!(follow.line().starts_with("holds"));
    let next = |follow: &mut Running| {
        let line = follow.line();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let waiter = in_queue(arm, &["--session-timeout", "4s"], &path);
    assert_eq!(next(&mut follow), "waits");
    arm.release(guard);
    assert_eq!(next(&mut follow), "released");
    assert_eq!(next(&mut follow), "granted");
    waiter.signal(Signal::KILL);
    // The killed holder's session has to expire first.
    assert_eq!(next(&mut follow), "released");
    if !is_ignored(Signal::INT) {
        follow.signal(Signal::INT);
        follow.end().ends(130);
    }
}

/// The documents said that each change is shown. What happens between two looks is not.
#[test]
fn who_comes_and_leaves_between_two_looks_is_not_shown() {
    let arm = Arm::embedded();
    let path = arm.path();
    arm.create(&path);
    let mut follow = Running::start(&mut arm.on(&["queue", "--follow", &path]));
    assert_eq!(follow.line(), format!("{path}: free, and nobody waits"));
    follow.signal(Signal::STOP);
    wait_for("the stop", || state_of(follow.pid()) == Some('T'));
    arm.release(arm.hold(&path));
    let late = in_queue(&arm, &["--data", "late"], &path);
    follow.signal(Signal::CONT);
    let next = follow.line();
    assert!(
        next.contains("  granted ") && next.ends_with(" late"),
        "{next}"
    );
    late.signal(Signal::TERM);
    assert!(follow.line().contains("  released "));
}

/// Only the contenders were compared, so a program never heard that the node of the lock was gone, or was made.
#[test]
fn follow_tells_programs_whether_the_node_exists() {
    let arm = Arm::embedded();
    let mut follow = Running::start(&mut arm.on(&["queue", "--follow", "--json", "/q"]));
    let (tell, told) = mpsc::channel();
    // A line that does not come is waited for here, and not by the test.
    thread::spawn(move || (0..3).try_for_each(|_| tell.send(follow.line())));
    let exists = || objects(&told.recv_timeout(LIMIT).unwrap())[0]["exists"].clone();
    assert_eq!(exists(), false);
    arm.create("/q");
    assert_eq!(exists(), true);
    arm.delete("/q");
    assert_eq!(exists(), false);
}

/// They are beside the path, where nobody looked before another change.
#[test]
fn follow_tells_of_waiters_for_a_semaphore_of_kazoo() {
    let arm = Arm::embedded();
    let hex = "0f9e8d7c6b5a49388271605f4e3d2c1b";
    arm.create("/q");
    arm.create("/q-__lock__");
    arm.create_ephemeral(&format!("/q/{hex}"));
    let mut follow = Running::start(&mut arm.on(&["queue", "--follow", "--json", "/q"]));
    let (tell, told) = mpsc::channel();
    // A line that does not come is waited for here, and not by the test.
    thread::spawn(move || (0..2).try_for_each(|_| tell.send(follow.line())));
    let contenders = || {
        let look = objects(&told.recv_timeout(LIMIT).unwrap());
        look[0]["contenders"].as_array().unwrap().len()
    };
    assert_eq!(contenders(), 1);
    arm.create_ephemeral(&format!("/q-__lock__/{hex}__lock__0000000000"));
    assert_eq!(contenders(), 2);
}

/// The names and the data are those that these programs write: `tests/real/interop/` has the programs themselves.
fn nodes_of_other_clients_and_those_without_a_session_are_marked(arm: &Arm) {
    let path = arm.path();
    let run = in_queue(arm, &[], &path);
    let (dashed, hex) = (
        "37f2a2a2-6f2c-4c70-9f0e-3f1c7a3e9a11",
        "0f9e8d7c6b5a49388271605f4e3d2c1b",
    );
    let others = [
        (format!("_c_{dashed}-lock-"), "10.0.0.7", None),
        (format!("_c_{dashed}-lock-"), "orders", None),
        (format!("_c_{hex}-lock-"), "", Some("go-zk")),
        (format!("{hex}__lock__"), "worker", Some("kazoo")),
        (format!("{hex}-lock-"), "worker", Some("kazoo")),
        ("lock-".to_owned(), "10.0.0.7", None),
    ];
    for (number, (name, data, _)) in (1..).zip(&others) {
        let node = format!("{path}/{name}{number:010}");
        arm.create_ephemeral(&node);
        arm.set_data(&node, data);
    }
    let forgotten = format!("{path}/_c_{dashed}-lock-0000000007");
    arm.said(&["create", &forgotten, "me"]);
    let look = objects(&arm.said(&["queue", "--json", &path]));
    let contenders = look[0]["contenders"].as_array().unwrap();
    let programs = contenders.iter().map(|it| it["client"].as_str());
    let written = others.iter().map(|(_, _, program)| *program);
    let expected = [None].into_iter().chain(written).chain([None]);
    assert!(programs.eq(expected), "{look:?}");
    let expire = contenders.iter().map(|it| it["expires"] == true);
    assert!(expire.eq((0..8).map(|number| number < 7)), "{look:?}");

    let shown = arm.said(&["queue", &path]);
    let rows: Vec<_> = shown.lines().skip(2).collect();
    assert!(!rows[0].contains('('), "{}", rows[0]);
    for (row, (_, data, program)) in rows[1..].iter().zip(&others) {
        let mark = program.map(|program| format!("({program})  "));
        let who = format!("  {}{data}", mark.unwrap_or_default());
        assert!(row.ends_with(who.trim_end()), "{row}");
        assert_eq!(row.contains('('), program.is_some(), "{row}");
    }
    assert!(rows[7].ends_with("  (never expires)  me"), "{shown}");
    drop(run);
}

/// Lines are cut to the width of a terminal. Elsewhere, only an endless one is.
#[test]
fn a_long_text_of_a_contender_does_not_hide_the_others() {
    let arm = Arm::embedded();
    let guard = arm.hold("/q");
    let who = "x".repeat(300);
    arm.set_data(&guard.path(), &who);
    let (binary, connect) = (env!("CARGO_BIN_EXE_lockkeeper"), &arm.connect);
    let shown = |columns: usize, options: &str| {
        let queue = format!("{binary} queue {options} --connect {connect} /q");
        in_a_terminal(&format!("stty cols {columns}; exec {queue}")).stdout
    };
    for columns in [50, 80, 200] {
        let text = shown(columns, "");
        let fits = |line: &str| line.chars().count() <= columns;
        assert!(text.lines().all(fits), "{columns}: {text}");
        assert!(text.lines().last().unwrap().ends_with('…'), "{text}");
    }
    assert!(shown(50, "--long").contains(&who), "nothing is cut");
    arm.set_data(&guard.path(), &who.repeat(300));
    let endless = arm.said(&["queue", "/q"]);
    assert!(endless.contains("xx…"), "{endless}");
    assert!(arm.said(&["queue", "--json", "/q"]).len() > 90_000);
    arm.release(guard);
}
