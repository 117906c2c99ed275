//! Numbers of pools, each of one pool of one arena in the whole process. A buffer bears that of its pool, so that a pool of
//! another arena does not take it for its own.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ranges that are in use, in their order: first number, and how many.
static TAKEN: Mutex<Vec<(u16, u16)>> = Mutex::new(Vec::new());

/// The numbers of an arena's pools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Homes {
    first: u16,
    count: u16,
}

impl Homes {
    /// Takes numbers for so many pools; `None` if so many are not free in a row.
    pub(crate) fn take(count: usize) -> Option<Self> {
        let (count, mut taken) = (u16::try_from(count).ok()?, taken());
        let (mut first, mut at) = (0_u16, 0);
        while let Some((next, len)) = taken.get(at).filter(|(next, _)| *next < first.saturating_add(count)) {
            (first, at) = (next.checked_add(*len)?, at + 1);
        }
        first.checked_add(count)?;
        taken.insert(at, (first, count));
        Some(Self { first, count })
    }

    /// Gives them back. No buffer may bear them any more.
    pub(crate) fn give_back(self) {
        taken().retain(|range| *range != (self.first, self.count));
    }

    /// The number of the first pool.
    pub(crate) const fn first(self) -> u16 {
        self.first
    }
}

fn taken() -> MutexGuard<'static, Vec<(u16, u16)>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}
