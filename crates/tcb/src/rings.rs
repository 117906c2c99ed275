//! Recycled buffers of connections: a connection that comes and goes does not allocate.

/// Sizes that are kept, as powers of two: a question, and what a usual buffer holds at once.
const LEAST_LOG: u32 = 6;
const MOST_LOG: u32 = 16;
/// Bytes that a CPU keeps at the most.
pub const RINGS_BYTES_MAX: usize = 4 << 20;
/// Bytes kept for each connection, and without any.
const EACH_BYTES: usize = 4096;
const REST_BYTES: usize = 64 << 10;

/// Free rings, by size.
#[derive(Debug)]
pub struct Rings {
    by_size: [Vec<Vec<u8>>; (MOST_LOG - LEAST_LOG + 1) as usize],
    bytes: usize,
    /// Bytes that may be kept now.
    most: usize,
}

impl Default for Rings {
    #[inline]
    fn default() -> Self {
        Self { by_size: Default::default(), bytes: 0, most: REST_BYTES }
    }
}

impl Rings {
    /// There are so many connections now. What is too much for so few goes back to the system.
    #[inline]
    pub fn suit(&mut self, connections: usize) {
        self.most = (REST_BYTES + connections * EACH_BYTES).min(RINGS_BYTES_MAX);
        if self.bytes > self.most {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        let Self { by_size, bytes, most } = self;
        for rings in by_size.iter_mut().rev() {
            while *bytes > *most
                && let Some(ring) = rings.pop()
            {
                *bytes -= ring.capacity();
            }
        }
    }

    /// An empty one of this size, if there is any.
    #[inline]
    pub fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let ring = self.by_size.get_mut(place(size)?)?.pop()?;
        self.bytes -= ring.capacity();
        Some(ring)
    }

    /// Keeps one for the next, or gives it to the system if there are enough, or it is large.
    #[inline]
    pub fn give(&mut self, mut ring: Vec<u8>) {
        let size = ring.capacity();
        if let Some(rings) = place(size).and_then(|place| self.by_size.get_mut(place))
            && self.bytes + size <= self.most
        {
            ring.clear();
            rings.push(ring);
            self.bytes += size;
        }
    }

    /// Bytes that are kept.
    #[inline]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Where rings of this size are; `None` if they are too small, or of no such size.
fn place(size: usize) -> Option<usize> {
    let log = size.is_power_of_two().then(|| size.trailing_zeros())?;
    log.checked_sub(LEAST_LOG).map(|place| place as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_may_be() {
        let mut rings = Rings::default();
        rings.suit(1 << 20);
        for _ in 0..2 * RINGS_BYTES_MAX / 4096 {
            rings.give(Vec::with_capacity(4096));
        }
        assert_eq!(rings.bytes(), RINGS_BYTES_MAX);
        rings.give(Vec::with_capacity(1 << 20));
        assert_eq!(rings.take(1 << 20), None, "large ones are not");
        assert_eq!(rings.take(64), None);
        let taken = core::iter::from_fn(|| rings.take(4096)).count();
        assert_eq!((taken, rings.bytes()), (RINGS_BYTES_MAX / 4096, 0));
    }

    #[test]
    fn with_the_connections_goes_what_was_kept_for_them() {
        let mut rings = Rings::default();
        rings.suit(100);
        (0..100).for_each(|_| rings.give(Vec::with_capacity(2048)));
        assert_eq!(rings.bytes(), 100 * 2048);
        rings.suit(50);
        assert_eq!(rings.bytes(), 100 * 2048, "there is room for as much");
        rings.suit(0);
        assert!(rings.bytes() <= REST_BYTES && rings.bytes() > REST_BYTES / 2, "{}", rings.bytes());
    }
}
