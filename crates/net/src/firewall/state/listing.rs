//! Listings of states: a page at a time, so that no CPU is held up by a million.

use core::time::Duration;

use wire::tcp::Flags;

use super::States;
use super::entry::Kind;
use super::key::End;
use super::tcp::Phase;
use crate::base::collections::slab;
use crate::base::collections::wheel::ms;
use crate::base::time::Instant;
use crate::firewall::ruleset::{FlowId, RuleId};

/// Places that are looked at for one page, whether there are states or not.
pub const PLACES_PER_PAGE: usize = 64 * slab::SEGMENT;

/// A state, at the time of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The rule that made it.
    pub rule: RuleId,
    /// Its name.
    pub flow: FlowId,
    /// Kind of state.
    pub kind: Kind,
    /// Whether it is of IPv4.
    pub is_ip4: bool,
    /// The protocol.
    pub proto: u8,
    /// Source and destination of the first packet.
    pub ends: [End; 2],
    /// Packets of both directions.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Remaining lifetime.
    pub left: Duration,
    /// Phase of its connection, if it is TCP.
    pub phase: Option<Phase>,
    /// Flags that were seen of it, if it is TCP: SYN, ACK, FIN, RST.
    pub tcp_flags: Option<Flags>,
}

impl States {
    /// Up to `limit` states from the place `from` on, those whose lives are over only if `with_ended`, and the place where
    /// the next page begins; `None` if there is nothing behind it. The first page begins at 0. States that come and go between two pages may
    /// be seen or not; those that stay are seen once.
    #[must_use]
    pub fn page(
        &self,
        from: u32,
        limit: usize,
        with_ended: bool,
        now: Instant,
    ) -> (Vec<Listed>, Option<u32>) {
        let now_ms = ms(now);
        let mut listed = Vec::new();
        let mut looked_at = 0;
        let mut place = from;
        while (place as usize) < self.slab.end() {
            if listed.len() == limit || looked_at == PLACES_PER_PAGE {
                return (listed, Some(place));
            }
            let state = self.slab.get(place).filter(|_| self.slab.is_used(place));
            let left = state.map_or(0, |state| u64::try_from(state.left_ms(now_ms)).unwrap_or(0));
            if let Some(state) = state.filter(|_| left > 0 || with_ended) {
                listed.push(Listed {
                    rule: state.rule,
                    flow: state.flow,
                    kind: state.kind,
                    is_ip4: state.key.is_ip4(),
                    proto: state.key.proto(),
                    ends: state.ends(),
                    packets: state.packets,
                    bytes: state.bytes,
                    left: Duration::from_millis(left),
                    phase: state.phase(),
                    tcp_flags: state.tcp_flags(),
                });
            }
            looked_at += 1;
            place += 1;
        }
        (listed, None)
    }
}
