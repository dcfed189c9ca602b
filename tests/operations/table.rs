//! Compares `docs/operations.md` with the code: every operation has a row, and every name in a row
//! exists.
//!
//! Not here: whether the named tests pass. They run by themselves.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use lockkeeper::proto::OpCode;

/// The cells of every row of the page's tables, in the order of the columns.
fn lines(page: &str) -> Vec<Vec<&str>> {
    page.lines()
        .filter(|line| line.starts_with('|') && !line.contains("---"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// The texts between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text of all Rust and text files in a folder and below it.
fn sources(folder: &str) -> String {
    let files = fs::read_dir(root().join(folder)).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let text = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => sources(path.to_str().unwrap()),
        Some(end) if end == "rs" || end == "txt" => read(&path),
        _ => String::new(),
    };
    paths.map(text).collect()
}

/// Whether the text declares a function with that name.
fn declares(text: &str, name: &str) -> bool {
    text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"))
}

fn page() -> String {
    read(&root().join("docs/operations.md"))
}

#[test]
fn every_operation_has_a_row() {
    let page = page();
    let mut table: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
    for line in lines(&page) {
        if let Ok(number) = line[0].parse() {
            assert_eq!(line.len(), 6, "{line:?}");
            assert!(table.insert(number, line).is_none(), "{number} twice");
        }
    }
    assert_eq!(table.len(), OpCode::NAMED.len());
    for op in OpCode::NAMED {
        let line = table
            .get(&op.0)
            .unwrap_or_else(|| panic!("{op} is missing"));
        assert_eq!(Some(line[1]), op.name());
        assert_eq!(line[3], op.since().unwrap_or_default(), "{op}");
        let [method, test, case] = [line[2], line[4], line[5]];
        let has_method = !method.starts_with("none");
        assert_eq!(
            quoted(test).next().is_some(),
            has_method || *op == OpCode::ERROR,
            "{op}"
        );
        assert_eq!(quoted(case).count(), 1, "{op}");
    }
}

#[test]
fn every_method_that_the_page_names_exists() {
    let client = sources("session/src/client");
    let mut checked = 0;
    for line in lines(&page()) {
        for name in line.iter().flat_map(|cell| quoted(cell)) {
            let Some((owner, method)) = name.split_once("::") else {
                continue;
            };
            let is_type = owner.chars().next().is_some_and(char::is_uppercase);
            let is_variant = method.chars().next().is_some_and(char::is_uppercase);
            if is_type && !is_variant {
                assert!(client.contains(&format!("struct {owner}")), "{name}");
                assert!(declares(&client, method), "{name}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 40, "{checked} methods");
}

#[test]
fn every_test_and_case_that_the_page_names_exists() {
    let cases = sources("tests/conformance/cases");
    let mut checked = 0;
    for line in lines(&page()) {
        let names = line.iter().flat_map(|cell| quoted(cell));
        for name in names.filter(|name| name.starts_with(char::is_lowercase)) {
            let found = match name.rsplit_once("::") {
                Some((file, test)) => {
                    let folder = if file.contains('/') {
                        ""
                    } else {
                        "tests/operations/"
                    };
                    let file = root().join(format!("{folder}{file}.rs"));
                    declares(&read(&file), test)
                }
                None => cases.contains(&format!("\n## {name}\n")),
            };
            assert!(found, "{name}");
            checked += 1;
        }
    }
    assert!(checked >= 70, "{checked} tests and cases");
}
