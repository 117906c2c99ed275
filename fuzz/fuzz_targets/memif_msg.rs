#![no_main]
//! See `dev::memif::msg::any_bytes`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| dev::memif::msg::any_bytes(data));
