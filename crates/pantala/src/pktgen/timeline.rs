//! Frames by the time of their stamps: when loss began and ended, and how long nothing arrived.

/// The finest slot, nanoseconds.
const SLOT_MIN_NS: u64 = 100_000;
/// Slots of a timeline: it has coarser ones rather than more.
const SLOTS_MAX: u64 = 1 << 21;
const STAMP_MASK: u64 = (1 << 48) - 1;

/// Counts of frames in slots of time, on the sender by when they are stamped, on the receiver by the stamp that they bear.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    base_ns: u64,
    slot_ns: u64,
    slots: Vec<u32>,
    /// Frames whose stamps are outside.
    pub(crate) beyond: u64,
    last_ns: u64,
    gap: Gap,
}

/// The longest time in which nothing arrived, between two arrivals; nanoseconds on the clock of stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Gap {
    pub(crate) const fn len_ns(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

impl Timeline {
    /// A timeline from `base_ns` on, for at least `span_ns`.
    pub(crate) fn new(base_ns: u64, span_ns: u64) -> Self {
        let slot_ns = SLOT_MIN_NS.max(span_ns.div_ceil(SLOTS_MAX - 1));
        let count = usize::try_from(span_ns / slot_ns + 1).unwrap_or(1);
        Self { base_ns, slot_ns, slots: vec![0; count], beyond: 0, last_ns: 0, gap: Gap::default() }
    }

    /// Counts a frame that is sent.
    #[inline]
    pub(crate) fn sent(&mut self, stamp: u64) {
        self.count(stamp, 1);
    }

    /// Takes back a frame that was counted as sent and is not.
    pub(crate) fn unsent(&mut self, stamp: u64) {
        self.count(stamp, -1);
    }

    /// Counts a frame that arrived, for the first time.
    #[inline]
    pub(crate) fn received(&mut self, now_ns: u64, stamp: u64) {
        self.count(stamp, 1);
        if self.last_ns > 0 && now_ns.saturating_sub(self.last_ns) > self.gap.len_ns() {
            self.gap = Gap { from_ns: self.last_ns, to_ns: now_ns };
        }
        self.last_ns = now_ns;
    }

    fn count(&mut self, stamp: u64, by: i32) {
        let at = (stamp.wrapping_sub(self.base_ns) & STAMP_MASK) / self.slot_ns;
        match usize::try_from(at).ok().and_then(|at| self.slots.get_mut(at)) {
            Some(slot) => *slot = slot.saturating_add_signed(by),
            None => self.beyond += 1,
        }
    }

    /// Adds the counts of another of the same time. Of the gaps the shorter one stays: that in which neither received.
    pub(crate) fn add(&mut self, other: &Self) {
        self.slots.iter_mut().zip(&other.slots).for_each(|(mine, others)| *mine += others);
        self.beyond += other.beyond;
        if other.last_ns > 0 && (self.last_ns == 0 || other.gap.len_ns() < self.gap.len_ns()) {
            self.gap = other.gap;
        }
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    pub(crate) const fn gap(&self) -> Gap {
        self.gap
    }

    /// The end of the last slot of which a frame is missing at the receiver, in nanoseconds on the clock of stamps.
    pub(crate) fn last_loss_ns(&self, received: &Self) -> Option<u64> {
        let mut pairs = self.slots.iter().zip(&received.slots);
        let at = pairs.rposition(|(sent, got)| got < sent)?;
        Some(self.base_ns + (at as u64 + 1) * self.slot_ns)
    }

    /// Returns the sums of at most `most` equally long parts between two times of the clock.
    pub(crate) fn parts(&self, from_ns: u64, to_ns: u64, most: usize) -> Vec<u64> {
        let slot = |ns: u64| usize::try_from(ns.saturating_sub(self.base_ns) / self.slot_ns).unwrap_or(0);
        let (from, to) = (slot(from_ns).min(self.slots.len()), slot(to_ns).min(self.slots.len()));
        let inner = self.slots.get(from..to).unwrap_or_default();
        let width = inner.len().div_ceil(most.max(1)).max(1);
        inner.chunks(width).map(|part| part.iter().map(|count| u64::from(*count)).sum()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pair() -> (Timeline, Timeline) {
        (Timeline::new(5 * MS, 20 * MS), Timeline::new(5 * MS, 20 * MS))
    }

    #[test]
    fn the_last_slot_with_a_missing_frame_is_found_whatever_the_order_of_arrival() {
        let (mut sent, mut received) = pair();
        let stamps: Vec<u64> = (0..100).map(|n| 5 * MS + n * 150_000).collect();
        stamps.iter().for_each(|stamp| sent.sent(*stamp));
        for stamp in stamps.iter().rev().filter(|stamp| **stamp != stamps[40]) {
            received.received(30 * MS, *stamp);
        }
        let slot = (stamps[40] - 5 * MS) / SLOT_MIN_NS + 1;
        assert_eq!(sent.last_loss_ns(&received), Some(5 * MS + slot * SLOT_MIN_NS));
        received.received(31 * MS, stamps[40]);
        assert_eq!(sent.last_loss_ns(&received), None);
    }

    #[test]
    fn a_frame_that_was_not_sent_after_all_is_not_missing() {
        let (mut sent, received) = pair();
        sent.sent(6 * MS);
        sent.unsent(6 * MS);
        assert_eq!(sent.last_loss_ns(&received), None);
    }

    #[test]
    fn the_longest_silence_is_between_two_arrivals() {
        let (_, mut received) = pair();
        [10, 11, 17, 18, 20].iter().for_each(|ms| received.received(ms * MS, 6 * MS));
        assert_eq!(received.gap(), Gap { from_ns: 11 * MS, to_ns: 17 * MS });
    }

    #[test]
    fn stamps_go_round_and_what_is_outside_is_counted_apart() {
        let base = (1 << 48) - MS;
        let mut sent = Timeline::new(base, 4 * MS);
        sent.sent(MS); // two milliseconds later
        sent.sent(9 * MS);
        assert_eq!((sent.parts(base, base + 4 * MS, 4), sent.beyond), (vec![0, 0, 1, 0], 1));
    }

    #[test]
    fn parts_have_all_frames_between_their_ends() {
        let (mut sent, _) = pair();
        (0..190).for_each(|n| sent.sent(5 * MS + n * SLOT_MIN_NS));
        let parts = sent.parts(5 * MS, 24 * MS, 10);
        assert_eq!((parts.len(), parts.iter().sum::<u64>()), (10, 190));
    }

    #[test]
    fn a_long_timeline_has_coarser_slots() {
        let long = Timeline::new(0, 24 * 3600 * 1_000_000_000);
        assert!(long.slots.len() as u64 <= SLOTS_MAX, "{}", long.slots.len());
    }
}
