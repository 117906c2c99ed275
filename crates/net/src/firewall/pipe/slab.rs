//! Things with numbers; the numbers of those that went are used again.

/// Things by number.
pub(super) struct Slab<T> {
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// Puts a thing in; answers its number.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.things[at as usize] = Some(thing);
            return at;
        }
        self.things.push(Some(thing));
        u32::try_from(self.things.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes a thing out.
    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.things.get_mut(at as usize)?.take();
        if thing.is_some() {
            self.free.push(at);
        }
        thing
    }

    pub(super) fn get(&self, at: u32) -> Option<&T> {
        self.things.get(at as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.things.get_mut(at as usize)?.as_mut()
    }

    /// All, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.things).filter_map(|(at, thing)| Some((at, thing.as_ref()?)))
    }

    /// All numbers that things have now or had.
    pub(super) fn numbers(&self) -> core::ops::Range<u32> {
        0..u32::try_from(self.things.len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.things.len() - self.free.len()
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }
}
