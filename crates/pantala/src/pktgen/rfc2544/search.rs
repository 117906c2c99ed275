//! A binary search for the highest load that passes (RFC 2544 §26.1, RFC 9004 §5).

/// A share of one hundred thousand: thousandths of a percent.
const WHOLE: u128 = 100_000;

/// The bounds of the answer: `low` has passed, `high` has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Search {
    low: u64,
    high: Option<u64>,
    top: u64,
    /// Thousandths of a percent of the answer.
    resolution: u32,
    /// Nothing below is tried.
    floor: u64,
}

impl Search {
    /// Searches from `floor` to `top`, both included.
    pub(super) fn new(floor: u64, top: u64, resolution: u32) -> Self {
        let floor = floor.clamp(1, top.max(1));
        Self { low: 0, high: None, top: top.max(floor), resolution, floor }
    }

    /// The load to try next; `None` if the answer is known.
    pub(super) fn next(&self) -> Option<u64> {
        let Some(high) = self.high else { return (self.low < self.top).then_some(self.top) };
        if self.low == 0 {
            return (high > self.floor).then(|| (high / 2).max(self.floor));
        }
        let between = self.low + (high - self.low) / 2;
        (high - self.low > self.step()).then_some(between)
    }

    /// The load passed.
    pub(super) fn passed(&mut self, load: u64) {
        self.low = self.low.max(load);
    }

    /// The load did not pass.
    pub(super) fn failed(&mut self, load: u64) {
        let load = load.max(self.low + 1);
        self.high = Some(self.high.map_or(load, |high| high.min(load)));
    }

    /// The highest load that has passed, 0 if none has.
    pub(super) const fn answer(&self) -> u64 {
        self.low
    }

    /// Loads that are yet to be tried, about.
    pub(super) fn left(&self) -> u32 {
        let Some(high) = self.high else { return 2 + (WHOLE / u128::from(self.resolution.max(1))).ilog2() };
        let (width, step) = (high.saturating_sub(self.low), self.step().max(high / 1000 + 1));
        if self.next().is_none() { 0 } else { 1 + (width / step).max(1).ilog2() }
    }

    /// The distance of the bounds at which the answer is known.
    fn step(&self) -> u64 {
        let step = u128::from(self.low) * u128::from(self.resolution) / WHOLE;
        u64::try_from(step).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches over a device that passes what is not above `truth`; answers the result and the trials.
    fn search(truth: u64, floor: u64, top: u64, resolution: u32) -> (u64, Vec<u64>) {
        let mut search = Search::new(floor, top, resolution);
        let mut tried = Vec::new();
        while let Some(load) = search.next() {
            tried.push(load);
            if load <= truth {
                search.passed(load)
            } else {
                search.failed(load)
            }
            assert!(tried.len() < 200, "{tried:?}");
        }
        (search.answer(), tried)
    }

    #[test]
    fn a_device_that_is_never_full_is_tried_once() {
        assert_eq!(search(u64::MAX, 1, 1000, 500), (1000, vec![1000]));
    }

    #[test]
    fn a_device_that_passes_nothing_ends_at_the_lowest_load() {
        let (answer, tried) = search(0, 10, 1000, 500);
        assert_eq!((answer, tried.last()), (0, Some(&10)));
    }

    proptest! {
        #[test]
        fn the_answer_is_the_highest_passing_load_within_the_resolution(
            top in 1_u64..1 << 50,
            share in 0.0_f64..1.2,
            resolution in 1_u32..20_000,
            floor in 1_u64..1 << 20,
        ) {
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any load")]
            let truth = (top as f64 * share) as u64;
            let (answer, tried) = search(truth, floor, top, resolution);
            let floor = floor.min(top);
            prop_assert!(answer == 0 || tried.contains(&answer), "it was tried");
            prop_assert!(answer <= truth.min(top));
            if truth >= floor {
                let step = (u128::from(answer) * u128::from(resolution) / WHOLE).max(1);
                prop_assert!(u128::from(truth.min(top) - answer) <= step, "{answer} {truth} {step}");
            } else {
                prop_assert_eq!(answer, 0);
            }
            let mut once = tried.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), tried.len(), "no load is tried twice");
        }
    }
}
