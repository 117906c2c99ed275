#![no_main]
//! See `net::firewall::nat::fuzz_bodies::nat`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| net::firewall::nat::fuzz_bodies::nat(data));
