//! A queue that nearly always has one member, or none, and takes no memory of its own then: two words less than what is behind the first.

use std::collections::VecDeque;

/// Values in order.
#[derive(Debug)]
pub(super) struct Few<T> {
    first: Option<T>,
    /// The others behind it.
    #[expect(clippy::box_collection, reason = "it is seldom there, and a pointer is a quarter of it")]
    others: Option<Box<VecDeque<T>>>,
}

impl<T> Few<T> {
    pub(super) const fn new() -> Self {
        Self { first: None, others: None }
    }

    fn behind(&self) -> Option<&VecDeque<T>> {
        self.others.as_deref()
    }

    pub(super) fn len(&self) -> usize {
        self.behind().map_or(0, VecDeque::len) + usize::from(self.first.is_some())
    }

    /// Bytes of memory that it takes besides itself.
    pub(super) fn memory(&self) -> usize {
        self.behind().map_or(0, |others| size_of_val(others) + others.capacity() * size_of::<T>())
    }

    pub(super) const fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(super) const fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut()
    }

    pub(super) fn back(&self) -> Option<&T> {
        self.behind().and_then(VecDeque::back).or(self.first.as_ref())
    }

    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.others.as_mut().and_then(|others| others.back_mut()).or(self.first.as_mut())
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        at.checked_sub(1).map_or(self.first.as_ref(), |at| self.behind()?.get(at))
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match at.checked_sub(1) {
            Some(at) => self.others.as_mut()?.get_mut(at),
            None => self.first.as_mut(),
        }
    }

    pub(super) fn push_back(&mut self, value: T) {
        match self.first {
            Some(_) => self.others.get_or_insert_default().push_back(value),
            None => self.first = Some(value),
        }
    }

    /// Takes the first out. When none is left, no memory is kept.
    pub(super) fn pop_front(&mut self) -> Option<T> {
        let next = self.others.as_mut().and_then(|others| others.pop_front());
        if next.is_none() {
            self.others = None;
        }
        core::mem::replace(&mut self.first, next)
    }

    /// Puts a value behind the one at `at`, which is there.
    pub(super) fn insert_behind(&mut self, at: usize, value: T) {
        self.others.get_or_insert_default().insert(at, value);
    }

    /// The place of the first for which `is_before` does not hold; it holds for none behind that.
    pub(super) fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        match &self.first {
            Some(first) if is_before(first) => {
                1 + self.behind().map_or(0, |others| others.partition_point(is_before))
            }
            _ => 0,
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.first.iter().chain(self.behind().into_iter().flatten())
    }

    pub(super) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.first.iter_mut().chain(self.others.iter_mut().flat_map(|others| others.iter_mut()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue_as_others_are(acts in proptest::collection::vec((0..3_u8, any::<u8>()), 0..40)) {
            let (mut few, mut plain) = (Few::new(), VecDeque::new());
            for (act, value) in acts {
                let at = usize::from(value) % plain.len().max(1);
                match act {
                    0 => assert_eq!(few.pop_front(), plain.pop_front()),
                    1 if !plain.is_empty() => {
                        few.insert_behind(at, value);
                        plain.insert(at + 1, value);
                    }
                    _ => {
                        few.push_back(value);
                        plain.push_back(value);
                    }
                }
                prop_assert!(few.iter().eq(&plain) && few.iter().rev().eq(plain.iter().rev()));
                prop_assert_eq!((few.len(), few.front(), few.back()), (plain.len(), plain.front(), plain.back()));
                prop_assert_eq!((few.get(at), few.get(plain.len())), (plain.get(at), None));
                prop_assert!(!plain.is_empty() || few.memory() == 0);
            }
        }
    }
}
