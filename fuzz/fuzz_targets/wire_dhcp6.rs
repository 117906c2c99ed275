#![no_main]
//! See `wire::fuzz_bodies::dhcp6`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzz_bodies::dhcp6(data));
