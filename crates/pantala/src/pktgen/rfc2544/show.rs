//! Numbers and times, as terminal, Markdown and HTML have them.

use core::time::Duration;

use super::float;
use super::record::MilliFps;
use crate::pktgen::show::scaled;
use crate::show::ipfw::time::utc;

/// A rate: frames per second with a prefix.
pub(super) fn rate(rate: MilliFps) -> String {
    scaled(float(rate) / 1000.0, "pps")
}

/// Bits per second of frames of `size` bytes.
pub(super) fn bits(rate: MilliFps, size: u16) -> String {
    scaled(float(rate) / 1000.0 * f64::from(size) * 8.0, "bit/s")
}

pub(super) fn seconds(ms: u64) -> String {
    format!("{:.1} s", float(ms) / 1000.0)
}

/// A duration of which only the magnitude counts.
pub(super) fn left(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Milliseconds, readable.
pub(super) fn ms(ms: f64) -> String {
    match ms {
        ms if ms >= 10_000.0 => format!("{:.1} s", ms / 1000.0),
        ms if ms >= 1.0 => format!("{ms:.1} ms"),
        ms if ms > 0.0 => format!("{:.0} us", ms * 1000.0),
        _ => "0 ms".to_owned(),
    }
}

/// The part of a whole, in percent; empty if there is no whole.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", float(part) * 100.0 / float(whole)) }
}

/// Seconds since 1970 as a date and a time of day, UTC.
pub(super) fn date(seconds: u64) -> String {
    let text = utc(seconds);
    let (day, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{day} {} UTC", time.get(..5).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        assert_eq!([ms(0.0), ms(0.2), ms(12.34), ms(12_340.0)], ["0 ms", "200 us", "12.3 ms", "12.3 s"]);
        let times = [59, 61, 7261].map(|seconds| left(Duration::from_secs(seconds)));
        assert_eq!(times, ["59 s", "2 min", "2 h 1 min"]);
    }
}
