//! Rates: the grammar of `--rate`, and a pacer that is a function of time.

use super::grammar::{Decimal, split_unit};

/// Bytes on the line that no frame length counts: preamble, start of frame, gap (IEEE 802.3 §3.2.1, §4.4.2).
pub(crate) const LINE_OVERHEAD: u64 = 20;
const GRAMMAR: &str =
    "write a number and pps, kpps, mpps, gpps, bit, kbit, mbit, gbit or %, as in 1.5mpps, or max";
const LINE_GRAMMAR: &str = "write a number and bit, kbit, mbit or gbit, as in 10gbit";
/// Fractions of a unit that a rate may have: thousandths.
const PLACES: u32 = 3;
/// The largest rate, in thousandths of a frame or bit per second: a petabit.
const MOST: u64 = 1_000_000_000_000_000_000;
/// Longest backlog that a delayed generator may catch up, in nanoseconds of its rate. The rest is forfeited.
const BACKLOG_NS: u128 = 100_000_000;
const NS: u128 = 1_000_000_000;

/// A rate as it was asked for. Numbers are in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// As fast as the device takes frames.
    Max,
    /// Frames per second.
    Frames(u64),
    /// Bits of frames per second, frame check sequence included.
    Bits(u64),
    /// Percent of the line, whose frames have 20 bytes more than their length.
    Percent(u64),
}

impl Rate {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let (number, unit) = split_unit(text);
        if number.is_empty() {
            return Err(format!("`{text}` is no rate; {GRAMMAR}"));
        }
        let unit = unit.to_ascii_lowercase();
        if unit == "%" {
            let percent = thousandths(number, 1, text, GRAMMAR)?;
            return if percent <= 100_000 {
                Ok(Self::Percent(percent))
            } else {
                Err(format!("{text} is more than the line carries; 100% is the most"))
            };
        }
        if let Some(prefix) = unit.strip_suffix("pps") {
            return Ok(Self::Frames(thousandths(number, scale(prefix, GRAMMAR)?, text, GRAMMAR)?));
        }
        match unit.strip_suffix("bit") {
            Some(prefix) => Ok(Self::Bits(thousandths(number, scale(prefix, GRAMMAR)?, text, GRAMMAR)?)),
            None if unit.is_empty() => Err(format!("a unit is missing; {GRAMMAR}")),
            None => Err(format!("the unit `{unit}` is not known; {GRAMMAR}")),
        }
    }

    /// The share of worker `at` of `of`; the shares add up to the whole.
    pub(crate) fn share(self, at: u64, of: u64) -> Self {
        let of = of.max(1);
        let part = |whole: u64| {
            let until = |n: u64| u128::from(whole) * u128::from(n) / u128::from(of);
            u64::try_from(until(at + 1) - until(at)).unwrap_or(whole)
        };
        match self {
            Self::Max => Self::Max,
            Self::Frames(n) => Self::Frames(part(n)),
            Self::Bits(n) => Self::Bits(part(n)),
            Self::Percent(n) => Self::Percent(part(n)),
        }
    }
}

/// The speed of a line, bits per second.
pub(crate) fn parse_line(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let unit = unit.to_ascii_lowercase();
    let prefix =
        unit.strip_suffix("bit").ok_or_else(|| format!("`{text}` has no unit of a line; {LINE_GRAMMAR}"))?;
    let bits = thousandths(number, scale(prefix, LINE_GRAMMAR)?, text, LINE_GRAMMAR)? / 1000;
    if bits == 0 { Err(format!("{text} is no line; {LINE_GRAMMAR}")) } else { Ok(bits) }
}

fn scale(prefix: &str, grammar: &str) -> Result<u64, String> {
    match prefix {
        "" => Ok(1),
        "k" => Ok(1_000),
        "m" => Ok(1_000_000),
        "g" => Ok(1_000_000_000),
        other => Err(format!("the prefix `{other}` is not known; {grammar}")),
    }
}

fn thousandths(number: &str, scale: u64, text: &str, grammar: &str) -> Result<u64, String> {
    let decimal = Decimal::parse(number).ok_or_else(|| format!("`{number}` is no number; {grammar}"))?;
    let value = decimal.scaled(scale, PLACES).filter(|value| *value <= u128::from(MOST));
    let value = value.ok_or_else(|| format!("{text} is too much, or has too many decimals; {grammar}"))?;
    match u64::try_from(value) {
        Ok(0) | Err(_) => Err(format!("{text} is no rate; {grammar}")),
        Ok(value) => Ok(value),
    }
}

/// Says when the next burst may go. It has no clock: all times are nanoseconds since the beginning.
///
/// Each frame has a cost, in thousandths of a frame or of a bit. A burst may begin when the rate has earned what was
/// spent before it; so over any time the frames sent are those of the rate, plus at most one burst, without drift.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// Thousandths per second; 0: no limit.
    rate: u128,
    by: By,
    /// Thousandths, times nanoseconds per second.
    spent: u128,
    /// Forfeited frames, because too much had piled up.
    forfeited: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Frames,
    Bits,
    LineBits,
}

impl Pacer {
    /// Paces to `rate` on a line of `line` bits per second, which only a percentage needs.
    pub(crate) fn new(rate: Rate, line: u64) -> Self {
        let (rate, by) = match rate {
            Rate::Max => (0, By::Frames),
            Rate::Frames(rate) => (rate.into(), By::Frames),
            Rate::Bits(rate) => (rate.into(), By::Bits),
            // percents in thousandths of bits in ones: a hundred thousand of them are the line
            Rate::Percent(rate) => (u128::from(rate) * u128::from(line) / 100, By::LineBits),
        };
        Self { rate, by, spent: 0, forfeited: 0 }
    }

    /// Whether a burst may begin.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.rate == 0 || self.rate * u128::from(now_ns) >= self.spent
    }

    pub(crate) const fn is_unlimited(&self) -> bool {
        self.rate == 0
    }

    /// When the next burst may begin.
    pub(crate) fn due_ns(&self) -> u64 {
        match self.rate {
            0 => 0,
            rate => u64::try_from(self.spent.div_ceil(rate)).unwrap_or(u64::MAX),
        }
    }

    /// A frame of `len` bytes (with frame check sequence) goes.
    #[inline]
    pub(crate) fn spend(&mut self, len: u64) {
        let cost = match self.by {
            By::Frames => 1,
            By::Bits => len * 8,
            By::LineBits => (len + LINE_OVERHEAD) * 8,
        };
        self.spent += u128::from(cost) * 1000 * NS;
    }

    /// Forfeits what cannot be caught up with: a line-rate burst of a second would be no test of anything.
    pub(crate) fn bound_backlog(&mut self, now_ns: u64) {
        let least = (self.rate * u128::from(now_ns)).saturating_sub(self.rate * BACKLOG_NS);
        if self.spent < least {
            self.forfeited += least - self.spent;
            self.spent = least;
        }
    }

    /// For how long the rate was not kept, nanoseconds.
    pub(crate) fn behind_ns(&self) -> u64 {
        self.forfeited.checked_div(self.rate).map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_exactly() {
        for (text, rate) in [
            ("max", Rate::Max),
            ("1.5mpps", Rate::Frames(1_500_000_000)),
            ("500kpps", Rate::Frames(500_000_000)),
            ("1pps", Rate::Frames(1000)),
            ("0.5pps", Rate::Frames(500)),
            ("14.88Mpps", Rate::Frames(14_880_000_000)),
            ("1gbit", Rate::Bits(1_000_000_000_000)),
            ("64kbit", Rate::Bits(64_000_000)),
            ("30%", Rate::Percent(30_000)),
            ("0.1%", Rate::Percent(100)),
            ("100%", Rate::Percent(100_000)),
        ] {
            assert_eq!(Rate::parse(text), Ok(rate), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_explained() {
        for (text, says) in [
            ("", "`` is no rate"),
            ("5", "a unit is missing"),
            ("pps", "`pps` is no rate"),
            ("1.5.5mpps", "`1.5.5` is no number"),
            ("-1pps", "`-1pps` is no rate"),
            ("1tbit", "the prefix `t` is not known"),
            ("1mbps", "the unit `mbps` is not known"),
            ("0pps", "is no rate"),
            ("0.0001pps", "too many decimals"),
            ("101%", "100% is the most"),
            ("99999999999gpps", "too much"),
            ("fast", "`fast` is no rate"),
        ] {
            let wrong = Rate::parse(text).unwrap_err();
            assert!(wrong.contains(says), "{text}: {wrong}");
        }
    }

    #[test]
    fn lines_are_bits_per_second() {
        assert_eq!(parse_line("10gbit"), Ok(10_000_000_000));
        assert_eq!(parse_line("2.5Gbit"), Ok(2_500_000_000));
        for text in ["10", "10gpps", "gbit", "0bit", ""] {
            assert!(parse_line(text).unwrap_err().contains("10gbit"), "{text}");
        }
    }

    #[test]
    fn the_shares_of_the_workers_add_up() {
        let whole = Rate::Frames(1_000_001);
        let sum: u64 = (0..7).map(|at| if let Rate::Frames(n) = whole.share(at, 7) { n } else { 0 }).sum();
        assert_eq!(sum, 1_000_001);
    }

    /// Sends all that is due at each of `times`; answers how many frames went.
    fn send(pacer: &mut Pacer, times: impl IntoIterator<Item = u64>, burst: u64, len: u64) -> u64 {
        let mut sent = 0;
        for now in times {
            while pacer.is_due(now) {
                (0..burst).for_each(|_| pacer.spend(len));
                sent += burst;
            }
        }
        sent
    }

    #[test]
    fn over_any_time_the_frames_are_those_of_the_rate_and_at_most_one_burst_more() {
        for rate in [1_000, 3_333_000, 1_500_000_000, 1_234_567] {
            for burst in [1, 7, 32] {
                let mut pacer = Pacer::new(Rate::Frames(rate), 0);
                // looked at irregularly
                let times = (0..=2_000_000_000).step_by(999_983);
                let last = times.clone().last().unwrap();
                let sent = u128::from(send(&mut pacer, times, burst, 64));
                let earned = u128::from(rate) * u128::from(last);
                let whole = 1000 * NS;
                assert!(
                    sent * whole > earned && (sent - u128::from(burst)) * whole <= earned,
                    "{rate} {burst} {sent}"
                );
            }
        }
    }

    #[test]
    fn each_burst_comes_at_its_time() {
        let mut pacer = Pacer::new(Rate::Frames(1_000_000), 0); // a thousand per second
        for n in 0..100 {
            let due = pacer.due_ns();
            assert_eq!(due, n * 4_000_000);
            assert!(pacer.is_due(due) && (due == 0 || !pacer.is_due(due - 1)));
            (0..4).for_each(|_| pacer.spend(64));
        }
    }

    #[test]
    fn bits_count_the_frame_and_percents_the_gap_too() {
        let mut bits = Pacer::new(Rate::Bits(1_000_000_000_000), 0);
        bits.spend(1250);
        assert_eq!(bits.due_ns(), 10_000);
        // 64 bytes at 10 Gbit/s: 14 880 952 per second (RFC 2544 appendix B)
        let mut line = Pacer::new(Rate::Percent(100_000), 10_000_000_000);
        (0..14_880_952).for_each(|_| line.spend(64));
        assert!((999_999_000..=1_000_000_000).contains(&line.due_ns()), "{}", line.due_ns());
    }

    #[test]
    fn after_a_long_stop_a_tenth_of_a_second_is_caught_up_and_the_rest_is_said() {
        let mut pacer = Pacer::new(Rate::Frames(1_000_000), 0);
        pacer.bound_backlog(2_000_000_000);
        let sent = send(&mut pacer, [2_000_000_000], 1, 64);
        assert_eq!((sent, pacer.behind_ns()), (101, 1_900_000_000));
    }

    #[test]
    fn without_a_rate_it_is_always_due() {
        let mut pacer = Pacer::new(Rate::Max, 0);
        pacer.spend(1500);
        pacer.bound_backlog(u64::MAX);
        assert!(pacer.is_due(0) && pacer.due_ns() == 0 && pacer.behind_ns() == 0);
    }
}
