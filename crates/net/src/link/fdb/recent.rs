//! Stations that a CPU has looked up lately: most frames are of a few, and a secret hash for each costs more than much else that a
//! bridge does.
//!
//! Each place holds the station that was last looked up of those that share it. A peer that makes stations that share places gets
//! the table behind it, as all had without this one.

use super::{Behind, Key};
use crate::base::time::Instant;

/// Stations of a CPU that are found without the table.
pub(super) const RECENT: usize = 512;

/// An odd number whose multiples differ in their upper bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy)]
struct Place {
    /// Number of the interface, and the link address; 0 for a free place: no interface has that number.
    station: u64,
    behind: Behind,
    /// Until when nothing is to be done if it is heard there.
    quiet: Instant,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Place>() <= 40);

pub(super) struct Recent(Box<[Place; RECENT]>);

impl Recent {
    pub(super) fn new() -> Self {
        Self(Box::new([FREE; RECENT]))
    }

    /// Returns the place of a station, if it was looked up lately.
    #[inline]
    pub(super) fn find(&self, key: &Key) -> Option<Behind> {
        let place = &self.0[place_of(key)];
        (place.station == key.number()).then_some(place.behind)
    }

    /// Whether a station was heard there, so lately that nothing is to be done.
    #[inline]
    pub(super) fn is_quiet(&self, key: &Key, behind: Behind, now: Instant) -> bool {
        let place = &self.0[place_of(key)];
        place.station == key.number() && place.behind == behind && now < place.quiet
    }

    /// Remembers the place of a station.
    #[inline]
    pub(super) fn remember(&mut self, key: &Key, behind: Behind, quiet: Instant) {
        self.0[place_of(key)] = Place { station: key.number(), behind, quiet };
    }

    /// Forgets a station.
    pub(super) fn forget(&mut self, key: &Key) {
        if self.find(key).is_some() {
            self.0[place_of(key)] = FREE;
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(FREE);
    }
}

const FREE: Place = Place { station: 0, behind: Behind::Port(0), quiet: Instant::START };

/// The place that a station may have: of its number the bits that depend on all others.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "they are below the number of places")]
const fn place_of(key: &Key) -> usize {
    (key.number().wrapping_mul(SPREAD) >> (u64::BITS - RECENT.ilog2())) as usize
}
