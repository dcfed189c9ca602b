//! Any listing of a lock's directory. What must hold: `lockkeeper_recipes::fuzzing::ranks`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_recipes::fuzzing::ranks(input));
