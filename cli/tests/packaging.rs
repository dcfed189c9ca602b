//! `lockkeeper completions`, `man` and `--version`.

mod support;

use std::{fs, path::Path, process::Command};

use support::{ended, lockkeeper};

fn said(arguments: &[&str]) -> String {
    let ended = ended(&mut lockkeeper(arguments));
    assert_eq!((ended.status, &*ended.stderr), (0, ""), "{arguments:?}");
    ended.stdout
}

/// The commands that the help names.
fn commands() -> Vec<String> {
    let help = said(&["--help"]);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| line.starts_with("  "));
    let names = names.filter_map(|line| {
        line.strip_prefix("  ")
            .filter(|line| !line.starts_with(' '))
    });
    let names: Vec<_> = names
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert!(names.len() > 15, "{help}");
    names.into_iter().filter(|name| name != "help").collect()
}

/// The long options that the help of a command names.
fn options(command: &str) -> Vec<String> {
    let help = said(&[command, "--help"]);
    let words = help
        .lines()
        .filter(|line| line.trim_start().starts_with('-'));
    let words = words.flat_map(|line| line.split([' ', ',', '=']));
    let words: Vec<_> = words
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(str::to_owned)
        .collect();
    assert!(words.contains(&"--help".to_owned()), "{help}");
    words
}

#[test]
fn every_command_and_option_is_completed_and_has_a_manual_page() {
    let shells = ["bash", "zsh", "fish"].map(|shell| said(&["completions", shell]));
    let folder = std::env::temp_dir().join(format!("lockkeeper-man-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    said(&["man", folder.to_str().unwrap()]);
    let page = |name: &str| fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
    let main = page("lockkeeper");
    for command in commands() {
        assert!(
            shells.iter().all(|text| text.contains(&command)),
            "{command}"
        );
        assert!(
            main.contains(&format!("lockkeeper\\-{command}\\fR(1)")),
            "{command}: {main}"
        );
        let page = page(&format!("lockkeeper-{command}"));
        assert!(
            page.starts_with(".TH ") && page.contains(".SH SYNOPSIS\n"),
            "{page}"
        );
        for option in options(&command) {
            let [bash, zsh, fish] = &shells;
            assert!(
                bash.contains(&option) && zsh.contains(&format!("'{option}:")),
                "{option}"
            );
            assert!(
                fish.contains(&format!(" -l {} ", &option[2..]))
                    || fish.contains(&format!(" -l {} -", &option[2..])),
                "{option}"
            );
            assert!(
                page.contains(&option.replace('-', "\\-")),
                "{command} {option}: {page}"
            );
        }
    }
    assert!(page("lockkeeper-wire-spy").contains("\\-\\-cut\\-after"));
    // No line of text begins a macro by accident.
    let macros = [".TH", ".SH", ".TP", ".nf", ".fi"];
    for file in fs::read_dir(&folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let dots = text.lines().filter(|line| line.starts_with(['.', '\'']));
        dots.for_each(|line| assert!(macros.iter().any(|it| line.starts_with(it)), "{line}"));
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn bash_completes_commands_options_and_values() {
    let completed = |words: &str| {
        let script = format!(
            "source <(\"$0\" completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _lockkeeper; echo \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        let ended = ended(bash.args(["-c", &script, env!("CARGO_BIN_EXE_lockkeeper")]));
        assert_eq!(ended.stderr, "");
        ended.stdout.trim_end().to_owned()
    };
    for (words, result) in [
        ("lockkeeper qu", "queue"),
        ("lockkeeper run --on", "--once-per --on-loss"),
        ("lockkeeper run --acl ''", "world creator"),
        ("lockkeeper wire d", "decode"),
        ("lockkeeper wire spy --cut", "--cut-after"),
        ("lockkeeper completions --connect", ""),
        ("lockkeeper run /a -- --on", ""),
    ] {
        assert_eq!(completed(words), result, "{words}");
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
