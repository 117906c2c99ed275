//! Stations that a CPU has looked up lately: most frames are of a few, and a secret hash for each costs more than all else that a
//! bridge does.
//!
//! Each place holds the station that was last looked up of those that share it. Whoever makes stations that share places gets
//! the table behind it: what everybody had without this one.

use super::{Behind, Key};
use crate::base::time::Instant;
use crate::link::tables::IfIndex;

/// Stations of a CPU that are found without the table.
pub(super) const RECENT: usize = 512;

/// An odd number whose multiples differ in their upper bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy)]
struct Place {
    /// Number of the interface, and the link address; 0 for a free place: no interface has that number.
    station: u64,
    port: IfIndex,
    /// Until when nothing is to be done if it is heard there.
    quiet: Instant,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Place>() <= 24);

pub(super) struct Recent(Box<[Place; RECENT]>);

impl Recent {
    pub(super) fn new() -> Self {
        Self(Box::new([FREE; RECENT]))
    }

    /// Returns the port behind which a station is, if it was looked up lately.
    #[inline]
    pub(super) fn port(&self, key: &Key) -> Option<IfIndex> {
        let place = &self.0[place_of(key)];
        (place.station == key.number()).then_some(place.port)
    }

    /// Whether a station was heard behind this port, so lately that nothing is to be done.
    #[inline]
    pub(super) fn is_quiet(&self, key: &Key, behind: Behind, now: Instant) -> bool {
        let Behind::Port(port) = behind else { return false };
        let place = &self.0[place_of(key)];
        place.station == key.number() && place.port == port && now < place.quiet
    }

    /// Remembers the place of a station. What is known of a bridge's ports alone is worth it.
    #[inline]
    pub(super) fn remember(&mut self, key: &Key, behind: Behind, quiet: Instant) {
        if let Behind::Port(port) = behind {
            self.0[place_of(key)] = Place { station: key.number(), port, quiet };
        }
    }

    /// Forgets a station.
    pub(super) fn forget(&mut self, key: &Key) {
        if self.port(key).is_some() {
            self.0[place_of(key)] = FREE;
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(FREE);
    }
}

const FREE: Place = Place { station: 0, port: 0, quiet: Instant::START };

/// The place that a station may have: of its number the bits that depend on all others.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "they are below the number of places")]
const fn place_of(key: &Key) -> usize {
    (key.number().wrapping_mul(SPREAD) >> (u64::BITS - RECENT.ilog2())) as usize
}
