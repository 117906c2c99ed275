//! When values have to be looked at: a wheel of slots of a fixed length, with a list in each.
//!
//! A packet that lengthens a value's life writes the new end into the value and nothing else. The wheel finds that out
//! when the old end has come, and moves the value on; so a busy one is looked at once in a lifetime. Only what shortens a
//! life moves the value at once.

use super::slab::Slab;
use crate::time::Instant;

/// Number of slots. A deadline beyond their end waits in the farthest and is moved on from there.
const SLOTS: usize = 1024;
/// Words of their map.
const WORDS: usize = SLOTS / 64;
/// No entry.
pub const NIL: u32 = u32::MAX;

/// A member of a slot's list.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    prev: u32,
    next: u32,
    slot: u16,
}

/// An entry of the wheel.
pub trait Linked {
    /// Returns its links.
    fn links(&mut self) -> &mut Links;
}

/// The slots, each of so many milliseconds: a constant, since a division by a variable costs more than the rest.
#[derive(Debug)]
pub struct Wheel<const SLOT_MS: u64> {
    first: Box<[u32; SLOTS]>,
    /// A bit for each slot with entries.
    busy: [u64; WORDS],
    /// A bit for each word of those that is not 0.
    words: u16,
    /// Number since the start of the slot that is looked at next; those before are empty.
    hand: u64,
}

impl Default for Links {
    #[inline]
    fn default() -> Self {
        Self { prev: NIL, next: NIL, slot: 0 }
    }
}

/// Milliseconds since the start.
#[inline]
pub const fn ms(at: Instant) -> u64 {
    at.ns() / 1_000_000
}

/// Returns the entry behind `at` in the list of its slot.
#[inline]
pub fn successor<T: Linked + Default>(slab: &mut Slab<T>, at: u32) -> Option<u32> {
    let next = slab.get_mut(at)?.links().next;
    (next != NIL).then_some(next)
}

impl<const SLOT_MS: u64> Default for Wheel<SLOT_MS> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl<const SLOT_MS: u64> Wheel<SLOT_MS> {
    /// Makes an empty wheel.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self { first: Box::new([NIL; SLOTS]), busy: [0; WORDS], words: 0, hand: 0 }
    }

    /// Wakes `at` when `due_ms` has come, or up to a slot later; or sooner, if that is far.
    pub fn link<T: Linked + Default>(&mut self, slab: &mut Slab<T>, at: u32, due_ms: u64) {
        let number = due_ms.div_ceil(SLOT_MS).clamp(self.hand, self.hand + SLOTS as u64 - 1);
        let slot = slot(number);
        let next = self.first[slot];
        let Some(links) = slab.get_mut(at).map(T::links) else { return };
        *links = Links { prev: NIL, next, slot: u16::try_from(slot).unwrap_or_default() };
        if let Some(next) = slab.get_mut(next) {
            next.links().prev = at;
        }
        self.first[slot] = at;
        self.busy[slot / 64] |= 1 << (slot % 64);
        self.words |= 1 << (slot / 64);
    }

    /// Wakes `at` when `due_ms` has come, unless it is woken before that anyway.
    #[inline]
    pub fn hasten<T: Linked + Default>(&mut self, slab: &mut Slab<T>, at: u32, due_ms: u64) {
        let Some(links) = slab.get_mut(at).map(T::links) else { return };
        let ahead = (usize::from(links.slot) + SLOTS - slot(self.hand)) % SLOTS;
        if due_ms.div_ceil(SLOT_MS) < self.hand + ahead as u64 {
            self.unlink(slab, at);
            self.link(slab, at, due_ms);
        }
    }

    /// Does not wake `at` any more.
    pub fn unlink<T: Linked + Default>(&mut self, slab: &mut Slab<T>, at: u32) {
        let Some(Links { prev, next, slot }) = slab.get_mut(at).map(|linked| *linked.links()) else { return };
        if let Some(next) = slab.get_mut(next) {
            next.links().prev = prev;
        }
        if let Some(prev) = slab.get_mut(prev) {
            prev.links().next = next;
            return;
        }
        let slot = usize::from(slot);
        self.first[slot] = next;
        if next == NIL {
            self.busy[slot / 64] &= !(1 << (slot % 64));
            self.words &= !(u16::from(self.busy[slot / 64] == 0) << (slot / 64));
        }
    }

    /// The next one whose slot has come; it stays linked.
    pub fn due(&mut self, now: Instant) -> Option<u32> {
        let end = ms(now) / SLOT_MS;
        let next = self.next_busy().unwrap_or(u64::MAX);
        if next > end {
            self.hand = self.hand.max(end + 1);
            return None;
        }
        self.hand = next;
        Some(self.first[slot(next)])
    }

    /// When the next one is due.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.next_busy().map(|number| Instant::from_ns(number.saturating_mul(SLOT_MS * 1_000_000)))
    }

    /// Returns entries due by `end_ms`, soonest first; at most `most` of them.
    pub fn soon<T: Linked + Default>(
        &self,
        slab: &mut Slab<T>,
        end_ms: u64,
        most: usize,
        found: &mut Vec<u32>,
    ) {
        let end = end_ms.div_ceil(SLOT_MS).min(self.hand + SLOTS as u64 - 1);
        for number in self.hand..=end {
            let mut at = self.first[slot(number)];
            while let Some(linked) = slab.get_mut(at) {
                if found.len() >= most {
                    return;
                }
                found.push(at);
                at = linked.links().next;
            }
        }
    }

    /// Returns the number of the first slot with entries, from the hand on.
    #[inline]
    fn next_busy(&self) -> Option<u64> {
        if self.words == 0 {
            return None;
        }
        let hand = slot(self.hand);
        let (word, bit) = (hand / 64, hand % 64);
        let here = self.busy[word] & (u64::MAX << bit);
        let slot =
            if here == 0 { self.first_behind(word) } else { word * 64 + here.trailing_zeros() as usize };
        Some(self.hand + ((slot + SLOTS - hand) % SLOTS) as u64)
    }

    /// Returns the first slot with entries in the words behind this one, round to this one itself.
    fn first_behind(&self, word: usize) -> usize {
        let next = (word + 1) % WORDS;
        let ahead = self.words.rotate_right(u32::try_from(next).unwrap_or(0));
        let word = (next + ahead.trailing_zeros() as usize) % WORDS;
        word * 64 + self.busy[word].trailing_zeros() as usize
    }
}

#[expect(clippy::cast_possible_truncation, reason = "slots come round")]
const fn slot(number: u64) -> usize {
    number as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const SLOT_MS: u64 = 250;

    #[derive(Default)]
    struct Sleeper(Links);

    impl Linked for Sleeper {
        /// Returns its links.
        fn links(&mut self) -> &mut Links {
            &mut self.0
        }
    }

    #[test]
    fn each_is_woken_once_not_before_its_time_and_soon_after_unless_it_is_far() {
        let (mut wheel, mut slab) = (Wheel::<SLOT_MS>::new(), Slab::<Sleeper>::new());
        let dues: Vec<u64> = (0..600).map(|n| n * n % 250_000).collect();
        for due in &dues {
            let at = slab.insert(Sleeper::default()).unwrap();
            wheel.link(&mut slab, at, *due);
        }
        for at in (0..600).step_by(7) {
            wheel.unlink(&mut slab, at);
        }
        let (mut woken, mut now) = (0, Instant::START);
        while let Some(deadline) = wheel.deadline() {
            now = now.max(deadline);
            assert!(
                now == Instant::START || wheel.due(now - Duration::from_millis(1)).is_none(),
                "not before"
            );
            while let Some(at) = wheel.due(now) {
                let late = ms(now).checked_sub(dues[at as usize]).unwrap();
                assert!(late < SLOT_MS && at % 7 != 0, "{at} is {late} ms late");
                wheel.unlink(&mut slab, at);
                woken += 1;
            }
        }
        assert_eq!(woken, 600 - 86);
    }

    #[test]
    fn an_earlier_deadline_moves_a_timer_forward_and_never_back() {
        let (mut wheel, mut slab) = (Wheel::<SLOT_MS>::new(), Slab::<Sleeper>::new());
        let at = slab.insert(Sleeper::default()).unwrap();
        wheel.link(&mut slab, at, 5000);
        assert_eq!(wheel.due(Instant::from_ns(1_000_000_000)), None, "and the hand goes on");
        let deadline = |wheel: &Wheel<SLOT_MS>| wheel.deadline().map(ms);
        for (due_ms, woken_ms) in [(9000, 5000), (5000, 5000), (3000, 3000), (4000, 3000), (1100, 1250)] {
            wheel.hasten(&mut slab, at, due_ms);
            assert_eq!(deadline(&wheel), Some(woken_ms), "{due_ms}");
        }
        wheel.unlink(&mut slab, at);
        assert_eq!(deadline(&wheel), None);
    }

    #[test]
    fn a_timer_beyond_the_farthest_slot_is_checked_there_and_a_late_wheel_skips_none() {
        let (mut wheel, mut slab) = (Wheel::<SLOT_MS>::new(), Slab::<Sleeper>::new());
        let at = slab.insert(Sleeper::default()).unwrap();
        wheel.link(&mut slab, at, 1_000_000);
        let horizon = Instant::START + Duration::from_millis((SLOTS as u64 - 1) * SLOT_MS);
        assert_eq!(wheel.deadline(), Some(horizon));
        let late = Instant::START + Duration::from_secs(100_000);
        assert_eq!(wheel.due(late), Some(at));
        wheel.unlink(&mut slab, at);
        wheel.link(&mut slab, at, 0);
        assert_eq!(wheel.due(late), Some(at), "what is overdue is due");
        wheel.unlink(&mut slab, at);
        assert_eq!((wheel.due(late), wheel.deadline()), (None, None));
    }
}
