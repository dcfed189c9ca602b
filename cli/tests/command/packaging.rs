//! `lockkeeper completions`, `man` and `--version`.

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

use crate::support::{Arm, Files, ended, lockkeeper, root};

fn said(arguments: &[&str]) -> String {
    ended(&mut lockkeeper(arguments)).ends(0).silently().stdout
}

/// The output of a program that must succeed.
fn output(command: &mut Command) -> String {
    ended(command).ends(0).stdout
}

/// The options and their variables are from clap itself. The rest of a page is from the help texts.
#[test]
fn every_command_has_a_manual_page_with_its_sections() {
    let files = Files::new("man");
    said(&["man", &files.path("")]);
    let mut pages = fs::read_dir(files.path("")).unwrap();
    // The program, its 14 commands, and the two of `wire`.
    assert_eq!(pages.by_ref().count(), 17);
    for file in fs::read_dir(files.path("")).unwrap() {
        let page = fs::read_to_string(file.unwrap().path()).unwrap();
        for section in ["NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "EXAMPLES"] {
            let heads = page.matches(&format!("\n.SH \"{section}\"\n")).count();
            let heads = heads + page.matches(&format!("\n.SH {section}\n")).count();
            assert_eq!(heads, 1, "{section}\n{page}");
        }
        // A word of a path was divided at the end of a line, and `--` was cut off from its command.
        assert!(page.contains("\n.SH EXAMPLES\n.ad l\n.nf\n"), "{page}");
        // The demo reads no variable: it writes only to servers from its own command line.
        let is_of_servers = page.contains("\\fB\\-\\-tls\\-ca\\fR") && !page.contains("-demo 1");
        let has_variables = page.contains("\\fBLOCKKEEPER_CONNECT\\fR");
        assert_eq!(has_variables, is_of_servers, "{page}");
    }
    let run = files.text("lockkeeper-run.1");
    let synopsis = "SYNOPSIS\n\\fBlockkeeper run\\fR [\\-\\-connect <HOSTS>] [OPTIONS] <PATH> \\-\\- <COMMAND>...\n";
    for text in [
        synopsis,
        "\\-E",
        "\\-q",
        "\n.SH \"EXIT STATUS\"\n",
        "\n74   the lock was lost",
        "\n.SH ENVIRONMENT\n",
        "\nLOCKKEEPER_TOKEN  the",
    ] {
        assert!(run.contains(text), "{text}\n{run}");
    }
    assert!(
        files
            .text("lockkeeper-wire-spy.1")
            .contains("\\-\\-connect")
    );
}

/// 13 of 17 pages had no statuses. Each kind of end is tried, and the page has its status, and none that the command cannot have.
#[test]
fn the_page_of_a_command_lists_the_statuses_with_which_it_ends() {
    let (arm, files) = (Arm::embedded(), Files::new("statuses"));
    said(&["man", &files.path("")]);
    let missing = format!("{}/missing", arm.connect);
    let nowhere = ["--listen", "192.0.2.1:1"];
    let mut tried = 0;
    let mut of_page = |command: &str, ends: &[(&[&str], i32)], untried: &[i32]| {
        let words = command.split_whitespace();
        let words: Vec<_> = words.collect();
        let mut statuses = BTreeSet::from([64, 71]);
        statuses.extend((command != "run").then_some(0));
        statuses.extend(untried);
        let wrong: (&[&str], i32) = (&["--no-such-option"], 64);
        for (arguments, status) in ends.iter().copied().chain([wrong]) {
            ended(&mut lockkeeper(&[&words[..], arguments].concat())).ends(status);
            statuses.insert(status);
            tried += 1;
        }
        let file = [&["lockkeeper"], &words[..]].concat().join("-") + ".1";
        let page = files.text(&file);
        let (_, section) = page.split_once("\n.SH \"EXIT STATUS\"\n").unwrap();
        let section = section.split("\n.SH ").next().unwrap();
        let words: Vec<_> = section.split_whitespace().collect();
        assert!(words.contains(&"128+n"), "{file}: {section}");
        let numbers = words.iter().filter_map(|it| it.parse().ok());
        assert_eq!(numbers.collect::<BTreeSet<_>>(), statuses, "{file}");
    };
    for (command, arguments) in [
        ("ls", &["/a"][..]),
        ("get", &["/a"]),
        ("stat", &["/a"]),
        ("set", &["/a", "b"]),
        ("create", &["/a"]),
        ("rm", &["/a"]),
        ("queue", &["/a"]),
        ("doctor", &[]),
        ("demo", &[]),
    ] {
        let to = |servers| [&["--connect", servers], arguments].concat();
        let (refused, closed) = (to(&missing), to("127.0.0.1:1"));
        let ends = [(&refused[..], 1), (&closed, 69)];
        // The demo ends with 1 when a lock has broken a promise.
        let (ends, untried) = match command {
            "demo" => (&ends[1..], &[1][..]),
            _ => (&ends[..], &[][..]),
        };
        of_page(command, ends, untried);
    }
    let no_command = [(&["--", "/missing"][..], 127), (&["--", "/dev/null"], 126)];
    let no_listener = (&nowhere[..], 71);
    of_page("serve", &[no_command[0], no_command[1], no_listener], &[]);
    of_page("wire", &[], &[]);
    of_page("wire decode", &[(&["/missing"], 71)], &[]);
    let spy = [&nowhere[..], &["--connect", "127.0.0.1:1"]].concat();
    of_page("wire spy", &[(&spy, 71)], &[]);
    of_page("completions", &[], &[]);
    of_page("man", &[(&["/missing"], 71)], &[]);
    of_page("", &[], &[1, 69]);
    let run = ["--connect", "127.0.0.1:1", "--try", "/l", "--", "true"];
    // Those of the command and of the lock: `run` and `run_options`.
    of_page("run", &[(&run, 69)], &[74, 75, 80, 126, 127]);
    assert!(tried > 40, "{tried}");
}

/// The words that complete a command line in real shells. `tests/run.sh` demands zsh and fish, and says so if there are none.
#[test]
fn shells_complete_commands_options_and_values() {
    let bash = r#"source <("$0" completions bash); COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        [[ $1 == *' ' ]] && COMP_WORDS+=('') && COMP_CWORD=$((COMP_CWORD + 1))
        _lockkeeper lockkeeper "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[@]}""#;
    let fish = r"$argv[1] completions fish | source; complete -C $argv[2]";
    // In a terminal of its own: lists what is possible when the tabulator is pressed.
    let zsh = r#"zmodload zsh/zpty; zpty z zsh -f -i
        zpty -w z "PS1=; fpath=(${TMPDIR:-/tmp} \$fpath); autoload -Uz compinit; compinit -u -D; source <($1 completions zsh)"
        zpty -w z "stty cols 200; bindkey '^I' list-choices; compdef _lockkeeper lockkeeper; echo REA''DY"
        zpty -r -m z out '*READY*'; zpty -n -w z "$2"$'\t'; zpty -r -m z out "*$3*"; print -r -- $out"#;
    for (line, words) in [
        ("lockkeeper q", "queue"),
        ("lockkeeper run --on", "--on-loss"),
        ("lockkeeper run --acl ", "creator"),
        ("lockkeeper wire ", "decode"),
        ("lockkeeper wire spy --c", "--connect"),
    ] {
        for (shell, script) in [("bash", bash), ("fish", fish), ("zsh", zsh)] {
            let me = env!("CARGO_BIN_EXE_lockkeeper");
            let mut command = Command::new("timeout");
            command.args(["60", shell, "-c", script]);
            if shell == "zsh" {
                command.arg("zsh");
            }
            let ended = ended(command.args([me, line, words]).env("TERM", "dumb"));
            match ended.status {
                // The shell is not installed.
                127 if shell != "bash" && env::var_os("LOCKKEEPER_TEST_SHELLS").is_none() => {
                    eprintln!("NOT TESTED: {shell} is not installed");
                    continue;
                }
                status => assert_eq!(status, 0, "{shell}, {line}: {ended:?}"),
            }
            assert!(ended.stdout.contains(words), "{shell}, {line}: {ended:?}");
        }
    }
}

#[test]
fn the_version_names_the_commit_and_the_features() {
    let commit = if root().join(".git").exists() {
        let mut git = Command::new("git");
        git.arg("-C").arg(root());
        output(git.args(["rev-parse", "--short=12", "HEAD"]))
    } else {
        "unknown\n".to_owned()
    };
    let long = said(&["--version"]);
    let (version, rest) = long.split_once('\n').unwrap();
    assert!(version.starts_with("lockkeeper 0."), "{long}");
    let kerberos = if cfg!(feature = "kerberos") {
        ", kerberos"
    } else {
        ""
    };
    assert_eq!(rest, format!("commit: {commit}features: tls{kerberos}\n"));
    assert_eq!(said(&["-V"]).lines().count(), 1);
}

/// A package from a registry has no repository, and must not name the commit of one that it happens to lie in.
#[test]
fn a_build_names_a_commit_only_if_the_repository_is_its_own() {
    let files = Files::new("build");
    let [package, script] = ["vendor/cli", "build"].map(|name| files.path(name));
    fs::create_dir_all(&package).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(rustc);
    output(rustc.args(["--edition=2024", "-o", &script]).arg(source));
    let built = |path: Option<&str>| {
        let mut build = Command::new(&script);
        build.envs(path.map(|path| ("PATH", path)));
        let said = output(build.env("CARGO_MANIFEST_DIR", &package));
        let line = said
            .lines()
            .find(|line| line.contains("LOCKKEEPER_COMMIT="));
        let (_, commit) = line.unwrap().split_once("COMMIT=").unwrap();
        commit.to_owned()
    };
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let mut git = Command::new("git");
        output(
            git.args(["-C", &files.path("")])
                .args(identity)
                .args(arguments),
        )
    };
    assert_eq!(built(None), "unknown");
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "a"]);
    assert_eq!(built(None), "unknown");
    fs::rename(files.path(".git"), files.path("vendor/.git")).unwrap();
    assert_eq!(built(None).len(), 12);
    assert_eq!(built(Some("/nowhere")), "unknown");
}
