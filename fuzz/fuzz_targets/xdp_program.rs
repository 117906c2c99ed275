#![no_main]
//! See `dev::xdp::fuzz_bodies::any_program`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _verdict = dev::xdp::fuzz_bodies::any_program(data);
});
