//! The way out of packets that are made here: their route, their source address. One body for both families.

use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr};

use ipfw::rule::Hook;
use pkt::{Flags, Pkt};
use wire::addr::multicast_scope;

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::fib::{FibIndex, Hop, Metrics, To, flow_hash};
use crate::ip::adj;
use crate::ip::adj::Kind;
use crate::ip::forward::{Family, fits};
use crate::ip::ip4::Ip4;
use crate::ip::ip6::Ip6;
use crate::ip::neigh::Reachability;
use crate::ip::{group, l4, neigh, pmtu};
use crate::link::ether;
use crate::link::tables::{IfAddr, IfIndex, Ifnet, Learned, Tables};
use crate::out::{ifq, offload};
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::{Next, Resume};
use crate::turn::{pfil, rss, trace};

/// The differences between IPv4 and IPv6 in output.
pub trait Source: Family {
    /// Where a packet from us to us comes in again.
    const AGAIN: Resume;
    /// Counts what was sent from here.
    const SENT: Count;
    /// Length of the header without options or extensions, bytes.
    const HEADER_LEN: usize;
    /// Bytes that every path carries, or that no router is believed to refuse.
    const LEAST: usize;

    /// The source.
    fn src(pkt: &Pkt) -> IpAddr;
    /// Fills in what depends on the header as a whole.
    fn finish(cpu: &mut Cpu, pkt: &mut Pkt);
    /// Fills in what routers have said of the link, where the sender has not said anything himself.
    fn suit(pkt: &mut Pkt, learned: &Learned);
    /// Sends a packet that is bigger than the MTU in pieces, if it may be cut.
    fn cut(cpu: &mut Cpu, pkt: Pkt, mtu: u32, next_hop: IpAddr);
}

/// Where a packet goes from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To this host itself.
    Local,
    /// To `next_hop` on the link of `ifindex`, with what the route says of the way behind it.
    Link { ifindex: IfIndex, next_hop: IpAddr, metrics: Metrics },
}

impl Route {
    /// Whether it is to the link of this interface.
    fn is_by(self, outif: IfIndex) -> bool {
        matches!(self, Self::Link { ifindex, .. } if ifindex == outif)
    }

    /// The neighbour that a packet goes to first.
    fn first_hop(self) -> Option<neigh::Key> {
        match self {
            Self::Link { ifindex, next_hop, .. } => Some(neigh::Key { ifindex, addr: next_hop }),
            Self::Local => None,
        }
    }
}

/// Sends a packet that was made here and starts with its whole network header.
///
/// Reads  `pkt.outif`, by which alone the packet leaves unless it is 0; `cpu.tables`.
/// Writes `pkt.outif`, the header's checksum and identification.
/// Next   [`Next::Output`], [`Next::Resolve`], the loopback queue.
/// Drops  [`DropReason::AddressTentative`], [`DropReason::NoRoute`], [`DropReason::RejectRoute`],
///        [`DropReason::BlackholeRoute`], [`DropReason::InterfaceGone`], [`DropReason::TooBig`],
///        [`DropReason::NoBuffer`].
///
/// # Spec
/// RFC 1122 §3.3.1; RFC 8200 §5.
pub(crate) fn send<F: Source>(cpu: &mut Cpu, mut pkt: Pkt) {
    debug_assert!(pkt.head().len() >= F::HEADER_LEN, "a packet made here has a header");
    pkt.flags.set(Flags::LOCAL);
    cpu.count(F::SENT);
    F::finish(cpu, &mut pkt);
    if is_withheld(cpu, || F::src(&pkt)) {
        return cpu.drop_pkt(pkt, DropReason::AddressTentative);
    }
    if pkt.len() > F::LEAST && !(cpu.watched && trace::is_dry(cpu)) {
        pmtu::note(cpu, &pkt);
    }
    if let Some(next) = pfil::ask(cpu, &mut pkt, Hook::LocalOut) {
        return dispatch(cpu, pkt, next);
    }
    if let Err(pkt) = straight::<F>(cpu, pkt) {
        leave::<F>(cpu, pkt);
    }
}

/// The usual case in one go: what the next hop amounts to is known. Else the packet is given back.
#[inline]
fn straight<F: Source>(cpu: &mut Cpu, mut pkt: Pkt) -> Result<(), Pkt> {
    let may_be_long = !cpu.paths.is_empty() && pkt.len() > F::LEAST;
    if pkt.outif != 0 || pkt.flags.has(Flags::LOOP) || !cpu.dests.is_empty() || may_be_long {
        return Err(pkt);
    }
    let dst = F::dst(&pkt);
    let Some(adj) = cpu.adjs.own(cpu.tables.fib_for(&pkt).lookup(dst)) else { return Err(pkt) };
    let (is_gateway, outif, addrs) = (adj.kind == Kind::Gateway, adj.outif, adj.addrs);
    if !fits(&pkt, adj.mtu) {
        return Err(pkt);
    }
    pkt.outif = outif;
    if let Some(next) = pfil::ask(cpu, &mut pkt, Hook::Egress) {
        dispatch(cpu, pkt, next);
        return Ok(());
    }
    let next = if is_gateway {
        ether::encapsulate(&mut pkt, &addrs, F::ETHERTYPE)
    } else {
        neigh::link(cpu, &mut pkt, dst)
    };
    match next {
        Next::Output => ifq::output(cpu, pkt),
        Next::Resolve => neigh::hold_for(cpu, pkt, dst),
        next => dispatch(cpu, pkt, next),
    }
    Ok(())
}

/// Sends a packet that was made here where its route leads, when rules have let it pass.
pub(crate) fn leave<F: Source>(cpu: &mut Cpu, mut pkt: Pkt) {
    if pkt.flags.has(Flags::LOOP) && !to_listeners::<F>(cpu, &mut pkt) {
        cpu.count(Count::GroupStayed);
        return cpu.pool.give(pkt);
    }
    let fib = cpu.tables.fib_of(&pkt);
    let route = path(cpu, fib, F::dst(&pkt), pkt.outif, || flow_hash(&pkt));
    let outif = pkt.outif;
    match route.map(|route| around(cpu, fib, F::dst(&pkt), outif, route)) {
        Ok(Route::Local) => to_ourselves::<F>(cpu, pkt),
        Ok(Route::Link { ifindex, next_hop, metrics }) => {
            adj::learn_own(cpu, cpu.tables.fib.table(fib).lookup(F::dst(&pkt)));
            let is_long = !cpu.paths.is_empty() && pkt.len() > F::LEAST;
            let metrics = if is_long { pmtu::of_packet(cpu, &pkt, metrics) } else { metrics };
            to_link::<F>(cpu, pkt, ifindex, next_hop, metrics);
        }
        Err(reason) => cpu.drop_pkt(pkt, reason),
    }
}

/// Delivers a copy to listeners of the group on this host; returns whether it leaves the host, too.
//= https://www.rfc-editor.org/rfc/rfc1112#section-6.1
//# a copy of the datagram must be looped back for local delivery
fn to_listeners<F: Source>(cpu: &mut Cpu, pkt: &mut Pkt) -> bool {
    pkt.flags.clear(Flags::LOOP);
    let key = group::Key { ifindex: pkt.outif, group: F::dst(pkt) };
    if group::is_joined(cpu, key) {
        match offload::copy(cpu, pkt, &[], 0, pkt.len()) {
            Some(mut copy) => {
                (copy.rcvif, copy.gso, copy.gso_size) = (key.ifindex, pkt.gso, pkt.gso_size);
                cpu.count(Count::GroupLooped);
                to_ourselves::<F>(cpu, copy);
            }
            None => cpu.count(Count::CopiesNoBuffer),
        }
    }
    F::ttl(pkt) > 0
}

/// Tells whether `addr` is one of ours that must not be used, because another host may have it.
//= https://www.rfc-editor.org/rfc/rfc4862#section-5.4
#[inline]
pub(crate) fn is_withheld(cpu: &Cpu, addr: impl FnOnce() -> IpAddr) -> bool {
    !cpu.addrs.are_usable() && is_withheld_now(cpu, addr())
}

fn is_withheld_now(cpu: &Cpu, addr: IpAddr) -> bool {
    let usable = |ifnet: &Ifnet| cpu.addrs.usable(ifnet.index, addr);
    cpu.tables.is_ours(addr) && !cpu.tables.ifnets().any(usable)
}

/// The packet belongs to the CPU that its flow belongs to, like one from a wire.
fn to_ourselves<F: Source>(cpu: &mut Cpu, mut pkt: Pkt) {
    let here = if F::AGAIN == Resume::Ip4 { Next::Ip4 } else { Next::Ip6 };
    match rss::place(cpu, &mut pkt, here) {
        Next::HandOff(owner) => dispatch(cpu, pkt, Next::HandOff(owner)),
        _ => cpu.loop_back(pkt, F::AGAIN),
    }
}

pub(crate) fn to_link<F: Source>(
    cpu: &mut Cpu,
    mut pkt: Pkt,
    ifindex: IfIndex,
    next_hop: IpAddr,
    metrics: Metrics,
) {
    pkt.outif = ifindex;
    if let Some(ifnet) = cpu.tables.ifnet(ifindex) {
        F::suit(&mut pkt, &ifnet.learned);
    }
    match pfil::ask(cpu, &mut pkt, Hook::Egress) {
        Some(next) => dispatch(cpu, pkt, next),
        None => to_fitting_link::<F>(cpu, pkt, next_hop, metrics),
    }
}

/// To a next hop on the link of `pkt.outif`, in pieces if it must be.
pub(crate) fn to_fitting_link<F: Source>(cpu: &mut Cpu, pkt: Pkt, next_hop: IpAddr, metrics: Metrics) {
    let Some(mtu) = cpu.tables.ifnet(pkt.outif).map(|ifnet| metrics.mtu_over(ifnet.mtu)) else {
        return cpu.drop_pkt(pkt, DropReason::InterfaceGone);
    };
    if fits(&pkt, mtu) {
        return link(cpu, pkt, next_hop);
    }
    match F::too_big(&pkt, mtu) {
        Next::Answer(problem) if !pkt.flags.has(Flags::LOCAL) => dispatch(cpu, pkt, Next::Answer(problem)),
        _ => F::cut(cpu, pkt, mtu, next_hop),
    }
}

/// Cuts a packet that is bigger than the MTU of its route or of `pkt.outif`, and sends the pieces: one of IPv4 that is to be
/// forwarded, or one that was put together here on its way.
///
/// Reads  `pkt.outif`, `cpu.tables`.
/// Drops  [`DropReason::InterfaceGone`], [`DropReason::NoBuffer`], [`DropReason::NoRoute`] if the route went.
///
/// # Spec
/// RFC 791 §3.2; RFC 1812 §5.2.6.
pub(crate) fn fragment(cpu: &mut Cpu, pkt: Pkt) {
    if l4::is_ip4(&pkt) { fragment_of::<Ip4>(cpu, pkt) } else { fragment_of::<Ip6>(cpu, pkt) }
}

fn fragment_of<F: Source>(cpu: &mut Cpu, mut pkt: Pkt) {
    let route = route(&cpu.tables, cpu.tables.fib_of(&pkt), F::dst(&pkt), pkt.outif, || flow_hash(&pkt));
    let (ifindex, next_hop, metrics) = match route {
        Ok(Route::Link { ifindex, next_hop, metrics }) => (ifindex, next_hop, metrics),
        Ok(Route::Local) => return cpu.drop_pkt(pkt, DropReason::NoRoute),
        Err(reason) => return cpu.drop_pkt(pkt, reason),
    };
    let Some(mtu) = cpu.tables.ifnet(ifindex).map(|ifnet| metrics.mtu_over(ifnet.mtu)) else {
        return cpu.drop_pkt(pkt, DropReason::InterfaceGone);
    };
    pkt.outif = ifindex;
    if !pkt.flags.has(Flags::LOCAL) {
        F::take_hop(&mut pkt);
        if let Some(next) = pfil::ask_outward(cpu, &mut pkt) {
            return dispatch(cpu, pkt, next);
        }
        cpu.count(F::FORWARDED);
    }
    F::cut(cpu, pkt, mtu, next_hop);
}

/// Puts the link header on, and sends.
pub(crate) fn link(cpu: &mut Cpu, mut pkt: Pkt, next_hop: IpAddr) {
    match neigh::link(cpu, &mut pkt, next_hop) {
        Next::Resolve => neigh::hold_for(cpu, pkt, next_hop),
        next => dispatch(cpu, pkt, next),
    }
}

/// Past a gateway that is not known or does not answer, if the route names another one of which more is to be expected. It
/// is asked meanwhile, so that its flows come back to it. Where a redirect leads elsewhere, that is where it goes.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.1.5
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.6
//# Routers that are reachable or probably reachable (i.e., in any
//# state other than INCOMPLETE) SHOULD be preferred over routers
//# whose reachability is unknown or suspect
fn around(cpu: &mut Cpu, fib: FibIndex, dst: IpAddr, outif: IfIndex, route: Route) -> Route {
    let Some(first) = route.first_hop() else { return route };
    let is_tunnel =
        |ifindex| cpu.tables.ifnet(ifindex).is_some_and(|ifnet: &Ifnet| ifnet.kind.is_point_to_point());
    let standing = |key: &neigh::Key| match cpu.neigh.standing(key, cpu.now) {
        Reachability::Unknown if is_tunnel(key.ifindex) => Reachability::Known,
        standing => standing,
    };
    let is = standing(&first);
    if is == Reachability::Known {
        return route;
    }
    let tables = &cpu.tables;
    let hops =
        || tables.hops.each(tables.fib.table(fib).lookup(dst)).filter_map(|hop| towards(hop, dst).ok());
    let all = hops().filter(|route| outif == 0 || route.is_by(outif));
    let all = all.filter_map(|route| Some((standing(&route.first_hop()?), route)));
    let better = all.max_by_key(|(standing, _)| *standing).filter(|(standing, _)| *standing > is);
    let Some((_, better)) = better.filter(|_| hops().any(|hop| hop.first_hop() == Some(first))) else {
        return route;
    };
    neigh::seek(cpu, first);
    better
}

/// Nothing comes back of what is sent to `dst`: the first hops there are asked whether they are still there. Of several,
/// all are.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.3
//# (b) When the number of transmissions of the same segment reaches or
//# exceeds threshold R1, pass negative advice (see Section 3.3.1.4 of
//# [19]) to the IP layer, to trigger dead-gateway diagnosis.
pub(crate) fn doubted(cpu: &mut Cpu, fib: FibIndex, dst: IpAddr, outif: IfIndex) {
    let tables = cpu.tables.clone();
    for hop in tables.hops.each(tables.fib.table(fib).lookup(dst)) {
        let route = if outif != 0 { route_by(&tables, fib, dst, outif, || 0) } else { towards(hop, dst) };
        let route = route.map(|route| cpu.dests.corrected(dst, route));
        if let Some(key) = route.ok().and_then(Route::first_hop) {
            neigh::doubted(cpu, key);
        }
    }
}

/// [`route_by`], and what was learned of this destination alone.
pub(crate) fn path(
    cpu: &Cpu,
    fib: FibIndex,
    dst: IpAddr,
    outif: IfIndex,
    flow: impl FnOnce() -> u32,
) -> Result<Route, DropReason> {
    let route = route_by(&cpu.tables, fib, dst, outif, flow)?;
    Ok(if cpu.dests.is_empty() { route } else { cpu.dests.corrected(dst, route) })
}

/// The way of the flow with hash `flow` to `dst` by table `fib`. Groups, the limited broadcast and link-local addresses are on the link of `outif`, if it names
/// one; all others are looked up.
pub(crate) fn route(
    tables: &Tables,
    fib: FibIndex,
    dst: IpAddr,
    outif: IfIndex,
    flow: impl FnOnce() -> u32,
) -> Result<Route, DropReason> {
    let link = |ifindex, next_hop, metrics| Ok(Route::Link { ifindex, next_hop, metrics });
    if outif != 0 && is_of_a_link(dst) {
        let ifnet = tables.ifnet(outif);
        let metrics = ifnet.filter(|_| dst.is_ipv6()).map(|ifnet| ifnet.learned.metrics());
        let ours = ifnet.is_some_and(|ifnet| ifnet.has(dst));
        return if ours { Ok(Route::Local) } else { link(outif, dst, metrics.unwrap_or_default()) };
    }
    towards(tables.hop(fib, dst, flow), dst)
}

/// [`route`]; if `outif` names an interface, no other leads there. All others but groups, the limited broadcast and link-local addresses have
/// to be on its link, or the best route to them has a next hop there.
pub(crate) fn route_by(
    tables: &Tables,
    fib: FibIndex,
    dst: IpAddr,
    outif: IfIndex,
    flow: impl FnOnce() -> u32,
) -> Result<Route, DropReason> {
    if outif == 0 || is_of_a_link(dst) {
        return route(tables, fib, dst, outif, flow);
    }
    let usual = towards(tables.hop(fib, dst, flow), dst);
    if usual.is_ok_and(|route| route == Route::Local || route.is_by(outif)) {
        return usual;
    }
    let mut hops = tables.hops.each(tables.fib.table(fib).lookup(dst));
    let by_outif = hops.find_map(|hop| towards(hop, dst).ok().filter(|route| route.is_by(outif)));
    let is_on_link = || tables.ifnet(outif).is_some_and(|own| own.addrs.iter().any(|own| own.covers(dst)));
    let on_link = || Route::Link { ifindex: outif, next_hop: dst, metrics: Metrics::default() };
    by_outif.or_else(|| is_on_link().then(on_link)).ok_or(DropReason::NoRoute)
}

/// The way to `dst` by one hop.
fn towards(hop: Hop, dst: IpAddr) -> Result<Route, DropReason> {
    let link = |ifindex, next_hop, metrics| Ok(Route::Link { ifindex, next_hop, metrics });
    match hop.to {
        To::Local { .. } => Ok(Route::Local),
        To::OnLink { ifindex } => link(ifindex, dst, hop.metrics),
        To::Gateway { ifindex, via } => link(ifindex, via, hop.metrics),
        // To the link all broadcasts are one.
        To::Broadcast { ifindex } => link(ifindex, Ipv4Addr::BROADCAST.into(), hop.metrics),
        To::NoRoute | To::Group(_) => Err(DropReason::NoRoute),
        To::Reject => Err(DropReason::RejectRoute),
        To::Blackhole => Err(DropReason::BlackholeRoute),
    }
}

/// Returns the interface that an answer to `dst` names, to a packet that came by `rcvif`: an address that means something only with
/// its link leads there; to all others the route does, which may be by another interface.
pub(crate) fn answers_by(rcvif: IfIndex, dst: IpAddr) -> IfIndex {
    if is_of_a_link(dst) { rcvif } else { 0 }
}

pub(crate) fn is_of_a_link(dst: IpAddr) -> bool {
    match dst {
        IpAddr::V4(dst) => dst.is_multicast() || dst.is_broadcast() || dst.is_link_local(),
        IpAddr::V6(dst) => dst.is_multicast() || dst.is_unicast_link_local(),
    }
}

/// The own address to speak to `dst` with by table `fib`, and the interface that the packets will leave by.
///
/// Where flows take several ways to `dst`, it is that of one of them. `None` if no route leads there, or no address reaches so far.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.4.3
//= https://www.rfc-editor.org/rfc/rfc6724#section-5
#[must_use]
pub fn source_for(cpu: &Cpu, fib: FibIndex, dst: IpAddr) -> Option<(IpAddr, IfIndex)> {
    source_on(cpu, fib, dst, 0)
}

/// [`source_for`], where the destination is of the link of `outif`.
#[must_use]
pub fn source_on(cpu: &Cpu, fib: FibIndex, dst: IpAddr, outif: IfIndex) -> Option<(IpAddr, IfIndex)> {
    source_of(cpu, fib, dst, outif, route(&cpu.tables, fib, dst, outif, || 0).ok()?)
}

/// [`source_for`], by the interface `outif` alone.
pub(crate) fn source_by(cpu: &Cpu, fib: FibIndex, dst: IpAddr, outif: IfIndex) -> Option<(IpAddr, IfIndex)> {
    source_of(cpu, fib, dst, outif, route_by(&cpu.tables, fib, dst, outif, || 0).ok()?)
}

fn source_of(
    cpu: &Cpu,
    fib: FibIndex,
    dst: IpAddr,
    outif: IfIndex,
    route: Route,
) -> Option<(IpAddr, IfIndex)> {
    let tables = &cpu.tables;
    match route {
        Route::Local => Some((dst, outif)),
        Route::Link { ifindex, next_hop, .. } => {
            let best = |ifnet: &Ifnet| best(cpu, ifnet, dst, next_hop);
            // An unnumbered interface speaks with the address of another, of its table if there is one.
            let of_table = |ifnet: &Ifnet| Some((ifnet.fib == fib, best(ifnet)?));
            let elsewhere = || {
                let all = tables.ifnets().filter_map(of_table);
                all.max_by(|(a, (_, x)), (b, (_, y))| (a, x).cmp(&(b, y))).map(|(_, best)| best)
            };
            let (own, _) = best(tables.ifnet(ifindex)?).or_else(elsewhere)?;
            Some((own.addr, ifindex))
        }
    }
}

fn best(cpu: &Cpu, ifnet: &Ifnet, dst: IpAddr, next_hop: IpAddr) -> Option<(IfAddr, impl Ord + use<>)> {
    let same_family = ifnet.addrs.iter().filter(|own| own.addr.is_ipv4() == dst.is_ipv4());
    let usable = same_family.filter(|own| cpu.addrs.usable(ifnet.index, own.addr));
    usable.map(|own| (*own, rank(ifnet, own, dst, next_hop))).max_by(|a, b| a.1.cmp(&b.1))
}

/// Ranks a candidate source address, most important first: rules 1, 2, 3, 6, 7 and 8 of RFC 6724, and
/// before the last two that the next hop can answer directly (its rule 5.5). Rule 5 is in the list of candidates.
fn rank(ifnet: &Ifnet, own: &IfAddr, dst: IpAddr, next_hop: IpAddr) -> impl Ord + use<> {
    let (have, need) = (scope(own.addr), scope(dst));
    let reaches = have >= need;
    let tight = if reaches { (0, Reverse(have)) } else { (have, Reverse(0)) };
    let same_label = label(own.addr) == label(dst);
    let answers = own.covers(next_hop);
    let learned = ifnet.learned.of(own.addr);
    let is_preferred = learned.is_none_or(|own| !own.is_deprecated);
    let is_temporary = learned.is_some_and(|own| own.is_temporary);
    let fit = (same_label, answers, is_temporary, common_prefix(own.addr, dst));
    (own.addr == dst, reaches, tight, is_preferred, fit)
}

/// Returns the scope of an address, as RFC 6724 §3.1 and §3.2 number it.
fn scope(addr: IpAddr) -> u8 {
    const LINK: u8 = 2;
    const GLOBAL: u8 = 14;
    match addr {
        IpAddr::V4(addr) if addr.is_link_local() || addr.is_loopback() => LINK,
        IpAddr::V6(addr) if addr.is_unicast_link_local() || addr.is_loopback() => LINK,
        IpAddr::V6(addr) => multicast_scope(addr).map_or(GLOBAL, |scope| scope.0),
        IpAddr::V4(_) => GLOBAL,
    }
}

/// Returns the label of an address: sources and destinations of one label suit each other. It is that of the default policy
/// table, whose longest prefix counts.
//= https://www.rfc-editor.org/rfc/rfc6724#section-2.1
fn label(addr: IpAddr) -> u8 {
    const MAPPED: u8 = 4;
    let IpAddr::V6(addr) = addr else { return MAPPED };
    match addr.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => 0,
        [0, 0, 0, 0, 0, 0xffff, _, _] => MAPPED,
        [0, 0, 0, 0, 0, 0, _, _] => 3,
        [0x2001, 0, ..] => 5,
        [0x2002, ..] => 2,
        [0x3ffe, ..] => 12,
        [first, ..] if first & 0xffc0 == 0xfec0 => 11,
        [first, ..] if first & 0xfe00 == 0xfc00 => 13,
        _ => 1,
    }
}

fn common_prefix(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
