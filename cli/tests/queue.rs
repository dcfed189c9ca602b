//! `lockkeeper queue`: shows who holds a lock, and who waits for it.

mod support;

use lockkeeper::{CreateMode, node::Acl};
use rustix::process::Signal;
use serde_json::Value;
use support::{Arm, Running, ended, is_ignored, lockkeeper};

on_both_arms!(
    holders_and_waiters_are_shown_in_queue_order,
    json_shows_holders_and_waiters,
    follow_prints_each_change_of_the_queue,
    a_free_lock_and_a_missing_one_are_distinguished,
    nodes_of_other_clients_are_marked,
    a_contender_cannot_blind_the_queue_with_a_long_text,
);

fn queue(arm: &Arm, options: &[&str], path: &str) -> std::process::Command {
    let mut queue = lockkeeper(&["queue", "--connect", &arm.connect]);
    queue.args(options).arg(path);
    queue
}

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
    let shown = ended(&mut queue(arm, &["--long"], &path));
    assert_eq!((shown.status, &*shown.stderr), (0, ""));
    let lines: Vec<_> = shown.stdout.lines().collect();
    let [head, columns, first, second, third] = lines.as_slice() else {
        panic!("{}", shown.stdout);
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
    let pid = format!("pid={} command=sleep", writer.pid().as_raw_nonzero());
    assert!(third.contains(&pid), "{third}");
}

/// The program ended with a panic when a cell was longer than 65,535 characters.
fn a_contender_cannot_blind_the_queue_with_a_long_text(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    arm.set_data(&guard.path(), &"x".repeat(70_000));
    let shown = ended(&mut queue(arm, &[], &path));
    assert_eq!((shown.status, &*shown.stderr), (0, ""));
    assert!(shown.stdout.contains("xx…"), "{}", shown.stdout);
    let shown = ended(&mut queue(arm, &["--json"], &path));
    assert!(shown.stdout.len() > 70_000);
    arm.release(guard);
}

fn json_shows_holders_and_waiters(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    let _waiter = in_queue(arm, &[], &path);
    let shown = ended(&mut queue(arm, &["--json"], &path));
    assert_eq!(shown.stdout.lines().count(), 1);
    let look: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(look["path"], *path);
    let contenders = look["contenders"].as_array().unwrap();
    let [holder, waiter] = contenders.as_slice() else {
        panic!("{}", shown.stdout);
    };
    assert_eq!(
        (&holder["holds"], &waiter["holds"]),
        (&true.into(), &false.into())
    );
    assert_eq!((&holder["ahead"], &waiter["ahead"]), (&0.into(), &1.into()));
    assert_eq!(holder["node"], *guard.path());
    assert_eq!(
        holder["czxid"].to_string(),
        guard.fencing_token().to_string()
    );
    assert_eq!(holder["as"], "mutex");
    assert!(waiter["data"].as_str().unwrap().contains("command=sleep"));
    assert_eq!(waiter["data_hex"], Value::Null);
    arm.release(guard);
}

fn follow_prints_each_change_of_the_queue(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    let mut follow = Running::start(&mut queue(arm, &["--follow"], &path));
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
    drop(waiter);
    // The killed holder's session has to expire first.
    assert_eq!(next(&mut follow), "released");
    if !is_ignored(Signal::INT) {
        follow.signal(Signal::INT);
        assert_eq!(follow.end().status, 130);
    }
}

fn a_free_lock_and_a_missing_one_are_distinguished(arm: &Arm) {
    let path = arm.path();
    let none = ended(&mut queue(arm, &[], &path));
    let text = format!("{path}: free, and nobody waits; there is no such node\n");
    assert_eq!((none.status, none.stdout), (0, text));
    arm.release(arm.hold(&path));
    let free = ended(&mut queue(arm, &[], &path));
    let text = format!("{path}: free, and nobody waits\n");
    assert_eq!((free.status, free.stdout), (0, text));
}

/// The names and the data are those that these programs write: `tests/interop_recipes/` has the programs themselves.
fn nodes_of_other_clients_are_marked(arm: &Arm) {
    let path = arm.path();
    let run = in_queue(arm, &[], &path);
    let number = |number: u32| format!("{number:010}");
    let (dashed, hex) = (
        "37f2a2a2-6f2c-4c70-9f0e-3f1c7a3e9a11",
        "0f9e8d7c6b5a49388271605f4e3d2c1b",
    );
    let others = [
        (
            format!("_c_{dashed}-lock-{}", number(1)),
            "10.0.0.7",
            Some("curator"),
        ),
        (format!("_c_{dashed}-lock-{}", number(2)), "orders", None),
        (format!("_c_{hex}-lock-{}", number(3)), "", Some("go-zk")),
        (
            format!("{hex}__lock__{}", number(4)),
            "worker",
            Some("kazoo"),
        ),
        (format!("{hex}-lock-{}", number(5)), "worker", Some("kazoo")),
        (format!("lock-{}", number(6)), "10.0.0.7", None),
    ];
    for (name, data, _) in &others {
        let node = format!("{path}/{name}");
        arm.create_with_acl(&node, CreateMode::Ephemeral, Acl::OPEN_UNSAFE.to_vec());
        arm.set_data(&node, data);
    }
    let shown = ended(&mut queue(arm, &["--json"], &path));
    let look: Value = serde_json::from_str(&shown.stdout).unwrap();
    let contenders = look["contenders"].as_array().unwrap();
    let programs: Vec<_> = contenders.iter().map(|it| it["client"].as_str()).collect();
    let written = others.iter().map(|(_, _, program)| *program);
    let expected: Vec<_> = [Some("lockkeeper")].into_iter().chain(written).collect();
    assert_eq!(programs, expected, "{}", shown.stdout);

    let shown = ended(&mut queue(arm, &[], &path));
    let rows: Vec<_> = shown.stdout.lines().skip(2).collect();
    assert!(!rows[0].contains('('), "{}", rows[0]);
    for (row, (_, data, program)) in rows[1..].iter().zip(&others) {
        let mark = program.map(|program| format!("({program})  "));
        let who = format!("  {}{data}", mark.unwrap_or_default());
        assert!(row.ends_with(who.trim_end()), "{row}");
        assert_eq!(row.contains('('), program.is_some(), "{row}");
    }
    drop(run);
}
