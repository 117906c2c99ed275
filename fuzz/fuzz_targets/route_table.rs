#![no_main]
//! See `pantala::fuzz_bodies::routes`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pantala::fuzz_bodies::routes(data));
