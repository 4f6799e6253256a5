//! Fuzzes the decoder `tokens_json`; what must hold is in `proctor-decoders`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proctor_decoders::check("tokens_json", bytes));
