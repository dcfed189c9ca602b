//! How many cases a property is tried on: as many as proptest is told to (`PROPTEST_CASES`), and few under miri, which is a
//! thousand times slower and looks for another kind of error.
//!
//! Nothing is read from files under miri, so that its isolation may stay. Not here: properties.

use proptest::test_runner::Config;

/// Under miri, cases of each property.
const FEW: u32 = 2;

pub(crate) fn cases() -> Config {
    let told = Config::default();
    if cfg!(miri) {
        Config {
            cases: FEW,
            failure_persistence: None,
            ..told
        }
    } else {
        told
    }
}
