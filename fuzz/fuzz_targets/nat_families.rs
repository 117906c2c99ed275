#![no_main]
//! See `net::firewall::nat::fuzz_bodies::families_of_any`, and `families`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    net::firewall::nat::fuzz_bodies::families_of_any(data);
    net::firewall::nat::fuzz_bodies::families(data);
});
