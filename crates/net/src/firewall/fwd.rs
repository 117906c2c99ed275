//! `fwd`: packets that go to another next hop than their route's.

use core::net::IpAddr;

use hashbrown::HashMap;
use ipfw::rule::Hook;
use pkt::Pkt;

use super::resume;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::turn::cpu::Cpu;

/// Next hops that one CPU's rules and tables may name. A packet to another dies as if there were no route.
pub const VIAS_MAX: usize = 1 << 12;
// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<IpAddr>() + size_of::<(IpAddr, u16)>() <= 37);

/// A next hop that a rule named, and the hook at which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    /// Its place among those of this CPU.
    at: u16,
    hook: Hook,
}

/// The next hops that rules have named on this CPU: a packet is told a number in place of an address.
pub(super) struct Vias {
    addrs: Vec<IpAddr>,
    places: HashMap<IpAddr, u16, Secret>,
}

impl Vias {
    pub(super) fn new(key: u128) -> Self {
        Self { addrs: Vec::new(), places: HashMap::with_hasher(Secret::new(key)) }
    }

    /// The number of a next hop; `None` if there are too many.
    pub(super) fn number(&mut self, to: IpAddr, hook: Hook) -> Option<Via> {
        let known = self.places.get(&to).copied();
        let at = known.or_else(|| {
            let at = u16::try_from(self.addrs.len()).ok().filter(|_| self.addrs.len() < VIAS_MAX)?;
            self.addrs.push(to);
            self.places.insert(to, at);
            Some(at)
        })?;
        Some(Via { at, hook })
    }

    fn addr(&self, via: Via) -> Option<IpAddr> {
        self.addrs.get(usize::from(via.at)).copied()
    }
}

/// Sends a packet to the next hop that a rule named, on from the hook at which it did. The packet is not changed: its
/// hop count goes down as if its route led there, and one of our own addresses gives it to us.
///
/// Drops  [`DropReason::NoRoute`].
pub fn send(cpu: &mut Cpu, pkt: Pkt, via: Via) {
    let Some(to) = cpu.firewall.as_ref().and_then(|firewall| firewall.vias.addr(via)) else {
        return cpu.drop_pkt(pkt, DropReason::NoRoute);
    };
    resume::go(cpu, pkt, via.hook, Some(to));
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    #[test]
    fn next_hops_beyond_those_that_are_numbered_have_no_number() {
        let mut vias = Vias::new(1);
        let addr = |n: usize| IpAddr::from(Ipv4Addr::from_bits(u32::try_from(n).unwrap()));
        for n in 0..VIAS_MAX {
            let via = vias.number(addr(n), Hook::Ingress).unwrap();
            assert_eq!(vias.addr(via), Some(addr(n)));
        }
        assert_eq!(vias.number(addr(VIAS_MAX), Hook::Ingress), None);
        assert!(vias.number(addr(3), Hook::Egress).is_some(), "those that are known still are");
    }
}
