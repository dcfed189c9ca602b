//! The command as its users see it: what they type, and what it says. Each test plays the cases of a file in `transcripts/`.
//!
//! A case begins with `# TITLE`. It has a path and a directory of its own, which are `$TOP` and `$DIR` in all of its lines.
//!
//! | line | meaning |
//! |---|---|
//! | `$ SCRIPT` | runs this in a shell, where `lk` is the command; the following lines are about it |
//! | `\| TEXT` | the next line of stdout |
//! | `> TEXT` | the next line of stderr |
//! | `+ TEXT` | a part of stdout, in place of all of its lines |
//! | `~ TEXT` | a part of stderr, in place of all of its lines |
//! | `! STATUS` | the exit status; without this line it is 0 |
//!
//! Not here: commands that wait, get signals, or are looked at while they run.

use std::process::Command;

use crate::support::{Arm, Files, contained, ended, root, without_variables};

on_both_arms!(contained: nodes, errors, run);

fn nodes(arm: &Arm) {
    play(include_str!("transcripts/nodes.txt"), Some(arm));
}

fn errors(arm: &Arm) {
    play(include_str!("transcripts/errors.txt"), Some(arm));
}

fn run(arm: &Arm) {
    play(include_str!("transcripts/run.txt"), Some(arm));
}

#[test]
fn alone() {
    contained(|| play(include_str!("transcripts/alone.txt"), None));
}

fn play(text: &str, arm: Option<&Arm>) {
    for case in text.split("\n# ").skip(1) {
        let (files, top) = (Files::new("transcript"), arm.map(Arm::path));
        let (dir, top) = (files.path(""), top.unwrap_or_default());
        let fill = |line: &str| line.replace("$TOP", &top).replace("$DIR", &dir);
        for step in case.split("\n$ ").skip(1) {
            let mut lines = step.lines().filter(|line| !line.is_empty());
            let mut shell = Command::new("sh");
            let script = lines.next().unwrap();
            shell.args(["-c", &format!("lk() {{ \"$BINARY\" \"$@\"; }}; {script}")]);
            without_variables(&mut shell).envs([("TOP", &top), ("DIR", &dir)]);
            shell.env("BINARY", env!("CARGO_BIN_EXE_lockkeeper"));
            shell.env("ROOT", root());
            shell.envs(arm.map(|arm| ("LOCKKEEPER_CONNECT", &arm.connect)));
            let said = ended(&mut shell);
            let (mut status, mut stdout, mut stderr) = (0, String::new(), String::new());
            let [mut out_parts, mut err_parts] = [Vec::new(), Vec::new()];
            for line in lines.map(fill) {
                let (mark, text) = line.split_once(' ').unwrap_or((&line, ""));
                match mark {
                    "|" => stdout.extend([text, "\n"]),
                    ">" => stderr.extend([text, "\n"]),
                    "+" => out_parts.push(text.to_owned()),
                    "~" => err_parts.push(text.to_owned()),
                    "!" => status = text.parse().unwrap(),
                    _ => panic!("not a line of a transcript: {line}"),
                }
            }
            let what = format!("{script}: {said:?}");
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
    }
}
