//! Each mutation of the list still fits the sources.
//!
//! Not here: whether the simulation finds each mutation. `--bin mutations` checks that.

use std::{collections::HashSet, fs, path::Path};

use lockkeeper_sim::mutations::read;

#[test]
fn every_listed_mutation_fits_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = read().unwrap();
    assert!(all.len() >= 20, "{}", all.len());
    let mut names = HashSet::new();
    for mutation in &all {
        assert!(
            names.insert(&mutation.name),
            "{} is listed twice",
            mutation.name
        );
        assert!(
            mutation.seeds > 0 && !mutation.edits.is_empty(),
            "{mutation:?}"
        );
        for edit in &mutation.edits {
            let text = fs::read_to_string(root.join(&edit.file)).unwrap();
            let changed = edit.apply(&text);
            let changed = changed.unwrap_or_else(|why| panic!("{}: {why}", mutation.name));
            assert_ne!(changed, text, "{}", mutation.name);
        }
    }
}
