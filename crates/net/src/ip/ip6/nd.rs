//! Neighbour discovery: what its messages mean for [`crate::ip::neigh`] and [`crate::ip::addr`].

mod output;

use core::net::{IpAddr, Ipv6Addr};

use pkt::{Flags, Pkt};
use wire::ether::{EtherType, Mac};
use wire::nd::{Envelope, Error, Message, NeighborAdvert, Opt, Options, RouterAdvert};
use wire::{Protocol, ip6, ip6_ext};

use super::{autoconf, rtadv};
use crate::base::count::Count;
use crate::base::drop::{DropReason, Fate};
use crate::ip::addr;
use crate::ip::host_cache;
use crate::ip::icmp::Quoted;
use crate::ip::neigh::{self, NeighMessage};
use crate::ip::punt;
use crate::link::tables::{Ifnet, Tables};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::deliver;
use crate::turn::netisr;
use crate::turn::next::{Next, Resume};

pub(crate) use output::{NdTxParams, advertise, advertise_router, probe, solicit, solicit_routers};

/// Takes a neighbour discovery message in, on the CPU that owns the address it is about. `pkt` starts with its IPv6
/// header, `pkt.l4` is where ICMPv6 starts; its checksum is right.
///
/// Reads  `cpu.tables`, `cpu.addrs`.   Writes `cpu.neigh`, `cpu.addrs`.
/// Drops  [`DropReason::NdMalformed`], [`DropReason::NdHopLimit`], [`DropReason::NdFragmented`],
///        [`DropReason::NdStranger`], [`DropReason::NdNotForUs`],
///        [`DropReason::IcmpRedirect`], [`DropReason::IcmpNotSent`], [`DropReason::InterfaceGone`].
///
/// # Spec
/// RFC 4861 §6.1, §7.1, §7.2; RFC 4862 §5.4; RFC 6980.
pub fn input(cpu: &mut Cpu, mut pkt: Pkt) {
    let owner = owner(cpu, &pkt).unwrap_or(cpu.id);
    if owner != cpu.id {
        // Behind extension headers, or with a device's own hash, the owner was not determined yet.
        pkt.resume = Resume::Local6 as u8;
        return netisr::dispatch(cpu, pkt, Next::HandOff(owner));
    }
    deliver::raw(cpu, &pkt);
    let fate = heard(cpu, &pkt);
    cpu.finish(pkt, fate);
}

/// The CPU that the message is for: that of the address that it is about ([`crate::turn::rss::hash6`]); of a redirect, the one that has
/// sent the packet that it quotes.
fn owner(cpu: &Cpu, pkt: &Pkt) -> Option<CpuId> {
    let (envelope, message) = (envelope(pkt), pkt.head().get(usize::from(pkt.l4)..)?);
    let (message, options) = Message::parse(&envelope, message).ok()?;
    let subject = match message {
        Message::NeighborAdvert(NeighborAdvert { target, .. }) => target,
        Message::NeighborSolicit { target } if envelope.src.is_unspecified() => target,
        Message::Redirect { .. } if let Some(quote) = quote(&options) => {
            return Some(Quoted::read_v6(cpu, quote)?.owner());
        }
        _ => envelope.src,
    };
    Some(cpu.placement.owner_of(subject.into()))
}

fn envelope(pkt: &Pkt) -> Envelope {
    Envelope { src: super::src(pkt), dst: super::dst(pkt), hop_limit: pkt.window(0)[7] }
}

fn heard(cpu: &mut Cpu, pkt: &Pkt) -> Fate {
    if is_fragmented(pkt) {
        return Err(DropReason::NdFragmented);
    }
    let tables = cpu.tables.clone();
    let Some(ifnet) = tables.ifnet(pkt.rcvif) else { return Err(DropReason::InterfaceGone) };
    let envelope = envelope(pkt);
    let bytes = pkt.head().get(usize::from(pkt.l4)..).unwrap_or_default();
    let (message, options) = match Message::parse(&envelope, bytes) {
        Ok(message) => message,
        Err(Error::HopLimit { .. }) => return Err(DropReason::NdHopLimit),
        Err(_) => return Err(DropReason::NdMalformed),
    };
    match message {
        Message::NeighborSolicit { target } => {
            let solicit = Solicit { src: envelope.src, target, options };
            solicit.heard(cpu, &tables, ifnet)
        }
        Message::NeighborAdvert(advert) => {
            punt::copy(cpu, pkt, EtherType::IPV6);
            advertised(cpu, ifnet, advert, &options)
        }
        Message::Redirect { target, destination } => {
            redirected(cpu, &tables, ifnet, envelope.src, [target, destination], &options)
        }
        Message::RouterAdvert(said) => router_advertised(cpu, ifnet, envelope.src, said, &options),
        Message::RouterSolicit => rtadv::solicited(cpu, &tables, ifnet, envelope.src, &options),
    }
}

/// Whether the message came in pieces, or as one that says to be a piece.
//= https://www.rfc-editor.org/rfc/rfc6980#section-5
//# Nodes MUST silently ignore the following Neighbor Discovery and SEcure Neighbor Discovery messages if the packets carrying them include an IPv6 Fragmentation Header
fn is_fragmented(pkt: &Pkt) -> bool {
    if pkt.flags.has(Flags::REASSEMBLED) {
        return true;
    }
    let direct = pkt.window(0)[6] == Protocol::ICMP6.0;
    !direct && has_fragment_header(pkt.head())
}

#[cold]
fn has_fragment_header(packet: &[u8]) -> bool {
    let chain = ip6::View::new(packet).ok().and_then(|view| ip6_ext::walk(&view, ip6_ext::Role::Host).ok());
    chain.is_none_or(|chain| chain.fragment.is_some())
}

/// A neighbour solicitation.
struct Solicit<'a> {
    src: Ipv6Addr,
    target: Ipv6Addr,
    options: Options<'a>,
}

impl Solicit<'_> {
    fn heard(&self, cpu: &mut Cpu, tables: &Tables, ifnet: &Ifnet) -> Fate {
        cpu.count(Count::NdSolicitsIn);
        let Ok(asker) = self.asker(ifnet) else { return Err(DropReason::NdMalformed) };
        let ours = addr::Key { ifindex: ifnet.index, addr: self.target.into() };
        if !ifnet.has(ours.addr) {
            return match ifnet.published.get(ours.addr) {
                Some(own) => self.proxied(cpu, tables, ifnet, asker, own.mac.unwrap_or(ifnet.mac)),
                None => Err(DropReason::NdNotForUs),
            };
        }
        if self.src.is_unspecified() {
            return self.probed(cpu, ours);
        }
        let key = neigh::Key { ifindex: ifnet.index, addr: self.src.into() };
        if ifnet.has(key.addr) {
            addr::claimed(cpu, addr::Key { ifindex: key.ifindex, addr: key.addr }, asker);
            return Ok(Count::NdConsumed);
        }
        if !neigh::is_on_link(tables, &key) {
            return Err(DropReason::NdStranger);
        }
        if !cpu.addrs.usable(ours.ifindex, ours.addr) {
            //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.3
            //# If the target address is tentative, and the source address is a unicast address, the solicitation's sender is performing address resolution on the target; the solicitation should be silently ignored.
            return Err(DropReason::NdNotForUs);
        }
        if let Some(mac) = asker {
            neigh::heard(cpu, key, NeighMessage::Solicit { mac });
        }
        advertise(cpu, ours, Some((self.src, asker)));
        // A router gets solicitations from many hosts that it never sends to: it does not resolve each of them.
        if asker.is_some() && ifnet.autoconf.is_some() {
            neigh::used(cpu, key);
        }
        Ok(Count::NdConsumed)
    }

    /// Answers for an address of another host that is published on this link; a probe, too: the address is known to be in use.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.8
    fn proxied(&self, cpu: &mut Cpu, tables: &Tables, ifnet: &Ifnet, asker: Option<Mac>, mac: Mac) -> Fate {
        let is_probe = self.src.is_unspecified();
        let key = neigh::Key { ifindex: ifnet.index, addr: self.src.into() };
        if !is_probe && (ifnet.has(key.addr) || !neigh::is_on_link(tables, &key)) {
            return Err(DropReason::NdStranger);
        }
        if let Some(mac) = asker.filter(|_| !is_probe) {
            neigh::heard(cpu, key, NeighMessage::Solicit { mac });
        }
        let to = (!is_probe).then_some((self.src, asker));
        output::advertise_for(cpu, ifnet.index, self.target, mac, to);
        Ok(Count::NdConsumed)
    }

    /// The asker's link address: `Err` if it is not one that a host can have.
    fn asker(&self, ifnet: &Ifnet) -> Result<Option<Mac>, ()> {
        match self.options.source_link_addr() {
            Some(mac) if !mac.is_unicast() => Err(()),
            mac => Ok(mac.filter(|mac| *mac != ifnet.mac)),
        }
    }

    /// Handles a solicitation for an address of ours from the unspecified address: another host's detection, or our own probe, come
    /// back over a loop.
    fn probed(&self, cpu: &mut Cpu, ours: addr::Key) -> Fate {
        if output::nonce_of(&self.options).is_some_and(|nonce| cpu.addrs.has_asked(&ours, nonce)) {
            return Ok(Count::NdConsumed);
        }
        addr::probed(cpu, ours, None);
        if cpu.addrs.usable(ours.ifindex, ours.addr) {
            advertise(cpu, ours, None);
        }
        Ok(Count::NdConsumed)
    }
}

/// A router is a neighbour like others; what else it says is the host side's.
fn router_advertised(
    cpu: &mut Cpu,
    ifnet: &Ifnet,
    from: Ipv6Addr,
    said: RouterAdvert,
    options: &Options<'_>,
) -> Fate {
    cpu.count(Count::NdRouterIn);
    let mac = options.source_link_addr();
    if mac.is_some_and(|mac| !mac.is_unicast() || mac == ifnet.mac) || ifnet.has(from.into()) {
        return Err(DropReason::NdMalformed);
    }
    if ifnet.autoconf.is_some() {
        let key = neigh::Key { ifindex: ifnet.index, addr: from.into() };
        neigh::heard(cpu, key, NeighMessage::Router { mac });
    }
    autoconf::heard(cpu, ifnet, from, said, options);
    Ok(Count::NdConsumed)
}

/// The router that we send to says that another neighbour is the better first hop. Only hosts believe that, and only
/// of the router that they really use. A packet that it quotes must be one that they can have sent: any node on the link can send a
/// redirect in the router's name. One without a quote is valid.
//= https://www.rfc-editor.org/rfc/rfc4861#section-8.1
//= https://www.rfc-editor.org/rfc/rfc4861#section-8.3
fn redirected(
    cpu: &mut Cpu,
    tables: &Tables,
    ifnet: &Ifnet,
    from: Ipv6Addr,
    [target, destination]: [Ipv6Addr; 2],
    options: &Options<'_>,
) -> Fate {
    let mac = options.target_link_addr();
    let is_host = !tables.forwarding && ifnet.autoconf.is_some();
    let first_hop = host_cache::first_hop(cpu, tables, destination.into(), ifnet.index);
    if !is_host || first_hop != Some(from.into()) || ifnet.has(target.into()) {
        return Err(DropReason::IcmpRedirect);
    }
    // Forwarded packets are not looked for: a router believes no redirect. Nor are packets that NAT has translated.
    let is_believed = |quoted: &Quoted| {
        quoted.remote == IpAddr::from(destination) && deliver::can_have_sent(cpu, ifnet.index, quoted)
    };
    let quoted = quote(options).map(|quote| Quoted::read_v6(cpu, quote));
    if quoted.is_some_and(|quoted| !quoted.is_some_and(|quoted| is_believed(&quoted))) {
        return Err(DropReason::IcmpNotSent);
    }
    if mac.is_some_and(|mac| !mac.is_unicast() || mac == ifnet.mac) {
        return Err(DropReason::NdMalformed);
    }
    let next_hop = neigh::Key { ifindex: ifnet.index, addr: target.into() };
    if let Some(mac) = mac {
        neigh::redirected(cpu, next_hop, mac, target != destination);
    }
    host_cache::redirect(cpu, destination.into(), next_hop);
    Ok(Count::NdConsumed)
}

/// Returns the packet that a redirect quotes, as far as it goes.
fn quote<'a>(options: &Options<'a>) -> Option<&'a [u8]> {
    options.iter().find_map(|option| if let Opt::Redirected(quote) = option { Some(quote) } else { None })
}

fn advertised(cpu: &mut Cpu, ifnet: &Ifnet, advert: NeighborAdvert, options: &Options<'_>) -> Fate {
    cpu.count(Count::NdAdvertsIn);
    let mac = options.target_link_addr();
    if mac.is_some_and(|mac| !mac.is_unicast()) {
        return Err(DropReason::NdMalformed);
    }
    let target = IpAddr::V6(advert.target);
    if ifnet.has(target) {
        if mac != Some(ifnet.mac) {
            addr::claimed(cpu, addr::Key { ifindex: ifnet.index, addr: target }, mac);
        }
        return Ok(Count::NdConsumed);
    }
    let NeighborAdvert { router, solicited, replace, .. } = advert;
    let key = neigh::Key { ifindex: ifnet.index, addr: target };
    neigh::heard(cpu, key, NeighMessage::Advert { mac, solicited, replace, router });
    Ok(Count::NdConsumed)
}

#[cfg(test)]
mod tests;
