//! Bridges: interfaces whose frames are those of their ports.
//!
//! # Spec
//! IEEE 802.1D-2004 §7.8 to §7.10, §7.12.6.

use wire::ether::Mac;

use crate::base::time::{Duration, Instant};
use crate::link::logical::Kind;
use crate::link::stp;
use crate::link::tables::{IfIndex, Ifnet};

/// Ports of a bridge at the most: as many copies a flooded frame may have.
pub const PORTS_MAX: usize = 32;
/// The part of a second for which a bridge that was quiet may flood at once.
const BURST: u32 = 10;

/// A bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// Frames that it floods in a second, all CPUs together; 0 for no limit.
    pub storm: u32,
    /// Its spanning tree, if it takes part in one.
    pub stp: Option<stp::Settings>,
    /// Whether multicast packets go only to the ports with listeners.
    pub snooping: bool,
}

/// An interface's place in a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// The bridge.
    pub bridge: IfIndex,
    /// It exchanges no frames with other such ports.
    pub is_private: bool,
    /// It only gets a copy of all that the bridge receives.
    pub is_span: bool,
    /// Its part in the spanning tree, if the bridge has one.
    pub stp: Option<stp::PortSettings>,
}

/// The bridges of a [`super::logical::Logical`], by their ports.
#[derive(Debug, Default)]
pub struct Bridges {
    /// Bridge and port, sorted.
    ports: Vec<(IfIndex, IfIndex)>,
    /// Bridge and span port, sorted.
    spans: Vec<(IfIndex, IfIndex)>,
}

impl Bridges {
    /// Returns the bridges among interfaces, those that are down included.
    pub(super) fn of(ifs: &[Ifnet]) -> Self {
        let all = ifs.iter().filter_map(|ifnet| Some((ifnet.port?, ifnet.index)));
        let (spans, ports): (Vec<_>, Vec<_>) = all.partition(|(port, _)| port.is_span);
        let [ports, spans] = [ports, spans].map(|list| {
            let mut list: Vec<_> = list.into_iter().map(|(port, index)| (port.bridge, index)).collect();
            list.sort_unstable();
            list
        });
        Self { ports, spans }
    }

    /// Returns the ports of a bridge, span ports excepted.
    #[must_use]
    pub fn ports(&self, bridge: IfIndex) -> &[(IfIndex, IfIndex)] {
        of_bridge(&self.ports, bridge)
    }

    /// Returns the span ports of a bridge.
    #[must_use]
    pub fn spans(&self, bridge: IfIndex) -> &[(IfIndex, IfIndex)] {
        of_bridge(&self.spans, bridge)
    }
}

#[inline]
fn of_bridge(list: &[(IfIndex, IfIndex)], bridge: IfIndex) -> &[(IfIndex, IfIndex)] {
    if list.is_empty() {
        return &[];
    }
    let from = list.partition_point(|(of, _)| *of < bridge);
    let to = list.partition_point(|(of, _)| *of <= bridge);
    list.get(from..to).unwrap_or_default()
}

/// Whether frames to this address end at the bridge that receives them: of protocols of the link alone.
//= IEEE 802.1D-2004 §7.12.6, table 7-10
#[must_use]
pub const fn is_reserved(dst: Mac) -> bool {
    matches!(dst.octets(), [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

/// The flood limit of a bridge on one CPU, as the moment at which a whole burst may be flooded again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storm {
    full_at: Instant,
}

impl Storm {
    /// Whether one more frame may be flooded, of `rate` in a second; if so, it is counted.
    pub(crate) fn allows(&mut self, now: Instant, rate: u64) -> bool {
        if rate == 0 {
            return true;
        }
        let one = Duration::from_nanos(1_000_000_000 / rate);
        let full_at = self.full_at.max(now) + one;
        let is_allowed = full_at.since(now) <= (Duration::from_secs(1) / BURST).max(one);
        if is_allowed {
            self.full_at = full_at;
        }
        is_allowed
    }
}

/// Lets bridges inherit from their ports: no larger MTU than the least of them. A port has no addresses.
pub(super) fn inherit(ifs: &mut [Ifnet]) {
    for at in 0..ifs.len() {
        let Kind::Bridge(_) = ifs[at].kind else { continue };
        let index = ifs[at].index;
        let is_of = |ifnet: &&Ifnet| ifnet.port.is_some_and(|port| port.bridge == index && !port.is_span);
        let least = ifs.iter().filter(is_of).map(|port| port.mtu).min();
        ifs[at].mtu = ifs[at].mtu.min(least.unwrap_or(u32::MAX));
    }
}
