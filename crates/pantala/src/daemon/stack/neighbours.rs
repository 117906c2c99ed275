//! `arp` and `ndp`. Each neighbour's entry is on the CPU that owns its address.

use core::net::IpAddr;

use net::neigh::{self, Entry, Key, State};
use net::tables::{IfIndex, PUBLISHED_MAX};

use super::super::control::Control;
use super::super::tables::{Attached, is_link_local};
use crate::Mac;
use crate::api::{Error, ErrorKind, Family, Neighbour, NeighbourRequest, NeighbourState};

impl Control {
    /// Returns the neighbours of all links, and ourselves on each.
    pub(super) fn list_neighbours(&self) -> Result<Vec<Neighbour>, Error> {
        let entries: Vec<Entry> = self.entries()?;
        let mut list: Vec<_> = entries.iter().filter_map(|entry| self.neighbour(entry)).collect();
        list.extend(self.attached.iter().flat_map(ourselves));
        list.extend(self.attached.iter().flat_map(published));
        list.sort_by(|a, b| (a.address, &a.interface).cmp(&(b.address, &b.interface)));
        Ok(list)
    }

    pub(super) fn insert_neighbour(
        &mut self,
        address: IpAddr,
        request: &NeighbourRequest,
    ) -> Result<(), Error> {
        if let Some(mac) = request.mac.filter(|mac| !mac.0.is_unicast()) {
            return Err(Error::new(ErrorKind::Invalid, format!("{mac} is not a unicast address")));
        }
        if self.tables.is_ours(address) {
            return Err(Error::new(ErrorKind::Invalid, format!("{address} is an address of this host")));
        }
        if request.publish {
            return self.publish_address(address, request);
        }
        let Some(Mac(mac)) = request.mac else {
            let error = Error::new(ErrorKind::Invalid, "an entry needs an Ethernet address");
            return Err(error.hint("only a published address may leave it out"));
        };
        let key = Key { ifindex: self.link_for(address, request)?, addr: address };
        let owner = self.cpus.owner_of(address);
        match self.cpus.call(owner, move |netisr| neigh::set_static(&mut netisr.cpu, key, mac))? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Busy, "neighbour table full")),
        }
    }

    /// Answers for an address from now on: on the link of the interface that is named, or on that of the address.
    fn publish_address(&mut self, address: IpAddr, request: &NeighbourRequest) -> Result<(), Error> {
        let index = match &request.interface {
            Some(name) => self.interface(name).ok_or_else(|| self.no_interface(name))?.index,
            None => self.link_for(address, request)?,
        };
        let Some(interface) = self.attached.iter_mut().find(|interface| interface.index == index) else {
            return Err(Error::new(ErrorKind::NotFound, "the interface is gone"));
        };
        let room = PUBLISHED_MAX.saturating_sub(interface.config.publish.addresses.len());
        if !interface.by_hand.add(address, request.mac.map(|mac| mac.0), room) {
            let text = format!("limit reached ({PUBLISHED_MAX} addresses on one interface)");
            return Err(Error::new(ErrorKind::Busy, text));
        }
        self.publish()
    }

    pub(super) fn remove_neighbour(&mut self, address: IpAddr) -> Result<(), Error> {
        let keys: Vec<Key> = self.entries()?.into_iter().map(|entry| entry.key).collect();
        let attached = self.attached.iter_mut();
        let mut known = attached.fold(false, |known, own| known | own.unpublish(address));
        if known {
            self.publish()?;
        }
        for key in keys.into_iter().filter(|key| key.addr == address) {
            known |= self.forget(key)?;
        }
        if known {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::NotFound, format!("no neighbour entry for {address}")))
        }
    }

    pub(super) fn forget_neighbours(&self, family: Family) -> Result<u64, Error> {
        let mut count = 0;
        for entry in self.entries()? {
            let learnt = entry.state != State::Permanent && Family::of(entry.key.addr) == family;
            count += u64::from(learnt && self.forget(entry.key)?);
        }
        Ok(count)
    }

    /// Forgets one neighbour, if it is known.
    pub(in super::super) fn forget_neighbour(&self, ifindex: IfIndex, addr: IpAddr) {
        // That it was not known is no error.
        let _ = self.forget(Key { ifindex, addr });
    }

    /// Asks for the link address of a neighbour.
    pub(in super::super) fn seek_neighbour(&self, ifindex: IfIndex, addr: IpAddr) {
        let owner = self.cpus.owner_of(addr);
        // Without an answer of the netisr it counts as not there.
        let _ = self.cpus.call(owner, move |netisr| neigh::seek(&mut netisr.cpu, Key { ifindex, addr }));
    }

    /// Whether the link address of a neighbour is known.
    pub(in super::super) fn knows_neighbour(&self, ifindex: IfIndex, addr: IpAddr) -> bool {
        let key = Key { ifindex, addr };
        self.entries().is_ok_and(|all| all.iter().any(|entry| entry.key == key && entry.mac.is_some()))
    }

    fn entries(&self) -> Result<Vec<Entry>, Error> {
        Ok(self.cpus.call_all(|netisr| neigh::entries(&netisr.cpu))?.concat())
    }

    fn forget(&self, key: Key) -> Result<bool, Error> {
        let owner = self.cpus.owner_of(key.addr);
        self.cpus.call(owner, move |netisr| neigh::delete(&mut netisr.cpu, key))
    }

    fn link_for(&self, address: IpAddr, request: &NeighbourRequest) -> Result<IfIndex, Error> {
        let named = match &request.interface {
            Some(name) => Some(self.interface(name).ok_or_else(|| self.no_interface(name))?),
            None => None,
        };
        let link = if is_link_local(address) { named } else { self.link_of(0, address, named) };
        link.map(|interface| interface.index).ok_or_else(|| {
            let error =
                Error::new(ErrorKind::Invalid, format!("{address} is not on the link of an interface"));
            if is_link_local(address) { error.hint("name the interface") } else { error }
        })
    }

    fn neighbour(&self, entry: &Entry) -> Option<Neighbour> {
        let now = self.cpus.clock.now();
        Some(Neighbour {
            address: entry.key.addr,
            mac: entry.mac.map(Mac),
            interface: self.interface_by_index(entry.key.ifindex)?.config.name.clone(),
            state: state(entry.state),
            expires_s: entry.expires.map(|at| at.since(now).as_secs()),
            permanent: entry.state == State::Permanent,
            router: entry.is_router,
            published: false,
        })
    }
}

impl Attached {
    /// Answers for an address no longer; whether it did. One of the configuration is back with the next change of that.
    fn unpublish(&mut self, address: IpAddr) -> bool {
        self.by_hand.remove(address) | self.config.publish.remove(address)
    }
}

fn ourselves(interface: &Attached) -> Vec<Neighbour> {
    let neighbour = |address| Neighbour {
        address,
        mac: Some(Mac(interface.facts.mac)),
        interface: interface.config.name.clone(),
        state: NeighbourState::Reachable,
        expires_s: None,
        permanent: true,
        router: false,
        published: false,
    };
    interface.addresses().iter().map(|own| neighbour(own.addr)).collect()
}

/// The addresses of other hosts that an interface answers for.
fn published(interface: &Attached) -> Vec<Neighbour> {
    let neighbour = |(address, mac): &(IpAddr, Option<wire::ether::Mac>)| Neighbour {
        address: *address,
        mac: Some(Mac(mac.unwrap_or(interface.facts.mac))),
        interface: interface.config.name.clone(),
        state: NeighbourState::Reachable,
        expires_s: None,
        permanent: true,
        router: false,
        published: true,
    };
    let by_hand = &interface.by_hand.addresses;
    let is_another = |(address, _): &&(IpAddr, _)| by_hand.iter().all(|(other, _)| other != address);
    let configured = interface.config.publish.addresses.iter().filter(is_another);
    by_hand.iter().chain(configured).map(neighbour).collect()
}

const fn state(state: State) -> NeighbourState {
    match state {
        State::Incomplete => NeighbourState::Incomplete,
        State::Reachable | State::Permanent => NeighbourState::Reachable,
        State::Stale => NeighbourState::Stale,
        State::Delay => NeighbourState::Delay,
        State::Probe => NeighbourState::Probe,
    }
}
