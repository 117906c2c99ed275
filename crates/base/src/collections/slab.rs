//! Places that never move, in segments that come and go: a table of millions grows and shrinks without a pause.

use core::array::from_fn;

/// Places in a segment; what is taken from and given back to the system at once.
pub const SEGMENT: usize = 256;
/// Words of a segment's map.
const MAP: usize = SEGMENT / 64;

/// Values by number. A number stays a value's until it is removed.
#[derive(Debug)]
pub struct Slab<T> {
    segments: Vec<Option<Box<Segment<T>>>>,
    /// A bit for each segment that is there and has a free place.
    roomy: Vec<u64>,
    /// A bit for each that is there and has nothing else.
    empty: Vec<u64>,
    len: usize,
    /// Places of all segments.
    places: usize,
}

#[derive(Debug)]
struct Segment<T> {
    values: [T; SEGMENT],
    /// A bit for each place in use.
    used: [u64; MAP],
}

impl<T: Default> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default> Slab<T> {
    /// Nothing.
    #[inline]
    pub const fn new() -> Self {
        Self { segments: Vec::new(), roomy: Vec::new(), empty: Vec::new(), len: 0, places: 0 }
    }

    /// Values.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Places: what memory is taken for.
    #[inline]
    pub const fn places(&self) -> usize {
        self.places
    }

    /// One beyond the highest number in use, or more.
    #[inline]
    pub const fn end(&self) -> usize {
        self.segments.len() * SEGMENT
    }

    /// The value of this number, or what was left there when it was removed.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        let segment = self.segments.get(at as usize / SEGMENT)?.as_ref()?;
        Some(&segment.values[at as usize % SEGMENT])
    }

    /// Returns the value for change.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        let segment = self.segments.get_mut(at as usize / SEGMENT)?.as_mut()?;
        Some(&mut segment.values[at as usize % SEGMENT])
    }

    /// Whether the number is a value's.
    #[inline]
    pub fn is_used(&self, at: u32) -> bool {
        let segment = self.segments.get(at as usize / SEGMENT).and_then(Option::as_ref);
        segment.is_some_and(|segment| segment.used[word(at)] & bit(at) != 0)
    }

    /// Takes the lowest segment's free place, so that the highest become empty. `None` if there are as many as numbers.
    #[inline]
    pub fn insert(&mut self, value: T) -> Option<u32> {
        let (at, place) = self.place()?;
        *place = value;
        Some(at)
    }

    /// [`Slab::insert`] of a value that is written where it is to be.
    #[inline]
    pub fn place(&mut self) -> Option<(u32, &mut T)> {
        let number = match self.first_roomy() {
            Some(number) => number,
            None => self.grow()?,
        };
        let segment = self.segments[number].as_mut()?;
        let word = segment.used.iter().position(|used| *used != u64::MAX)?;
        let place = word * 64 + segment.used[word].trailing_ones() as usize;
        self.empty[number / 64] &= !(1 << (number % 64));
        segment.used[word] |= 1 << (place % 64);
        if segment.used == [u64::MAX; MAP] {
            self.roomy[number / 64] &= !(1 << (number % 64));
        }
        self.len += 1;
        Some((u32::try_from(number * SEGMENT + place).ok()?, &mut segment.values[place]))
    }

    /// Gives a number back. Empty segments go back to the system, the highest first, while there are more free places than
    /// values: so waves of values find their places again, and a permanent decrease frees memory.
    pub fn remove(&mut self, at: u32) {
        let number = at as usize / SEGMENT;
        let Some(segment) = self.segments.get_mut(number).and_then(Option::as_mut) else { return };
        if segment.used[word(at)] & bit(at) == 0 {
            return;
        }
        segment.used[word(at)] &= !bit(at);
        self.len -= 1;
        self.roomy[number / 64] |= 1 << (number % 64);
        if segment.used == [0; MAP] {
            self.empty[number / 64] |= 1 << (number % 64);
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        while self.places - self.len >= self.len + 2 * SEGMENT
            && let Some(number) = last(&self.empty)
        {
            self.segments[number] = None;
            self.roomy[number / 64] &= !(1 << (number % 64));
            self.empty[number / 64] &= !(1 << (number % 64));
            self.places -= SEGMENT;
        }
        while self.segments.pop_if(|last| last.is_none()).is_some() {}
    }

    fn first_roomy(&self) -> Option<usize> {
        let word = self.roomy.iter().position(|roomy| *roomy != 0)?;
        Some(word * 64 + self.roomy[word].trailing_zeros() as usize)
    }

    /// Adds a segment, in the lowest gap. Never inlined: the caller's way passes it by.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<usize> {
        let number = match self.segments.len() * SEGMENT > self.places {
            true => self.segments.iter().position(Option::is_none)?,
            false => self.segments.len(),
        };
        u32::try_from((number + 1) * SEGMENT).ok()?;
        if number == self.segments.len() {
            self.segments.push(None);
        }
        if self.roomy.len() <= number / 64 {
            self.roomy.push(0);
            self.empty.push(0);
        }
        self.segments[number] = Some(Box::new(Segment { values: from_fn(|_| T::default()), used: [0; MAP] }));
        self.roomy[number / 64] |= 1 << (number % 64);
        self.places += SEGMENT;
        Some(number)
    }
}

/// The number of the highest bit that is set.
fn last(map: &[u64]) -> Option<usize> {
    let word = map.iter().rposition(|word| *word != 0)?;
    Some(word * 64 + map[word].ilog2() as usize)
}

const fn word(at: u32) -> usize {
    at as usize % SEGMENT / 64
}

const fn bit(at: u32) -> u64 {
    1 << (at % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_from_below_and_empty_segments_go_back_when_few_are_in_use() {
        let mut slab = Slab::new();
        let all: Vec<u32> = (0..10 * SEGMENT).map(|value| slab.insert(value).unwrap()).collect();
        assert!(all.iter().enumerate().all(|(value, at)| slab.get(*at) == Some(&value)));
        assert_eq!((slab.len(), slab.places()), (10 * SEGMENT, 10 * SEGMENT));
        all[SEGMENT..2 * SEGMENT].iter().for_each(|at| slab.remove(*at));
        all[5 * SEGMENT..9 * SEGMENT].iter().for_each(|at| slab.remove(*at));
        assert_eq!(slab.places(), 10 * SEGMENT, "a wave finds its places again");
        all[2 * SEGMENT..4 * SEGMENT].iter().for_each(|at| slab.remove(*at));
        assert_eq!(
            (slab.len(), slab.places()),
            (3 * SEGMENT, 7 * SEGMENT),
            "no more are free than are in use"
        );
        slab.remove(all[5 * SEGMENT]);
        assert_eq!(slab.len(), 3 * SEGMENT, "what is removed twice is removed once");
        let next = slab.insert(7).unwrap();
        assert!(next as usize / SEGMENT == 1 && slab.is_used(next) && !slab.is_used(next + 1));
        slab.remove(next);
        all.iter().for_each(|at| slab.remove(*at));
        assert!(slab.is_empty() && slab.places() <= SEGMENT && slab.end() <= 10 * SEGMENT);
    }
}
