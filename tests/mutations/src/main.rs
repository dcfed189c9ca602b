//! Applies each fault in `mutations.txt` to a copy of the sources, and checks that it is found.
//!
//! `cargo run -p lockkeeper-mutations [--gate | PARTS OF NAMES]`. The exit status is 1 when a check
//! misses a fault, or cannot tell. With `--gate` it tries only the faults that `gate.txt` names, with
//! the simulation and the model, in one build with a switch for each fault.
//! The copy and its build are in `target/mutations`, and the next run uses both again.
//!
//! Not here: reading the list (the library).

use std::{
    cmp::Reverse,
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
    time::Instant,
};

use lockkeeper_mutations::{FAULT, Mutation, gate, read, with_switches};

/// Seconds after which the simulation gives up, even if seeds are left.
const SECONDS: &str = "600";

fn main() -> ExitCode {
    let parts: Vec<_> = std::env::args().skip(1).collect();
    let (all, gate) = match read().and_then(|all| Ok((all, gate()?))) {
        Ok(both) => both,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    // Cargo runs in the copy, and would take a relative path for one in there.
    let target = std::path::absolute(target).expect("a folder for the build");
    let has_switches = parts == ["--gate"];
    let sources = Sources {
        copy: target.join("mutations/tree"),
        built: target.join("mutations/target"),
        is_built_once: has_switches,
    };
    sources.refresh(&root);
    if has_switches && let Err(why) = sources.switch(&gate) {
        eprintln!("{why}");
        return ExitCode::from(2);
    }
    let chosen: Vec<_> = match parts.as_slice() {
        [] => all.iter().collect(),
        _ if has_switches => gate.iter().collect(),
        parts => {
            let is_chosen = |it: &&Mutation| parts.iter().any(|part| it.name.contains(part));
            all.iter().filter(is_chosen).collect()
        }
    };
    let (begin, mut failed) = (Instant::now(), 0);
    // A check that fails without the fault says nothing about it. All of them come first: each
    // fault, and each end of a fault, costs a build.
    let mut clean = HashMap::new();
    let mut checks: Vec<_> = chosen.iter().flat_map(|it| &it.checks).collect();
    checks.sort_by_key(|check| Reverse(first_seeds(check)));
    let most = checks.first().filter(|check| first_seeds(check).is_some());
    for check in &checks {
        // The most seeds tell of the others, which are some of them.
        let by = most.filter(|_| first_seeds(check).is_some());
        let told = clean.get(by.unwrap_or(check)).cloned();
        clean.insert(*check, told.unwrap_or_else(|| sources.run(check, "")));
    }
    for mutation in &chosen {
        let since = Instant::now();
        let of_check = mutation.checks.iter().map(|check| &clean[check]);
        let found = match of_check
            .clone()
            .find(|told| !matches!(told, Told::Missed(_)))
        {
            Some(Told::Found(how) | Told::Unfit(how) | Told::Missed(how)) => {
                Told::Unfit(format!("it says so without the fault too: {how}"))
            }
            None if has_switches => sources.find(mutation),
            None => sources.attempt(mutation),
        };
        let seconds = since.elapsed().as_secs();
        let (word, how) = match found {
            Told::Found(how) => ("found ", how),
            Told::Missed(why) => ("MISSED", why),
            Told::Unfit(why) => ("UNFIT ", why),
        };
        println!("{word}  {seconds:>4} s  {}: {how}", mutation.name);
        failed += usize::from(word != "found ");
    }
    let seconds = begin.elapsed().as_secs();
    println!(
        "{seconds} s, {} of {} faults, {failed} not found",
        chosen.len(),
        all.len()
    );
    if chosen.is_empty() {
        eprintln!("no name contains any of {parts:?}");
    }
    if failed == 0 && !chosen.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The number of seeds of a check that runs the first ones of the simulation.
fn first_seeds(check: &str) -> Option<u64> {
    check.strip_prefix("simulation ")?.parse().ok()
}

/// What a check has told.
#[derive(Clone)]
enum Told {
    /// It fails in the way that shows the fault.
    Found(String),
    /// It passes.
    Missed(String),
    /// It cannot tell: it does not compile, does not exist, or ends in another way.
    Unfit(String),
}

/// A copy of the sources, and where it is built.
struct Sources {
    copy: PathBuf,
    built: PathBuf,
    /// One build serves all faults. Otherwise there is one for each of them, and it compiles only what a fault changes.
    is_built_once: bool,
}

impl Sources {
    /// Copies the files that git lists, and removes those that it no longer lists. Writes only
    /// changed files, so that cargo rebuilds only what depends on them.
    fn refresh(&self, root: &Path) {
        let listed = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(root)
            .output()
            .expect("git lists the files");
        let listed = String::from_utf8_lossy(&listed.stdout);
        let names: Vec<_> = listed.split_terminator('\0').collect();
        let list = self.copy.with_extension("list");
        let former = fs::read_to_string(&list).unwrap_or_default();
        for name in former.lines().filter(|name| !root.join(name).is_file()) {
            let _ = fs::remove_file(self.copy.join(name));
        }
        for name in &names {
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
        fs::write(&list, names.join("\n")).expect("a file below target/");
    }

    /// Applies a fault, runs its checks, and restores the files.
    fn attempt(&self, mutation: &Mutation) -> Told {
        let mut before = Vec::new();
        let applied = mutation.edits.iter().try_for_each(|edit| {
            let path = self.copy.join(&edit.file);
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let changed = edit.apply(&text)?;
            fs::write(&path, changed).map_err(|error| error.to_string())?;
            before.push((path, text));
            Ok(())
        });
        let told = match applied {
            Ok(()) => self.find(mutation),
            Err(why) => Told::Unfit(why),
        };
        for (path, text) in before.into_iter().rev() {
            fs::write(&path, text).expect("a file below target/");
        }
        told
    }

    /// Puts a switch for each fault into the copy.
    fn switch(&self, faults: &[Mutation]) -> Result<(), String> {
        let read = |file: &str| fs::read_to_string(self.copy.join(file)).unwrap_or_default();
        for (file, text) in with_switches(faults, read)? {
            fs::write(self.copy.join(file), text).expect("a file below target/");
        }
        Ok(())
    }

    /// Runs the checks of a fault that is planted, or switched on. Each of them must find it.
    fn find(&self, mutation: &Mutation) -> Told {
        let mut found = Vec::new();
        for check in &mutation.checks {
            match self.run(check, &mutation.name) {
                Told::Found(how) => found.push(how),
                told => return told,
            }
        }
        Told::Found(found.join("; "))
    }

    /// Runs the check of this line, with the switch of this fault on.
    fn run(&self, check: &str, fault: &str) -> Told {
        let parts: Vec<_> = check.split(" | ").collect();
        let words: Vec<_> = check.split(' ').collect();
        let told = match (&words[..], &parts[..]) {
            (["simulation", seeds], _) => self.simulation("1", seeds, fault),
            (["simulation", seeds, "from", first], _) => self.simulation(first, seeds, fault),
            (["model", ..], [scenario, faults, violation]) => {
                let scenario = scenario.trim_start_matches("model ");
                self.model(scenario, faults, violation, fault)
            }
            (["test", package, target, name], _) => self.test(package, target, name),
            _ => Err(format!("mutations.txt: unknown kind of check: {check}")),
        };
        told.unwrap_or_else(Told::Unfit)
    }

    /// The error says why it cannot tell, here and below.
    fn simulation(&self, first: &str, seeds: &str, fault: &str) -> Result<Told, String> {
        let program = self.build("lockkeeper-sim")?;
        let run = output(
            Command::new(program)
                .args(["--threads", "2", "--no-shrink", "--seconds", SECONDS])
                .args(["--seed", first, "--seeds", seeds])
                .env(FAULT, fault)
                .stderr(Stdio::null()),
        )?;
        let told = String::from_utf8_lossy(&run.stdout);
        let summary = told.lines().next().unwrap_or_default();
        match run.status.code() {
            Some(0) => Ok(Told::Missed(format!("no violation found; {summary}"))),
            Some(1) => {
                let mut lines = told.lines().skip_while(|line| !line.contains(" fails:"));
                let rule = lines.nth(1).unwrap_or_default().trim();
                Ok(Told::Found(format!("{summary}; {rule}")))
            }
            code => Err(format!("the simulation ended with status {code:?}")),
        }
    }

    fn model(
        &self,
        scenario: &str,
        faults: &str,
        violation: &str,
        fault: &str,
    ) -> Result<Told, String> {
        let program = self.build("lockkeeper-model")?;
        let mut model = Command::new(program);
        let model = model.arg(scenario).args(faults.split(' '));
        let run = output(model.env(FAULT, fault))?;
        let told = String::from_utf8_lossy(&run.stdout);
        let last = told
            .trim_end()
            .lines()
            .next_back()
            .unwrap_or_default()
            .trim();
        Ok(match (run.status.code(), last.strip_prefix("=> ")) {
            (Some(1), Some(found)) if found == violation => {
                Told::Found(format!("the model: {found}"))
            }
            (Some(1), Some(found)) => {
                Told::Missed(format!("the model finds {found}, not {violation}"))
            }
            (Some(0), _) => Told::Missed("the model finds nothing".to_owned()),
            (code, _) => return Err(format!("the model ended with status {code:?}")),
        })
    }

    fn test(&self, package: &str, target: &str, name: &str) -> Result<Told, String> {
        let program = match target {
            "lib" | "schedules" => vec!["--lib"],
            "bins" => vec!["--bins"],
            target => vec!["--test", target],
        };
        let cargo = || {
            let mut cargo = self.cargo("test", "dev", package);
            if target == "schedules" {
                let built = self.built.join("schedules");
                cargo.env("RUSTFLAGS", "--cfg shuttle");
                cargo.env("CARGO_TARGET_DIR", built);
            }
            cargo
        };
        let mut build = cargo();
        compiled(&output(build.args(&program).arg("--no-run"))?)?;
        let mut test = cargo();
        let run = output(test.args(&program).args(["--", "--exact", name]))?;
        let told = String::from_utf8_lossy(&run.stdout);
        // The status of a test program some of whose tests failed. A program that found no such
        // test succeeds.
        match run.status.code() {
            Some(101) if told.contains("1 failed") => Ok(Told::Found(format!("{name} fails"))),
            Some(0) if told.contains("1 passed") => {
                Ok(Told::Missed(format!("{name} does not fail")))
            }
            _ => Err(format!("there is no such test, or it cannot run:\n{told}")),
        }
    }

    /// Builds a program of the copy. Returns its path.
    fn build(&self, package: &str) -> Result<PathBuf, String> {
        let mut build = self.cargo("build", "sim", package);
        // Both packages are named, so that both programs are built with the same features: each library once.
        build.args(["-p", "lockkeeper-sim", "-p", "lockkeeper-model"]);
        compiled(&output(build.args(["--bin", package]))?)?;
        Ok(self.built.join("sim").join(package))
    }

    /// The programs run much, the tests are built often. A fault that makes a test wait for ever is not found by it: the test
    /// should have an end.
    fn cargo(&self, command: &str, profile: &str, package: &str) -> Command {
        let mut cargo = Command::new("timeout");
        cargo
            .args(["--kill-after=10s", "30m", env!("CARGO")])
            .args([command, "--quiet", "--locked"])
            .args(["--profile", profile, "-p", package])
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.built)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "1");
        if self.is_built_once {
            // Whole, in pieces as large as can be: two thirds of the work.
            cargo.env("CARGO_INCREMENTAL", "0");
            cargo.env("CARGO_PROFILE_SIM_CODEGEN_UNITS", "1");
        }
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
    Err(format!("the sources do not compile:\n{told}"))
}
