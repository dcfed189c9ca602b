//! Fuzzes arbitrary bytes as a stream of frames that arrives in pieces.
//!
//! `lockkeeper_fuzz_checks::frames` checks what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_fuzz_checks::frames(input));
