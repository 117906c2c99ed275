//! The way out for neighbour solicitations and advertisements.

use core::net::{IpAddr, Ipv6Addr};

use pkt::{Flags, Pkt};
use wire::addr::ALL_NODES;
use wire::ether::{EtherType, Header, Mac};
use wire::nd::{HOP_LIMIT, Message, NeighborAdvert, Opt, Options, RouterAdvert};
use wire::{Protocol, ip6};

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::addr::{self, State};
use crate::ip::{neigh, output};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;
use crate::turn::netisr;
use crate::turn::next::Next;

/// Room for any message that is sent here, router advertisements excepted.
const MESSAGE_MAX: usize = 64;
/// Room for a router advertisement: with the IPv6 header it fits every link.
const ROUTER_ADVERT_MAX: usize = ip6::MIN_MTU as usize - ip6::HEADER_LEN;
/// The nonce option (RFC 3971 §5.3.2).
const NONCE: u8 = 14;

/// The addresses of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NdTxParams {
    pub(crate) src: Ipv6Addr,
    pub(crate) dst: Ipv6Addr,
    /// The receiver's link address, if that is known already.
    pub(crate) mac: Option<Mac>,
}

/// Asks for a neighbour, with our own link address, so that it need not ask back.
pub(crate) fn solicit(cpu: &mut Cpu, ifindex: IfIndex, params: NdTxParams, message: Message) {
    let Some(ifnet) = cpu.tables.ifnet(ifindex) else { return };
    let key = addr::Key { ifindex, addr: params.src.into() };
    // RFC 4429 §3.2 wants no questions from an address that is not certain yet. In its first second a router has no
    // other: it asks all the same, but without its link address, so that no entry is overwritten.
    let mac = Some(ifnet.mac).filter(|_| cpu.addrs.state(&key) != Some(State::Tentative));
    send(cpu, ifindex, params, message, mac.map(Opt::SourceLinkAddr));
}

/// Asks whether another node has an address that is to be ours.
pub(crate) fn probe(
    cpu: &mut Cpu,
    ifindex: IfIndex,
    params: NdTxParams,
    message: Message,
    nonce: Option<&[u8; 6]>,
) {
    send(cpu, ifindex, params, message, nonce.map(nonce_option));
}

/// Asks for routers, with our own link address, so that they can answer us alone.
pub(crate) fn solicit_routers(cpu: &mut Cpu, ifindex: IfIndex, params: NdTxParams) {
    let Some(mac) = cpu.tables.ifnet(ifindex).map(|ifnet| ifnet.mac) else { return };
    send(cpu, ifindex, params, Message::RouterSolicit, Some(Opt::SourceLinkAddr(mac)));
}

/// Advertises `ours`: to the solicitor and, if given, its link address; to all nodes if it had no
/// address.
pub(crate) fn advertise(cpu: &mut Cpu, ours: addr::Key, asker: Option<(Ipv6Addr, Option<Mac>)>) {
    let (Some(ifnet), IpAddr::V6(target)) = (cpu.tables.ifnet(ours.ifindex), ours.addr) else { return };
    let (dst, mac) = asker.unwrap_or((ALL_NODES, None));
    let advert = NeighborAdvert {
        router: cpu.tables.forwarding,
        solicited: asker.is_some(),
        // RFC 4429 §3.3: an optimistic address does not override.
        replace: cpu.addrs.state(&ours) == Some(State::Preferred),
        target,
    };
    let option = Opt::TargetLinkAddr(ifnet.mac);
    send(
        cpu,
        ours.ifindex,
        NdTxParams { src: target, dst, mac },
        Message::NeighborAdvert(advert),
        Some(option),
    );
}

/// Advertises `target`, the address of a host elsewhere, with link address `mac`: to the solicitor, or to all nodes if that had no
/// address. It never overrides what the host itself may have said on this link.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.8
pub(super) fn advertise_for(
    cpu: &mut Cpu,
    ifindex: IfIndex,
    target: Ipv6Addr,
    mac: Mac,
    asker: Option<(Ipv6Addr, Option<Mac>)>,
) {
    let (dst, to) = asker.unwrap_or((ALL_NODES, None));
    let fib = cpu.tables.fib_on(ifindex);
    let Some((IpAddr::V6(src), _)) = output::source_on(cpu, fib, dst.into(), ifindex) else { return };
    let router = cpu.tables.forwarding;
    let advert = NeighborAdvert { router, solicited: asker.is_some(), replace: false, target };
    cpu.count(Count::NdProxied);
    let params = NdTxParams { src, dst, mac: to };
    send(cpu, ifindex, params, Message::NeighborAdvert(advert), Some(Opt::TargetLinkAddr(mac)));
}

/// Advertises this router to a link.
pub(crate) fn advertise_router<'a>(
    cpu: &mut Cpu,
    ifindex: IfIndex,
    params: NdTxParams,
    said: RouterAdvert,
    options: impl IntoIterator<Item = Opt<'a>>,
) {
    send_within::<ROUTER_ADVERT_MAX>(cpu, ifindex, params, Message::RouterAdvert(said), options);
}

/// Sends a message with options.
fn send<'a>(
    cpu: &mut Cpu,
    ifindex: IfIndex,
    params: NdTxParams,
    message: Message,
    options: impl IntoIterator<Item = Opt<'a>>,
) {
    send_within::<MESSAGE_MAX>(cpu, ifindex, params, message, options);
}

fn send_within<'a, const ROOM: usize>(
    cpu: &mut Cpu,
    ifindex: IfIndex,
    params: NdTxParams,
    message: Message,
    options: impl IntoIterator<Item = Opt<'a>>,
) {
    let mut body = [0; ROOM];
    let Ok(len) = message.emit(params.src, params.dst, options, &mut body) else { return };
    let Some(mut pkt) = cpu.pool.take() else { return cpu.count(Count::NeighNoBuffer) };
    cpu.count(sent(&message));
    pkt.outif = ifindex;
    pkt.flags.set(Flags::LOCAL.with(Flags::PRIORITY));
    if write(&mut pkt, params, &body[..len]).is_err() {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    }
    let next = link(cpu, &mut pkt, params);
    netisr::dispatch(cpu, pkt, next);
}

/// The counter of a message that is sent.
const fn sent(message: &Message) -> Count {
    match message {
        Message::NeighborAdvert(_) => Count::NdAdvertsSent,
        Message::RouterSolicit => Count::NdRouterSolicitsSent,
        Message::RouterAdvert(_) => Count::NdRouterAdvertsSent,
        _ => Count::NdSolicitsSent,
    }
}

fn write(pkt: &mut Pkt, params: NdTxParams, message: &[u8]) -> Result<(), pkt::NoRoom> {
    let len = u16::try_from(message.len()).unwrap_or_default();
    let header = ip6::Header::new(params.src, params.dst, Protocol::ICMP6, len);
    pkt.append(ip6::HEADER_LEN)?.copy_from_slice(&ip6::Header { hop_limit: HOP_LIMIT, ..header }.to_bytes());
    pkt.append(message.len())?.copy_from_slice(message);
    Ok(())
}

/// A known link address is used as it is: an answer must not wait for a question.
fn link(cpu: &mut Cpu, pkt: &mut Pkt, params: NdTxParams) -> Next {
    let Some(dst) = params.mac else { return neigh::link(cpu, pkt, params.dst.into()) };
    let Some(ifnet) = cpu.tables.ifnet(pkt.outif) else { return Next::Drop(DropReason::InterfaceGone) };
    let header = Header { dst, src: ifnet.mac, ethertype: EtherType::IPV6 };
    match pkt.prepend_array(&header.to_bytes()) {
        Ok(()) => Next::Output,
        Err(_) => Next::Drop(DropReason::NoBuffer),
    }
}

/// The option that lets us know our own question again (RFC 7527 §4.1).
const fn nonce_option(nonce: &[u8; 6]) -> Opt<'_> {
    Opt::Unknown { kind: NONCE, data: nonce }
}

/// The nonce that came with a message.
pub(super) fn nonce_of(options: &Options<'_>) -> Option<[u8; 6]> {
    options.iter().find_map(|option| match option {
        Opt::Unknown { kind: NONCE, data } => data.try_into().ok(),
        _ => None,
    })
}
