//! Stateless DHCPv6 servers of interfaces.

use core::net::SocketAddr;

use net::dhcp::{Arrived, Outgoing};
use net::tables::IfIndex;
use wire::dhcp6::SERVER;

use super::control::Control;
use super::dhcp6_clients::{link_local, now};
use super::log;
use crate::api::{Dhcp6Counters, Dhcp6Server as Shown};
use crate::config::{Dhcp6Client, Resolver};
use crate::dhcp6::lease::{SEARCH_MAX, SERVERS_MAX, names};
use crate::dhcp6::server::{Counts, Server};

/// The server of an interface.
pub(super) struct Running {
    pub(super) interface: String,
    pub(super) index: IfIndex,
    server: Server,
}

impl Control {
    /// Begins and ends servers as the configuration in force has them, and has them tell what providers say now.
    pub(super) fn settle_dhcp6_servers(&mut self) {
        let mut before = core::mem::take(&mut self.dhcp6.servers);
        let wanted = self.attached.iter().filter_map(|own| {
            let config = own.config.dhcp6_server.clone()?;
            Some((own.config.name.clone(), own.index, own.facts.mac.octets(), config))
        });
        for (interface, index, mac, config) in wanted.collect::<Vec<_>>() {
            let kept = before.iter().position(|own| own.interface == interface);
            let mut server = match kept.map(|at| before.swap_remove(at).server) {
                Some(server) => server,
                None => {
                    log::info(&format!("interface {interface}: DHCPv6 server"));
                    let beside = Dhcp6Client::default().path(&interface);
                    Server::new(self.duid(&beside, mac), now())
                }
            };
            let learnt = config.dns_from.as_deref().map(|from| self.dhcp6.resolver(from)).unwrap_or_default();
            server.tell(with(&config.resolver, learnt), config.refresh_s);
            self.dhcp6.servers.push(Running { interface, index, server });
        }
    }

    pub(super) fn dhcp6_server_arrived(&mut self, arrived: &Arrived) {
        if self.relayed6(arrived) {
            return;
        }
        let from = self.interface_by_index(arrived.ifindex).and_then(link_local);
        let Some(own) = self.dhcp6.servers.iter_mut().find(|own| own.index == arrived.ifindex) else {
            return;
        };
        let Some(message) = own.server.handle(&arrived.message, now()) else { return };
        let Some(from) = from.map(|from| SocketAddr::new(from, SERVER)) else { return };
        let outgoing = Outgoing { ifindex: arrived.ifindex, from, to: arrived.from, mac: None, message };
        self.send_dhcp(vec![outgoing]);
    }

    /// The servers, as the admin API shows them.
    pub(super) fn list_dhcp6_servers(&self) -> Vec<Shown> {
        let shown = |own: &Running| {
            let Counts { received, replies, malformed, ignored, limited } = own.server.counts;
            Shown {
                interface: own.interface.clone(),
                dns: own.server.told.dns.clone(),
                search: names(&own.server.told.search),
                sntp: own.server.told.sntp.clone(),
                counters: Dhcp6Counters { received, replies, malformed, ignored, limited },
            }
        };
        self.dhcp6.servers.iter().map(shown).collect()
    }
}

/// Appends what the provider says to what is configured, as far as there is room.
fn with(own: &Resolver, learnt: Resolver) -> Resolver {
    let mut told = own.clone();
    told.dns.extend(learnt.dns);
    told.sntp.extend(learnt.sntp);
    if told.search.len() + learnt.search.len() <= SEARCH_MAX {
        told.search.extend(learnt.search);
    }
    told.dns.truncate(SERVERS_MAX);
    told.sntp.truncate(SERVERS_MAX);
    told
}
