//! Error messages for bad usage, and help texts. No test here needs a server.

mod support;

use std::net::TcpListener;

use support::{ended, lockkeeper};

#[test]
fn bad_usage_gives_status_64_and_an_error_that_helps() {
    for (arguments, text) in [
        (&["foo"][..], "unrecognized subcommand 'foo'"),
        (&["run"], "<PATH>"),
        (&["run", "/a"], "<COMMAND>"),
        (&["run", "/a", "./x"], "lockkeeper run PATH -- COMMAND"),
        (&["run", "--frob", "/a", "--", "x"], "--frob"),
        (
            &["run", "locks/a", "--", "x"],
            "it must start with /; did you mean /locks/a?",
        ),
        (&["run", "/locks/a/", "--", "x"], "did you mean /locks/a?"),
        (&["run", "/", "--", "x"], "/locks/backup"),
        (
            &["run", "--wait", "soon", "/a", "--", "x"],
            "500ms, 1m30s, 1h or 1d",
        ),
        (
            &["run", "--session-timeout", "0", "/a", "--", "x"],
            "1ms or more",
        ),
        (&["run", "--try", "--wait", "1", "/a", "--", "x"], "'--wait"),
        (&["run", "/a", "--", "x"], "give --connect HOST:PORT"),
        (&["serve", "--listen", "2181"], "looks like 127.0.0.1:2181"),
        (&["demo", "--clients", "1"], "2..=8"),
        (&["demo", "--auth-file", "x"], "need --connect"),
        (&["queue", "/"], "/locks/backup"),
        (&["queue", "--json", "--long", "/a"], "'--long'"),
        (&["get", "a/b"], "did you mean /a/b?"),
        (&["get", "/a"], "give --connect HOST:PORT"),
        (&["set", "--version", "-1", "/a", "x"], "-1"),
        (&["create", "--container", "--ttl", "1s", "/a"], "'--ttl"),
        (&["rm", "-r", "--version", "1", "/a"], "'--version"),
        (&["watch", "--count", "0", "/a"], "'0'"),
    ] {
        let ended = ended(&mut lockkeeper(arguments));
        assert_eq!(ended.status, 64, "{arguments:?}");
        assert!(
            ended.stderr.contains(text),
            "{arguments:?}: {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
}

#[test]
fn the_error_for_a_bad_list_of_servers_names_its_origin() {
    let option = ended(&mut lockkeeper(&[
        "run",
        "--connect",
        "zk:port",
        "/a",
        "--",
        "x",
    ]));
    assert_eq!(option.status, 64);
    assert!(
        option.stderr.contains("'--connect <HOSTS>'"),
        "{}",
        option.stderr
    );

    let variable =
        ended(lockkeeper(&["run", "/a", "--", "x"]).env("LOCKKEEPER_CONNECT", "zk:port"));
    assert_eq!(variable.status, 64);
    assert!(
        variable
            .stderr
            .starts_with("lockkeeper: LOCKKEEPER_CONNECT: bad server list"),
        "{}",
        variable.stderr
    );
}

#[test]
fn help_and_version_go_to_stdout_and_fit_a_terminal() {
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["run", "-h"],
        &["run", "--help"],
        &["serve", "--help"],
        &["demo", "--help"],
        &["queue", "-h"],
        &["ls", "-h"],
        &["tree", "-h"],
        &["get", "-h"],
        &["stat", "-h"],
        &["set", "-h"],
        &["create", "-h"],
        &["rm", "-h"],
        &["watch", "--help"],
    ] {
        let ended = ended(&mut lockkeeper(arguments));
        assert_eq!(
            (ended.status, ended.stderr.as_str()),
            (0, ""),
            "{arguments:?}"
        );
        for line in ended.stdout.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line:?}");
        }
        if arguments != ["--version"] {
            assert!(ended.stdout.contains("Example:"), "{arguments:?}");
        }
    }
    let nothing = ended(&mut lockkeeper::<&str>(&[]));
    assert_eq!(nothing.status, 64);
    assert!(nothing.stderr.contains("Example:"));
}

#[test]
fn no_server_gives_status_69_and_the_error_of_each_server() {
    // A port that is free now. No other process takes it during the second that this test lasts.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let arguments = [
        "run",
        "--connect",
        &address,
        "--wait",
        "300ms",
        "/a",
        "--",
        "x",
    ];
    let ended = ended(&mut lockkeeper(&arguments));
    assert_eq!(ended.status, 69, "{}", ended.stderr);
    // The time that is left of the 300 ms.
    let waited = ended.stderr.split("no server reached in ").nth(1);
    let waited = waited.and_then(|rest| rest.split(" ms").next()?.parse::<u32>().ok());
    assert!(waited.is_some_and(|ms| ms <= 300), "{}", ended.stderr);
    assert!(ended.stderr.contains(&address), "{}", ended.stderr);
}
