//! Permissions of a world: each begins and ends with its cause.

use net::time::{Duration, Instant};

use super::World;

/// An irregularity that a world causes on purpose, so that checks accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permit {
    /// Broken packets: stations may receive nonsense. Permits [`Self::Loss`] as well.
    Nonsense,
    /// Packets of flows lost without a counter: a card is pulled out, a station is mute.
    Loss,
    /// Packets of flows reordered or duplicated: rings move between CPUs, and packets under way are overtaken.
    Disorder,
}

/// Time that a packet may be on its way.
const LINGER: Duration = Duration::from_secs(10);

/// The permissions of a world.
#[derive(Debug, Default)]
pub(super) struct Permits {
    spans: Vec<Span>,
    /// The end of the last cause, and what had been counted then.
    pub(super) renewed: Option<Renewed>,
}

/// The world as it was when the last cause of irregularities ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewed {
    /// When.
    pub(super) at: Instant,
    /// Packets lost for reasons that are counted.
    pub(super) losses: u64,
    /// Frames longer than the MTU of their cable.
    pub(super) oversized: u64,
}

#[derive(Debug)]
struct Span {
    what: Permit,
    from: Instant,
    until: Option<Instant>,
}

impl Permits {
    /// Whether `what` is permitted to a packet that was sent at `from` and arrived, or was lost, at `until` at the latest.
    pub(super) fn cover(&self, what: Permit, from: Instant, until: Instant) -> bool {
        let of_kind = self.spans.iter().filter(|span| span.what.includes(what));
        of_kind.into_iter().any(|span| span.from <= until && span.until.is_none_or(|end| from <= end))
    }

    /// [`Self::cover`] for a packet sent at `from`, wherever it was lost.
    pub(super) fn cover_loss(&self, from: Instant) -> bool {
        self.cover(Permit::Loss, from, from + LINGER)
    }

    /// Whether `what` has ever been permitted.
    pub(super) fn ever(&self, what: Permit) -> bool {
        self.spans.iter().any(|span| span.what.includes(what))
    }

    fn is_open(&self, what: Permit) -> bool {
        self.spans.iter().any(|span| span.what == what && span.until.is_none())
    }
}

impl Permit {
    fn includes(self, what: Self) -> bool {
        self == what || (self, what) == (Self::Nonsense, Self::Loss)
    }
}

impl World {
    /// Permits an irregularity from now on: its cause begins.
    pub fn allow(&mut self, what: Permit) {
        if !self.permits.is_open(what) {
            self.permits.spans.push(Span { what, from: self.now, until: None });
        }
    }

    /// Ends a permission: the effects of its cause are over, and what happens from now on is judged again.
    pub fn forbid(&mut self, what: Permit) {
        let now = self.now;
        let open = self.permits.spans.iter_mut().filter(|span| span.what == what && span.until.is_none());
        open.for_each(|span| span.until = Some(now));
        let (losses, oversized) = (self.losses(), self.oversized());
        self.permits.renewed = Some(Renewed { at: now, losses, oversized });
    }

    /// Whether `what` was permitted at a time.
    #[must_use]
    pub fn permits(&self, what: Permit, at: Instant) -> bool {
        self.permits.cover(what, at, at)
    }

    /// Whether `what` has been permitted at any time so far.
    #[must_use]
    pub fn has_allowed(&self, what: Permit) -> bool {
        self.permits.ever(what)
    }
}
