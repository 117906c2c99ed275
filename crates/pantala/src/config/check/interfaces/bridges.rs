//! Bridges: what may be a port, and the keys of interfaces that learn link addresses.

use core::ops::Range;
use std::collections::{HashMap, HashSet};

use diagnostic::did_you_mean;

use crate::config::draft::DraftInterface;
use crate::config::problem::Report;
use crate::config::{Bridge, Device, Place};

/// Returns the names of all ports of bridges.
pub(super) fn ports(drafts: &[DraftInterface]) -> HashSet<&str> {
    drafts.iter().filter_map(bridge).flat_map(|(bridge, _)| bridge.ports.iter().map(|port| &**port)).collect()
}

pub(super) fn check(drafts: &[DraftInterface], report: &mut Report<'_>) {
    let named = drafts.iter().filter_map(|draft| Some((&*draft.name.as_ref()?.value, draft)));
    let named: HashMap<&str, &DraftInterface> = named.collect();
    let mut first = HashMap::new();
    for draft in drafts {
        without_meaning(draft, report);
        let Some((bridge, span)) = bridge(draft) else { continue };
        for port in &bridge.ports {
            let Some(other) = named.get(&**port) else {
                let names: Vec<&str> = named.keys().copied().collect();
                report.add(span, format!("there is no interface `{port}`"), did_you_mean(port, &names));
                continue;
            };
            let there = *first.entry(&**port).or_insert(span);
            if there != span {
                let line = report.line(there);
                let message = format!("`{port}` is a port of the bridge in line {line} already");
                report.add(span, message, "an interface is a port of one bridge");
            }
            can_be_port(port, other, span, report);
            let parent = other.device.as_ref().and_then(|at| at.value.parent());
            if parent
                .and_then(|parent| named.get(parent))
                .is_some_and(|below| below.device.as_ref().is_some_and(|at| at.value.parent().is_some()))
            {
                let message = format!("`{port}` is a VLAN over a VLAN, which cannot be a port");
                report.add(span, message, "name a device or a VLAN over one");
            }
        }
        draft.fdb.stp.check(report);
        for port in draft.fdb.stp.ports.iter().filter(|port| !bridge.ports.contains(&port.value.name)) {
            let message = format!("`{}` is no port of this bridge", port.value.name);
            report.add(&port.span, message, "name it in device = \"bridge:…\", too");
        }
        for name in draft.fdb.private.iter().chain(&draft.fdb.span) {
            if !bridge.ports.contains(&name.value) {
                let message = format!("`{}` is no port of this bridge", name.value);
                report.add(&name.span, message, "name it in device = \"bridge:…\", too");
            }
        }
        for entry in &draft.fdb.statics {
            match &entry.value.place {
                Place::Port(name) if bridge.ports.contains(name) => {}
                place => {
                    let name =
                        if let Place::Port(name) = place { name.clone() } else { entry.value.to_string() };
                    report.add(
                        &entry.span,
                        format!("`{name}` is no port of this bridge"),
                        "write \"MAC PORT\"",
                    );
                }
            }
        }
    }
}

fn bridge(draft: &DraftInterface) -> Option<(&Bridge, &Range<usize>)> {
    match draft.device.as_ref().map(|at| (&at.value, &at.span)) {
        Some((Device::Bridge(bridge), span)) => Some((bridge, span)),
        _ => None,
    }
}

/// Reports why an interface cannot be a port.
fn can_be_port(port: &str, draft: &DraftInterface, span: &Range<usize>, report: &mut Report<'_>) {
    match draft.device.as_ref().map(|at| &at.value) {
        Some(Device::Tunnel(_)) => {
            report.add(span, format!("`{port}` is a tunnel, which has no frames"), "use a VXLAN");
        }
        Some(Device::Tun { .. }) => {
            report.add(span, format!("`{port}` is a TUN, which has no frames"), "use a TAP");
        }
        Some(Device::Lo) => {
            let message = format!("`{port}` is a loopback interface, which has no frames");
            report.add(span, message, "leave it out");
        }
        Some(Device::Pppoe(_)) => {
            let message = format!("`{port}` is a PPPoE interface, which has no frames");
            report.add(span, message, "name the interface below");
        }
        Some(Device::Bridge(_)) => {
            report.add(span, format!("`{port}` is a bridge itself"), "name its ports");
        }
        _ => {}
    }
    if let Some(address) = draft.addresses.first() {
        let message = format!("`{port}` is a port of a bridge and has no addresses of its own");
        report.add(&address.span, message, "give the address to the bridge");
    }
    if draft.autoconf.is_some() || draft.ra.is_some() {
        let message = format!("`{port}` is a port of a bridge and has no addresses of its own");
        report.add(span, message, "leave out autoconf and ra there, and set them at the bridge");
    }
}

/// Reports keys that mean nothing to an interface of this kind.
fn without_meaning(draft: &DraftInterface, report: &mut Report<'_>) {
    let (is_bridge, fdb) = (bridge(draft).is_some(), &draft.fdb);
    let learns = is_bridge || matches!(draft.device.as_ref().map(|at| &at.value), Some(Device::Vxlan(_)));
    let learnt = [
        ("timeout", fdb.timeout.as_ref().map(|at| &at.span)),
        ("maxaddr", fdb.addresses_max.as_ref().map(|at| &at.span)),
        ("fdb", fdb.statics.first().map(|at| &at.span)),
    ];
    for (key, span) in learnt.into_iter().filter(|_| !learns).filter_map(|(key, span)| Some((key, span?))) {
        let message = format!("`{key}` is of learnt link addresses, which this device has not");
        report.add(span, message, "use it with device = \"bridge:…\" or \"vxlan:VNI,LOCAL\"");
    }
    let of_bridge = [
        ("private", fdb.private.first().map(|at| &at.span)),
        ("span", fdb.span.first().map(|at| &at.span)),
        ("storm", fdb.storm.as_ref().map(|at| &at.span)),
        ("snooping", fdb.snooping.as_ref().map(|at| &at.span)),
    ];
    let of_bridge = of_bridge.into_iter().filter_map(|(key, span)| Some((key, span?)));
    for (key, span) in of_bridge.chain(fdb.stp.keys()).filter(|_| !is_bridge) {
        report.add(span, format!("`{key}` is of a bridge"), "use it with device = \"bridge:INTERFACE,…\"");
    }
    for (key, span) in super::device_keys(draft).filter(|(key, _)| is_bridge && *key != "mac") {
        report.add(
            span,
            format!("a bridge has no {key} of its own"),
            "leave it out here, and set it at its ports",
        );
    }
}
