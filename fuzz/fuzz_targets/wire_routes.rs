#![no_main]
//! See `wire::fuzz_bodies::routes`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz_bodies::routes(data));
