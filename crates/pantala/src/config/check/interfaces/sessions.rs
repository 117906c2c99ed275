//! PPPoE: over which interface, and what it does not have.

use diagnostic::did_you_mean;
use net::pppoe::OVERHEAD;

use crate::config::Device;
use crate::config::draft::DraftInterface;
use crate::config::problem::Report;

/// The largest packet of an interface that does not say (RFC 894).
const MTU_ETHERNET: u32 = 1500;

pub(super) fn check(drafts: &[DraftInterface], report: &mut Report<'_>) {
    for draft in drafts {
        let Some(device) = &draft.device else { continue };
        let Device::Pppoe(pppoe) = &device.value else {
            if let Some(ppp) = &draft.ppp {
                let message = "ppp is of a PPPoE interface, which this device is not";
                report.add(&ppp.span, message, "use it with device = \"pppoe:INTERFACE\"");
            }
            continue;
        };
        let is_named =
            |other: &&DraftInterface| other.name.as_ref().is_some_and(|at| at.value == pppoe.parent);
        let Some(below) = drafts.iter().find(is_named) else {
            let names: Vec<&str> =
                drafts.iter().filter_map(|other| other.name.as_ref()).map(|at| at.value.as_str()).collect();
            let message = format!("there is no interface `{}`", pppoe.parent);
            report.add(&device.span, message, did_you_mean(&pppoe.parent, &names));
            continue;
        };
        if below.device.as_ref().is_some_and(|at| at.value.is_point_to_point()) {
            let message =
                format!("`{}` has no frames, and PPPoE is over an Ethernet interface", pppoe.parent);
            report.add(&device.span, message, "name a device, a VLAN or a bridge");
        }
        size(draft, below, report);
        without(draft, report);
    }
}

/// The payload of a session with its header must fit the interface below.
fn size(draft: &DraftInterface, below: &DraftInterface, report: &mut Report<'_>) {
    let most = below.mtu.as_ref().map_or(MTU_ETHERNET, |at| at.value).saturating_sub(OVERHEAD);
    if let Some(mtu) = draft.mtu.as_ref().filter(|mtu| mtu.value > most) {
        let message = format!("mtu {} is above the {most} that fit the interface below", mtu.value);
        let help = format!("use {most} or less, or give that interface an mtu of {}", mtu.value + OVERHEAD);
        report.add(&mtu.span, message, help);
    }
}

/// Reports the keys that mean nothing to it.
fn without(draft: &DraftInterface, report: &mut Report<'_>) {
    let Some(device) = &draft.device else { return };
    for (key, span) in super::device_keys(draft) {
        let message = format!("a PPPoE interface has no {key} of its own");
        report.add(span, message, "leave it out here, and set it at the interface below");
    }
    if draft.dhcp.is_some() {
        let message = "a PPPoE interface gets its IPv4 address by PPP";
        report.add(&device.span, message, "leave out dhcp");
    }
    if draft.ra.is_some() || draft.dhcp_server.is_some() {
        let message = "a PPPoE interface has no link with hosts to serve";
        report.add(&device.span, message, "leave out ra and dhcp_server");
    }
}
