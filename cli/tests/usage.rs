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
        (&["run", "/a", "./x"], "<PATH> -- <COMMAND>"),
        (&["run", "--frob", "/a", "--", "x"], "--frob"),
        (&["run", "locks/a", "--", "x"], "did you mean /locks/a?"),
        (
            &["run", "--wait", "soon", "/a", "--", "x"],
            "1m30s, 1h or 1d",
        ),
        (
            &["run", "--session-timeout", "0", "/a", "--", "x"],
            "1ms or more",
        ),
        (&["run", "--try", "--wait", "1", "/a", "--", "x"], "'--wait"),
        (&["run", "/a", "--", "x"], "give --connect HOST:PORT"),
        (
            &["run", "--connect", "zk:port", "/a", "--", "x"],
            "'--connect <HOSTS>'",
        ),
        (&["serve", "--listen", "2181"], "looks like 127.0.0.1:2181"),
        (
            &["serve", "--log", "trace"],
            "[possible values: off, error, warn, info, debug]",
        ),
        (
            &["serve", "--log-format", "yaml"],
            "[possible values: text, json]",
        ),
        (&["demo", "--clients", "1"], "2..=8"),
        (&["demo", "--auth-file", "x"], "--connect <HOSTS>"),
        (&["queue", "/"], "/locks/backup"),
        (&["queue", "--json", "--long", "/a"], "'--long'"),
        (&["get", "a/b"], "did you mean /a/b?"),
        (&["get", "/a"], "give --connect HOST:PORT"),
        (&["set", "--version", "-1", "/a", "x"], "-1"),
        (&["create", "--container", "--ttl", "1s", "/a"], "'--ttl"),
        (&["rm", "-r", "--version", "1", "/a"], "'--version"),
        (
            &["rm", "-r", "/", "--connect", "x:1"],
            "cannot be deleted recursively",
        ),
        (
            &["rm", "-r", "/zookeeper", "--connect", "x:1"],
            "cannot be deleted recursively",
        ),
        (&["watch", "--count", "0", "/a"], "'0'"),
    ] {
        ended(&mut lockkeeper(arguments)).is(64, "").says(text);
    }
    let mut variable = lockkeeper(&["run", "/a", "--", "x"]);
    let bad = ended(variable.env("LOCKKEEPER_CONNECT", "zk:port")).ends(64);
    bad.says("'--connect <HOSTS>': bad server list");
}

#[test]
fn help_and_version_go_to_stdout_and_fit_a_terminal() {
    let help = ended(&mut lockkeeper(&["--help"])).ends(0).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.split(' ').nth(2).filter(|it| !it.is_empty()));
    let names: Vec<_> = names.filter(|name| *name != "help").collect();
    assert_eq!(names.len(), 17, "{help}");
    let texts = names
        .iter()
        .flat_map(|name| [vec![*name, "-h"], vec![*name, "--help"]]);
    for arguments in texts.chain([vec!["--help"], vec!["--version"]]) {
        let text = ended(&mut lockkeeper(&arguments)).ends(0).silently().stdout;
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line:?}");
        }
        let has_example = text.contains("Example");
        assert!(has_example || arguments == ["--version"], "{arguments:?}");
    }
    let nothing = ended(&mut lockkeeper::<&str>(&[]));
    nothing.ends(64).says("Example:");
}

#[test]
fn a_wait_without_a_server_gives_status_75_and_the_error_of_each_server() {
    // A port that is free now. No other process takes it during the second that this test lasts.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let options = [
        "run",
        "--connect",
        &address,
        "--wait",
        "300ms",
        "/a",
        "--",
        "x",
    ];
    let ended = ended(&mut lockkeeper(&options)).ends(75).says(&address);
    // Not before its time.
    let waited = ended.stderr.split("lock not acquired in ").nth(1);
    let waited = waited.and_then(|rest| rest.split(" ms").next()?.parse::<u32>().ok());
    assert!(waited.is_some_and(|ms| ms >= 300), "{}", ended.stderr);
}
