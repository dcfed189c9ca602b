//! Any bytes as a stream of frames that arrives in pieces. What must hold: `lockkeeper_proto::fuzzing::frames`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_proto::fuzzing::frames(input));
