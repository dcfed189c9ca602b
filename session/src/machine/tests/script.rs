//! Random inputs, made as the fuzz target makes them.

use proptest::prelude::*;

use crate::fuzzing;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_script_breaks_a_promise(script in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzzing::machine(&script);
    }
}
