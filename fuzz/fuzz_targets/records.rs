//! Fuzzes arbitrary bytes as every record. `lockkeeper_fuzz_checks::records` checks what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_fuzz_checks::records(input));
