//! Whether the addresses of the stack can be used.

use core::net::IpAddr;

use net::addr::{self, Key, State};
use net::netisr::Netisr;

use super::super::control::Control;
use super::super::tables::Attached;
use crate::NotReady;
use crate::api::{DeviceMode, Error};

/// An address as one CPU sees it.
#[derive(Clone, Copy)]
struct Seen {
    /// `None` until the CPU knows the address.
    state: Option<State>,
    is_usable: bool,
}

/// Addresses, and as each CPU sees them.
struct View {
    keys: Vec<Key>,
    cpus: Vec<Vec<Seen>>,
}

impl View {
    /// Whether every CPU may use the address.
    fn is_usable(&self, key: &Key) -> bool {
        self.seen(key).all(|seen| seen.state.is_some() && seen.is_usable)
    }

    fn is_duplicate(&self, key: &Key) -> bool {
        self.seen(key).any(|seen| seen.state == Some(State::Duplicated))
    }

    fn seen(&self, key: &Key) -> impl Iterator<Item = Seen> {
        let at = self.keys.iter().position(|other| other == key);
        self.cpus.iter().filter_map(move |seen| seen.get(at?).copied())
    }
}

impl Control {
    /// Returns what the stack waits for until its addresses can be used; `None` if they can.
    ///
    /// # Errors
    /// They never will, unless the configuration or another host changes.
    pub(crate) fn waits_for(&mut self) -> Result<Option<String>, NotReady> {
        let ended = |why: Error| NotReady::Ended(why.error);
        let rings = self.cpus.reports().map_err(ended)?;
        let carriers = self.carriers(&rings);
        let view = self.view().map_err(ended)?;
        let in_use =
            self.attached.iter().zip(carriers).filter(|(interface, _)| interface.up && !interface.monitor);
        let mut waits = None;
        for (interface, has_carrier) in in_use {
            let own = interface.addresses();
            for key in own.iter().map(|own| key(interface, own.addr)) {
                if view.is_duplicate(&key) {
                    return Err(self.duplicate(interface, key.addr));
                }
            }
            waits = waits.or_else(|| self.waits_on(interface, has_carrier, &view));
        }
        Ok(waits)
    }

    /// Returns what one interface waits for.
    fn waits_on(&self, interface: &Attached, has_carrier: bool, view: &View) -> Option<String> {
        let name = &interface.config.name;
        if interface.away.is_some() {
            return Some(format!("interface {name} has no device"));
        }
        // A file has no other end.
        if !has_carrier && interface.facts.mode != DeviceMode::Pcap {
            return Some(format!("interface {name} has no link"));
        }
        let own = interface.addresses();
        let tentative = own.iter().find(|own| !view.is_usable(&key(interface, own.addr)));
        if let Some(own) = tentative {
            let addr = own.addr;
            return Some(format!(
                "{addr} of interface {name} is tentative: duplicate address detection runs"
            ));
        }
        let wants_prefix = interface.config.autoconf.is_some()
            && !interface.config.addresses.iter().any(|net| net.addr().is_ipv6());
        let is_learnt =
            |key: &&Key| key.ifindex == interface.index && own.iter().all(|own| own.addr != key.addr);
        let has_prefix = view.keys.iter().filter(is_learnt).any(|key| view.is_usable(key));
        (wants_prefix && !has_prefix)
            .then(|| format!("interface {name} has no address from a router advertisement"))
    }

    /// Asks all CPUs for the addresses in force.
    fn view(&self) -> Result<View, Error> {
        let of = |ifnet: &net::tables::Ifnet| {
            let ifindex = ifnet.index;
            ifnet.addrs.iter().map(move |own| Key { ifindex, addr: own.addr }).collect::<Vec<_>>()
        };
        let keys: Vec<Key> = self.tables.ifnets().flat_map(of).collect();
        let asked = keys.clone();
        let cpus = self.cpus.call_all(move |netisr: &mut Netisr| {
            let addrs = &netisr.cpu.addrs;
            let seen =
                |key: &Key| Seen { state: addrs.state(key), is_usable: addrs.usable(key.ifindex, key.addr) };
            asked.iter().map(seen).collect::<Vec<_>>()
        })?;
        Ok(View { keys, cpus })
    }

    fn duplicate(&self, interface: &Attached, address: IpAddr) -> NotReady {
        let key = key(interface, address);
        let states = self.cpus.call_all(|netisr| addr::states(&netisr.cpu)).unwrap_or_default().concat();
        let rival = states.iter().find(|status| status.key == key).and_then(|status| status.rival);
        NotReady::Duplicate {
            interface: interface.config.name.clone(),
            address,
            rival: rival.map(crate::Mac),
        }
    }
}

const fn key(interface: &Attached, addr: IpAddr) -> Key {
    Key { ifindex: interface.index, addr }
}
