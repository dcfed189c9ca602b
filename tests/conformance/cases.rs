//! Runs the cases of a file in `cases/` side by side, and says which of them a server answers
//! otherwise than ZooKeeper.
//!
//! Not here: the format of the files (`cases/README.md`), one script (`runner`).

use std::{collections::BTreeSet, env, fs};

use super::{
    FILES, runner,
    server::{Demands, Server},
    support::{self, Ensemble},
};

/// A file of cases.
#[derive(Default)]
struct File<'a> {
    why: &'a str,
    users: Vec<(&'a str, &'a str)>,
    login_is_required: bool,
    /// Names and scripts.
    cases: Vec<(&'a str, String)>,
}

impl<'a> File<'a> {
    fn parse(text: &'a str) -> Self {
        let mut file = Self::default();
        let mut sections = text.split("\n## ");
        let head = sections.next().unwrap_or_default().lines();
        for line in head.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(": ") {
                Some(("why", why)) => file.why = why,
                Some(("user", user)) => file.users.extend(user.split_once(' ')),
                Some(("login", "required")) => file.login_is_required = true,
                _ => panic!("not a line of a head: {line}"),
            }
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

    /// Who may do everything, on a server with users.
    fn superuser(&self) -> Option<(&'a str, &'a str)> {
        let mut users = self.users.iter().copied();
        users.find(|(user, _)| *user == "super")
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
        let root = ensemble.unique_path("conformance");
        let login = file.superuser();
        let login = login.map(|(user, password)| format!("{user} {password}"));
        let case = runner::check(ensemble.servers(), root, login, script.clone());
        running.push((name, script, tokio::spawn(case)));
    }
    let all = running.len();
    let mut differ = Vec::new();
    for (name, script, case) in running {
        let outcome = case.await.unwrap_or_else(|panic| Err(panic.to_string()));
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

/// Runs all cases of a file that has users, on a server with these users.
pub(crate) async fn check_with_users(text: &str, is_real: bool) {
    let file = File::parse(text);
    let (mut embedded, mut real) = (None, None);
    let servers = if is_real {
        let demands = Demands {
            users: &file.users,
            login_is_optional: !file.login_is_required,
            ..Demands::default()
        };
        real.insert(Server::start(&demands).await).servers()
    } else {
        let mut builder = support::builder();
        for (user, password) in &file.users {
            builder = builder.user(user, password);
        }
        if file.login_is_required {
            builder = builder.require_sasl();
        }
        let server = builder.start().await.expect("a free port on loopback");
        embedded.insert(server).connect_string()
    };
    let (user, password) = file.superuser().expect("a user `super`");
    let client = lockkeeper::Client::builder(&servers).expect("a server");
    let client = client.sasl(lockkeeper::client::DigestMd5::new(user, password));
    let client = client.connect().await.expect("a session");
    check(&Ensemble::of(servers, embedded, client).await, text).await;
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
