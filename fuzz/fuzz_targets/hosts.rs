//! Fuzzes arbitrary bytes as a list of servers. `lockkeeper_fuzz_checks::hosts` checks what must
//! hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_fuzz_checks::hosts(input));
