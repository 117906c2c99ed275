//! Lanes: pairs of byte streams between two ends that do not trust each other, many in one piece of memory.
//!
//! ```text
//!            near end (a program's thread)                far end (a netisr)
//!   lane 0   Writer ──────── bytes, how they ended ──────▶ Reader
//!            Reader ◀─────── bytes, how they ended ─────── Writer
//!   lane 1   …
//! ```
//!
//! There is nothing in this memory but words and bytes, at places that follow from a lane's number: it could be shared
//! with another process as it is. What an end finds there of the other is a number that can be wrong: positions are held
//! against the ring's size before anything is touched ([`Broken`]).
//!
//! The near end takes a free lane and says so, by whatever way the two have; then the far end takes it, once. The lane is
//! free again when both have dropped what they had of it. A far end that is told of a lane that was not begun for it does
//! not get it.
//!
//! # Waiting and notification
//!
//! A reader that finds nothing announces that it waits ([`Reader::waits`]), and so does a writer that finds no room
//! ([`Writer::waits`]). The other end sees it after it has published something, and takes the announcement down: then it
//! must notify, once. An end that does not wait is not notified. The order of the steps, with a fence on each side, is that of
//! [`wake`](crate::wake), and so is the argument why no wake-up is lost. A writer is notified when half of the ring is free,
//! not of each byte.

mod region;
mod stream;

pub use self::region::TooLarge;
pub use self::stream::{Broken, Forger, Reader, Writer};

use self::region::Region;
use self::stream::Side;
use crate::sync::Arc;

/// `count` lanes with room for `capacity` bytes in each direction, rounded up to a power of two; and their two ends.
///
/// Memory is reserved for all of them and taken for what is used.
///
/// ```
/// let (near, far) = pkt::byte_channel::lanes(4, 1024).unwrap();
/// let (mut tx, _) = near.take(3).unwrap();
/// let (_, mut rx) = far.take(3).unwrap();
/// tx.write(b"a stream").unwrap();
/// tx.publish();
/// let mut bytes = [0; 32];
/// assert_eq!(rx.read(&mut bytes), Ok(8));
/// assert!(far.take(3).is_none() && far.take(4).is_none() && near.take(3).is_none());
/// ```
///
/// # Errors
///
/// [`TooLarge`], if the system has not so much address space for us.
pub fn lanes(count: u32, capacity: usize) -> Result<(Near, Far), TooLarge> {
    let region = Arc::new(Region::new(count, capacity)?);
    Ok((Near { region: region.clone() }, Far { region }))
}

/// The end that begins lanes.
pub struct Near {
    region: Arc<Region>,
}

/// The end that takes part in them.
pub struct Far {
    region: Arc<Region>,
}

impl Near {
    /// Begins a lane; `None` if there is no such lane, or something of it is still held.
    #[must_use]
    pub fn take(&self, lane: u32) -> Option<(Writer, Reader)> {
        self.region.begin(lane)?;
        Some(stream::ends(&self.region, lane, Side::Near))
    }

    /// Gives the memory of a lane back that has carried more than little; nothing happens if something of it is held.
    pub fn tidy(&self, lane: u32) {
        self.region.tidy(lane);
    }
}

impl Far {
    /// Takes part in a lane that was begun; `None` if there is no such lane, or it was not begun, or is taken already.
    #[must_use]
    pub fn take(&self, lane: u32) -> Option<(Writer, Reader)> {
        self.region.join(lane)?;
        Some(stream::ends(&self.region, lane, Side::Far))
    }

    /// Returns the number of lanes.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.region.count()
    }
}

#[cfg(test)]
mod tests;
