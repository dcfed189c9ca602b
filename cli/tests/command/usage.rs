//! Help texts. No test here needs a server.
//!
//! Not here: messages about bad usage (`transcripts/alone.txt`).

use std::fs;

use crate::support::{ended, lockkeeper, root};

#[test]
fn help_and_version_go_to_stdout_and_fit_a_terminal() {
    let help = ended(&mut lockkeeper(&["--help"])).ends(0).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.split(' ').nth(2).filter(|it| !it.is_empty()));
    let names: Vec<_> = names.filter(|name| *name != "help").collect();
    assert_eq!(names.len(), 14, "{help}");
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

/// A text that is broken by hand, and again by clap where a terminal is narrow, has short lines between full ones.
#[test]
fn help_is_broken_into_lines_once_at_any_width() {
    let commands = ["run", "doctor", "queue", "serve", "demo", "create", "get"];
    let all = commands
        .iter()
        .flat_map(|it| [60, 80, 120].map(|width| (*it, width)));
    for (command, columns) in all {
        let mut help = lockkeeper(&[command, "--help"]);
        let help = ended(help.env("COLUMNS", columns.to_string())).ends(0);
        let width = columns.min(80);
        let indentation = |line: &str| line.len() - line.trim_start().len();
        let first = |line: &str| line.split_whitespace().next().map_or(0, str::len);
        let lines: Vec<_> = help.stdout.lines().collect();
        for three in lines.windows(3) {
            let [before, line, after] = [three[0], three[1], three[2]];
            assert!(before.len() <= width, "{command} at {columns}: {before}");
            let is_paragraph = three.iter().all(|it| !it.trim().is_empty())
                && indentation(before) == indentation(line)
                && indentation(line) == indentation(after)
                && !after.trim_start().starts_with('-');
            let is_full = before.len() + 1 + first(line) > width;
            let is_short = line.split_whitespace().count() <= 2;
            let has_room = line.len() + 1 + first(after) <= width;
            let is_broken = is_paragraph && is_full && is_short && has_room;
            assert!(!is_broken, "{command} at {columns}:\n{}", three.join("\n"));
        }
    }
}

/// The lines of shells, units and Kubernetes. What stands before `--` must be what the command takes.
#[test]
fn the_command_takes_the_options_of_the_runbook() {
    let runbook = fs::read_to_string(root().join("docs/guide/runbook.md")).unwrap();
    let blocks = runbook.split("\n```").skip(1).step_by(2);
    let mut lines = Vec::new();
    let all = blocks.flat_map(str::lines);
    for line in all.filter(|it| !it.starts_with("bench/")) {
        if let Some((_, list)) = line.split_once("command: ") {
            lines.push(serde_json::from_str::<Vec<String>>(list).unwrap());
        } else if let Some((_, line)) = line.split_once("lockkeeper ") {
            let line = line.split([';', '&', '|']).next().unwrap();
            let words = ["lockkeeper"].into_iter().chain(line.split_whitespace());
            lines.push(words.map(str::to_owned).collect());
        }
    }
    assert!(lines.len() >= 9, "{lines:?}");
    for line in lines {
        assert_eq!(line[0], "lockkeeper");
        let words = line[1..].iter().take_while(|it| *it != "--");
        let words: Vec<_> = words.map(String::as_str).chain(["--help"]).collect();
        ended(&mut lockkeeper(&words)).ends(0).silently();
    }
}
