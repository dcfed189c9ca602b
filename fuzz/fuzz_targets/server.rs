//! Fuzzes the engine of the embedded server with arbitrary clients.
//!
//! `lockkeeper_fuzz_checks::server` checks what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    lockkeeper_fuzz_checks::server(input);
});
