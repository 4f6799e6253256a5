//! Fuzzes the decoder `unified_diff`; what must hold is in `proctor-decoders`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proctor_decoders::check("unified_diff", bytes));
