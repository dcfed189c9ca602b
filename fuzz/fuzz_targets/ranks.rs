//! Fuzzes arbitrary listings of a lock's directory. `lockkeeper_recipes::fuzzing::ranks` checks what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_recipes::fuzzing::ranks(input));
