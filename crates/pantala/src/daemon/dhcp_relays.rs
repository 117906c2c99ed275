//! DHCP relays of interfaces.

use core::net::{Ipv4Addr, SocketAddr};

use net::dhcp::{Arrived, CLIENT, MESSAGE_MAX, Outgoing, SERVER};
use net::tables::IfIndex;

use super::control::Control;
use crate::api::DhcpRelay as Shown;
use crate::config::check::interfaces::dhcp::first_v4;
use crate::dhcp::relay::{Counts, Relay};

/// Where the relay's address stands in a message, and the operation of replies.
const GIADDR_AT: core::ops::Range<usize> = 24..28;
const REPLY: u8 = 2;

/// The relay of an interface.
pub(super) struct Running {
    interface: String,
    pub(super) index: IfIndex,
    relay: Relay,
}

impl Control {
    /// Begins, changes and ends relays as the configuration in force has them.
    pub(super) fn settle_dhcp_relays(&mut self) {
        let mut before = core::mem::take(&mut self.dhcp.relays);
        for own in &self.attached {
            let interface = own.config.name.clone();
            let (Some(config), Some(addr)) = (&own.config.dhcp_relay, first_v4(own.config.addresses.iter()))
            else {
                continue;
            };
            let settings = config.settings(addr, &interface);
            let kept = before.iter().position(|relay| relay.interface == interface);
            let mut relay = Relay::new(settings);
            relay.counts = kept.map(|at| before.swap_remove(at).relay.counts).unwrap_or_default();
            self.dhcp.relays.push(Running { interface, index: own.index, relay });
        }
    }

    /// Takes a message that is for a relay; answers whether it is.
    pub(super) fn relayed(&mut self, arrived: &Arrived) -> bool {
        let bytes = &arrived.message;
        let giaddr =
            bytes.get(GIADDR_AT).and_then(<[u8]>::first_chunk::<4>).map(|addr| Ipv4Addr::from(*addr));
        let is_reply = bytes.first() == Some(&REPLY);
        let is_for = |own: &&mut Running| match is_reply {
            true => giaddr == Some(own.relay.settings.own),
            false => own.index == arrived.ifindex,
        };
        let Some(own) = self.dhcp.relays.iter_mut().find(is_for) else { return false };
        let from = SocketAddr::new(own.relay.settings.own.into(), SERVER);
        let ifindex = own.index;
        let mut outgoing = Vec::new();
        if is_reply {
            outgoing.extend(own.relay.reply(bytes.clone()).map(|reply| {
                let addr = reply.to.map_or(Ipv4Addr::BROADCAST, |(addr, _)| addr);
                let (to, mac) = (SocketAddr::new(addr.into(), CLIENT), reply.to.map(|(_, mac)| mac));
                Outgoing { ifindex, from, to, mac, message: reply.bytes }
            }));
        } else if let Some(message) = own.relay.request(bytes.clone(), MESSAGE_MAX) {
            outgoing.extend(own.relay.settings.servers.iter().map(|server| {
                let to = SocketAddr::new((*server).into(), SERVER);
                Outgoing { ifindex, from, to, mac: None, message: message.clone() }
            }));
        }
        self.send_dhcp(outgoing);
        true
    }

    /// The relays, as the admin API shows them.
    pub(super) fn list_dhcp_relays(&self) -> Vec<Shown> {
        let shown = |own: &Running| {
            let Counts { requests, replies, malformed, hops, ignored, no_room } = own.relay.counts;
            Shown {
                interface: own.interface.clone(),
                address: own.relay.settings.own,
                servers: own.relay.settings.servers.clone(),
                requests,
                replies,
                malformed,
                hops,
                ignored,
                no_room,
            }
        };
        self.dhcp.relays.iter().map(shown).collect()
    }
}
