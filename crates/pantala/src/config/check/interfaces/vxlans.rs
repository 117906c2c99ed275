//! VXLANs: from which address, one for each network identifier, and what they do not have.

use std::collections::HashMap;

use super::tunnels::is_given;
use crate::config::draft::DraftInterface;
use crate::config::problem::Report;
use crate::config::{Device, Place};

pub(super) fn check(drafts: &[DraftInterface], report: &mut Report<'_>) {
    let mut first = HashMap::new();
    for draft in drafts {
        let vxlan = match draft.device.as_ref().map(|at| (&at.value, &at.span)) {
            Some((Device::Vxlan(vxlan), span)) => Some((vxlan, span)),
            _ => None,
        };
        let Some((vxlan, span)) = vxlan else { continue };
        if !is_given(drafts, vxlan.local) {
            let message = format!("no interface has the address {} of this end", vxlan.local);
            report.add(span, message, "a VXLAN begins at an address of another interface; is it VNI,LOCAL?");
        }
        let there = *first.entry((vxlan.vni, vxlan.local, vxlan.port)).or_insert(span);
        if there != span {
            let line = report.line(there);
            let message = format!("network identifier {} is taken by the VXLAN in line {line}", vxlan.vni);
            report.add(span, message, "one address and port has one interface for each network identifier");
        }
        without(draft, report);
        for entry in &draft.fdb.statics {
            match &entry.value.place {
                Place::Vtep(vtep) if vtep.is_ipv4() == vxlan.local.is_ipv4() => {}
                Place::Vtep(vtep) => {
                    let message = format!("{vtep} is of another address family than {}", vxlan.local);
                    report.add(&entry.span, message, "all ends of a VXLAN are IPv4, or all IPv6");
                }
                Place::Port(name) => {
                    report.add(&entry.span, format!("`{name}` is no address"), "a VXLAN has no ports");
                }
            }
        }
    }
}

/// Reports the keys that mean nothing to a VXLAN.
fn without(draft: &DraftInterface, report: &mut Report<'_>) {
    for (key, span) in super::device_keys(draft).filter(|(key, _)| *key != "mac") {
        let message = format!("a VXLAN has no {key} of its own");
        report.add(span, message, "leave it out here, and set it where the outer packets leave");
    }
}
