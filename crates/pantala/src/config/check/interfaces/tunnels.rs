//! Tunnels: from which address, and what they do not have.

use core::net::IpAddr;

use crate::config::Device;
use crate::config::draft::DraftInterface;
use crate::config::problem::Report;

pub(super) fn check(drafts: &[DraftInterface], report: &mut Report<'_>) {
    for draft in drafts {
        let Some(device) = &draft.device else { continue };
        match &device.value {
            Device::Tunnel(tunnel) => {
                if !is_given(drafts, tunnel.local) {
                    let message = format!("no interface has the address {} of this end", tunnel.local);
                    let help = "a tunnel begins at an address of another interface; is it LOCAL,REMOTE?";
                    report.add(&device.span, message, help);
                }
                if draft.autoconf.is_some() || draft.ra.is_some() {
                    let message = "a tunnel has no link where routers advertise prefixes";
                    report.add(&device.span, message, "leave out autoconf and ra, and give it addresses");
                }
                without(draft, report);
            }
            Device::Tun { .. } => without_link("a TUN", draft, report),
            Device::Lo => {
                without_link("a loopback interface", draft, report);
                for (key, span) in super::device_keys(draft).filter(|(key, _)| *key != "mac") {
                    let message = format!("a loopback interface has no {key}");
                    report.add(span, message, "leave it out: no packet leaves by it");
                }
            }
            Device::Vlan(vlan) if is_tunnel(drafts, &vlan.parent) => {
                let message = format!("`{}` has no frames, and its packets have no tags", vlan.parent);
                report.add(&device.span, message, "a VLAN is over a device, or over one VLAN of a device");
            }
            _ => {}
        }
    }
}

/// Whether an interface has the address, or may have it by autoconfiguration.
pub(super) fn is_given(drafts: &[DraftInterface], addr: IpAddr) -> bool {
    let may_come = |draft: &DraftInterface| draft.autoconf.is_some() && addr.is_ipv6() || draft.doubtful;
    let has = |draft: &DraftInterface| draft.addresses.iter().any(|at| at.value.addr() == addr);
    drafts.iter().any(|draft| has(draft) || may_come(draft))
}

/// Whether an interface is a point-to-point link.
fn is_tunnel(drafts: &[DraftInterface], name: &str) -> bool {
    let is_named = |draft: &&DraftInterface| draft.name.as_ref().is_some_and(|at| at.value == name);
    let device = drafts.iter().find(is_named).and_then(|draft| draft.device.as_ref());
    device.is_some_and(|at| at.value.is_point_to_point())
}

/// Reports the keys that mean nothing to an interface without frames.
fn without_link(kind: &str, draft: &DraftInterface, report: &mut Report<'_>) {
    if let Some(mac) = &draft.mac {
        report.add(&mac.span, format!("{kind} has no link address"), "leave `mac` out");
    }
    let has_link_keys = draft.autoconf.is_some()
        || draft.ra.is_some()
        || draft.dhcp.is_some()
        || draft.dhcp_server.is_some()
        || draft.dhcp_relay.is_some();
    let Some(device) = draft.device.as_ref().filter(|_| has_link_keys) else { return };
    let message = format!("{kind} has no link where routers or DHCP servers are asked");
    report.add(&device.span, message, "leave out autoconf, ra and DHCP, and give it addresses");
}

/// Reports the keys that mean nothing to a tunnel.
fn without(draft: &DraftInterface, report: &mut Report<'_>) {
    for (key, span) in super::device_keys(draft) {
        let message = format!("a tunnel has no {key} of its own");
        report.add(span, message, "leave it out here, and set it where the outer packets leave");
    }
}
