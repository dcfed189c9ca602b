//! Any story at all, as the fuzz target tells it.

use proptest::prelude::*;

use crate::fuzzing;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_story_breaks_a_promise(script in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzzing::machine(&script);
    }
}
