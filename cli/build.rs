//! Tells the program from which commit it is built.
//!
//! A package from a registry has no repository. It may lie inside somebody else's, which says nothing about it. So only a `.git`
//! right above this crate counts. Without one, or without git, the commit is unknown, and the build goes on.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = Path::new(&here).join("..");
    let commit = root.join(".git").exists().then(|| commit(&root)).flatten();
    let commit = commit.as_deref().unwrap_or("unknown");
    println!("cargo::rustc-env=LOCKKEEPER_COMMIT={commit}");
}

/// The commit of a working tree. The next build asks again when another one is checked out or made.
fn commit(root: &Path) -> Option<String> {
    let log = git(root, &["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={}", root.join(log).display());
    git(root, &["rev-parse", "--short=12", "HEAD"])
}

/// The line that git prints; `None` if it fails or is missing.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let output = git.current_dir(root).args(arguments).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| line.trim().to_owned())
}
