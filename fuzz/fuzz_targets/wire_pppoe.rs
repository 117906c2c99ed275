#![no_main]
//! See `wire::fuzz_bodies::pppoe`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz_bodies::pppoe(data));
