//! The command as its users see it: what they type, and what it says. Each test plays the cases of a file in `transcripts/`, and names
//! those that fail. A new case of one command is a few lines in one of these files.
//!
//! A case begins with `# TITLE`. It has a path and a directory of its own, which are `$TOP` and `$DIR` in all of its lines.
//!
//! | line | meaning |
//! |---|---|
//! | `$ SCRIPT` | runs this in a shell, where `lk` is the command; the following lines are about it |
//! | `= A \| B` | runs it once with each of these texts in place of `$EACH`, in the script and in the lines about it |
//! | `\| TEXT` | the next line of stdout |
//! | `> TEXT` | the next line of stderr |
//! | `+ TEXT` | a part of stdout, in place of all of its lines |
//! | `~ TEXT` | a part of stderr, in place of all of its lines |
//! | `! STATUS` | the exit status, or above all commands of a case: that of each of them; without this line it is 0 |
//! | `& OPTIONS PATH` | starts a run with these options, and goes on when it has the lock |
//! | `&` | ends these runs; without this line they are killed at the end of the case |
//!
//! `as USER` is the command with the identity of this user, and `$NEWLINE` parts two. No output may contain the password, hunter2.
//!
//! Not here: commands that wait, get signals, or are looked at while they run.

use std::{
    env, iter,
    os::unix::fs::symlink,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
};

use crate::support::{Arm, Ended, Files, Running, contained, ended, root, without_variables};
use rustix::process::Signal;

macro_rules! on_servers {
    ($($file:ident),+ $(,)?) => {
        on_both_arms!(contained: $($file),+);
        $(fn $file(arm: &Arm) {
            play(include_str!(concat!("transcripts/", stringify!($file), ".txt")), Some(arm));
        })+
    };
}

on_servers!(nodes, queue, errors, run, sharing, identities, periods);

#[test]
fn alone() {
    contained(|| play(include_str!("transcripts/alone.txt"), None));
}

fn play(text: &str, arm: Option<&Arm>) {
    // The node above all: otherwise the first lock would make it, with the access to that lock.
    if let Some(arm) = arm {
        arm.create(&arm.path());
    }
    let mut failed = Vec::new();
    for case in text.split("\n# ").skip(1) {
        let (title, lines) = case.split_once('\n').unwrap();
        let played = catch_unwind(AssertUnwindSafe(|| play_one(title, lines, arm)));
        failed.extend(played.err().map(|_| title));
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

fn play_one(title: &str, lines: &str, arm: Option<&Arm>) {
    let (files, top) = (Files::new("transcript"), arm.map(Arm::path));
    let (dir, top) = (files.path(""), top.unwrap_or_default());
    let dir = dir.trim_end_matches('/');
    symlink(env!("CARGO_BIN_EXE_lockkeeper"), files.path("lk")).unwrap();
    let path = format!("{dir}:{}", env::var("PATH").unwrap());
    let user = r#"as() { user=$1; shift; LOCKKEEPER_AUTH=digest:$user:hunter2 lk "$@"; }"#;
    let fill = |line: &str| line.replace("$TOP", &top).replace("$DIR", dir);
    let lines = lines.lines().filter(|line| !line.is_empty()).map(fill);
    let (mut lines, mut all, mut runs) = (lines.peekable(), 0, Vec::new());
    while let Some(line) = lines.next() {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("!", status) => all = status.parse().unwrap(),
            ("&", "") => runs.drain(..).for_each(end),
            ("&", options) => {
                let options: Vec<_> = options.split(' ').collect();
                let (path, options) = options.split_last().unwrap();
                let script = "echo held; exec sleep 600";
                let mut run = arm.unwrap().start(options, path, script);
                assert_eq!(run.line(), "held", "{title}: {line}");
                runs.push(run);
            }
            ("$", script) => {
                let about = iter::from_fn(|| lines.next_if(|it| !it.starts_with(['$', '&'])));
                let (texts, about): (Vec<_>, Vec<_>) = about.partition(|it| it.starts_with("= "));
                let texts = texts.first().map_or("", |texts| &texts[2..]);
                for text in texts.split('|').map(str::trim) {
                    let script = script.replace("$EACH", text);
                    let mut shell = Command::new("sh");
                    shell.args(["-c", &format!("{user}; {script}")]);
                    without_variables(&mut shell).envs([("TOP", &*top), ("DIR", dir)]);
                    shell.envs([("PATH", &*path), ("NEWLINE", "\n")]);
                    shell.envs(arm.map(|arm| ("LOCKKEEPER_CONNECT", &arm.connect)));
                    let said = ended(shell.env("ROOT", root()));
                    let about = about.iter().map(|it| it.replace("$EACH", text));
                    check(&format!("{title}: {script}"), &said, all, about);
                }
            }
            _ => panic!("{title}: not a line of a transcript: {line}"),
        }
    }
}

fn end(run: Running) {
    run.signal(Signal::TERM);
    run.end().ends(143);
}

fn check(what: &str, said: &Ended, mut status: i32, lines: impl Iterator<Item = String>) {
    let what = format!("{what}: {said:?}");
    let [mut stdout, mut stderr] = [String::new(), String::new()];
    let [mut out_parts, mut err_parts] = [Vec::new(), Vec::new()];
    for line in lines {
        let (mark, text) = line.split_once(' ').unwrap_or((&line, ""));
        match mark {
            "|" => stdout.extend([text, "\n"]),
            ">" => stderr.extend([text, "\n"]),
            "+" => out_parts.push(text.to_owned()),
            "~" => err_parts.push(text.to_owned()),
            "!" => status = text.parse().unwrap(),
            _ => panic!("{what}: not a line of a transcript: {line}"),
        }
    }
    assert_eq!(said.status, status, "{what}");
    for (said, all, parts) in [
        (&said.stdout, &stdout, &out_parts),
        (&said.stderr, &stderr, &err_parts),
    ] {
        assert!(all.is_empty() || parts.is_empty(), "both: {what}");
        assert!(parts.iter().all(|part| said.contains(part)), "{what}");
        assert!(!parts.is_empty() || said == all, "{what}\n{all}");
        assert!(!said.contains("hunter2"), "a secret: {what}");
    }
}
