//! Any bytes as every record. What must hold: `lockkeeper_proto::fuzzing::records`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_proto::fuzzing::records(input));
