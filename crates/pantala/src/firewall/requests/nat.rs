//! `ipfw nat show`, `ipfw nat64lsn show`, `ipfw nptv6 show`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipfw::command::{Nat64Config, NatConfig};
use net::firewall::nat::headers::End;
use net::firewall::nat::instance::{Instance, Totals};
use net::firewall::nat::nat64::Instance as Crossing;
use net::firewall::nat::nptv6::Nptv6;
use net::firewall::nat::spec::{BINDINGS, Spec};
use net::firewall::nat::table::{Binding, ByProtocol, Table, Tick};
use wire::Protocol;

use crate::api::{
    Error, ErrorKind, FirewallBinding, FirewallBindings, FirewallNat, FirewallNat64, FirewallPrefixes,
};
use crate::daemon::control::Control;
use crate::daemon::report::Report;
use crate::daemon::stack::listing::Page;

/// Flows that one CPU is asked for at once, to count their ports.
const PORTS_PER_PAGE: usize = 4096;

/// Ports, a bit each.
struct Ports([u64; 1 << 10]);

impl Control {
    pub(super) fn list_nat(&self) -> Result<Vec<FirewallNat>, Error> {
        let with_ports = |nat: FirewallNat| {
            let tcp_ports = self.ports_of(nat.number, Protocol::TCP, nat.tcp)?;
            let udp_ports = self.ports_of(nat.number, Protocol::UDP, nat.udp)?;
            Ok(FirewallNat { tcp_ports, udp_ports, ..nat })
        };
        self.nat_by(&self.cpus.reports()?).into_iter().map(with_ports).collect()
    }

    /// The instances as the CPUs report on them; their ports are not counted, for that each binding has to be looked at.
    pub(super) fn nat_by(&self, reports: &[Report]) -> Vec<FirewallNat> {
        self.firewall
            .config
            .nat
            .iter()
            .map(|(number, config)| self.instance(*number, config, reports))
            .collect()
    }

    fn instance(&self, number: u16, config: &NatConfig, reports: &[Report]) -> FirewallNat {
        let nat = reports.iter().filter_map(|report| report.firewall.as_ref()).flat_map(|it| &it.nat);
        let all: Vec<(ByProtocol, Totals)> =
            nat.filter(|(of, ..)| *of == number).map(|(_, has, totals)| (*has, *totals)).collect();
        let has = |of: fn(&ByProtocol) -> usize| all.iter().map(|(has, _)| of(has) as u64).sum::<u64>();
        let told = |of: fn(&Totals) -> u64| all.iter().map(|(_, totals)| of(totals)).sum::<u64>();
        let spec = Spec::new(number, config, &self.tables, 0).ok();
        let (icmp, tcp, udp) = (has(|has| has.icmp), has(|has| has.tcp), has(|has| has.udp));
        FirewallNat {
            number,
            config: config.to_string().trim_start().to_owned(),
            address: spec.as_ref().and_then(|spec| spec.addr).map(Ipv4Addr::from_bits),
            bindings: icmp + tcp + udp + has(|has| has.other),
            icmp,
            tcp,
            udp,
            limit: (BINDINGS * self.cpus.iter().count()) as u64,
            tcp_ports: 0,
            udp_ports: 0,
            ports: spec.map_or(0, |spec| spec.range.len() as u64),
            begun: told(|totals| totals.begun),
            no_address: told(|totals| totals.no_address),
            no_port: told(|totals| totals.no_port),
            no_room: told(|totals| totals.no_room),
        }
    }

    /// Returns the number of ports in use by a protocol with about `flows` flows.
    fn ports_of(&self, number: u16, protocol: Protocol, flows: u64) -> Result<u64, Error> {
        let mut ports = Ports([0; 1 << 10]);
        let mut after = (flows > 0).then(String::new);
        while let Some(from) = after {
            let from = Some(from.as_str()).filter(|from| !from.is_empty());
            let page = self.page(from, PORTS_PER_PAGE, move |firewall, from, room, _| {
                let table = firewall.nat().get(number).map(Instance::table);
                bindings(table, from, room, |binding| (binding.protocol(), binding.outside().port))
            })?;
            let of_protocol = page.rows.iter().filter(|(_, (of, _))| *of == protocol.0);
            of_protocol.for_each(|(_, (_, port))| ports.set(*port));
            after = page.next;
        }
        Ok(ports.count())
    }

    pub(super) fn page_of_bindings(
        &self,
        number: u16,
        after: Option<&str>,
        limit: usize,
    ) -> Result<FirewallBindings, Error> {
        if !self.firewall.config.nat.contains_key(&number) {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no nat {number}")));
        }
        let page = self.page(after, limit, move |firewall, from, room, now| {
            let table = firewall.nat().get(number).map(Instance::table);
            bindings(table, from, room, |binding| (*binding, binding.left_s(Tick::at(now))))
        })?;
        Ok(live(page))
    }

    pub(super) fn nat64_by(&self, reports: &[Report]) -> Vec<FirewallNat64> {
        self.firewall.config.nat64.iter().map(|(name, config)| self.crossing(name, config, reports)).collect()
    }

    fn crossing(&self, name: &str, config: &Nat64Config, reports: &[Report]) -> FirewallNat64 {
        let nat64 = reports.iter().filter_map(|report| report.firewall.as_ref()).flat_map(|it| &it.nat64);
        let all: Vec<(ByProtocol, Totals)> =
            nat64.filter(|(of, ..)| of == name).map(|(_, has, totals)| (*has, *totals)).collect();
        let has = |of: fn(&ByProtocol) -> usize| all.iter().map(|(has, _)| of(has) as u64).sum::<u64>();
        let told = |of: fn(&Totals) -> u64| all.iter().map(|(_, totals)| of(totals)).sum::<u64>();
        let (icmp, tcp, udp) = (has(|has| has.icmp), has(|has| has.tcp), has(|has| has.udp));
        FirewallNat64 {
            name: name.to_owned(),
            config: config.to_string().trim_start().to_owned(),
            bindings: icmp + tcp + udp,
            icmp,
            tcp,
            udp,
            limit: (BINDINGS * self.cpus.iter().count()) as u64,
            begun: told(|totals| totals.begun),
            no_port: told(|totals| totals.no_port),
            no_room: told(|totals| totals.no_room),
        }
    }

    pub(super) fn page_of_crossings(
        &self,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<FirewallBindings, Error> {
        if !self.firewall.config.nat64.contains_key(name) {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no nat64lsn {name}")));
        }
        let called = name.to_owned();
        let page = self.page(after, limit, move |firewall, from, room, now| {
            let table = firewall.nat64().get(&called).map(Crossing::table);
            bindings(table, from, room, |binding| (*binding, binding.left_s(Tick::at(now))))
        })?;
        Ok(live(page))
    }

    pub(super) fn list_prefixes(&self) -> Vec<FirewallPrefixes> {
        let one = |(name, config): (&String, &ipfw::command::Nptv6Config)| FirewallPrefixes {
            name: name.clone(),
            config: config.to_string().trim_start().to_owned(),
            active: Nptv6::new(config, &self.tables).is_ok(),
        };
        self.firewall.config.prefixes.iter().map(one).collect()
    }
}

/// Calls `f` for a page of an instance's bindings on one CPU.
fn bindings<T>(
    table: Option<&Table>,
    from: u32,
    room: usize,
    read: impl Fn(&Binding) -> T,
) -> (Vec<T>, Option<u32>) {
    let Some(table) = table else { return (Vec::new(), None) };
    let found: Vec<T> = table.iter_from(from as usize).take(room).map(read).collect();
    let end = from as usize + found.len();
    (found, u32::try_from(end).ok().filter(|_| end < table.len()))
}

/// A page of bindings and of the seconds that are left of them, of those that live.
fn live(page: Page<(Binding, u32)>) -> FirewallBindings {
    let rows = page.rows.into_iter().filter(|(_, (_, left_s))| *left_s > 0);
    let bindings = rows.map(|(cpu, (binding, expires_s))| shown(cpu, &binding, expires_s));
    FirewallBindings { bindings: bindings.collect(), next: page.next }
}

fn shown(cpu: u32, binding: &Binding, expires_s: u32) -> FirewallBinding {
    let (inside, outside, remote) = (binding.inside(), binding.outside(), binding.remote());
    let address = |end: End| Ipv4Addr::from_bits(u32::try_from(end.addr).unwrap_or_default());
    // One of IPv4 in the lower half, as no host of IPv6 is.
    let is_ip4 = u32::try_from(inside.addr).is_ok();
    let [packets_out, packets_in] = binding.packets();
    FirewallBinding {
        cpu,
        proto: binding.protocol(),
        inside: if is_ip4 { address(inside).into() } else { IpAddr::V6(Ipv6Addr::from_bits(inside.addr)) },
        inside_port: inside.port,
        remote: address(remote),
        remote_port: remote.port,
        outside: address(outside),
        outside_port: outside.port,
        packets_out,
        packets_in,
        expires_s,
    }
}

impl Ports {
    fn set(&mut self, port: u16) {
        self.0[usize::from(port >> 6)] |= 1 << (port & 63);
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_counted_once() {
        let mut ports = Ports([0; 1 << 10]);
        [0, 63, 64, 65_535, 64, 0].into_iter().for_each(|port| ports.set(port));
        assert_eq!(ports.count(), 4);
    }
}
