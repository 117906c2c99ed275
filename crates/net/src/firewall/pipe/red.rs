//! Random early detection: the longer the queue is on average, the more packets it loses before it is full.

use ipfw::command::Aqm;

/// Bits behind the point of lengths.
const POINT: u32 = 16;
/// All of 2³².
const ONE: u64 = 1 << 32;

/// When to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Law {
    /// Weight of the newest length in the average, of 2³².
    weight: u64,
    /// Average length from which it drops; 16 bits behind the point.
    min: u64,
    /// Average length at which the share is `max_p`.
    max: u64,
    /// Share that it drops at `max`, of 2³².
    max_p: u64,
    /// Above `max` the share grows on to 1 at twice of it; else it is 1 at once.
    gentle: bool,
}

/// The state of one queue.
///
/// # Spec
/// S. Floyd, V. Jacobson: Random Early Detection Gateways for Congestion Avoidance, 1993, §4 and §7; "gentle" as
/// S. Floyd added it in 2000.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Red {
    /// Average length; 16 bits behind the point.
    average: u64,
    /// Packets since the last drop.
    count: u64,
}

impl Law {
    /// `None` for another kind of control.
    pub(super) fn of(aqm: &Aqm) -> Option<Self> {
        let Aqm::Red { weight, min, max, max_p, gentle } = *aqm else { return None };
        let (min, max) = (u64::from(min) << POINT, u64::from(max.max(min + 1)) << POINT);
        Some(Self { weight: share(weight), min, max, max_p: share(max_p), gentle })
    }

    /// The share to drop at an average length, of 2³².
    fn share(&self, average: u64) -> u64 {
        if average < self.min {
            0
        } else if average < self.max {
            part(self.max_p, average - self.min, self.max - self.min)
        } else if self.gentle && average < 2 * self.max {
            self.max_p + part(ONE - self.max_p, average - self.max, self.max)
        } else {
            ONE
        }
    }
}

impl Red {
    /// Whether a packet that comes now, when the queue has this length, is dropped. `missed` is how many could have
    /// been sent while it was empty; `random` is any number.
    pub(super) fn drops(&mut self, law: &Law, length: usize, missed: u64, random: u32) -> bool {
        let length = (length as u64) << POINT;
        self.average = part(self.average, power(ONE - law.weight, missed), ONE);
        self.average = part(self.average, ONE - law.weight, ONE) + part(length, law.weight, ONE);
        let share = law.share(self.average);
        if share == 0 {
            self.count = 0;
            return false;
        }
        // So that drops are spread evenly: one in about 1/share packets, and not several in a row by chance.
        let rest = ONE.saturating_sub(share.saturating_mul(self.count));
        let is_drop = rest <= share || u64::from(random) < part(share, ONE, rest);
        self.count = if is_drop { 0 } else { self.count + 1 };
        is_drop
    }
}

/// `value * a / b`.
fn part(value: u64, a: u64, b: u64) -> u64 {
    let product = u128::from(value) * u128::from(a) / u128::from(b.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// The `n`th power of a share of 2³².
fn power(mut base: u64, mut n: u64) -> u64 {
    let mut product = ONE;
    while n > 0 && product > 0 {
        if n & 1 == 1 {
            product = part(product, base, ONE);
        }
        (base, n) = (part(base, base, ONE), n >> 1);
    }
    product
}

/// A share between 0 and 1, of 2³².
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 2³²")]
fn share(of: f64) -> u64 {
    (of.clamp(0.0, 1.0) * 4_294_967_296.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(gentle: bool) -> Law {
        Law::of(&Aqm::Red { weight: 0.25, min: 5, max: 15, max_p: 0.5, gentle }).unwrap()
    }

    /// Share of 10,000 packets that are dropped while the queue has this length.
    fn dropped(law: &Law, length: usize) -> f64 {
        let (mut red, mut secret) = (Red::default(), base::secret::Secret::new(3));
        for _ in 0..100 {
            red.drops(law, length, 0, u32::MAX);
        }
        let draw = |secret: &mut base::secret::Secret| u32::try_from(secret.draw() >> 32).unwrap();
        let drops = (0..10_000).filter(|_| red.drops(law, length, 0, draw(&mut secret))).count();
        f64::from(u32::try_from(drops).unwrap()) / 10_000.0
    }

    #[test]
    fn the_share_grows_from_the_lower_to_the_upper_length() {
        assert_eq!(dropped(&law(false), 4), 0.0);
        let (less, more) = (dropped(&law(false), 7), dropped(&law(false), 14));
        // Spread evenly, one in 1/p comes on average after (1/p + 1)/2.
        assert!((0.1..0.25).contains(&less) && (0.4..0.75).contains(&more), "{less} {more}");
        assert_eq!(dropped(&law(false), 16), 1.0);
    }

    #[test]
    fn the_gentle_one_drops_all_only_at_twice_the_upper_length() {
        let share = dropped(&law(true), 20);
        assert!((0.6..1.0).contains(&share), "{share}");
        assert_eq!(dropped(&law(true), 31), 1.0);
    }

    #[test]
    fn a_burst_is_let_in_and_time_makes_forget() {
        let slow = Law::of(&Aqm::Red { weight: 0.002, min: 5, max: 15, max_p: 0.5, gentle: false }).unwrap();
        let mut red = Red::default();
        assert!((0..50).all(|length| !red.drops(&slow, length, 0, 0)), "the average is low still");
        for _ in 0..10_000 {
            red.drops(&slow, 50, 0, u32::MAX);
        }
        assert!(red.drops(&slow, 50, 0, u32::MAX));
        assert!(red.drops(&slow, 0, 10, 0), "a moment is not enough");
        assert!(!red.drops(&slow, 0, 10_000, 0));
    }
}
