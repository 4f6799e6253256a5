//! Fuzzes the decoder `client_file`; what must hold is in `proctor-decoders`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proctor_decoders::check("client_file", bytes));
