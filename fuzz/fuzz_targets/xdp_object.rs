#![no_main]
//! See `dev::xdp::fuzz_bodies::any_object`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| dev::xdp::fuzz_bodies::any_object(data));
