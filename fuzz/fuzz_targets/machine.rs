//! Any story told to a session machine: frames, lost connections, requests, time. What must hold: `lockkeeper_session::fuzzing::machine`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_session::fuzzing::machine(input));
