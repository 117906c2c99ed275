//! Our end of a conversation that begins: the address, and a port whose packets come here.

use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;

use wire::toeplitz;

use super::FourTuple;
use super::port_algorithm::Walk;
use crate::fib::FibIndex;
use crate::host::sock::Error;
use crate::ip::output;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Ports that are tried before there is said to be none.
const PORTS_TRIED_MAX: usize = 256;
/// Ports of a range that is walked through: of a wider one, enough of those that are drawn are in it.
const WALKED_MAX: usize = 8192;

/// The request for a new conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Peer.
    pub(crate) remote: SocketAddr,
    /// From which of our addresses; the route says, if this does not.
    pub(crate) local: Option<IpAddr>,
    /// From which port; without, one whose packets come to this CPU.
    pub(crate) port: Option<u16>,
    /// By which interface, where the address means something only with its link; else 0.
    pub(crate) zone: IfIndex,
    /// By which interface alone (`SO_BINDTODEVICE`); 0: as the route says.
    pub(crate) device: IfIndex,
    /// By which routing table.
    pub(crate) fib: FibIndex,
    /// From any address, also one that is not ours.
    pub(crate) bind_any: bool,
}

/// The ends of a conversation that is `wanted`. A port that is drawn for it is not `taken`; whether one that was given is,
/// the caller has to find out.
///
/// # Errors
///
/// [`Error::BadAddress`], [`Error::NetworkUnreachable`], [`Error::AddrNotAvailable`] if the local address is not ours, or no
/// port was found; [`Error::Elsewhere`] with a port that was given; [`Error::NoTable`].
pub(crate) fn local_end(
    cpu: &mut Cpu,
    wanted: Wanted,
    taken: impl Fn(&Cpu, &FourTuple) -> bool,
) -> Result<FourTuple, Error> {
    let Wanted { remote, local, port, zone, device, fib, bind_any } = wanted;
    check_fib(cpu, fib)?;
    let zone = on_device(cpu, device, zone)?;
    let local = match local.filter(|local| !local.is_unspecified()) {
        Some(local) if local.is_ipv4() != remote.is_ipv4() => return Err(Error::BadAddress),
        Some(local) if !bind_any && !cpu.tables.is_ours(local) => return Err(Error::AddrNotAvailable),
        Some(local) => local,
        None => {
            match device {
                0 => output::source_on(cpu, fib, remote.ip(), zone),
                device => output::source_by(cpu, fib, remote.ip(), device),
            }
            .ok_or(Error::NetworkUnreachable)?
            .0
        }
    };
    let mut ends = FourTuple::new((local, port.unwrap_or(0)).into(), remote, zone);
    if device != 0 {
        ends.zone = device;
    }
    if port.is_none() {
        let local_port = self::port(cpu, ends, taken).ok_or(Error::AddrNotAvailable)?;
        return Ok(FourTuple { local_port, ..ends });
    }
    match cpu.placement.owner(ends.flow()) {
        owner if owner != cpu.id => Err(Error::Elsewhere(owner)),
        _ => Ok(ends),
    }
}

/// Checks that the routing table of a socket exists.
///
/// # Errors
///
/// [`Error::NoTable`].
#[inline]
pub(crate) fn check_fib(cpu: &Cpu, fib: FibIndex) -> Result<(), Error> {
    if cpu.tables.has_fib(fib) { Ok(()) } else { Err(Error::NoTable) }
}

/// Returns the interface of an address of a link, for a socket that is bound to `device` if that is not 0.
///
/// # Errors
///
/// [`Error::NoInterface`], and [`Error::BadAddress`] if the address is of another link.
pub(crate) fn on_device(cpu: &Cpu, device: IfIndex, zone: IfIndex) -> Result<IfIndex, Error> {
    match device {
        0 => Ok(zone),
        device if cpu.tables.ifnet(device).is_none() => Err(Error::NoInterface),
        device if zone != 0 && zone != device => Err(Error::BadAddress),
        device => Ok(device),
    }
}

/// Returns a free port for a socket on all CPUs, drawn from those that are not `taken`.
//= https://www.rfc-editor.org/rfc/rfc6056#section-3.3.1
pub(crate) fn free_port(cpu: &mut Cpu, taken: impl Fn(&Cpu, u16) -> bool) -> Option<u16> {
    let range = cpu.sysctls.ports.ports();
    if range.len() <= WALKED_MAX {
        let walk = Walk::drawn(cpu, range.len() as u64);
        return walked(cpu, &range, &walk, |cpu, port| !taken(cpu, port)).map(|(port, _)| port);
    }
    (0..PORTS_TRIED_MAX).find_map(|_| {
        let port = range.start() + u16::try_from(cpu.secret.below(range.len() as u64)).ok()?;
        (!taken(cpu, port)).then_some(port)
    })
}

/// The first port of a narrow range, from where a walk begins, that `is_good`, and its step: the very last is found, too.
//= https://www.rfc-editor.org/rfc/rfc6056#section-3.3.1
fn walked(
    cpu: &Cpu,
    range: &RangeInclusive<u16>,
    walk: &Walk,
    is_good: impl Fn(&Cpu, u16) -> bool,
) -> Option<(u16, u64)> {
    (0..range.len() as u64).find_map(|step| {
        let port = range.start() + u16::try_from(walk.in_order(step)).ok()?;
        is_good(cpu, port).then_some((port, step))
    })
}

/// A local port for a conversation with `ends` whose local port is not known, such that its packets come to this CPU
/// and it is not `taken`: chosen from all that do as `net.inet.ip.portrange.algorithm` says, drawn if that is not set, so that it
/// cannot be guessed. `None` if all that were tried are taken.
///
/// The hash is the same both ways and linear, so a port is computed from a hash of this CPU, not searched for.
//= https://www.rfc-editor.org/rfc/rfc6056#section-3.3
pub(super) fn port(cpu: &mut Cpu, ends: FourTuple, taken: impl Fn(&Cpu, &FourTuple) -> bool) -> Option<u16> {
    let range = cpu.sysctls.ports.ports();
    if range.len() <= WALKED_MAX {
        let walk = Walk::begin(cpu, &ends, range.len() as u64);
        let (port, step) = walked(cpu, &range, &walk, |cpu, local_port| {
            let ends = FourTuple { local_port, ..ends };
            cpu.placement.owner(ends.flow()) == cpu.id && !taken(cpu, &ends)
        })?;
        walk.end(cpu, &ends, step);
        return Some(port);
    }
    let (buckets, cpus) = (u64::from(cpu.placement.buckets()), u64::from(cpu.placement.cpus()));
    let mine = buckets.saturating_sub(cpu.id.0.into()).div_ceil(cpus);
    let rest = others(&ends);
    let walk = Walk::begin(cpu, &ends, mine * (0x1_0000 / buckets));
    (0..PORTS_TRIED_MAX as u64).find_map(|step| {
        let index = walk.any(cpu, step);
        let bucket = index.checked_rem(mine)? * cpus + u64::from(cpu.id.0);
        let hash = index.checked_div(mine)? * buckets + bucket;
        let port = toeplitz::fold_of(u16::try_from(hash).ok()?) ^ rest;
        if !range.contains(&port) || taken(cpu, &FourTuple { local_port: port, ..ends }) {
            return None;
        }
        walk.end(cpu, &ends, step);
        Some(port)
    })
}

/// Returns the hash without the local port.
fn others(ends: &FourTuple) -> u16 {
    let addrs = match (ends.local, ends.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => toeplitz::fold4(local, remote),
        (IpAddr::V6(local), IpAddr::V6(remote)) => toeplitz::fold6(local, remote),
        _ => 0,
    };
    addrs ^ toeplitz::fold_ports(0, ends.remote_port)
}

#[cfg(test)]
mod tests {
    use super::super::{EPHEMERAL, PortRange};
    use super::*;
    use crate::testkit::{Bench, addr4, addr6};

    #[test]
    fn a_narrow_range_is_used_up_to_its_last_port_and_not_beyond() {
        for (first, last) in [(40_000, 40_099), (40_099, 40_000)] {
            let mut bench = Bench::with(1, 2, |_| ());
            let mut found = Vec::new();
            for netisr in &mut bench.netisrs {
                let cpu = &mut netisr.cpu;
                cpu.sysctls.ports = PortRange { first, last };
                let (local, remote) = (addr6(1, 1).into(), addr6(1, 9).into());
                let ends = FourTuple { local, remote, local_port: 0, remote_port: 80, zone: 0 };
                let mut own = Vec::new();
                while let Some(port) = port(cpu, ends, |_, ends| own.contains(&ends.local_port)) {
                    own.push(port);
                }
                assert!(!own.is_sorted(), "drawn at random");
                found.extend(own);
                let mut both = Vec::new();
                while let Some(port) = free_port(cpu, |_, port| both.contains(&port)) {
                    both.push(port);
                }
                assert_eq!(both.len(), 100);
            }
            found.sort_unstable();
            assert_eq!(found, (40_000..=40_099).collect::<Vec<u16>>(), "of each port, one CPU is the owner");
        }
    }

    #[test]
    fn a_port_brings_replies_home_and_is_not_taken_and_not_always_the_same() {
        for cpus in [1, 2, 3, 8] {
            let mut bench = Bench::with(1, cpus, |_| ());
            for at in 0..usize::from(cpus) {
                let cpu = &mut bench.netisrs[at].cpu;
                for (local, remote) in
                    [(addr4(1, 1).into(), addr4(1, 9).into()), (addr6(1, 1).into(), addr6(1, 9).into())]
                {
                    let ends = FourTuple { local, remote, local_port: 0, remote_port: 80, zone: 0 };
                    let ports: Vec<u16> = (0..50)
                        .map(|_| port(cpu, ends, |_, ends| ends.local_port % 2 == 0).unwrap())
                        .collect();
                    for port in &ports {
                        let ends = FourTuple { local_port: *port, ..ends };
                        assert_eq!(cpu.placement.owner(ends.flow()), cpu.id, "{cpus} CPUs, port {port}");
                        assert!(EPHEMERAL.contains(port) && port % 2 == 1);
                    }
                    assert!(ports.iter().any(|port| *port != ports[0]));
                    assert_eq!(port(cpu, ends, |_, _| true), None);
                }
            }
        }
    }
}
