//! From a datagram to a packet, on the CPU that its answers will come to.

use core::net::{IpAddr, SocketAddr};

use pkt::{Flags, Gso, Pkt};

use super::settings::Settings;
use crate::base::count::Count;
use crate::fib::{FibIndex, flow_hash};
use crate::host::pcb::{Bound, FourTuple, check_fib, is_of_a_link, on_device};
use crate::host::sock::Error;
use crate::ip::forward::fits;
use crate::ip::icmp::is_one_host;
use crate::ip::ip_tx::{self, IpTxParams};
use crate::ip::output::{self, Route};
use crate::ip::{l4, pmtu};
use crate::link::tables::{IfIndex, Ifnet};
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::{Next, Resume};

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct To {
    /// Destination.
    pub remote: SocketAddr,
    /// From which of our addresses; the socket's, or what the route says, if this does not.
    pub local: Option<IpAddr>,
    /// By which interface, where the address means something only with its link; else 0.
    pub zone: IfIndex,
}

impl From<SocketAddr> for To {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: None, zone: 0 }
    }
}

/// The addresses and options of a datagram to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Aim {
    pub(crate) ends: FourTuple,
    pub(crate) outif: IfIndex,
    pub(crate) settings: Settings,
}

impl Aim {
    /// From a socket that waits at `bound`, or speaks between `ends` alone; without `to` it is for the other one of these.
    pub(crate) fn of(
        cpu: &Cpu,
        bound: &Bound,
        settings: Settings,
        ends: Option<FourTuple>,
        to: Option<To>,
    ) -> Result<Self, Error> {
        check_fib(cpu, settings.tx_params.fib)?;
        let Some(to) = to else {
            let ends = ends.ok_or(Error::NotConnected)?;
            let outif = if ends.zone == 0 { outif(cpu, &settings, ends.remote, 0)? } else { ends.zone };
            return Ok(Self { ends, outif, settings });
        };
        let zone = on_device(cpu, bound.device, to.zone)?;
        let zone = if zone == 0 { bound.zone } else { zone };
        let outif = match (outif(cpu, &settings, to.remote.ip(), zone)?, bound.device) {
            (by_address, 0) => by_address,
            (_, device) => device,
        };
        let local = source(cpu, bound, &to, outif, &settings)?;
        let ends = FourTuple::new((local, bound.addr.port()).into(), to.remote, outif);
        Ok(Self { ends, outif, settings })
    }

    /// Makes a packet of `bytes`, and sends it from the CPU that its answers come to; `put_headers` puts all headers in
    /// front of them. If `segment` is not 0 it is a super-packet of datagrams that long. `count` counts datagrams.
    pub(crate) fn launch(
        &self,
        cpu: &mut Cpu,
        bytes: &[u8],
        segment: u16,
        count: Count,
        put_headers: impl FnOnce(&mut Pkt, IpTxParams) -> Option<()>,
    ) -> Result<(), Error> {
        let Self { ends, outif, settings } = self;
        let is_group = ends.remote.is_multicast();
        let hops = if is_group { settings.group_hops } else { settings.tx_params.hops };
        if is_group && hops == 0 && settings.no_loop {
            return Ok(());
        }
        let tx_params = IpTxParams { hops, ..settings.tx_params };
        let mut pkt = ip_tx::payload(cpu, [bytes, &[]]).ok_or(Error::NoBuffer)?;
        let made = put_headers(&mut pkt, tx_params).ok_or(Error::TooLong);
        pkt.outif = *outif;
        if segment > 0 {
            (pkt.gso, pkt.gso_size) = (Gso::Udp, segment);
        }
        if is_group && !settings.no_loop {
            pkt.flags.set(Flags::LOOP);
        }
        let checked = made.and_then(|()| match settings.dont_fragment || segment > 0 {
            true => check_size(cpu, &pkt),
            false => Ok(()),
        });
        if let Err(error) = checked {
            cpu.pool.give(pkt);
            return Err(error);
        }
        let datagrams = if segment > 0 { bytes.len().div_ceil(segment.into()).max(1) } else { 1 };
        cpu.counters.add(count, datagrams as u64);
        cpu.counters.add(Count::UdpCoalesced, datagrams.saturating_sub(1) as u64);
        let owner = cpu.placement.owner(ends.flow());
        if owner == cpu.id {
            ip_tx::output(cpu, pkt);
        } else {
            pkt.resume = Resume::Send as u8;
            dispatch(cpu, pkt, Next::HandOff(owner));
        }
        Ok(())
    }
}

/// The interface by which `remote` is sent to, if it means something only with one; 0 if the route says.
pub(crate) fn outif(cpu: &Cpu, settings: &Settings, remote: IpAddr, zone: IfIndex) -> Result<IfIndex, Error> {
    if remote.is_unspecified() {
        return Err(Error::BadAddress);
    }
    let is_for_one = is_one_host(cpu, remote);
    if !is_for_one && !remote.is_multicast() && !settings.may_broadcast {
        return Err(Error::NotPermitted);
    }
    let is_everybody = matches!(remote, IpAddr::V4(ip) if ip.is_broadcast());
    if is_for_one || !(remote.is_multicast() || is_everybody) {
        return Ok(if is_of_a_link(remote) { zone } else { 0 });
    }
    let zone = Some(zone).filter(|zone| *zone != 0);
    zone.or_else(|| group_if(cpu, settings, remote)).ok_or(Error::NetworkUnreachable)
}

/// The interface of a group for a socket that names none: what it has been told, else where the route leads, else the
/// first.
pub(crate) fn group_if(cpu: &Cpu, settings: &Settings, ip: IpAddr) -> Option<IfIndex> {
    let told = Some(settings.group_if).filter(|ifindex| *ifindex != 0);
    let routed = || {
        output::source_on(cpu, settings.tx_params.fib, ip, 0)
            .map(|(_, ifindex)| ifindex)
            .filter(|ifindex| *ifindex != 0)
    };
    let first = || cpu.tables.ifnets().find(|ifnet| speaks(ifnet, ip)).map(|ifnet| ifnet.index);
    told.or_else(routed).or_else(first)
}

fn speaks(ifnet: &Ifnet, remote: IpAddr) -> bool {
    ifnet.up && ifnet.addrs.iter().any(|own| own.addr.is_ipv4() == remote.is_ipv4())
}

/// The address to send from.
fn source(cpu: &Cpu, bound: &Bound, to: &To, outif: IfIndex, settings: &Settings) -> Result<IpAddr, Error> {
    let remote = to.remote.ip();
    if bound.addr.is_ipv4() != remote.is_ipv4() && !bound.takes_mapped() {
        return Err(Error::BadAddress);
    }
    let own = Some(bound.addr.ip()).filter(|own| !own.is_unspecified() && is_one_host(cpu, *own));
    match to.local.filter(|local| !local.is_unspecified()).or(own) {
        Some(local) if local.is_ipv4() != remote.is_ipv4() => Err(Error::BadAddress),
        Some(local) if !is_one_host(cpu, local) || !settings.bind_any && !cpu.tables.is_ours(local) => {
            Err(Error::AddrNotAvailable)
        }
        Some(local) => Ok(local),
        None => {
            let source = match bound.device {
                0 => output::source_on(cpu, settings.tx_params.fib, remote, outif),
                device => output::source_by(cpu, settings.tx_params.fib, remote, device),
            };
            source.map(|(local, _)| local).ok_or(Error::NetworkUnreachable)
        }
    }
}

/// Returns the MTU of the link on the way to a host, or that of its route; `None` without one.
#[must_use]
pub fn link_mtu(cpu: &Cpu, fib: FibIndex, to: IpAddr) -> Option<u32> {
    let Route::Link { ifindex, metrics, .. } = output::path(cpu, fib, to, 0, || 0).ok()? else { return None };
    Some(metrics.mtu_over(cpu.tables.ifnet(ifindex)?.mtu))
}

/// Checks the size of a datagram that must not be fragmented, against the link and the known path MTU.
pub(crate) fn check_size(cpu: &Cpu, pkt: &Pkt) -> Result<(), Error> {
    let remote = l4::ends(pkt).1;
    let route = output::path(cpu, cpu.tables.fib_of(pkt), remote, pkt.outif, || flow_hash(pkt))
        .map_err(|_| Error::NetworkUnreachable)?;
    let Route::Link { ifindex, metrics, .. } = route else { return Ok(()) };
    let mtu = pmtu::of_packet(cpu, pkt, metrics)
        .mtu_over(cpu.tables.ifnet(ifindex).ok_or(Error::NetworkUnreachable)?.mtu);
    if fits(pkt, mtu) { Ok(()) } else { Err(Error::TooBig { mtu }) }
}
