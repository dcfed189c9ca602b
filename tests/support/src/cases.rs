//! The number of cases for each property test.
//!
//! Normally this is proptest's own setting (`PROPTEST_CASES`). Under miri it is small: miri is a
//! thousand times slower, and looks for another kind of error. Under miri the tests also read no
//! files, so miri's isolation can stay on. Not here: properties.

use proptest::test_runner::Config;

/// The number of cases for each property under miri.
const FEW: u32 = 2;

pub fn cases() -> Config {
    let configured = Config::default();
    if cfg!(miri) {
        Config {
            cases: FEW,
            failure_persistence: None,
            ..configured
        }
    } else {
        configured
    }
}
