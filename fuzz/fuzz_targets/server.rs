//! The engine of the embedded server under any clients. What must hold: `lockkeeper_server::fuzzing::server`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    lockkeeper_server::fuzzing::server(input);
});
