#![no_main]
//! See `net::firewall::nat::fuzz_bodies::round_trip`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| net::firewall::nat::fuzz_bodies::round_trip(data));
