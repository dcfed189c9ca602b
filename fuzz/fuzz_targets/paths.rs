//! Any bytes as a path. What must hold: `lockkeeper_proto::fuzzing::paths`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_proto::fuzzing::paths(input));
