//! Local addresses of unconnected sockets: listeners of TCP, sockets of UDP.

use core::net::SocketAddr;

use super::FourTuple;
use crate::link::tables::IfIndex;

/// A bound local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// Our address, or the unspecified one for all; and the port.
    pub(crate) addr: SocketAddr,
    /// The interface, where the address means something only with its link; else 0.
    pub(crate) zone: IfIndex,
    /// The only interface by which packets come and go (`SO_BINDTODEVICE`); 0: any.
    pub(crate) device: IfIndex,
    /// With the unspecified IPv6 address: that IPv4 is not waited for.
    pub(crate) only_v6: bool,
    /// Others may wait for the same, and share what comes.
    pub(crate) is_shared: bool,
}

impl Bound {
    /// Ranks a match: a specific address is better than a wildcard, one family better than both, and one interface better than
    /// any. `None` if the packet is not for it.
    pub(crate) fn rank(&self, ends: &FourTuple) -> Option<u8> {
        let by_device = match self.device {
            0 => 0,
            device if device == ends.zone => 1,
            _ => return None,
        };
        self.rank_of_addr(ends).map(|rank| 2 * rank + by_device)
    }

    fn rank_of_addr(&self, ends: &FourTuple) -> Option<u8> {
        let own = self.addr.ip();
        if !own.is_unspecified() {
            let is_same_zone = self.zone == 0 || ends.zone == 0 || self.zone == ends.zone;
            return (own == ends.local && is_same_zone).then_some(2);
        }
        match self.addr.is_ipv4() == ends.local.is_ipv4() {
            true => Some(1),
            false => self.takes_mapped().then_some(0),
        }
    }

    /// Whether it waits for both families.
    pub(crate) fn takes_mapped(&self) -> bool {
        self.addr.is_ipv6() && self.addr.ip().is_unspecified() && !self.only_v6
    }

    /// Whether both would wait for the same, so that not both can.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        self.is_like(other) && !(self.is_shared && other.is_shared)
    }

    /// Whether both would wait for the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let is_apart = self.device != 0 && other.device != 0 && self.device != other.device;
        let is_same_place = self.addr == other.addr && self.zone == other.zone;
        is_same_place && !is_apart && self.takes_mapped() == other.takes_mapped()
    }
}

/// Returns the place, in a list of sockets at one port, of the one for a conversation between `ends`. Of a group,
/// the flow's hash chooses one.
pub(crate) fn choose(all: impl Iterator<Item = Bound> + Clone, ends: &FourTuple) -> Option<usize> {
    let best = all.clone().filter_map(|bound| bound.rank(ends)).max()?;
    let group = || all.clone().enumerate().filter(|(_, bound)| bound.rank(ends) == Some(best));
    group().nth(usize::from(ends.flow()) % group().count().max(1)).map(|(at, _)| at)
}
