//! Frame sizes: the grammar of `--size`, and their order.
//!
//! A size is that of the whole Ethernet frame with its frame check sequence, as in RFC 2544 §9: 64 is the smallest. What
//! is given to a device is four bytes shorter.

use super::random::Random;

/// Bytes of the frame check sequence, which devices make and take off.
pub(crate) const FCS_LEN: u16 = 4;
/// The smallest frame of Ethernet.
pub(crate) const SIZE_MIN: u16 = 64;
/// The largest: what fits one packet buffer.
pub(crate) const SIZE_MAX: u16 = 2048;
/// The "simple IMIX": 7 small, 4 middle-sized, 1 large, as most testers have it.
const IMIX: [(u16, u16); 3] = [(64, 7), (570, 4), (1518, 1)];
/// The sum of the weights of a mix, at the most.
const WEIGHTS_MAX: u16 = 1024;
const GRAMMAR: &str = "write a size, two with a dash, sizes with commas (and weights, as in 64:7,570:4,1518:1), or imix; \
                       a size counts the FCS and is 64 to 2048";

/// Sizes as they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// One after the other, and again.
    Cycle(Vec<u16>),
    /// At random, both ends included.
    Between(u16, u16),
}

impl Sizes {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "imix" {
            return Ok(Self::imix(SIZE_MIN));
        }
        if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (size(first)?, size(last)?);
            return if first <= last {
                Ok(Self::Between(first, last))
            } else {
                Err(format!("{first} is more than {last}; write the smaller size first"))
            };
        }
        let parts = text.split(',').map(part).collect::<Result<Vec<_>, _>>()?;
        let total = parts.iter().map(|(_, weight)| u32::from(*weight)).sum::<u32>();
        if total > u32::from(WEIGHTS_MAX) {
            return Err(format!("the weights of `{text}` add up to {total}; {WEIGHTS_MAX} is the most"));
        }
        Ok(Self::Cycle(interleaved(&parts)))
    }

    /// The mix, where no frame is smaller than `least`.
    pub(crate) fn imix(least: u16) -> Self {
        Self::Cycle(interleaved(&IMIX.map(|(size, weight)| (size.max(least), weight))))
    }

    pub(crate) fn least(&self) -> u16 {
        match self {
            Self::Cycle(sizes) => sizes.iter().copied().min().unwrap_or(SIZE_MIN),
            Self::Between(first, _) => *first,
        }
    }

    pub(crate) fn most(&self) -> u16 {
        match self {
            Self::Cycle(sizes) => sizes.iter().copied().max().unwrap_or(SIZE_MIN),
            Self::Between(_, last) => *last,
        }
    }
}

impl core::fmt::Display for Sizes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match (self.least(), self.most()) {
            (least, most) if least == most => write!(f, "{least}"),
            (least, most) => write!(f, "{least}-{most}"),
        }
    }
}

fn part(word: &str) -> Result<(u16, u16), String> {
    let Some((bytes, weight)) = word.split_once(':') else { return Ok((size(word)?, 1)) };
    let weight = weight.parse().ok().filter(|weight| (1..=WEIGHTS_MAX).contains(weight));
    Ok((
        size(bytes)?,
        weight.ok_or_else(|| format!("`{word}` has no weight of 1 to {WEIGHTS_MAX}; {GRAMMAR}"))?,
    ))
}

fn size(word: &str) -> Result<u16, String> {
    let bytes: u16 = word.parse().map_err(|_| format!("`{word}` is no size; {GRAMMAR}"))?;
    if (SIZE_MIN..=SIZE_MAX).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("{bytes} is not {SIZE_MIN} to {SIZE_MAX}; {GRAMMAR}"))
    }
}

/// Each size as often as its weight says, and as far apart as it goes: smooth weighted round robin.
fn interleaved(parts: &[(u16, u16)]) -> Vec<u16> {
    let total: i32 = parts.iter().map(|(_, weight)| i32::from(*weight)).sum();
    let mut credit = vec![0; parts.len()];
    let next = || {
        credit.iter_mut().zip(parts).for_each(|(credit, (_, weight))| *credit += i32::from(*weight));
        let (at, best) =
            credit.iter_mut().enumerate().max_by_key(|(at, credit)| (**credit, usize::MAX - at))?;
        *best -= total;
        parts.get(at).map(|(size, _)| *size)
    };
    core::iter::repeat_with(next).take(usize::try_from(total).unwrap_or(0)).flatten().collect()
}

/// The sizes of frames, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct SizeOrder {
    sizes: Sizes,
    at: usize,
    random: Random,
}

impl SizeOrder {
    pub(crate) fn new(sizes: Sizes, seed: u64) -> Self {
        Self { sizes, at: 0, random: Random::new(seed) }
    }

    /// The size of the next frame.
    #[inline]
    pub(crate) fn next(&mut self) -> u16 {
        match &self.sizes {
            Sizes::Cycle(sizes) => {
                let size = sizes.get(self.at).copied().unwrap_or(SIZE_MIN);
                self.at = if self.at + 1 < sizes.len() { self.at + 1 } else { 0 };
                size
            }
            Sizes::Between(first, last) => first + self.random.below(last - first + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imix_is_seven_four_and_one_of_twelve_and_mixed() {
        let Sizes::Cycle(sizes) = Sizes::parse("imix").unwrap() else { panic!() };
        let count = |size| sizes.iter().filter(|&&other| other == size).count();
        assert_eq!((count(64), count(570), count(1518), sizes.len()), (7, 4, 1, 12));
        let longest_run = sizes.chunk_by(|a, b| a == b).map(<[u16]>::len).max();
        assert_eq!(longest_run, Some(2), "{sizes:?}");
        assert_eq!(Sizes::parse("64:7,570:4,1518:1"), Sizes::parse("imix"));
    }

    #[test]
    fn sizes_are_one_a_range_or_a_list() {
        assert_eq!(Sizes::parse("64"), Ok(Sizes::Cycle(vec![64])));
        assert_eq!(Sizes::parse("64,128,1518"), Ok(Sizes::Cycle(vec![64, 128, 1518])));
        assert_eq!(Sizes::parse("64-1518"), Ok(Sizes::Between(64, 1518)));
    }

    #[test]
    fn what_is_no_size_is_explained() {
        for (text, says) in [
            ("", "`` is no size"),
            ("63", "63 is not 64 to 2048"),
            ("9018", "9018 is not 64 to 2048"),
            ("64,", "`` is no size"),
            ("1518-64", "write the smaller size first"),
            ("64:0", "no weight of 1"),
            ("64:", "no weight of 1"),
            ("64:1024,65:1", "add up to 1025"),
            ("IMIX", "or imix"),
        ] {
            let wrong = Sizes::parse(text).unwrap_err();
            assert!(wrong.contains(says), "{text}: {wrong}");
        }
    }

    #[test]
    fn random_sizes_reach_both_ends_and_nothing_else() {
        let mut order = SizeOrder::new(Sizes::Between(64, 67), 1);
        let seen: std::collections::BTreeSet<u16> = (0..1000).map(|_| order.next()).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [64, 65, 66, 67]);
    }

    #[test]
    fn a_cycle_begins_again() {
        let mut order = SizeOrder::new(Sizes::Cycle(vec![64, 128]), 1);
        assert_eq!([order.next(), order.next(), order.next()], [64, 128, 64]);
    }
}
