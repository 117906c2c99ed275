//! Medians, quartiles, and what may be said of them.

use serde::Serialize;

use super::contest::Need;

/// The middle half of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quartiles {
    pub low: f64,
    pub median: f64,
    pub high: f64,
    /// Number of samples.
    pub n: usize,
}

/// The verdict on a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// By 1.25 or more, and in three of four rounds at least.
    Ahead,
    /// Neither.
    Level,
    /// The inverse of ahead.
    Behind,
    /// The claim holds.
    Holds,
    /// Less than was claimed.
    Short,
    /// Nothing was claimed.
    Shown,
    /// There is no number that may be printed.
    Refused,
}

/// By how much the median has to be better for a program to be ahead.
const AHEAD: f64 = 1.25;

impl Quartiles {
    /// `None` of no numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        (n > 0).then(|| Self { low: at(&sorted, 1), median: at(&sorted, 2), high: at(&sorted, 3), n })
    }

    /// Returns the verdict of this ratio on a claim.
    pub fn verdict(&self, need: Need) -> Verdict {
        match need {
            Need::Shown => Verdict::Shown,
            Need::AtLeast(least) if self.median >= least => Verdict::Holds,
            Need::AtLeast(_) => Verdict::Short,
            Need::Ahead if self.median >= AHEAD && self.low > 1.0 => Verdict::Ahead,
            Need::Ahead if self.median <= 1.0 / AHEAD && self.high < 1.0 => Verdict::Behind,
            Need::Ahead => Verdict::Level,
        }
    }
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Level => "level",
            Self::Behind => "behind",
            Self::Holds => "holds",
            Self::Short => "short",
            Self::Shown => "",
            Self::Refused => "refused",
        }
    }
}

/// The number below which so many quarters of sorted ones lie; between two of them by proportion.
fn at(sorted: &[f64], quarters: usize) -> f64 {
    let place = quarters * (sorted.len() - 1);
    let (low, high) = (sorted[place / 4], sorted[place.div_ceil(4)]);
    low + (high - low) * (place % 4) as f64 / 4.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_numbers_by_proportion() {
        let quartiles = Quartiles::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(quartiles, Quartiles { low: 1.75, median: 2.5, high: 3.25, n: 4 });
        assert_eq!(Quartiles::of([7.0]).unwrap(), Quartiles { low: 7.0, median: 7.0, high: 7.0, n: 1 });
        assert_eq!(Quartiles::of([]), None);
    }

    #[test]
    fn ahead_is_by_a_quarter_and_in_three_rounds_of_four() {
        let verdict = |low, median| Quartiles { low, median, high: 2.0, n: 20 }.verdict(Need::Ahead);
        assert_eq!(verdict(1.01, 1.25), Verdict::Ahead);
        assert_eq!(verdict(1.01, 1.24), Verdict::Level);
        assert_eq!(verdict(0.99, 1.60), Verdict::Level);
    }

    #[test]
    fn behind_is_what_ahead_is_for_the_other() {
        let verdict = |median, high| Quartiles { low: 0.5, median, high, n: 20 }.verdict(Need::Ahead);
        assert_eq!(verdict(0.80, 0.99), Verdict::Behind);
        assert_eq!(verdict(0.81, 0.99), Verdict::Level);
        assert_eq!(verdict(0.70, 1.01), Verdict::Level);
    }

    #[test]
    fn a_claim_holds_from_its_bound_on() {
        let quartiles = Quartiles { low: 0.5, median: 0.95, high: 1.0, n: 20 };
        assert_eq!(quartiles.verdict(Need::AtLeast(0.95)), Verdict::Holds);
        assert_eq!(quartiles.verdict(Need::AtLeast(0.96)), Verdict::Short);
    }
}
