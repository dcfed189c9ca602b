//! Fuzzes arbitrary listings of a lock's directory. `lockkeeper_fuzz_checks::ranks` checks what
//! must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_fuzz_checks::ranks(input));
