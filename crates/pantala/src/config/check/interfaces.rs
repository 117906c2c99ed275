//! Interfaces: names and devices are unique, addresses belong to one link each.

mod bridges;
pub(crate) mod dhcp;
mod providers;
mod punts;
mod sessions;
mod shared;
mod tunnels;
mod vlans;
mod vxlans;

use core::net::IpAddr;
use core::ops::Range;
use core::time::Duration;
use std::collections::{HashMap, HashSet};

use dev::memif::RINGS_MAX;
use ipnet::IpNet;
use net::fib::FibIndex;
use net::ifq::{Discipline, QueueSpec};

use super::fib;
use crate::config::draft::{DraftInterface, DraftQueue};
use crate::config::problem::{At, Report, Wrong};
use crate::config::{Device, Interface, Ppp, Resolver, xdp};

const ONCE: &str = "every address belongs to one interface, once";
const APART: &str = "two links need two prefixes that do not contain each other";
/// The stack's own loopback.
const LOOPBACK: &str = "lo0";

/// The part of an interface that routes refer to: its name and its prefixes.
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) fib: FibIndex,
    /// Something about the interface could not be read; its addresses may be incomplete.
    pub(crate) doubtful: bool,
}

pub(crate) fn check(
    drafts: &[DraftInterface],
    (fibs, is_shared): (FibIndex, bool),
    report: &mut Report<'_>,
) -> (Vec<Interface>, Vec<Link>) {
    names(drafts, report);
    devices(drafts, report);
    addresses(drafts, is_shared, report);
    for draft in drafts {
        let _ = fib(draft.fib.as_ref(), fibs, report);
    }
    vlans::check(drafts, report);
    tunnels::check(drafts, report);
    vxlans::check(drafts, report);
    bridges::check(drafts, report);
    sessions::check(drafts, report);
    dhcp::check(drafts, report);
    shared::check(drafts, &bridges::ports(drafts), report);
    punts::check(drafts, &bridges::ports(drafts), report);
    for draft in drafts {
        mtu(draft, report);
        rings(draft, report);
        xdp::check(draft, report);
        queue(&draft.queue, report);
    }
    let links = links(drafts);
    providers::check(drafts, &links, report);
    let interfaces = {
        let ports = bridges::ports(drafts);
        let built = drafts.iter().zip(&links);
        let built = built.filter_map(|(draft, link)| build(draft, link, ports.contains(&*link.name)));
        built.flat_map(punts::with_twin).collect()
    };
    (interfaces, links)
}

fn links(drafts: &[DraftInterface]) -> Vec<Link> {
    let given = drafts.iter().filter_map(|draft| draft.name.as_ref());
    let mut units = Units { given: given.map(|at| &*at.value).collect(), next: HashMap::new() };
    let link = |draft: &DraftInterface| Link {
        name: draft.name.as_ref().map_or_else(|| units.name(draft), |at| at.value.clone()),
        addresses: draft.addresses.iter().map(|at| at.value).collect(),
        fib: fib_of(draft),
        doubtful: draft.doubtful,
    };
    drafts.iter().map(link).collect()
}

/// Names for interfaces without one: driver and unit, BSD's way, the lowest number that is free.
struct Units<'d> {
    given: HashSet<&'d str>,
    /// For each driver the lowest unit that may be free.
    next: HashMap<&'static str, u32>,
}

impl Units<'_> {
    fn name(&mut self, draft: &DraftInterface) -> String {
        let driver = draft.device.as_ref().map_or("if", |at| at.value.unit_name());
        let next = self.next.entry(driver).or_default();
        loop {
            let name = format!("{driver}{next}");
            *next += 1;
            if !self.given.contains(&*name) {
                return name;
            }
        }
    }
}

/// Returns the keys of an interface that say something of a device with rings, and where they stand.
fn device_keys(draft: &DraftInterface) -> impl Iterator<Item = (&'static str, &Range<usize>)> {
    let queue = &draft.queue;
    let keys = [
        ("mac", draft.mac.as_ref().map(|at| &at.span)),
        ("rings", draft.rings.as_ref().map(|at| &at.span)),
        ("rxcsum", draft.rxcsum.as_ref().map(|at| &at.span)),
        ("offload", draft.offload.as_ref().map(|at| &at.span)),
        ("xdp", draft.xdp.as_ref().map(|at| &at.span)),
        ("queue", queue.discipline.as_ref().map(|at| &at.span)),
        ("queue_packets", queue.packets.as_ref().map(|at| &at.span)),
        ("queue_bytes", queue.bytes.as_ref().map(|at| &at.span)),
        ("queue_target_ms", queue.target_ms.as_ref().map(|at| &at.span)),
        ("queue_interval_ms", queue.interval_ms.as_ref().map(|at| &at.span)),
    ];
    keys.into_iter().filter_map(|(key, span)| Some((key, span?)))
}

fn build(draft: &DraftInterface, link: &Link, is_port: bool) -> Option<Interface> {
    Some(Interface {
        name: link.name.clone(),
        device: draft.device.as_ref()?.value.clone(),
        addresses: link.addresses.clone(),
        mtu: draft.mtu.as_ref().map(|at| at.value),
        mac: draft.mac.as_ref().map(|at| at.value),
        rings: draft.rings.as_ref().map(|at| at.value),
        rxcsum: draft.rxcsum.as_ref().map(|at| at.value).unwrap_or_default(),
        offload: draft.offload.as_ref().is_some_and(|at| at.value),
        xdp: draft.xdp.as_ref().map(|at| at.value.clone()),
        monitor: draft.monitor,
        queue: queue_spec(&draft.queue),
        autoconf: draft.autoconf,
        vlanpcp: draft.vlanpcp.as_ref().map_or(0, |at| at.value.to_le_bytes()[0]),
        metric: draft.metric.as_ref().map_or(0, |at| at.value),
        fib: link.fib,
        fdb: draft.fdb.settings(),
        bridge: draft.fdb.bridge(),
        is_port,
        ra: draft.ra.clone(),
        dhcp: draft.dhcp.clone(),
        dhcp_relay: draft.dhcp_relay.as_ref().map(|at| at.value.clone()),
        dhcp6_relay: draft.dhcp6_relay.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
        dhcp6: draft.dhcp6.clone(),
        dhcp6_server: draft.dhcp6_server.as_ref().map(|at| at.value.clone()),
        prefix_from: draft.prefix_from.clone(),
        leased: Vec::new(),
        resolver: Resolver::default(),
        dhcp_server: draft.dhcp_server.as_ref().map(|at| at.value.clone()),
        kernel_ports: draft.kernel_ports.iter().map(|at| at.value.clone()).collect(),
        description: draft.description.as_ref().map(|at| at.value.clone()).filter(|text| !text.is_empty()),
        publish: draft.publish.clone(),
        ppp: ppp(draft),
        session: None,
        punt: draft.punt.as_ref().map(|at| punts::kernels_name(&at.value, &link.name)),
        twin_of: None,
    })
}

/// PPP of a PPPoE interface, which needs no section for it.
fn ppp(draft: &DraftInterface) -> Option<Ppp> {
    let is_session = matches!(draft.device.as_ref().map(|at| &at.value), Some(Device::Pppoe(_)));
    is_session.then(|| draft.ppp.as_ref().map(|at| at.value.clone()).unwrap_or_default())
}

fn names(drafts: &[DraftInterface], report: &mut Report<'_>) {
    let mut first = HashMap::new();
    for (name, draft) in drafts.iter().filter_map(|draft| Some((draft.name.as_ref()?, draft))) {
        let is_lo = draft.device.as_ref().is_some_and(|at| at.value == Device::Lo);
        if name.value == LOOPBACK && !is_lo {
            let help = "choose another name, or write device = \"lo\"";
            report.add(&name.span, "lo0 is the name of a loopback interface", help);
        }
        let there = *first.entry(&*name.value).or_insert(name);
        if there.span != name.span {
            let line = report.line(&there.span);
            let message = format!("the name `{}` is taken by the interface in line {line}", name.value);
            report.add(&name.span, message, "every interface needs a name of its own");
        }
    }
}

fn devices(drafts: &[DraftInterface], report: &mut Report<'_>) {
    let mut first = HashMap::new();
    for device in drafts.iter().filter_map(|draft| draft.device.as_ref()) {
        let Some(key) = identity(&device.value) else { continue };
        let there: &At<Device> = first.entry(key).or_insert(device);
        if there.span != device.span {
            let message = format!("this device is already used in line {}", report.line(&there.span));
            report.add(&device.span, message, "one device carries one interface");
        }
    }
}

/// The thing of the host that a device is; two names for one thing have the same. Several may read one capture.
fn identity(device: &Device) -> Option<String> {
    match device {
        Device::Mem { wire } => Some(format!("mem {wire}")),
        Device::Vlan(vlan) => Some(vlan.to_string()),
        Device::Tunnel(tunnel) => Some(tunnel.to_string()),
        Device::Memif(memif) => {
            Some(format!("memif {} {:?} {}", memif.id, memif.role, memif.socket.display()))
        }
        _ => device.host().map(|host| format!("host {host}")),
    }
}

fn fib_of(draft: &DraftInterface) -> FibIndex {
    draft.fib.as_ref().and_then(|at| FibIndex::try_from(at.value).ok()).unwrap_or(0)
}

/// In each table addresses and prefixes are given once; in all, if all have those of all interfaces.
fn addresses(drafts: &[DraftInterface], is_shared: bool, report: &mut Report<'_>) {
    let fib = |at: usize| if is_shared { 0 } else { drafts.get(at).map_or(0, fib_of) };
    let all: Vec<(usize, &At<IpNet>)> = drafts
        .iter()
        .enumerate()
        .flat_map(|(n, draft)| draft.addresses.iter().map(move |at| (n, at)))
        .collect();
    let may_clash = any_overlap(all.iter().map(|(_, at)| at.value));
    for (n, (owner, address)) in all.iter().enumerate() {
        if let Err(wrong) = unicast(&address.value) {
            report.wrong(&address.span, wrong);
            continue;
        }
        if !may_clash {
            continue;
        }
        let meets = |(other, _): &&(usize, &At<IpNet>)| fib(*other) == fib(*owner);
        let clash = all.iter().take(n).filter(meets).find_map(|(other_owner, other)| {
            Some((clash(&address.value, &other.value, owner == other_owner)?, &other.span))
        });
        if let Some((what, first)) = clash {
            report_clash(&address.span, what, first, report);
        }
    }
}

/// Whether two of the prefixes overlap: sorted by their first address, they do if two neighbours do.
fn any_overlap(nets: impl Iterator<Item = IpNet>) -> bool {
    let mut nets: Vec<IpNet> = nets.collect();
    nets.sort_by_key(|net| (net.network(), net.prefix_len()));
    nets.windows(2).any(|pair| pair[0].contains(&pair[1].network()))
}

/// Checks one more address against those that there are; of each it is said whether the same interface has it.
pub(crate) fn one_more(address: &IpNet, there: &[(IpNet, bool)]) -> Result<(), Wrong> {
    unicast(address)?;
    match there.iter().find_map(|(other, is_same)| clash(address, other, *is_same)) {
        None => Ok(()),
        Some(Clash::Address) => {
            Err(Wrong::new(format!("{} is given to an interface already", address.addr()), ONCE))
        }
        Some(Clash::Prefix(net)) => {
            Err(Wrong::new(format!("{} overlaps {net} of another interface", address.trunc()), APART))
        }
    }
}

fn report_clash(span: &Range<usize>, what: Clash, first: &Range<usize>, report: &mut Report<'_>) {
    let line = report.line(first);
    match what {
        Clash::Address => {
            report.add(span, format!("this address is already given in line {line}"), ONCE);
        }
        Clash::Prefix(net) => {
            report.add(
                span,
                format!("this prefix overlaps {net} of another interface in line {line}"),
                APART,
            );
        }
    }
}

enum Clash {
    Address,
    Prefix(IpNet),
}

/// Link-local prefixes are on every link, so only the others can clash.
fn clash(a: &IpNet, b: &IpNet, same_interface: bool) -> Option<Clash> {
    if link_local(a.addr()) && !same_interface {
        return None;
    }
    if a.addr() == b.addr() {
        return Some(Clash::Address);
    }
    let overlap = a.contains(&b.trunc()) || b.contains(&a.trunc());
    (overlap && !same_interface).then(|| Clash::Prefix(b.trunc()))
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Can this be the address of an interface?
fn unicast(net: &IpNet) -> Result<(), Wrong> {
    let (address, kind) = (net.addr(), special(net.addr()));
    if let Some(kind) = kind {
        let message = format!("{address} is {kind} and cannot be given to an interface");
        return Err(Wrong::new(message, "use a unicast address, as in 192.0.2.1/24 or 2001:db8::1/64"));
    }
    if net.prefix_len() == 0 {
        return Err(Wrong::new(
            format!("{net} would put the whole world on this link"),
            "use a prefix length of 8 or more",
        ));
    }
    edges(net)
}

fn special(address: IpAddr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("the unspecified address");
    }
    if address.is_multicast() {
        return Some("a multicast address");
    }
    if address.is_loopback() {
        return Some("a loopback address");
    }
    match address {
        //= https://www.rfc-editor.org/rfc/rfc1812#section-5.3.7
        IpAddr::V4(v4) if v4.octets()[0] == 0 || v4.octets()[0] >= 240 => Some("a reserved address"),
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("an IPv4-mapped address"),
        _ => None,
    }
}

/// The first and the last address of a prefix mean all its hosts or all its routers, unless it has only two (RFC 3021, RFC 6164).
fn edges(net: &IpNet) -> Result<(), Wrong> {
    if net.max_prefix_len() - net.prefix_len() <= 1 {
        return Ok(());
    }
    let (address, length) = (net.addr(), net.prefix_len());
    let name = match address {
        IpAddr::V4(_) if address == net.network() => "the network itself",
        IpAddr::V4(_) if address == net.broadcast() => "the broadcast address",
        //= https://www.rfc-editor.org/rfc/rfc4291#section-2.6.1
        IpAddr::V6(_) if address == net.network() => "the anycast address of all routers",
        _ => return Ok(()),
    };
    let example = net.hosts().find(|&host| host != net.network()).unwrap_or(address);
    Err(Wrong::new(
        format!("{address} is {name} in a /{length}"),
        format!("use an address inside the prefix, as in {example}/{length}"),
    ))
}

fn mtu(draft: &DraftInterface, report: &mut Report<'_>) {
    let Some(mtu) = &draft.mtu else { return };
    let has_v6 = draft.autoconf.is_some()
        || draft.ra.is_some()
        || draft.addresses.iter().any(|at| at.value.addr().is_ipv6());
    //= https://www.rfc-editor.org/rfc/rfc8200#section-5
    if has_v6 && mtu.value < 1280 {
        let message =
            format!("mtu {} is too small for IPv6, of which this interface has an address", mtu.value);
        report.add(&mtu.span, message, "use 1280 or more, or remove its IPv6 addresses");
    }
}

fn queue_spec(draft: &DraftQueue) -> QueueSpec {
    let usual = QueueSpec::of(draft.discipline.as_ref().map(|at| at.value).unwrap_or_default());
    let number = |given: &Option<At<u32>>, usual| given.as_ref().map_or(usual, |at| at.value as usize);
    let time = |given: &Option<At<u32>>, usual| {
        given.as_ref().map_or(usual, |at| Duration::from_millis(at.value.into()))
    };
    QueueSpec {
        packets_max: number(&draft.packets, usual.packets_max),
        bytes_max: number(&draft.bytes, usual.bytes_max),
        target: time(&draft.target_ms, usual.target),
        interval: time(&draft.interval_ms, usual.interval),
        ..usual
    }
}

fn queue(draft: &DraftQueue, report: &mut Report<'_>) {
    let spec = queue_spec(draft);
    for time in [&draft.target_ms, &draft.interval_ms].into_iter().flatten() {
        if spec.discipline == Discipline::Fifo {
            let message = "a fifo does not look at how long packets wait";
            report.add(&time.span, message, "leave this out, or use queue = \"fq_codel\"");
        } else if spec.target >= spec.interval {
            let message = format!(
                "the target of {} ms is not below the interval of {} ms",
                spec.target.as_millis(),
                spec.interval.as_millis()
            );
            return report.add(&time.span, message, "a twentieth of the interval is usual: 5 and 100");
        }
    }
}

fn rings(draft: &DraftInterface, report: &mut Report<'_>) {
    let (Some(rings), Some(device)) = (&draft.rings, &draft.device) else { return };
    match &device.value {
        Device::AfXdp { queues: Some(queues), .. } => {
            let count = queues.end() - queues.start() + 1;
            if count != rings.value {
                let message = format!("rings {} contradicts the {count} queues of the device", rings.value);
                report.add(&rings.span, message, "one ring is one queue; leave out one of the two");
            }
        }
        Device::Pcap { .. } if rings.value != 1 => {
            report.add(&rings.span, "a capture file has one ring", "leave out `rings`");
        }
        Device::Null { .. } if rings.value != 1 => {
            report.add(&rings.span, "a device without a wire has one ring", "leave out `rings`");
        }
        Device::Memif(_) if rings.value > RINGS_MAX.into() => {
            let help = format!("use {RINGS_MAX} or less, and the same number at both ends");
            report.add(&rings.span, format!("{} rings are too many for memif", rings.value), help);
        }
        _ => {}
    }
}
