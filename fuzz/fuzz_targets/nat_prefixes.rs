#![no_main]
//! See `net::firewall::nat::fuzz_bodies::prefixes`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| net::firewall::nat::fuzz_bodies::prefixes(data));
