//! Each mutation of the list still fits the sources.
//!
//! Not here: whether its checks find it. `cargo run -p lockkeeper-mutations` does that.

use std::{collections::HashSet, fs, path::Path};

use lockkeeper_mutations::{Mutation, gate, read, with_switches};

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
}

#[test]
fn every_fault_of_the_gate_has_a_switch() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap();
    let gate = gate().unwrap();
    assert!(gate.len() >= 40, "{}", gate.len());
    let texts = with_switches(&gate, read).unwrap();
    for Mutation { name, edits, .. } in gate {
        let switch = format!("== Ok({name:?})");
        for edit in edits {
            assert!(texts[&edit.file].contains(&switch), "{name}");
        }
    }
}
