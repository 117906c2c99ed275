#![no_main]
//! See `wire::fuzz_bodies::ether`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz_bodies::ether(data));
