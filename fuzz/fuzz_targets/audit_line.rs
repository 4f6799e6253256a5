//! Fuzzes the decoder `audit_line`; what must hold is in `proctor-decoders`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proctor_decoders::check("audit_line", bytes));
