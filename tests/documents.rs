//! Checks the names and links in the documents. Every file and test that they name exists. Every
//! chapter of the guide is included. Every log line and every error is listed. The alerts use names
//! that exist. The weight of a program is about the recorded one. Tables of files are complete.
//!
//! Not here: whether the documents are true otherwise.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use lockkeeper::{client::Metrics, locks::LockMetrics};

/// The documents in the root folder, in `docs` and in `docs/guide`.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = [root.to_owned(), root.join("docs"), root.join("docs/guide")]
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect()
}

/// The texts in backticks outside of code blocks.
fn quoted(text: &str) -> Vec<&str> {
    let mut in_block = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    lines
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// The Rust sources below a folder.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Cargo marks its build folder so, whatever its name.
        let is_ours = !name.starts_with('.') && !path.join("CACHEDIR.TAG").exists();
        if path.is_dir() && is_ours {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            found.push((path, source));
        }
    }
    found
}

/// The functions of a source.
fn functions(source: &str) -> impl Iterator<Item = &str> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = source.split("fn ").skip(1);
    words.filter_map(move |rest| rest.get(..rest.find(|letter| !is_name(letter))?))
}

#[test]
fn every_file_that_a_document_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for name in quoted(&text) {
            let is_path = name.contains('/')
                && !name.starts_with('/')
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
            if is_path {
                named += 1;
                let there = root.join(name).exists() || root.join("docs").join(name).exists();
                assert!(there, "{}: no {name}", document.display());
            }
        }
        // The name of a case stands behind its file.
        for pair in quoted(&text).windows(2) {
            let is_file = pair[0].rsplit('.').next() == Some("txt");
            if is_file && pair[0].starts_with("tests/conformance/cases/") {
                let cases = fs::read_to_string(root.join(pair[0])).unwrap();
                assert!(cases.contains(&format!("\n## {}\n", pair[1])), "{pair:?}");
            }
        }
    }
    assert!(named > 50, "{named} files named");
}

/// The targets of a text's links: `](target)`, and `]: target` at the beginning of a line that
/// defines one.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let inline = text.split("](").skip(1);
    let inline = inline.filter_map(|rest| Some(rest.split_once(')')?.0));
    let defined = text.lines().filter(|line| line.starts_with('['));
    inline.chain(defined.filter_map(|line| Some(line.split_once("]: ")?.1)))
}

#[test]
fn every_link_of_a_document_leads_to_a_file() {
    let mut followed = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text).filter(|link| !link.starts_with("http")) {
            let file = link.split('#').next().unwrap_or_default();
            followed += 1;
            let there = document.parent().unwrap().join(file).exists();
            assert!(there, "{}: no {link}", document.display());
        }
    }
    assert!(followed > 50, "{followed} links followed");
}

/// The name that GitHub and rustdoc give to a heading.
fn anchor(heading: &str) -> String {
    let words = heading.trim_matches(['#', ' ']).to_lowercase();
    let letters = words.chars().map(|it| if it == ' ' { '-' } else { it });
    letters
        .filter(|it| it.is_alphanumeric() || "-_".contains(*it))
        .collect()
}

#[test]
fn every_link_to_a_heading_leads_to_one() {
    let mut followed = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text).filter(|link| !link.starts_with("http")) {
            if let Some((file, heading)) = link.split_once('#') {
                followed += 1;
                let other = || fs::read_to_string(document.parent().unwrap().join(file)).unwrap();
                let target = if file.is_empty() {
                    text.clone()
                } else {
                    other()
                };
                let mut headings = target.lines().filter(|line| line.starts_with('#'));
                let there = headings.any(|it| anchor(it) == heading);
                assert!(there, "{}: no {link}", document.display());
            }
        }
    }
    assert!(followed > 10, "{followed} links followed");
}

/// The documentation of the crate has the chapters, and no file besides them. A link to a file must
/// be defined in `links.txt`, too, which stands in front of each chapter there.
#[test]
fn no_link_of_a_chapter_leaves_the_package_and_each_leads_on() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide");
    let read = |file: &str| fs::read_to_string(guide.join(file)).unwrap();
    let of_modules = read("links.txt");
    for line in of_modules.lines() {
        let (_, target) = line.split_once("]: ").unwrap();
        let is_outside = target.starts_with("crate::") || target.starts_with("https://");
        assert!(is_outside, "{line}");
        let in_repository = "https://github.com/lockkeeper/lockkeeper/blob/main/";
        if let Some(file) = target.strip_prefix(in_repository) {
            assert!(guide.join("../..").join(file).exists(), "{line}");
        }
    }
    let contents = read("README.md");
    let chapters = contents.lines().filter(|line| line.contains(". ["));
    let mut chapters: Vec<_> = chapters
        .map(|line| line.split_once(' ').unwrap().1)
        .collect();
    assert_eq!(chapters.len(), 14);
    chapters.push("[the contents][guide]");
    for pair in chapters.windows(2) {
        let name = pair[0].split(['[', ']']).nth(3).unwrap();
        let text = read(&format!("{name}.md"));
        assert!(text.contains(&format!("{}.\n\n[", pair[1])), "{name}");
        for line in text.lines().filter(|line| line.starts_with('[')) {
            if let Some((label, _)) = line.split_once("]: ") {
                let defined = format!("{label}]: ");
                assert!(of_modules.contains(&defined), "{name}: {line}");
            }
        }
        for rest in text.split("](").skip(1) {
            let is_there = rest.starts_with('#') || rest.starts_with("https://");
            assert!(is_there, "{name}: {}", rest.lines().next().unwrap());
        }
    }
}

#[test]
fn every_chapter_is_a_module_of_the_guide() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file| fs::read_to_string(root.join(file)).unwrap();
    let (modules, contents) = (read("src/guide.rs"), read("docs/guide/README.md"));
    let links_of_modules = read("docs/guide/links.txt");
    let mut chapters = 0;
    for document in documents() {
        let name = document.file_stem().unwrap().to_str().unwrap();
        if document.parent() == Some(&root.join("docs/guide")) && name != "README" {
            chapters += 1;
            assert!(
                modules.split_whitespace().any(|word| word == name),
                "{name}"
            );
            assert!(contents.contains(&format!("[{name}]: {name}.md")), "{name}");
            let link = format!("[{name}]: crate::guide::{name}\n");
            assert!(links_of_modules.contains(&link), "{name}");
        }
    }
    assert_eq!(chapters, 14);
}

/// What guards a mended hole is still in the list of planted faults, by the same name.
#[test]
fn every_planted_fault_that_the_track_record_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file| fs::read_to_string(root.join(file)).unwrap();
    let (faults, page) = (
        read("tests/mutations/mutations.txt"),
        read("docs/tested.md"),
    );
    let record = page.split("## The track record").nth(1).unwrap();
    let named: Vec<_> = record.split('*').skip(1).step_by(2).collect();
    assert!(named.len() > 50, "{} faults named", named.len());
    for name in named {
        assert!(
            faults.contains(&format!("\n## {name}\n")),
            "no fault: {name}"
        );
    }
}

/// A name of four words or more counts as the name of a test.
#[test]
fn every_test_that_a_document_names_is_there() {
    let sources = sources(Path::new(env!("CARGO_MANIFEST_DIR")));
    let all: BTreeSet<_> = sources.iter().flat_map(|it| functions(&it.1)).collect();
    let mut named = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for name in quoted(&text) {
            let is_name = name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            if is_name && name.split('_').count() >= 4 {
                named += 1;
                assert!(all.contains(name), "{}: no {name}", document.display());
            }
        }
    }
    assert!(named > 5, "{named} tests named");
}

/// A source that begins with a table of its files names each of them there, or below the table.
/// The walk of a contender is of use only while its steps are there.
#[test]
fn every_function_of_the_walk_of_a_contender_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, walk) = text
        .split_once("\n## How a contender gets its turn\n")
        .unwrap();
    let (walk, _) = walk.split_once("\n## ").unwrap();
    let sources = sources(&root.join("recipes/src"));
    let all: BTreeSet<_> = sources.iter().flat_map(|it| functions(&it.1)).collect();
    let is_type = |name: &str| {
        let [own, generic] = [" ", "<"].map(|end| format!("struct {name}{end}"));
        sources
            .iter()
            .any(|(_, it)| it.contains(&own) || it.contains(&generic))
    };
    let mut named = 0;
    for step in quoted(walk) {
        let Some((of, function)) = step.split_once("::") else {
            continue;
        };
        let is_module = of.starts_with(char::is_lowercase);
        assert!(
            (is_module || is_type(of)) && all.contains(function),
            "{step}"
        );
        named += 1;
    }
    assert!(named > 20, "{named}");
}

#[test]
fn every_file_is_named_where_its_neighbours_are_listed() {
    let mut tables = 0;
    for (path, source) in sources(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        let (head, rest) = source.split_once("\n\n").unwrap_or_default();
        if !head.contains("\n//! | file | ") {
            continue;
        }
        tables += 1;
        let modules = rest.lines().filter_map(|line| line.strip_suffix(';'));
        let modules = modules.filter_map(|line| Some(line.split_once("mod ")?.1));
        for module in modules.filter(|module| *module != "tests") {
            let is_named = ["`", "/`", "::"].map(|end| head.contains(&format!("`{module}{end}")));
            let is_linked = head.contains(&format!("[`{module}`]"));
            assert!(
                is_named.contains(&true) || is_linked,
                "{}: {module}",
                path.display()
            );
        }
    }
    assert!(tables > 20, "{tables} tables");
}

/// `ARCHITECTURE.md`: the four parts of the session machine know nothing of each other, and the router
/// nothing of the machine.
#[test]
fn no_part_of_the_machine_imports_another() {
    const PARTS: [&str; 4] = ["link", "requests", "watches", "lease"];
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("session/src/machine");
    let router = fs::read_to_string(machine.join("router.rs")).unwrap();
    assert!(router.contains("impl<T> Router<") && !router.contains("Machine"));
    for part in PARTS {
        let files = fs::read_dir(machine.join(part)).unwrap();
        for file in files.map(|file| file.unwrap().path()) {
            let source = fs::read_to_string(&file).unwrap();
            let code = source.lines().filter(|line| !line.trim().starts_with("//"));
            let code = code.collect::<Vec<_>>().join("\n");
            for other in PARTS.iter().filter(|other| **other != part) {
                let import = format!("{other}::");
                let imports = code.match_indices(&import).any(|(at, _)| {
                    !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
                });
                assert!(!imports, "{} imports `{other}`", file.display());
            }
        }
    }
}

/// The variants of a public enum of a source.
fn variants<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("pub enum {name} {{\n");
    let (_, rest) = source.split_once(&*start).unwrap();
    let (body, _) = rest.split_once("\n}").unwrap();
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    lines
        .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .filter_map(|line| line.split([' ', ',', '(']).next())
        .collect()
}

#[test]
fn the_guide_says_what_to_do_about_every_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/guide/errors.md")).unwrap();
    for (file, name, number) in [
        ("session/src/error.rs", "ErrorKind", 10),
        ("recipes/src/error.rs", "LockError", 5),
        ("recipes/src/error.rs", "Loss", 5),
    ] {
        let source = fs::read_to_string(root.join(file)).unwrap();
        let variants = variants(&source, name);
        assert!(variants.len() >= number, "{name}: {variants:?}");
        for variant in variants {
            let row = format!("\n| `{variant}");
            assert!(guide.contains(&row), "{name}::{variant}");
        }
    }
}

/// The log lines of a source: level and message, as a row of the document.
fn log_lines(source: &str) -> impl Iterator<Item = String> {
    source.split("tracing::").skip(1).filter_map(|call| {
        let (level, rest) = call.split_once("!(")?;
        if !["error", "warn", "info", "debug", "trace"].contains(&level) {
            return None;
        }
        // The message is the last argument: the first string literal that is followed by the end of
        // the call.
        let texts: Vec<&str> = rest.split('"').collect();
        let message = texts
            .windows(2)
            .skip(1)
            .step_by(2)
            .find(|pair| pair[1].trim_start().starts_with(')'));
        let message = message.unwrap_or_else(|| panic!("no message: {level}!({rest}"))[0];
        Some(format!("| {level} | `{message}` |"))
    })
}

#[test]
fn the_document_lists_exactly_the_log_lines_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut written = BTreeSet::new();
    for folder in ["session/src", "tls/src", "recipes/src"] {
        for (_, source) in sources(&root.join(folder)) {
            written.extend(log_lines(&source));
        }
    }
    let text = fs::read_to_string(root.join("docs/logging.md")).unwrap();
    let levels = [
        "| error |",
        "| warn |",
        "| info |",
        "| debug |",
        "| trace |",
    ];
    let rows = text
        .lines()
        .filter(|row| levels.iter().any(|level| row.starts_with(level)));
    // Only level and message of a row are compared. A row with a target in the third column is a
    // span and is left out.
    let listed: BTreeSet<String> = rows
        .filter(|row| !row.contains("`lockkeeper_"))
        .map(|row| row.split('|').take(3).collect::<Vec<_>>().join("|") + "|")
        .collect();
    assert_eq!(written, listed);
    assert!(written.len() > 20, "{written:?}");
}

/// An alert on a name that no exporter has would never fire.
#[test]
fn the_alerts_use_only_names_of_exported_numbers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (locks, client) = (LockMetrics::default(), Metrics::default());
    let mut exported: BTreeSet<&str> = BTreeSet::new();
    exported.extend(locks.counters().map(|(name, _)| name));
    exported.extend(locks.gauges().map(|(name, _)| name));
    exported.extend(locks.durations().map(|(name, _)| name));
    exported.extend(client.counters().map(|(name, _)| name));
    exported.extend(client.gauges().map(|(name, _)| name));
    let text = fs::read_to_string(root.join("docs/alerts.yml")).unwrap();
    let rules = text.lines().filter(|line| line.contains("expr: "));
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let mut used = 0;
    for name in rules.flat_map(|rule| rule.split(|letter| !is_name(letter))) {
        if name.starts_with("lockkeeper_") {
            used += 1;
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(exported.contains(name), "{name}");
        }
    }
    assert!(used >= 9, "{used} names");
}

/// An alert on a line that `run` does not print would never fire.
#[test]
fn the_alerts_of_run_are_lines_of_the_command() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/guide/runbook.md")).unwrap();
    let table = page.split("| status of `run` | line |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
    let lines = rows.filter_map(|row| row.split('|').nth(2)?.trim().split('`').nth(1));
    let read = |file| fs::read_to_string(root.join("cli/src").join(file)).unwrap();
    let files = [
        "run/acquire.rs",
        "run/mod.rs",
        "run/once.rs",
        "run/tree.rs",
        "outage.rs",
    ];
    let sources: String = files.into_iter().map(read).collect();
    let mut found = 0;
    for line in lines {
        found += 1;
        assert!(sources.contains(line), "{line}");
    }
    assert_eq!(found, 6);
}

/// Each change moves the figure a little, and they once said what a program had weighed long before.
#[test]
fn the_documents_say_what_a_program_weighs() {
    let read =
        |file: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let recorded = read("bench/weight/weight.txt");
    let recorded: f64 = recorded.lines().nth(1).unwrap().parse().unwrap();
    for (file, ahead) in [
        ("docs/compared.md", "| lockkeeper | "),
        ("docs/guide/five_minutes.md", "program with one lock takes "),
    ] {
        let text = read(file);
        let figure = text.rsplit_once(ahead).unwrap().1.split(' ').next();
        let said: f64 = figure.unwrap().replace(',', "").parse().unwrap();
        assert!((said / recorded - 1.0).abs() < 0.02, "{file}: {said}");
    }
}

/// A telephone shows a picture 400 pixels wide. Dark mode does not change a picture on paper.
#[test]
fn every_picture_is_readable_on_a_telephone_and_in_dark_mode() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let paths = fs::read_dir(docs)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut pictures = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "svg")) {
        let picture = fs::read_to_string(&path).unwrap();
        let number = |text: &str| {
            text.split(|it: char| !it.is_ascii_digit())
                .next()
                .unwrap()
                .parse()
        };
        let sizes = picture
            .split("font:")
            .skip(1)
            .chain(picture.split("font-size:").skip(1));
        let sizes: Vec<u32> = sizes.map(|rest| number(rest).unwrap()).collect();
        let width: u32 = number(picture.split("viewBox=\"0 0 ").nth(1).unwrap()).unwrap();
        assert!(
            sizes.iter().all(|size| size * 400 >= 14 * width),
            "{path:?}: {sizes:?}"
        );
        let paper = format!("<rect width=\"{width}\" height=\"");
        assert!(!sizes.is_empty() && picture.contains(&paper), "{path:?}");
        pictures += 1;
    }
    assert_eq!(pictures, 3);
}

/// An example shows one idea.
#[test]
fn every_example_is_short_and_listed_and_runs_as_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file| fs::read_to_string(root.join(file)).unwrap();
    let (list, manifest) = (read("examples/README.md"), read("Cargo.toml"));
    let mut found = 0;
    for entry in fs::read_dir(root.join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "rs") {
            found += 1;
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(list.contains(&format!("[`{name}`]({name}.rs)")), "{name}");
            let runs = format!("[[example]]\nname = \"{name}\"\ntest = true\n");
            assert!(manifest.contains(&runs), "{name}");
            let source = fs::read_to_string(&path).unwrap();
            let lines = source.lines().map(str::trim_start);
            let program = lines.take_while(|line| !["#[test]", "#[cfg(test)]"].contains(line));
            let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
            let count = program.filter(is_code).count();
            assert!(count <= 60, "{name}: {count} lines of code before its test");
        }
    }
    assert_eq!(found, list.matches(".rs)").count());
}

/// Nobody could find out where a test belongs.
#[test]
fn the_map_of_the_tests_has_each_entry_of_the_folder_and_no_other() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let map = fs::read_to_string(tests.join("README.md")).unwrap();
    let rows = map.lines().filter(|line| line.starts_with("| `"));
    let named: BTreeSet<_> = rows
        .filter_map(|row| quoted(row).first().copied())
        .collect();
    let entries = fs::read_dir(&tests).unwrap();
    let entries = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let entries: BTreeSet<_> = entries.filter(|name| name != "README.md").collect();
    assert_eq!(named, entries.iter().map(String::as_str).collect());
}
