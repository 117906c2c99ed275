//! Rate limits: token buckets, one for all and one for each destination.

use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;

use crate::base::secret::Secret;
use crate::base::time::Instant;

/// The rate and burst of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Interval of tokens.
    pub(crate) every: Duration,
    /// Tokens in a full bucket.
    pub(crate) burst: u32,
}

/// Rate limits of a kind of message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// To one destination prefix.
    pub(crate) each: Rate,
    /// By this CPU in all. What is sent costs one to three tokens, so the rate is half of what this says.
    pub(crate) all: Rate,
}

/// ICMP errors: 20 in a second to one destination, 1000 in all. A hop that is traced sends a few.
pub(crate) const ERRORS: Rates = Rates {
    each: Rate { every: Duration::from_millis(50), burst: 32 },
    all: Rate { every: Duration::from_micros(500), burst: 256 },
};

/// Resets of closed TCP ports: 100 in a second to one destination, 2000 in all.
pub(crate) const RESETS: Rates = Rates {
    each: Rate { every: Duration::from_millis(10), burst: 100 },
    all: Rate { every: Duration::from_micros(250), burst: 512 },
};

/// Limits what is sent in answer to packets that any host can send.
///
/// A destination has a bucket of its own, which is taken from first, so that a flood from one place uses up that
/// place's share only. The bucket for all is the remaining limit when sources are forged. It loses one to three
/// tokens at a time, drawn in secret: a sender of a known number of probes cannot tell from the number of replies
/// whether other hosts were answered too (SAD DNS, CVE-2020-25705).
//= https://www.rfc-editor.org/rfc/rfc1812#section-4.3.2.8
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
pub(crate) struct Limiter {
    rates: Rates,
    all: Bucket,
    each: Box<[[Slot; WAYS]; SETS]>,
}

/// Sets of buckets for destinations.
const SETS: usize = 64;
/// Buckets in a set: a destination has its place in any of them.
const WAYS: usize = 4;

/// A bucket, kept as the moment at which it will be full: at the beginning it has been for ever.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    full_at: Instant,
}

/// One destination's bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u32,
    bucket: Bucket,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Slot>() <= 16);

impl Limiter {
    pub(crate) fn new(rates: Rates) -> Self {
        Self { rates, all: Bucket::default(), each: Box::new([[Slot::default(); WAYS]; SETS]) }
    }

    /// Whether one more may be sent to `to`; if so, it is counted as sent.
    pub(crate) fn allows(&mut self, now: Instant, to: IpAddr, secret: &mut Secret) -> bool {
        let Rates { each: rate, all } = self.rates;
        let cost = 1 + u32::try_from(secret.below(3)).unwrap_or(2);
        let each = &mut self.slot(to, secret).bucket;
        let Some(each_after) = each.without(1, now, rate) else { return false };
        // A flood of forged sources ends here, and leaves the destinations' buckets as they were.
        let Some(all_after) = self.all.without(cost, now, all) else { return false };
        self.slot(to, secret).bucket = each_after;
        self.all = all_after;
        true
    }

    /// The destination's bucket. If it has none, it takes over the one of its set that was full first: of the four,
    /// the one that says least.
    fn slot(&mut self, to: IpAddr, secret: &Secret) -> &mut Slot {
        let (set, tag) = place(to, secret);
        let set = &mut self.each[set];
        let own = set.iter().position(|slot| slot.tag == tag);
        let at = own.unwrap_or_else(|| {
            let oldest = (0..WAYS).min_by_key(|way| set[*way].bucket.full_at).unwrap_or_default();
            set[oldest] = Slot { tag, bucket: Bucket::default() };
            oldest
        });
        &mut set[at]
    }
}

/// Returns set and tag of the prefix that `to` is in: a /24 or a /64, because the owner of one address has them all.
fn place(to: IpAddr, secret: &Secret) -> (usize, u32) {
    let mut hasher = secret.hasher();
    match to {
        IpAddr::V4(addr) => hasher.write_u32(addr.to_bits() >> 8),
        IpAddr::V6(addr) => hasher.write_u128(addr.to_bits() >> 64),
    }
    let [a, b, c, d, set, ..] = hasher.finish().to_le_bytes();
    (usize::from(set) % SETS, u32::from_le_bytes([a, b, c, d]))
}

impl Bucket {
    /// The bucket after `tokens` are taken; `None` if it has not so many.
    fn without(self, tokens: u32, now: Instant, rate: Rate) -> Option<Self> {
        let full_at = self.full_at.max(now) + rate.every * tokens;
        (full_at <= now + rate.every * rate.burst).then_some(Self { full_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    const NOW: Instant = Instant::from_ns(10_000_000_000);

    struct Bench {
        limiter: Limiter,
        secret: Secret,
    }

    impl Bench {
        fn new() -> Self {
            Self { limiter: Limiter::new(ERRORS), secret: Secret::new(7) }
        }

        fn allowed(&mut self, now: Instant, to: impl Iterator<Item = IpAddr>) -> u32 {
            to.map(|to| u32::from(self.limiter.allows(now, to, &mut self.secret))).sum()
        }
    }

    fn one(family: u8) -> IpAddr {
        if family == 4 { Ipv4Addr::new(192, 0, 2, 9).into() } else { Ipv6Addr::LOCALHOST.into() }
    }

    /// Destinations of different prefixes.
    fn many(family: u8) -> impl Iterator<Item = IpAddr> {
        (0u32..).map(move |i| match family {
            4 => Ipv4Addr::from_bits((10 << 24) + (i << 8)).into(),
            _ => Ipv6Addr::from_bits((0x2001_0db8 << 96) + (u128::from(i) << 64)).into(),
        })
    }

    #[test]
    fn one_destination_gets_a_burst_and_then_its_rate() {
        for family in [4, 6] {
            let mut bench = Bench::new();
            assert_eq!(bench.allowed(NOW, core::iter::repeat_n(one(family), 5000)), 32);
            let later = NOW + Duration::from_secs(1);
            assert_eq!(bench.allowed(later, core::iter::repeat_n(one(family), 5000)), 20);
        }
    }

    #[test]
    fn a_flood_from_one_place_takes_nothing_from_others() {
        for family in [4, 6] {
            let mut bench = Bench::new();
            bench.allowed(NOW, core::iter::repeat_n(one(family), 5000));
            assert_eq!(bench.allowed(NOW, many(family).take(3)), 3);
        }
    }

    #[test]
    fn all_together_get_no_more_than_the_burst_for_all() {
        for family in [4, 6] {
            let mut bench = Bench::new();
            let allowed = bench.allowed(NOW, many(family).take(10_000));
            assert!((256 / 3..=256).contains(&allowed), "{allowed}");
        }
    }

    #[test]
    fn how_many_are_allowed_in_all_cannot_be_foretold() {
        let bursts: Vec<_> = (0..8)
            .map(|key| {
                let mut bench = Bench { secret: Secret::new(key), ..Bench::new() };
                bench.allowed(NOW, many(4).take(1000))
            })
            .collect();
        assert!(bursts.iter().any(|burst| *burst != bursts[0]), "{bursts:?}");
    }

    #[test]
    fn neighbours_in_a_prefix_share_a_bucket() {
        let mut bench = Bench::new();
        let hosts = (0..=255).map(|host| Ipv4Addr::new(192, 0, 2, host).into());
        assert_eq!(bench.allowed(NOW, hosts), 32);
    }
}
