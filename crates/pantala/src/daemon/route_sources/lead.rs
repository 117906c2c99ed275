//! Where a next hop of a source leads here.

use std::collections::HashMap;

use net::fib::To;
use wire::rtnetlink::Link;

use crate::config::Common;
use crate::daemon::tables::{Attached, is_link_local, up};
use crate::routes::target::{RawHop, RawTo};

/// Interfaces of a source that are remembered.
const LINKS_MAX: usize = 4096;

/// The interfaces of a source, by number.
#[derive(Debug, Default)]
pub(super) struct Links {
    by_index: HashMap<u32, Known>,
}

/// An interface of a source.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    name: String,
    is_up: bool,
}

/// The meaning of a change of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// Routes may lead elsewhere.
    Other,
    /// It went down: the kernel removes its routes, and does not say so.
    Down,
}

/// Interfaces of both sides.
pub(super) struct Lead<'c> {
    pub(super) attached: &'c [Attached],
    pub(super) links: &'c Links,
    pub(super) common: &'c Common,
}

impl Links {
    /// Takes in an interface.
    pub(super) fn set(&mut self, link: &Link<'_>) -> Change {
        let name = String::from_utf8_lossy(link.name).into_owned();
        let new = Known { name, is_up: link.is_up };
        let before = self.by_index.get(&link.index);
        if before == Some(&new) || (before.is_none() && self.by_index.len() >= LINKS_MAX) {
            return Change::None;
        }
        let is_down = !new.is_up && before.is_some_and(|before| before.is_up);
        self.by_index.insert(link.index, new);
        if is_down { Change::Down } else { Change::Other }
    }

    /// Forgets an interface.
    pub(super) fn remove(&mut self, index: u32) -> Change {
        if self.by_index.remove(&index).is_some() { Change::Down } else { Change::None }
    }
}

impl Lead<'_> {
    /// Where a hop leads; `None` if that is nowhere now.
    pub(super) fn to(&self, raw: &RawHop) -> Option<To> {
        match raw.to {
            RawTo::Reject => Some(To::Reject),
            RawTo::Blackhole => Some(To::Blackhole),
            RawTo::Object(_) | RawTo::Unsupported => None,
            RawTo::Link => {
                Some(To::OnLink { ifindex: up(&self.named(raw.ifindex)?.config.name, self.attached)? })
            }
            RawTo::Via(via) => {
                let own = |own: &Attached| own.addresses().iter().any(|own| own.addr == via);
                if self.links.by_index.get(&raw.ifindex).is_some_and(|link| !link.is_up)
                    || self.attached.iter().any(own)
                {
                    return None;
                }
                let interface = self.named(raw.ifindex).or_else(|| self.around(via))?;
                Some(To::Gateway { ifindex: up(&interface.config.name, self.attached)?, via })
            }
        }
    }

    /// The interface here that one of the source is: by the configuration, as its twin, by the same name, or by the same
    /// device.
    fn named(&self, index: u32) -> Option<&Attached> {
        let link = self.links.by_index.get(&index).filter(|link| link.is_up)?;
        let name = self.common.interfaces.get(&link.name).unwrap_or(&link.name);
        let has = |is: &dyn Fn(&Attached) -> bool| self.attached.iter().find(|interface| is(interface));
        has(&|own| own.config.punt.as_ref() == Some(name))
            .or_else(|| has(&|own| own.config.name == *name))
            .or_else(|| has(&|own| own.config.device.is_shared() && own.config.device.host() == Some(name)))
    }

    /// The interface with the longest prefix around a gateway.
    fn around(&self, via: core::net::IpAddr) -> Option<&Attached> {
        if is_link_local(via) {
            return None;
        }
        let prefixes =
            self.attached.iter().flat_map(|own| own.addresses().into_iter().map(move |addr| (own, addr)));
        let on_link = prefixes.filter(|(_, own)| own.covers(via) && !is_link_local(own.addr));
        on_link.max_by_key(|(_, own)| own.prefix_len).map(|(interface, _)| interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_goes_down_or_away_is_told_from_one_that_comes() {
        let mut links = Links::default();
        let link = |is_up| Link { index: 7, is_up, name: b"eth0" };
        assert_eq!(links.set(&link(false)), Change::Other);
        assert_eq!(links.set(&link(true)), Change::Other);
        assert_eq!(links.set(&link(true)), Change::None);
        assert_eq!(links.set(&link(false)), Change::Down);
        assert_eq!((links.remove(7), links.remove(7)), (Change::Down, Change::None));
    }
}
