#![no_main]
//! See `sim::fuzz_bodies::segments`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sim::fuzz_bodies::segments(data);
});
