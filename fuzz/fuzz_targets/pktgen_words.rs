#![no_main]
//! See `pantala::fuzz_bodies::words` and `arguments`: the first byte chooses.

libfuzzer_sys::fuzz_target!(|data: &[u8]| match data.split_first() {
    Some((0, line)) => {
        let line = String::from_utf8_lossy(line);
        pantala::fuzz_bodies::arguments(&line.split('\n').collect::<Vec<_>>());
    }
    Some((_, text)) => pantala::fuzz_bodies::words(text),
    None => {}
});
