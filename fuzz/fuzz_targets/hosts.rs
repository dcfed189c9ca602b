//! Fuzzes arbitrary bytes as a list of servers. `lockkeeper_session::fuzzing::hosts` checks what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_session::fuzzing::hosts(input));
