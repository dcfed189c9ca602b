//! Fuzzes arbitrary bytes as a stream of frames that arrives in pieces.
//!
//! `lockkeeper_proto::fuzzing::frames` checks what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lockkeeper_proto::fuzzing::frames(input));
