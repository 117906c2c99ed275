//! The DHCP server of a link, as a function of messages and time (RFC 2131 §4.3).

#[cfg(test)]
mod tests;

use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use std::io;

use ipnet::Ipv4Net;
use net::dhcp::{CLIENT, SERVER};
use wire::ether::Mac;

use super::leases::{Lease, Leases};
use super::message::{Kind, Message, option};

/// Seconds for which an address that was offered is kept for its client.
const OFFER_S: u64 = 60;
/// Seconds for which an address that another host uses is not given.
const CONFLICT_S: u64 = 600;
/// Clients whose addresses are probed at once; those of others wait for their next DISCOVER.
pub(crate) const PROBES_MAX: usize = 64;

/// Settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Our address on the link, and its prefix.
    pub(crate) own: Ipv4Net,
    pub(crate) pool: RangeInclusive<Ipv4Addr>,
    /// Addresses of certain hosts, which may be outside of the pool.
    pub(crate) hosts: Vec<Host>,
    pub(crate) lease_s: u32,
    /// Options sent to each client that wants them.
    pub(crate) options: Vec<(u8, Vec<u8>)>,
}

/// A host that always gets the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) mac: Mac,
    pub(crate) addr: Ipv4Addr,
}

/// The server of a link.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) leases: Leases,
    offers: BTreeMap<Ipv4Addr, Offer>,
    /// Addresses that other hosts use, and until when they are not tried again.
    conflicts: BTreeMap<Ipv4Addr, u64>,
    /// Addresses that are probed before they are offered.
    probes: Vec<(Ipv4Addr, Message)>,
    /// The address of the pool at which the search for one that was never given goes on: a flood of clients must not make the
    /// control thread search the whole pool for each.
    next: u32,
    /// The second in which none was free.
    exhausted_at: Option<u64>,
    pub(crate) counts: Counts,
}

/// An address that is kept for a client.
#[derive(Clone, Debug)]
struct Offer {
    client: Vec<u8>,
    until: u64,
}

/// Events that a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) malformed: u64,
    pub(crate) offers: u64,
    pub(crate) acks: u64,
    pub(crate) naks: u64,
    /// Messages for other servers, or about leases that are not known here.
    pub(crate) ignored: u64,
    /// DISCOVERs for which no address was free.
    pub(crate) exhausted: u64,
    /// Addresses that another host was found to use.
    pub(crate) conflicts: u64,
    /// DISCOVERs that found too many probes under way.
    pub(crate) probes_full: u64,
    /// Leases that could not be written to disk, and were not given.
    pub(crate) not_written: u64,
}

/// Something that a server wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Sends a message; to this link address if that is given.
    Send { to: SocketAddrV4, mac: Option<Mac>, message: Message },
    /// Finds out whether a host has this address, and calls [`Server::probed`].
    Probe(Ipv4Addr),
}

impl Server {
    pub(crate) const fn new(settings: Settings, leases: Leases) -> Self {
        Self {
            settings,
            leases,
            offers: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            probes: Vec::new(),
            next: 0,
            exhausted_at: None,
            counts: Counts {
                received: 0,
                malformed: 0,
                offers: 0,
                acks: 0,
                naks: 0,
                ignored: 0,
                exhausted: 0,
                conflicts: 0,
                probes_full: 0,
                not_written: 0,
            },
        }
    }

    /// Replaces the settings.
    pub(crate) fn with(self, settings: Settings) -> Self {
        Self { settings, exhausted_at: None, ..self }
    }

    /// Changes its settings.
    pub(crate) fn set(&mut self, settings: Settings) {
        (self.settings, self.exhausted_at) = (settings, None);
    }

    /// Whether it answers messages that a relay of this address has sent; of no relay if unspecified.
    pub(crate) fn serves(&self, giaddr: Ipv4Addr) -> bool {
        giaddr.is_unspecified() || self.settings.own.contains(&giaddr)
    }

    /// Takes a message in at `now`, in seconds since 1970.
    pub(crate) fn handle(&mut self, message: &Message, kind: Kind, now: u64) -> io::Result<Option<Act>> {
        self.counts.received += 1;
        if message.is_reply || !message.chaddr.is_unicast() {
            self.counts.ignored += 1;
            return Ok(None);
        }
        match kind {
            Kind::Discover => Ok(self.discover(message, now)),
            Kind::Request => self.request(message, now),
            Kind::Decline => self.decline(message, now).map(|()| None),
            Kind::Release => self.release(message).map(|()| None),
            Kind::Inform => Ok(self.inform(message)),
            Kind::Offer | Kind::Ack | Kind::Nak => {
                self.counts.ignored += 1;
                Ok(None)
            }
        }
    }

    /// Chooses an address for a client: the one it had before, else a free one, which is probed first.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.3.1
    fn discover(&mut self, message: &Message, now: u64) -> Option<Act> {
        let client = message.client();
        self.conflicts.retain(|_, until| *until > now);
        if self.probes.iter().any(|(_, pending)| pending.client() == client) {
            return None; // it repeats itself meanwhile
        }
        if let Some(addr) = self.known_address(message, &client, now) {
            return Some(self.offer(message, addr, now));
        }
        if self.probes.len() >= PROBES_MAX {
            self.counts.probes_full += 1;
            return None;
        }
        // Within a second nothing becomes free by itself.
        let addr = (self.exhausted_at != Some(now)).then(|| self.free_address(message, now)).flatten();
        let Some(addr) = addr else {
            self.exhausted_at = Some(now);
            self.counts.exhausted += 1;
            return None;
        };
        self.offers.insert(addr, Offer { client, until: now + OFFER_S });
        self.probes.push((addr, message.clone()));
        Some(Act::Probe(addr))
    }

    /// Takes the result of a probe: the address is offered, or another one is probed.
    pub(crate) fn probed(&mut self, addr: Ipv4Addr, is_used: bool, now: u64) -> Option<Act> {
        let at = self.probes.iter().position(|(probed, _)| *probed == addr)?;
        let (_, message) = self.probes.swap_remove(at);
        if !is_used {
            return Some(self.offer(&message, addr, now));
        }
        self.offers.remove(&addr);
        self.conflicts.insert(addr, now + CONFLICT_S);
        self.counts.conflicts += 1;
        self.discover(&message, now)
    }

    fn offer(&mut self, message: &Message, addr: Ipv4Addr, now: u64) -> Act {
        self.offers.insert(addr, Offer { client: message.client(), until: now + OFFER_S });
        self.counts.offers += 1;
        let mut reply = message.reply(Kind::Offer);
        reply.yiaddr = addr;
        self.describe(&mut reply, message, true);
        answer(message, reply)
    }

    /// The address that a client has, or had, or is set down for.
    fn known_address(&self, message: &Message, client: &[u8], now: u64) -> Option<Ipv4Addr> {
        if let Some(host) = self.settings.hosts.iter().find(|host| host.mac == message.chaddr) {
            return Some(host.addr);
        }
        let is_fit = |addr: &Ipv4Addr| {
            self.is_in_pool(*addr) && !self.is_reserved(*addr) && !self.conflicts.contains_key(addr)
        };
        let leased = self.leases.of(client).map(|(addr, _)| addr);
        let offered = self.offers.iter().find(|(_, offer)| offer.client == client && offer.until > now);
        leased.or_else(|| offered.map(|(addr, _)| *addr)).filter(is_fit)
    }

    /// An address that no client has: the one that is asked for, one that was never given, the one whose lease has ended first.
    fn free_address(&mut self, message: &Message, now: u64) -> Option<Ipv4Addr> {
        let is_kept = |addr: &Ipv4Addr| self.offers.get(addr).is_some_and(|offer| offer.until > now);
        let is_free = |addr: &Ipv4Addr| {
            self.is_in_pool(*addr)
                && !self.is_reserved(*addr)
                && !is_kept(addr)
                && !self.conflicts.contains_key(addr)
                && self.leases.get(*addr).is_none_or(|lease| lease.expires <= now)
        };
        let asked = message.addr(option::REQUESTED_ADDRESS).filter(is_free);
        let (first, last) = (u32::from(*self.settings.pool.start()), u32::from(*self.settings.pool.end()));
        let from = self.next.clamp(first, last);
        let all = || (from..=last).chain(first..from).map(Ipv4Addr::from);
        let never = || all().find(|addr| self.leases.get(*addr).is_none() && is_free(addr));
        let ended = || {
            let old = self.leases.all().iter().filter(|(addr, _)| is_free(addr));
            old.min_by_key(|(_, lease)| lease.expires).map(|(addr, _)| *addr)
        };
        let found = asked.or_else(never).or_else(ended);
        self.next = found.filter(|_| asked.is_none()).map_or(self.next, u32::from);
        found
    }

    fn is_in_pool(&self, addr: Ipv4Addr) -> bool {
        self.settings.pool.contains(&addr) && addr != self.settings.own.addr()
    }

    /// Whether an address is set down for a certain host.
    fn is_reserved(&self, addr: Ipv4Addr) -> bool {
        self.settings.hosts.iter().any(|host| host.addr == addr)
    }

    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.3.2
    fn request(&mut self, message: &Message, now: u64) -> io::Result<Option<Act>> {
        let client = message.client();
        let asked = message.addr(option::REQUESTED_ADDRESS);
        match (message.addr(option::SERVER), asked) {
            // Another server's offer was taken.
            (Some(server), _) if server != self.settings.own.addr() => {
                self.offers.retain(|_, offer| offer.client != client);
                self.counts.ignored += 1;
                Ok(None)
            }
            (Some(_), Some(addr)) => match self.may_have(message, &client, addr, now) {
                true => self.acknowledge(message, addr, now),
                false => Ok(Some(self.refuse(message, "address not offered"))),
            },
            // INIT-REBOOT, RENEWING, REBINDING.
            (None, _) => self.confirm(message, &client, asked.unwrap_or(message.ciaddr), now),
            (Some(_), None) => {
                self.counts.ignored += 1;
                Ok(None)
            }
        }
    }

    /// A client wants to go on using its address.
    fn confirm(
        &mut self,
        message: &Message,
        client: &[u8],
        addr: Ipv4Addr,
        now: u64,
    ) -> io::Result<Option<Act>> {
        if !self.settings.own.contains(&addr) {
            return Ok(Some(self.refuse(message, "address of another network")));
        }
        // A lease of which nothing is known may be another server's, or one of ours that was lost with its file.
        let is_new_to_us = self.leases.get(addr).is_none() && !self.offers.contains_key(&addr);
        if is_new_to_us && message.ciaddr.is_unspecified() && !self.is_host(message, addr) {
            self.counts.ignored += 1;
            return Ok(None);
        }
        if self.may_have(message, client, addr, now) {
            return self.acknowledge(message, addr, now);
        }
        Ok(Some(self.refuse(message, "address of another client, or not of the pool")))
    }

    fn is_host(&self, message: &Message, addr: Ipv4Addr) -> bool {
        self.settings.hosts.iter().any(|host| host.mac == message.chaddr && host.addr == addr)
    }

    /// Whether a client may have an address: it is set down for it, or of the pool and no other's.
    fn may_have(&self, message: &Message, client: &[u8], addr: Ipv4Addr, now: u64) -> bool {
        if self.settings.hosts.iter().any(|host| host.mac == message.chaddr || host.addr == addr) {
            return self.is_host(message, addr);
        }
        let is_others =
            self.leases.get(addr).is_some_and(|lease| lease.client != client && lease.expires > now)
                || self.offers.get(&addr).is_some_and(|offer| offer.client != client && offer.until > now);
        self.is_in_pool(addr) && !is_others && !self.conflicts.contains_key(&addr)
    }

    /// Gives a lease, once it is on disk.
    fn acknowledge(&mut self, message: &Message, addr: Ipv4Addr, now: u64) -> io::Result<Option<Act>> {
        let client = message.client();
        let lease = Lease {
            mac: message.chaddr,
            expires: now + u64::from(self.settings.lease_s),
            name: message.text(option::HOST_NAME).unwrap_or_default(),
            client,
        };
        if let Some((before, _)) = self.leases.of(&lease.client).filter(|(before, _)| *before != addr) {
            self.leases.remove(before).inspect_err(|_| self.counts.not_written += 1)?;
        }
        self.leases.put(addr, lease).inspect_err(|_| self.counts.not_written += 1)?;
        self.offers.remove(&addr);
        self.counts.acks += 1;
        let mut reply = message.reply(Kind::Ack);
        (reply.yiaddr, reply.ciaddr) = (addr, message.ciaddr);
        self.describe(&mut reply, message, true);
        Ok(Some(answer(message, reply)))
    }

    fn refuse(&mut self, message: &Message, why: &str) -> Act {
        self.counts.naks += 1;
        let mut reply = message.reply(Kind::Nak);
        reply.put(option::SERVER, &self.settings.own.addr().octets());
        reply.put(option::MESSAGE, why.as_bytes());
        echo(&mut reply, message);
        // The client may be on another network than it thinks: all hear it.
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
        reply.broadcast = true;
        let to = if reply.giaddr.is_unspecified() {
            SocketAddrV4::new(Ipv4Addr::BROADCAST, CLIENT)
        } else {
            SocketAddrV4::new(reply.giaddr, SERVER)
        };
        Act::Send { to, mac: None, message: reply }
    }

    /// A client has found that another host uses the address.
    fn decline(&mut self, message: &Message, now: u64) -> io::Result<()> {
        let is_for_us = message.addr(option::SERVER) == Some(self.settings.own.addr());
        let addr = message.addr(option::REQUESTED_ADDRESS).filter(|_| is_for_us);
        let client = message.client();
        let own = addr.filter(|addr| self.leases.get(*addr).is_some_and(|lease| lease.client == client));
        let Some(addr) = own else {
            self.counts.ignored += 1;
            return Ok(());
        };
        self.counts.conflicts += 1;
        self.conflicts.insert(addr, now + CONFLICT_S);
        self.leases.remove(addr)
    }

    fn release(&mut self, message: &Message) -> io::Result<()> {
        self.exhausted_at = None;
        let client = message.client();
        match self.leases.get(message.ciaddr) {
            Some(lease) if lease.client == client => self.leases.remove(message.ciaddr),
            _ => {
                self.counts.ignored += 1;
                Ok(())
            }
        }
    }

    /// A host that has an address wants the rest.
    fn inform(&mut self, message: &Message) -> Option<Act> {
        if !self.settings.own.contains(&message.ciaddr) {
            self.counts.ignored += 1;
            return None;
        }
        self.counts.acks += 1;
        let mut reply = message.reply(Kind::Ack);
        reply.ciaddr = message.ciaddr;
        self.describe(&mut reply, message, false);
        Some(answer(message, reply))
    }

    /// Adds what a client is told. `has_lease`: the times of a lease, too.
    fn describe(&self, reply: &mut Message, message: &Message, has_lease: bool) {
        let settings = &self.settings;
        reply.put(option::SERVER, &settings.own.addr().octets());
        if has_lease {
            let times = [
                (option::LEASE_TIME, settings.lease_s),
                (option::RENEWAL_TIME, settings.lease_s / 2),
                (option::REBINDING_TIME, settings.lease_s / 8 * 7),
            ];
            times.iter().for_each(|(code, seconds)| reply.put(*code, &seconds.to_be_bytes()));
        }
        let wanted = message.get(option::PARAMETERS);
        let is_wanted = |code: u8| wanted.is_none_or(|codes| codes.contains(&code));
        let link = [
            (option::SUBNET_MASK, settings.own.netmask().octets()),
            (option::BROADCAST_ADDRESS, settings.own.broadcast().octets()),
        ];
        for (code, value) in link.iter().filter(|(code, _)| is_wanted(*code)) {
            reply.put(*code, value);
        }
        for (code, value) in settings.options.iter().filter(|(code, _)| is_wanted(*code)) {
            reply.put(*code, value);
        }
        echo(reply, message);
    }

    /// Addresses that are kept for clients, or not given because others use them.
    pub(crate) fn kept(&self, now: u64) -> (usize, usize) {
        let offers = self.offers.values().filter(|offer| offer.until > now).count();
        (offers, self.conflicts.values().filter(|until| **until > now).count())
    }
}

/// Options that come back as they were.
//= https://www.rfc-editor.org/rfc/rfc3046#section-2.2
//= https://www.rfc-editor.org/rfc/rfc6842#section-3
fn echo(reply: &mut Message, message: &Message) {
    for code in [option::CLIENT_ID, option::RELAY_AGENT] {
        if let Some(value) = message.get(code) {
            reply.put(code, value);
        }
    }
}

/// Sends an answer where its client can hear it.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
fn answer(message: &Message, reply: Message) -> Act {
    let (to, mac) = if !message.giaddr.is_unspecified() {
        (SocketAddrV4::new(message.giaddr, SERVER), None)
    } else if !message.ciaddr.is_unspecified() {
        (SocketAddrV4::new(message.ciaddr, CLIENT), Some(message.chaddr))
    } else if message.broadcast {
        (SocketAddrV4::new(Ipv4Addr::BROADCAST, CLIENT), None)
    } else {
        (SocketAddrV4::new(reply.yiaddr, CLIENT), Some(message.chaddr))
    };
    Act::Send { to, mac, message: reply }
}
