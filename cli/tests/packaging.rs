//! `lockkeeper completions`, `man` and `--version`.

mod support;

use std::{env, fs, path::Path, process::Command};

use support::{ended, lockkeeper};

fn said(arguments: &[&str]) -> String {
    let ended = ended(&mut lockkeeper(arguments));
    assert_eq!((ended.status, &*ended.stderr), (0, ""), "{arguments:?}");
    ended.stdout
}

/// The options are from clap itself, short ones included. The rest of a page is from the help texts.
#[test]
fn every_command_has_a_manual_page_with_its_sections() {
    let folder = std::env::temp_dir().join(format!("lockkeeper-man-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    said(&["man", folder.to_str().unwrap()]);
    let page = |name: &str| fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
    let help = said(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let mut pages = 0;
    for name in commands.filter_map(|line| line.split(' ').nth(2).filter(|name| !name.is_empty())) {
        if name == "help" {
            continue;
        }
        let page = page(&format!("lockkeeper-{name}"));
        for section in [
            "NAME",
            "SYNOPSIS",
            "OPTIONS",
            "EXIT STATUS",
            "EXAMPLES",
            "SEE ALSO",
        ] {
            let heads = page.matches(&format!("\n.SH \"{section}\"\n")).count();
            let heads = heads + page.matches(&format!("\n.SH {section}\n")).count();
            assert_eq!(heads, 1, "{name}: {section}\n{page}");
        }
        let is_of_servers = page.contains("\\fB\\-\\-connect\\fR");
        assert_eq!(
            page.contains("\n  LOCKKEEPER_CONNECT\n"),
            is_of_servers,
            "{page}"
        );
        pages += 1;
    }
    assert!(pages > 20, "{help}");
    let run = page("lockkeeper-run");
    for text in [
        "\\-E",
        "\\-q",
        "\n  74   the lock was lost",
        "\n  LOCKKEEPER_TOKEN  the",
    ] {
        assert!(run.contains(text), "{text}\n{run}");
    }
    assert!(page("lockkeeper-wire-spy").contains("\\-\\-cut\\-after"));
    fs::remove_dir_all(&folder).unwrap();
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
        ("lockkeeper wire spy --c", "--cut-after"),
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

/// The output of a program that must succeed.
fn output(command: &mut Command) -> String {
    let ended = ended(command);
    assert_eq!(ended.status, 0, "{command:?}: {}", ended.stderr);
    ended.stdout
}

#[test]
fn the_version_names_the_commit_and_the_features() {
    let long = said(&["--version"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let commit = if root.join(".git").exists() {
        let mut git = Command::new("git");
        output(
            git.arg("-C")
                .arg(root)
                .args(["rev-parse", "--short=12", "HEAD"]),
        )
    } else {
        "unknown\n".to_owned()
    };
    let (version, rest) = long.split_once('\n').unwrap();
    assert!(version.starts_with("lockkeeper 0."), "{long}");
    let srv = if cfg!(feature = "srv") { "srv, " } else { "" };
    assert_eq!(
        rest,
        format!("commit: {commit}features: sasl-digest-md5, {srv}tls\n")
    );
    assert_eq!(said(&["-V"]).lines().count(), 1);
}

/// A package from a registry has no repository, and must not name the commit of one that it happens to lie in.
#[test]
fn a_build_names_a_commit_only_if_the_repository_is_its_own() {
    let folder = std::env::temp_dir().join(format!("lockkeeper-build-{}", std::process::id()));
    let (package, script) = (folder.join("vendor/cli"), folder.join("build"));
    fs::create_dir_all(&package).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(rustc);
    output(
        rustc
            .args(["--edition=2024", "-o"])
            .args([&script, &source]),
    );
    let built = |path: Option<&str>| {
        let mut build = Command::new(&script);
        path.map(|path| build.env("PATH", path));
        let said = output(build.env("CARGO_MANIFEST_DIR", &package));
        let commit = said
            .lines()
            .find_map(|line| line.strip_prefix("cargo::rustc-env=LOCKKEEPER_COMMIT="));
        commit.unwrap().to_owned()
    };
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let mut git = Command::new("git");
        output(git.arg("-C").args([&folder]).args(identity).args(arguments))
    };
    assert_eq!(built(None), "unknown");
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "a"]);
    assert_eq!(built(None), "unknown");
    fs::rename(folder.join(".git"), folder.join("vendor/.git")).unwrap();
    assert_eq!(built(None).len(), 12);
    assert_eq!(built(Some("/nowhere")), "unknown");
    fs::remove_dir_all(&folder).unwrap();
}
