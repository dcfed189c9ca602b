//! Fuzzes arbitrary bytes as a path. `lockkeeper_fuzz_checks::paths` checks what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_fuzz_checks::paths(input));
