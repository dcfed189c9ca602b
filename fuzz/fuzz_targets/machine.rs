//! Fuzzes a session machine with arbitrary sequences of frames, lost connections, requests and time
//! steps.
//!
//! `lockkeeper_fuzz_checks::machine` checks what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_fuzz_checks::machine(input));
