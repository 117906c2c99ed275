#![no_main]
//! See `sim::fuzz_bodies::channels`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sim::fuzz_bodies::channels(data);
});
