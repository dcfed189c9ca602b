//! Each mutation of the list still fits the sources.
//!
//! Not here: whether its checks find it. `cargo run -p lockkeeper-mutations` does that.

use std::{collections::HashSet, fs, path::Path};

use lockkeeper_mutations::{gate, read};

#[test]
fn every_listed_mutation_fits_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = read().unwrap();
    assert!(all.len() >= 60, "{}", all.len());
    let mut names = HashSet::new();
    for mutation in &all {
        let name = &mutation.name;
        assert!(names.insert(name.as_str()), "{name} is listed twice");
        assert!(!mutation.checks.is_empty(), "{name} has no check");
        assert!(!mutation.edits.is_empty(), "{name} changes nothing");
        for edit in &mutation.edits {
            let text = fs::read_to_string(root.join(&edit.file)).unwrap();
            let changed = edit.apply(&text);
            let changed = changed.unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_ne!(changed, text, "{name}");
        }
    }
    assert!(gate().unwrap().len() >= 12);
}
