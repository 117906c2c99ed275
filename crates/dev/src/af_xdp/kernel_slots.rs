//! Which slots a ring has lent to the kernel: a bit each, so that they can be taken back when the socket is closed.

/// A set of slot indices.
pub(super) struct Lent {
    words: Vec<u64>,
}

impl Lent {
    pub(super) fn new(slots: usize) -> Self {
        Self { words: vec![0; slots.div_ceil(64)] }
    }

    pub(super) fn insert(&mut self, slot: u64) {
        if let Some(word) = self.word(slot) {
            *word |= 1 << (slot % 64);
        }
    }

    /// Whether the slot was in the set; it is not any more.
    pub(super) fn remove(&mut self, slot: u64) -> bool {
        let bit = 1 << (slot % 64);
        self.word(slot).is_some_and(|word| {
            let was = *word & bit != 0;
            *word &= !bit;
            was
        })
    }

    /// Empties the set.
    pub(super) fn drain(&mut self) -> Vec<u64> {
        let all = (0..).zip(&self.words);
        let slots = all.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        });
        let slots = slots.collect();
        self.words.fill(0);
        slots
    }

    fn word(&mut self, slot: u64) -> Option<&mut u64> {
        self.words.get_mut(usize::try_from(slot / 64).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_in_the_set_from_insertion_to_removal_and_outside_the_arena_never() {
        let mut lent = Lent::new(100);
        for slot in [0, 63, 64, 99] {
            lent.insert(slot);
        }
        lent.insert(1000);
        assert!(lent.remove(63) && !lent.remove(63) && !lent.remove(1000) && !lent.remove(5));
        assert_eq!(lent.drain(), [0, 64, 99]);
        assert_eq!(lent.drain(), []);
    }
}
