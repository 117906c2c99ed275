#![no_main]
//! See `ipfw::fuzz_bodies::rule`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| ipfw::fuzz_bodies::rule(data));
