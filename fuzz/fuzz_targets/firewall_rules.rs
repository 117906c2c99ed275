#![no_main]
//! See `net::firewall::ruleset::fuzz_bodies::compiled_equals_plain`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = net::firewall::ruleset::fuzz_bodies::compiled_equals_plain(data);
});
