//! DHCPv6 relays of interfaces.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use net::dhcp::{Arrived, Outgoing};
use net::tables::IfIndex;
use wire::dhcp6::{CLIENT, SERVER};

use super::control::Control;
use super::dhcp6_clients::link_local;
use super::tables::{Attached, is_link_local};
use crate::api::Dhcp6Relay as Shown;
use crate::dhcp6::relay::{Counts, Relay, link_of};

/// Bytes of the longest message that is not cut on any path.
const MESSAGE_MAX: usize = 1232;

/// The relay of an interface.
pub(super) struct Running {
    interface: String,
    pub(super) index: IfIndex,
    relay: Relay,
}

impl Control {
    /// Begins, changes and ends relays as the configuration in force has them.
    pub(super) fn settle_dhcp6_relays(&mut self) {
        let mut before = core::mem::take(&mut self.dhcp6.relays);
        for own in self.attached.iter().filter(|own| !own.config.dhcp6_relay.is_empty()) {
            let interface = own.config.name.clone();
            let kept = before.iter().position(|relay| relay.interface == interface);
            let mut relay = Relay::new(interface.clone(), own.config.dhcp6_relay.clone());
            relay.counts = kept.map(|at| before.swap_remove(at).relay.counts).unwrap_or_default();
            self.dhcp6.relays.push(Running { interface, index: own.index, relay });
        }
    }

    /// Takes a message that is for a relay; answers whether it is.
    pub(super) fn relayed6(&mut self, arrived: &Arrived) -> bool {
        let IpAddr::V6(peer) = arrived.from.ip() else { return false };
        let link = link_of(&arrived.message);
        let is_for = |own: &Running| match link {
            Some(name) => own.interface.as_bytes() == name,
            None => own.index == arrived.ifindex,
        };
        let Some(at) = self.dhcp6.relays.iter().position(is_for) else { return false };
        let index = self.dhcp6.relays[at].index;
        let (near, far) = self.interface_by_index(index).map(ends).unwrap_or_default();
        let Running { relay, .. } = &mut self.dhcp6.relays[at];
        let mut outgoing = Vec::new();
        let mut send = |from: IpAddr, to: Ipv6Addr, port, message| {
            let (from, to) = (SocketAddr::new(from, SERVER), SocketAddr::new(to.into(), port));
            outgoing.push(Outgoing { ifindex: index, from, to, mac: None, message });
        };
        if link.is_some() {
            let reply = relay.reply(&arrived.message);
            let from = |to: Ipv6Addr| if to.is_unicast_link_local() { near } else { far.map(IpAddr::V6) };
            if let Some((from, reply)) = reply.and_then(|reply| Some((from(reply.to)?, reply))) {
                send(from, reply.to, if reply.is_for_relay { SERVER } else { CLIENT }, reply.bytes);
            }
        } else if let Some(own) = far {
            let message = relay.request(&arrived.message, peer, own, MESSAGE_MAX).unwrap_or_default();
            let servers = relay.servers.iter().filter(|_| !message.is_empty());
            servers.for_each(|server| send(own.into(), *server, SERVER, message.clone()));
        } else {
            relay.counts.ignored += 1;
        }
        self.send_dhcp(outgoing);
        true
    }

    /// The relays, as the admin API shows them.
    pub(super) fn list_dhcp6_relays(&self) -> Vec<Shown> {
        let shown = |own: &Running| {
            let Counts { requests, replies, malformed, hops, ignored, no_room } = own.relay.counts;
            Shown {
                interface: own.interface.clone(),
                servers: own.relay.servers.clone(),
                requests,
                replies,
                malformed,
                hops,
                ignored,
                no_room,
            }
        };
        self.dhcp6.relays.iter().map(shown).collect()
    }
}

/// Our link-local address on a link, and one by which servers choose its network.
fn ends(own: &Attached) -> (Option<IpAddr>, Option<Ipv6Addr>) {
    let mut addrs = own.addresses().into_iter().map(|own| own.addr).filter(|addr| !is_link_local(*addr));
    let far = addrs.find_map(|addr| if let IpAddr::V6(addr) = addr { Some(addr) } else { None });
    (link_local(own), far)
}
