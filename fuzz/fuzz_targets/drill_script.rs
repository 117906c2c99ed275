#![no_main]
//! See `drill::fuzz_bodies::script`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| drill::fuzz_bodies::script(data));
