#![no_main]
//! See `sim::fuzz_bodies::hosts`.

/// As few as meet each other: what they do takes nearly all of the time.
const CONNECTIONS: usize = 8;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    sim::fuzz_bodies::hosts(data, CONNECTIONS);
});
