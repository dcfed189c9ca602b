//! Applies each fault in `mutations.txt` to a copy of the sources, and checks that it is found.
//!
//! `cargo run -p lockkeeper-mutations [--gate | PART OF A NAME]`. The exit status is 1 when a check misses a fault. With
//! `--gate` it tries only the faults that `gate.txt` names. The copy and its build are in `target/mutations`, and the next run
//! uses both again.
//!
//! Not here: reading the list (the library).

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
    time::Instant,
};

use lockkeeper_mutations::{Check, Mutation, gate, read};

/// Seconds after which the simulation gives up, even if seeds are left.
const SECONDS: &str = "600";

fn main() -> ExitCode {
    let part = std::env::args().nth(1).unwrap_or_default();
    let all = match read() {
        Ok(all) => all,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    // Cargo runs in the copy, and would take a relative path for one in there.
    let target = std::path::absolute(target).expect("a folder for the build");
    let sources = Sources {
        copy: target.join("mutations/tree"),
        built: target.join("mutations/target"),
    };
    sources.refresh(&root);
    let is_chosen = |mutation: &&Mutation| match part.as_str() {
        "--gate" => gate().any(|name| name == mutation.name),
        part => mutation.name.contains(part),
    };
    let (begin, mut tried, mut missed) = (Instant::now(), 0, 0);
    let mut passed = HashSet::new();
    for mutation in all.iter().filter(is_chosen) {
        let since = Instant::now();
        // A check that fails without the fault says nothing about it.
        for check in mutation.checks.iter().filter(|check| passed.insert(*check)) {
            if let Ok(how) = sources.run(check) {
                eprintln!(
                    "without any fault, a check of \"{}\" fails: {how}",
                    mutation.name
                );
                return ExitCode::FAILURE;
            }
        }
        let found = sources.attempt(mutation);
        let seconds = since.elapsed().as_secs();
        tried += 1;
        match found {
            Ok(how) => println!("found   {seconds:>4} s  {}: {how}", mutation.name),
            Err(why) => {
                println!("MISSED  {seconds:>4} s  {}: {why}", mutation.name);
                missed += 1;
            }
        }
    }
    let seconds = begin.elapsed().as_secs();
    println!(
        "{seconds} s, {tried} of {} faults, {missed} missed",
        all.len()
    );
    if tried == 0 {
        eprintln!("no name contains {part:?}");
    }
    if missed == 0 && tried > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A copy of the sources, and where it is built.
struct Sources {
    copy: PathBuf,
    built: PathBuf,
}

impl Sources {
    /// Copies the files that git lists. Writes only changed files, so that cargo rebuilds only what depends on them.
    fn refresh(&self, root: &Path) {
        let listed = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(root)
            .output()
            .expect("git lists the files");
        for name in String::from_utf8_lossy(&listed.stdout).split('\0') {
            let (from, to) = (root.join(name), self.copy.join(name));
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

    /// Applies a fault, runs its checks, and restores the files. Returns how the fault was found.
    fn attempt(&self, mutation: &Mutation) -> Result<String, String> {
        let mut before = Vec::new();
        for edit in &mutation.edits {
            let path = self.copy.join(&edit.file);
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let changed = edit.apply(&text)?;
            before.push((path.clone(), text));
            fs::write(&path, changed).map_err(|error| error.to_string())?;
        }
        let checks = mutation.checks.iter();
        let found: Result<Vec<_>, _> = checks.map(|check| self.run(check)).collect();
        for (path, text) in before.into_iter().rev() {
            fs::write(&path, text).map_err(|error| error.to_string())?;
        }
        Ok(found?.join("; "))
    }

    fn run(&self, check: &Check) -> Result<String, String> {
        match check {
            Check::Simulation { first, seeds } => self.simulation(*first, *seeds),
            Check::Model {
                scenario,
                faults,
                violation,
            } => self.model(scenario, faults, violation),
            Check::Test {
                package,
                target,
                name,
            } => self.test(package, target, name),
        }
    }

    fn simulation(&self, first: u64, seeds: u64) -> Result<String, String> {
        let (first, seeds) = (first.to_string(), seeds.to_string());
        let program = self.build("lockkeeper-sim")?;
        let arguments = ["--threads", "2", "--no-shrink", "--seconds", SECONDS];
        let run = output(
            Command::new(program)
                .args(arguments)
                .args(["--seed", &first, "--seeds", &seeds])
                .stderr(Stdio::null()),
        )?;
        let told = String::from_utf8_lossy(&run.stdout);
        let summary = told.lines().next().unwrap_or_default();
        match run.status.code() {
            Some(0) => Err(format!("no violation found; {summary}")),
            Some(1) => {
                let mut lines = told.lines().skip_while(|line| !line.contains(" fails:"));
                let rule = lines.nth(1).unwrap_or_default().trim();
                Ok(format!("{summary}; {rule}"))
            }
            code => Err(format!("the simulation ended with status {code:?}")),
        }
    }

    fn model(&self, scenario: &str, faults: &str, violation: &str) -> Result<String, String> {
        let program = self.build("lockkeeper-model")?;
        let run = output(Command::new(program).arg(scenario).args(faults.split(' ')))?;
        let told = String::from_utf8_lossy(&run.stdout);
        let last = told
            .trim_end()
            .lines()
            .next_back()
            .unwrap_or_default()
            .trim();
        match (run.status.code(), last.strip_prefix("=> ")) {
            (Some(1), Some(found)) if found == violation => Ok(format!("the model: {found}")),
            (Some(1), Some(found)) => Err(format!("the model finds {found}, not {violation}")),
            (Some(0), _) => Err("the model finds nothing".to_owned()),
            (code, _) => Err(format!("the model ended with status {code:?}")),
        }
    }

    fn test(&self, package: &str, target: &str, name: &str) -> Result<String, String> {
        let mut test = self.cargo("test", package);
        match target {
            "lib" => test.arg("--lib"),
            target => test.args(["--test", target]),
        };
        let build = output(test.arg("--no-run"))?;
        compiled(&build)?;
        let mut test = self.cargo("test", package);
        match target {
            "lib" => test.arg("--lib"),
            target => test.args(["--test", target]),
        };
        let run = output(test.args(["--", "--exact", name]))?;
        let told = String::from_utf8_lossy(&run.stdout);
        // The status of a test program some of whose tests failed. A program that found no such test succeeds.
        match run.status.code() {
            Some(101) if told.contains("1 failed") => Ok(format!("{name} fails")),
            Some(0) if told.contains("1 passed") => Err(format!("{name} does not fail")),
            _ => Err(format!("there is no such test, or it cannot run:\n{told}")),
        }
    }

    /// Builds a program of the copy. Returns its path.
    fn build(&self, package: &str) -> Result<PathBuf, String> {
        compiled(&output(
            self.cargo("build", package).args(["--bin", package]),
        )?)?;
        Ok(self.built.join("sim").join(package))
    }

    fn cargo(&self, command: &str, package: &str) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([
                command,
                "--quiet",
                "--locked",
                "--profile",
                "sim",
                "-p",
                package,
            ])
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.built)
            .env("CARGO_INCREMENTAL", "1");
        cargo
    }
}

fn output(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| error.to_string())
}

fn compiled(build: &Output) -> Result<(), String> {
    if build.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&build.stderr);
    Err(format!(
        "the sources with this fault do not compile:\n{told}"
    ))
}
