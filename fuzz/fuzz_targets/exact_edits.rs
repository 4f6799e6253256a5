//! Fuzzes the decoder `exact_edits`; what must hold is in `proctor-decoders`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proctor_decoders::check("exact_edits", bytes));
