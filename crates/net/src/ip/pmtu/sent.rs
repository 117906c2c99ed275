//! Packets that have left lately and were longer than any path must carry.

use crate::base::four_tuple::secrets;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};

use super::Flow;

/// Conversations whose long packets are remembered; one takes the place of another whose hash ends alike.
pub const SENT_MAX: usize = 1024;
/// Time in which an error may come back: no packet lives longer in a network (RFC 9293 §3.4.1).
const KEPT: Duration = Duration::from_secs(120);

/// Long packets of a CPU. It takes memory when the first one leaves.
pub(super) struct Sent {
    table: Vec<Option<Entry>>,
    secrets: [u64; 4],
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    flow: Flow,
    /// Bytes of the longest.
    len: u32,
    /// When the last one left.
    at: Instant,
}

impl Sent {
    pub(super) fn new(secret: &mut Secret) -> Self {
        Self { table: Vec::new(), secrets: secrets(secret) }
    }

    /// Notes that a packet of `len` bytes leaves.
    pub(super) fn note(&mut self, flow: Flow, len: u32, now: Instant) {
        if self.table.is_empty() {
            self.table.resize(SENT_MAX, None);
        }
        let at = self.place(&flow);
        let known = self.table[at].filter(|known| known.flow == flow && now.since(known.at) <= KEPT);
        let len = known.map_or(len, |known| known.len.max(len));
        self.table[at] = Some(Entry { flow, len, at: now });
    }

    /// Returns whether a packet of that conversation that was longer than `mtu` has left lately.
    pub(super) fn has(&self, flow: &Flow, mtu: u32, now: Instant) -> bool {
        let entry = self.table.get(self.place(flow)).copied().flatten();
        entry.is_some_and(|entry| entry.flow == *flow && entry.len > mtu && now.since(entry.at) <= KEPT)
    }

    #[expect(clippy::cast_possible_truncation, reason = "of a hash")]
    fn place(&self, flow: &Flow) -> usize {
        flow.hash(&self.secrets) as usize % SENT_MAX
    }
}
