#![no_main]
//! See `dev::memif::any_slave` and `dev::memif::any_master`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((role, rest)) = data.split_first() else { return };
    let _ = if role & 1 == 0 { dev::memif::any_slave(rest) } else { dev::memif::any_master(rest) };
});
