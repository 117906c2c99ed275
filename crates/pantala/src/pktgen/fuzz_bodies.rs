//! Properties of any argument and any frame. The fuzz targets check them, and so do the ordinary tests.
#![expect(clippy::missing_panics_doc, reason = "to panic when something does not hold is what they are for")]

use super::args::Args;
use super::grammar::{self, Addrs, Ports};
use super::measure::{Expect, Measure};
use super::payload::{Probe, Seen, look};
use super::plan::Plan;
use super::rate::{self, Rate};
use super::sizes::{SIZE_MAX, SIZE_MIN, Sizes};
use super::station::{Station, learned};

/// No text makes a grammar panic; what is understood is within its bounds; what is not is explained.
pub fn words(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    explained(Rate::parse(text));
    explained(rate::parse_line(text));
    explained(grammar::duration(text));
    explained(grammar::cpus(text));
    if let Some(percent) = explained(grammar::percent(text)) {
        assert!(percent <= 100_000);
    }
    if let Some(sizes) = explained(Sizes::parse(text)) {
        assert!(SIZE_MIN <= sizes.least() && sizes.least() <= sizes.most() && sizes.most() <= SIZE_MAX);
    }
    if let Some(addrs) = explained(Addrs::parse(text)) {
        assert!(addrs.contains(addrs.first()) && addrs.contains(addrs.nth(addrs.span())));
        assert!([0, 1, u128::MAX].into_iter().all(|at| addrs.contains(addrs.nth(at))));
    }
    if let Some(ports) = explained(Ports::parse(text)) {
        assert!((ports.first..=ports.last).contains(&ports.nth(u64::MAX)));
    }
}

fn explained<T>(result: Result<T, String>) -> Option<T> {
    if let Err(why) = &result {
        assert!(why.contains("; "), "says what would have been right: {why}");
    }
    result.ok()
}

/// No command line panics; what does not fit is explained.
pub fn arguments(words: &[&str]) {
    if let Ok(args) = Args::read(words)
        && let Err(why) = Plan::new(args)
    {
        assert!(why.len() > 20, "{why}");
    }
}

/// Whatever frame comes: it is counted once, answered or not, and nothing panics.
pub fn frames(data: &[u8]) {
    let addresses =
        ["0.0.0.0/0", "::/0"].into_iter().filter_map(|text| Addrs::parse(text).ok()).collect::<Vec<_>>();
    let station =
        Station { mac: wire::ether::Mac([2, 0, 0, 0, 0, 1]), addresses: addresses.clone(), except: None };
    let mut measure = Measure::new(Expect::All);
    // the first byte says how long each frame is
    let len = usize::from(data.first().copied().unwrap_or(0)).max(1);
    for (at, frame) in (1..).zip(data.chunks(len)) {
        let counted = measure.frame(at, frame, frame.len());
        if !counted && let Some(answer) = station.answer(frame) {
            assert!(answer.bytes().len() >= wire::ether::MIN_FRAME_LEN);
        }
        let _ = addresses.iter().find_map(|addrs| learned(frame, addrs.first()));
        if let Seen::Probe(probe) = look(frame) {
            assert_eq!(Probe::parse(&probe.to_bytes()), Some(probe));
        }
        let tally = &measure.tally;
        assert_eq!(tally.frames, tally.probes + tally.plain + tally.other + tally.learning + tally.untracked);
        assert_eq!(tally.frames, at);
    }
}

#[cfg(test)]
mod tests;
