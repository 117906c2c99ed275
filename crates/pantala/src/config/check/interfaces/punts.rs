//! Twins of interfaces in the kernel.

use std::collections::HashSet;

use crate::config::draft::DraftInterface;
use crate::config::problem::Report;
use crate::config::punt::{Punt, name_of_twin};
use crate::config::{Device, Interface};

/// The kernel's name of the twin of the interface `name`.
pub(super) fn kernels_name(punt: &Punt, name: &str) -> String {
    match punt {
        Punt::SameName => name.to_owned(),
        Punt::Named(other) => other.clone(),
    }
}

/// An interface and its twin, if it has one.
pub(super) fn with_twin(interface: Interface) -> impl Iterator<Item = Interface> {
    let twin = interface.punt.clone().map(|host| twin(&interface.name, host));
    core::iter::once(interface).chain(twin)
}

/// The twin of the interface `name`: a TAP, whose addresses the kernel has.
fn twin(name: &str, host: String) -> Interface {
    Interface {
        twin_of: Some(name.to_owned()),
        ..Interface::of_device(name_of_twin(name), Device::Tap { host })
    }
}

/// `ports`: names of ports of bridges.
pub(super) fn check(drafts: &[DraftInterface], ports: &HashSet<&str>, report: &mut Report<'_>) {
    let mut hosts: HashSet<String> = HashSet::new();
    let devices = drafts.iter().filter_map(|draft| draft.device.as_ref());
    hosts.extend(devices.filter_map(|device| device.value.host().map(str::to_owned)));
    for draft in drafts {
        let (Some(punt), Some(device)) = (&draft.punt, &draft.device) else { continue };
        let is_port = draft.name.as_ref().is_some_and(|name| ports.contains(&*name.value));
        if let Some((why, help)) = refusal(&device.value, is_port) {
            report.add(&punt.span, why, help);
        }
        let name = match (&punt.value, &draft.name) {
            (Punt::Named(name), _) => name,
            (Punt::SameName, Some(name)) => &name.value,
            (Punt::SameName, None) => {
                let help = "give it a name, or write punt = \"NAME\"";
                report.add(&punt.span, "a twin is named like its interface, which has no name", help);
                continue;
            }
        };
        if !hosts.insert(name.clone()) {
            let message = format!("the kernel has another interface `{name}`");
            report.add(&punt.span, message, "write punt = \"NAME\" with a name that is free");
        }
    }
}

/// Why an interface can have no twin, and what to do.
fn refusal(device: &Device, is_port: bool) -> Option<(&'static str, &'static str)> {
    match device {
        _ if is_port => Some(("a port of a bridge has no twin", "give one to the bridge")),
        Device::Tunnel(_) | Device::Pppoe(_) | Device::Lo => {
            Some(("an interface without link addresses has no twin", "leave `punt` out"))
        }
        Device::Pcap { .. } => Some(("a capture file has no twin", "leave `punt` out")),
        Device::Null { .. } => Some(("a device without a wire has no twin", "leave `punt` out")),
        _ if device.is_shared() => Some((
            "an interface that is shared with the kernel has no twin: the kernel has the interface itself",
            "leave out `punt`, or `,share`",
        )),
        _ => None,
    }
}
