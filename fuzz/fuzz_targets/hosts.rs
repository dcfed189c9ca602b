//! Any bytes as a list of servers. What must hold: `lockkeeper_session::fuzzing::hosts`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_session::fuzzing::hosts(input));
