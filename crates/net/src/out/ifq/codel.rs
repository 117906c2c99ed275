//! Controlled delay: drops when packets have been waiting too long, for too long, and ever more often until it helps.

use pkt::Pkt;

use super::list::Queued;
use crate::base::time::{Duration, Instant};

/// The state that the law needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Law {
    /// Waiting for less is fine.
    pub(crate) target: Duration,
    /// Waiting for longer than the target is fine for so long.
    pub(crate) interval: Duration,
    /// Bytes of a full-sized frame: while no more than that waits, nothing is dropped.
    pub(crate) mtu: usize,
}

/// The queue that is controlled.
pub(crate) trait Source<T = ()> {
    /// The oldest packet.
    fn pop(&mut self) -> Option<Queued<T>>;
    /// Bytes that wait still.
    fn bytes(&self) -> usize;
    /// Ends a packet that waited too long.
    fn drop_pkt(&mut self, late: Queued<T>);
    /// Marks a packet, so that its flow slows down; false if that flow does not understand marks.
    fn mark(&mut self, pkt: &mut Pkt) -> bool;
}

/// The state of one queue.
///
/// # Spec
/// RFC 8289 §5; ECN as in RFC 8290 §5.2.4 ("drop" below is a mark where the flow understands marks).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Codel {
    /// When it will have been too long for an interval; none while it is not too long.
    first_above: Option<Instant>,
    dropping: bool,
    /// When the next one is dropped.
    drop_next: Instant,
    /// Drops since dropping began.
    count: u64,
    /// Count at its last beginning.
    last_count: u64,
}

/// Time after its end for which dropping resumes where it was, intervals.
const MEMORY: u32 = 16;

impl Codel {
    /// The next packet that may leave.
    //= https://www.rfc-editor.org/rfc/rfc8289#section-5.5
    pub(crate) fn pop<T>(&mut self, now: Instant, law: &Law, from: &mut impl Source<T>) -> Option<Queued<T>> {
        let (queued, is_late) = self.look(now, law, from)?;
        match (self.dropping, is_late) {
            (_, false) => {
                self.dropping = false;
                Some(queued)
            }
            (false, true) => self.begin(now, law, queued, from),
            (true, true) => self.go_on(now, law, queued, from),
        }
    }

    /// The oldest packet, and whether packets have been too late for an interval now.
    fn look<T>(&mut self, now: Instant, law: &Law, from: &mut impl Source<T>) -> Option<(Queued<T>, bool)> {
        let Some(queued) = from.pop() else {
            (self.first_above, self.dropping) = (None, false);
            return None;
        };
        if now.since(queued.since) < law.target || from.bytes() <= law.mtu {
            self.first_above = None;
            return Some((queued, false));
        }
        let since = *self.first_above.get_or_insert(now + law.interval);
        Some((queued, now >= since))
    }

    /// Drops the first one. If it was necessary only a moment ago, as often as it was then.
    fn begin<T>(
        &mut self,
        now: Instant,
        law: &Law,
        queued: Queued<T>,
        from: &mut impl Source<T>,
    ) -> Option<Queued<T>> {
        let delta = self.count.saturating_sub(self.last_count);
        let recently = now.since(self.drop_next) < law.interval * MEMORY;
        self.count = if delta > 1 && recently { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = law.after(now, self.count);
        self.dropping = true;
        if let Some(marked) = mark_or_drop(queued, from) {
            return Some(marked);
        }
        self.look(now, law, from).map(|(queued, _)| queued)
    }

    /// Drops those that are due.
    fn go_on<T>(
        &mut self,
        now: Instant,
        law: &Law,
        queued: Queued<T>,
        from: &mut impl Source<T>,
    ) -> Option<Queued<T>> {
        let mut next = (queued, true);
        while now >= self.drop_next {
            self.count += 1;
            if let Some(marked) = mark_or_drop(next.0, from) {
                self.drop_next = law.after(self.drop_next, self.count);
                return Some(marked);
            }
            next = self.look(now, law, from)?;
            if !next.1 {
                self.dropping = false;
                break;
            }
            self.drop_next = law.after(self.drop_next, self.count);
        }
        Some(next.0)
    }
}

fn mark_or_drop<T>(mut queued: Queued<T>, from: &mut impl Source<T>) -> Option<Queued<T>> {
    if from.mark(&mut queued.pkt) {
        return Some(queued);
    }
    from.drop_pkt(queued);
    None
}

impl Law {
    /// When to drop after `at`: sooner with the root of how often it had to be already.
    fn after(&self, at: Instant, count: u64) -> Instant {
        let ns = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        // The root in 16.16 fixed point.
        let root = (count.clamp(1, u64::from(u32::MAX)) << 32).isqrt();
        at + Duration::from_nanos(ns.saturating_mul(1 << 16) / root)
    }
}
