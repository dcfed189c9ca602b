//! Runs the cases of a file in `cases/` side by side, and says which of them a server answers
//! otherwise than ZooKeeper.
//!
//! Not here: the format of the files (`cases/README.md`), one script (`runner`).

use std::{collections::BTreeSet, env, fs};

use super::{FILES, runner, script, support::Ensemble};

/// Who answers what is expected, and what happens.
const WHO: [&str; 2] = ["ZooKeeper answers", "this server answered"];

/// A file of cases.
#[derive(Default)]
struct File<'a> {
    why: &'a str,
    /// Names and scripts.
    cases: Vec<(&'a str, String)>,
}

impl<'a> File<'a> {
    fn parse(text: &'a str) -> Self {
        let mut file = Self::default();
        let mut sections = text.split("\n## ");
        let head = sections.next().unwrap_or_default().lines();
        for line in head.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let why = line.strip_prefix("why: ");
            file.why = why.unwrap_or_else(|| panic!("not a line of a head: {line}"));
        }
        let mut shared = Vec::new();
        for section in sections {
            let (name, script) = section.split_once('\n').expect("a script");
            if name.starts_with("= ") {
                shared.push((name, script));
                continue;
            }
            let fill_in =
                |script: String, (name, lines): &(&str, &str)| script.replace(name, lines);
            let script = shared.iter().fold(script.to_owned(), fill_in);
            file.cases.push((name, script));
        }
        file
    }
}

/// The only cases to run: those with this text in their names. Empty for all.
fn wanted() -> String {
    env::var("LOCKKEEPER_TEST_CASE").unwrap_or_default()
}

/// Runs all cases of a file. Prints a line for each, and panics with all that differ.
pub(crate) async fn check(ensemble: &Ensemble, text: &str) {
    let file = File::parse(text);
    let (wanted, mut running) = (wanted(), Vec::new());
    for (name, script) in file.cases.iter().filter(|(name, _)| name.contains(&wanted)) {
        let case = runner::happened(ensemble, script.clone());
        running.push((name, script, tokio::spawn(case)));
    }
    let all = running.len();
    let mut differ = Vec::new();
    for (name, script, case) in running {
        let outcome = match case.await {
            Ok(happened) => script::compare(WHO, script, &happened),
            Err(panic) => Err(panic.to_string()),
        };
        ensemble.part_done();
        let Err(difference) = outcome else {
            println!("ok       {name}");
            continue;
        };
        let first: Vec<_> = difference.lines().take(4).map(str::trim).collect();
        println!("DIFFERS  {name}: {}", first.join(" | "));
        let comment = script.lines().take_while(|line| line.starts_with('#'));
        let comment = comment.fold(String::new(), |all, line| all + line + "\n");
        differ.push(format!("\n## {name}\n{comment}{difference}"));
    }
    println!("{all} cases, {} differ", differ.len());
    assert!(
        differ.is_empty(),
        "{} of {all} cases differ. Why a lock needs these answers: {}\n{}",
        differ.len(),
        file.why,
        differ.concat()
    );
}

#[test]
fn every_file_is_run_and_every_case_has_a_name_of_its_own() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/cases");
    let entries = fs::read_dir(folder).unwrap();
    let there = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there = there.filter_map(|name| Some(name.strip_suffix(".txt")?.to_owned()));
    let there: BTreeSet<_> = there.collect();
    assert_eq!(
        there,
        FILES.iter().map(|(name, _)| (*name).to_owned()).collect()
    );

    let (wanted, mut names) = (wanted(), BTreeSet::new());
    for (name, text) in FILES {
        let file = File::parse(text);
        assert!(!file.why.is_empty() && !file.cases.is_empty(), "{name}");
        for (case, _) in &file.cases {
            assert!(names.insert(*case), "twice: {case}");
        }
    }
    assert!(
        names.iter().any(|name| name.contains(&wanted)),
        "no case: {wanted}"
    );
}
