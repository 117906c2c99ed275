//! Curves of the congestion window, and goodput: two ends, and a path with a bottleneck, in virtual time. The output
//! is kept in `docs/design/congestion`; `SIM_BLESS=1` writes it; read it before trusting it.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod path;

use core::fmt::Write as _;
use std::path::Path as File;

use net::tcp::congestion::Algorithm;
use net::time::Duration;

use path::{Path, Run, Sample};

const BOTH: [(&str, Algorithm); 2] = [("CUBIC", Algorithm::Cubic), ("NewReno", Algorithm::NewReno)];
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Bytes of a segment with headers and timestamps.
const SEGMENT: u64 = 1500;

/// Holds a text to what is kept, or keeps it.
fn is_kept(name: &str, text: &str) {
    let file = File::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/congestion").join(name);
    if std::env::var_os("SIM_BLESS").is_some() {
        return std::fs::write(file, text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let changed = kept.lines().zip(text.lines()).position(|(kept, came)| kept != came);
    assert!(
        kept == text,
        "{name} is another from line {:?} on; SIM_BLESS=1 keeps it",
        changed.map(|at| at + 1)
    );
}

/// A path of 10 Mbit/s and 100 ms whose queue holds as much as the path.
fn long_path() -> Path {
    Path { rate_bps: 10_000_000, delay: 50 * MS, queue_bytes: 125_000, loss_ppm: 0 }
}

/// A line for each sample: the window as a bar, and in numbers.
fn curve(samples: &[Sample]) -> String {
    let mut text = "   s   cwnd ssthresh  queue  again\n".to_owned();
    for sample in samples {
        let threshold = sample.threshold.map_or_else(|| "-".to_owned(), |segments| segments.to_string());
        let bar = "#".repeat(usize::try_from(sample.window / 4).unwrap());
        let (at, window, queue, again) =
            (sample.at.as_secs_f64(), sample.window, sample.queued, sample.again);
        writeln!(text, "{at:4.1} {window:6} {threshold:>8} {queue:6} {again:6}  {bar}").unwrap();
    }
    text
}

#[test]
fn the_curves_are_those_that_are_kept() {
    for (name, algorithm) in BOTH {
        let samples = Run::new(long_path(), algorithm, 1).samples(60 * SECOND, SECOND / 2, |_| true);
        is_kept(&format!("{}.txt", name.to_lowercase()), &curve(&samples));
        // From the first loss on, the bottleneck is never without work for long, and no reduction is below what is left.
        let (beta, settled) = (if algorithm == Algorithm::Cubic { 0.7 } else { 0.5 }, &samples[20..]);
        let least = settled.iter().map(|sample| sample.window).min().unwrap();
        let most = settled.iter().map(|sample| sample.window).max().unwrap();
        assert!(
            f64::from(least) >= 0.95 * beta * f64::from(most),
            "{name}: {least} of {most}: twice in a window"
        );
    }
}

#[test]
fn after_a_pause_the_curve_is_the_one_that_is_kept() {
    let speaks = |at: Duration| !(Duration::from_secs(15)..Duration::from_secs(18)).contains(&at);
    let samples = Run::new(long_path(), Algorithm::Cubic, 1).samples(30 * SECOND, SECOND / 2, speaks);
    is_kept("pause.txt", &curve(&samples));
}

#[test]
fn goodput_is_what_is_kept() {
    let mut text =
        "20 Mbit/s for 10 s, slow start included; in Mbit/s of data, with loss the mean of four runs\n\n"
            .to_owned();
    writeln!(text, "{:>7} {:>7} {:>12} {:>8} {:>8}", "loss", "RTT", "queue", "CUBIC", "NewReno").unwrap();
    for (loss_ppm, rtt) in
        [0, 1000, 10_000, 20_000].into_iter().flat_map(|loss| [2, 20, 100, 200].map(|rtt| (loss, rtt)))
    {
        for (share, quarters) in [("1/4", 1_u64), ("1", 4), ("4", 16)] {
            let queue_bytes = (20_000_000 / 8 * rtt / 1000 * quarters / 4).max(4 * SEGMENT);
            let delay = MS * u32::try_from(rtt / 2).unwrap();
            let path = Path { rate_bps: 20_000_000, delay, queue_bytes, loss_ppm };
            // Which segments are lost makes more of a difference than most of what is to be seen here.
            let runs = if loss_ppm == 0 { 1 } else { 4 };
            let [cubic, reno] = BOTH.map(|(_, algorithm)| {
                let all = (1..=runs).map(|seed| Run::new(path, algorithm, seed).goodput(10 * SECOND));
                all.sum::<f64>() / f64::from(u32::try_from(runs).unwrap())
            });
            let loss = f64::from(loss_ppm) / 10_000.0;
            writeln!(text, "{loss:6.1}% {rtt:4} ms {share:>4} of path {cubic:8.1} {reno:8.1}").unwrap();
        }
    }
    is_kept("goodput.txt", &text);
}
