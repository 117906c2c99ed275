//! Sampling: one packet of so many, by chance, at the cost of a subtraction for each vector of packets.

use core::num::NonZeroU32;

/// Chooses packets. How many pass from one to the next is drawn anew each time, so that no pattern of the traffic is in step with it.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    of: NonZeroU32,
    /// Packets that pass before the next one that is chosen, counted from the beginning of the vector.
    wait: u64,
    random: u64,
}

impl Sampler {
    /// One of `of` packets, on average.
    pub(super) fn new(of: NonZeroU32, seed: u64) -> Self {
        // Any number but 0 goes on.
        let mut sampler = Self { of, wait: 0, random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
        sampler.wait = sampler.draw();
        sampler
    }

    /// The place of the next packet that is chosen in a vector of this length; `None` ends the vector.
    #[inline]
    pub(super) fn choose(&mut self, len: usize) -> Option<usize> {
        match usize::try_from(self.wait) {
            Ok(at) if at < len => {
                self.wait += 1 + self.draw();
                Some(at)
            }
            _ => {
                self.wait -= len as u64;
                None
            }
        }
    }

    /// From 0 to twice the mean of those that are passed over, each as likely as any other.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let most = 2 * (u64::from(self.of.get()) - 1);
        (self.random >> 16) % (most + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places that are chosen among `total` packets in vectors of these lengths.
    fn chosen(of: u32, lengths: &[usize], total: u64) -> Vec<u64> {
        let mut sampler = Sampler::new(NonZeroU32::new(of).unwrap(), 7);
        let (mut before, mut all) = (0, Vec::new());
        for len in lengths.iter().cycle() {
            while let Some(at) = sampler.choose(*len) {
                all.push(before + at as u64);
            }
            before += *len as u64;
            if before >= total {
                break;
            }
        }
        all
    }

    #[test]
    fn one_of_so_many_is_chosen_on_average_and_none_twice() {
        for (of, lengths) in [(1, &[3, 1, 64][..]), (10, &[1]), (1000, &[256, 7]), (1000, &[1])] {
            let all = chosen(of, lengths, 2_000_000);
            assert!(all.is_sorted_by(|a, b| a < b));
            let wanted = 2_000_000 / usize::try_from(of).unwrap();
            assert!(all.len().abs_diff(wanted) <= wanted / 10, "1 of {of}: {} of {wanted}", all.len());
        }
    }

    #[test]
    fn the_same_packets_are_chosen_however_they_come_together() {
        let alone = chosen(100, &[1], 100_000);
        let together = chosen(100, &[64, 3, 256], 100_000);
        assert!(alone.iter().zip(&together).all(|(a, b)| a == b) && alone.len() >= 900);
    }
}
