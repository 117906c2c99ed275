#![no_main]
//! See `pantala::fuzz_bodies::frames`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pantala::fuzz_bodies::frames(data));
