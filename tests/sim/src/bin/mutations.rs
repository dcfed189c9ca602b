//! Applies each fault in `mutations.txt` to a copy of the sources, and checks that the simulation finds it.
//!
//! `cargo run -p lockkeeper-sim --bin mutations [PART OF A NAME]`. With `--quick` it tries only the faults that must be
//! found within [`QUICK`] seeds. The exit status is 1 when the simulation misses a fault. The copy and its build are in
//! `target/mutations`, and the next run uses both again.
//!
//! Not here: reading the list (`mutations` in the library).

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use lockkeeper_sim::mutations::{Mutation, read};

/// `--quick` skips faults that need more seeds than this. 1000 seeds take a few seconds.
const QUICK: u64 = 1000;

/// Seconds after which a fault counts as missed, even if seeds are left.
const SECONDS: &str = "600";

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let (copy, built) = (
        target.join("mutations/tree"),
        target.join("mutations/target"),
    );
    let all = match read() {
        Ok(all) => all,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    copy_tree(&root, &copy);
    let mut missed = Vec::new();
    let begin = Instant::now();
    let chosen = all.iter().filter(|mutation| {
        mutation.name.contains(&wanted) || wanted == "--quick" && mutation.seeds <= QUICK
    });
    for mutation in chosen {
        let since = Instant::now();
        let found = attempt(mutation, &copy, &built);
        let seconds = since.elapsed().as_secs();
        match found {
            Ok(told) => println!("found   {seconds:>4} s  {}: {told}", mutation.name),
            Err(why) => {
                println!("MISSED  {seconds:>4} s  {}: {why}", mutation.name);
                missed.push(&mutation.name);
            }
        }
    }
    println!(
        "{} s, {} faults missed",
        begin.elapsed().as_secs(),
        missed.len()
    );
    if missed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Applies a fault, runs the seeds, and restores the files. Returns how many seeds ran and which rule broke.
fn attempt(mutation: &Mutation, copy: &Path, built: &Path) -> Result<String, String> {
    let mut before = Vec::new();
    for edit in &mutation.edits {
        let path = copy.join(&edit.file);
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let changed = edit.apply(&text)?;
        before.push((path.clone(), text));
        fs::write(&path, changed).map_err(|error| error.to_string())?;
    }
    let told = seeds(mutation, copy, built);
    for (path, text) in before.into_iter().rev() {
        fs::write(&path, text).map_err(|error| error.to_string())?;
    }
    told
}

fn seeds(mutation: &Mutation, copy: &Path, built: &Path) -> Result<String, String> {
    let compiled = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked"])
        .args(["-p", "lockkeeper-sim", "--bin", "lockkeeper-sim"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", built)
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .map_err(|error| error.to_string())?;
    if !compiled.status.success() {
        let told = String::from_utf8_lossy(&compiled.stderr);
        return Err(format!(
            "the sources with this fault do not compile:\n{told}"
        ));
    }
    let run = Command::new(built.join("debug/lockkeeper-sim"))
        .args([
            "--threads",
            "2",
            "--no-shrink",
            "--seconds",
            SECONDS,
            "--seed",
            &mutation.first.to_string(),
            "--seeds",
        ])
        .arg(mutation.seeds.to_string())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&run.stdout);
    let first = told.lines().next().unwrap_or_default();
    match run.status.code() {
        Some(0) => Err(format!("no violation found; {first}")),
        Some(1) => {
            let rule = told
                .lines()
                .skip_while(|line| !line.contains(" fails:"))
                .nth(1);
            Ok(format!("{first}; {}", rule.unwrap_or_default().trim()))
        }
        code => Err(format!("the simulation ended with status {code:?}")),
    }
}

/// Copies the files that git lists. Writes only changed files, so that cargo rebuilds only what depends on them.
fn copy_tree(root: &Path, copy: &Path) {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()
        .expect("git lists the files");
    for name in String::from_utf8_lossy(&listed.stdout).split('\0') {
        let (from, to) = (root.join(name), copy.join(name));
        let Ok(content) = fs::read(&from) else {
            continue;
        };
        if fs::read(&to).is_ok_and(|there| there == content) {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).expect("a directory below target/");
        }
        fs::write(&to, content).expect("a file below target/");
    }
}
