//! VLANs: over which interface, and what they inherit from it.

use std::collections::HashMap;

use diagnostic::did_you_mean;
use net::logical::TAGS_MAX;

use crate::config::draft::DraftInterface;
use crate::config::problem::Report;

pub(super) fn check(drafts: &[DraftInterface], report: &mut Report<'_>) {
    let named = drafts.iter().filter_map(|draft| Some((&*draft.name.as_ref()?.value, draft)));
    let named: HashMap<&str, &DraftInterface> = named.collect();
    for draft in drafts {
        match parent(draft) {
            Some(_) => over(draft, &named, report),
            None => {
                if let Some(pcp) = &draft.vlanpcp {
                    let message = "vlanpcp is the priority in the tags of a VLAN, which this device has not";
                    report.add(&pcp.span, message, "use it with device = \"vlan:INTERFACE,VID\"");
                }
            }
        }
    }
}

fn parent(draft: &DraftInterface) -> Option<&str> {
    draft.device.as_ref().and_then(|at| at.value.parent())
}

fn over(draft: &DraftInterface, named: &HashMap<&str, &DraftInterface>, report: &mut Report<'_>) {
    let Some(device) = &draft.device else { return };
    let mut mtu = None;
    let mut below = parent(draft);
    for depth in 0..=TAGS_MAX {
        let Some(name) = below else { break };
        let Some(next) = named.get(name) else {
            let names: Vec<&str> = named.keys().copied().collect();
            let message = format!("there is no interface `{name}`");
            return report.add(&device.span, message, did_you_mean(name, &names));
        };
        if depth == TAGS_MAX {
            let message = format!("frames have {TAGS_MAX} tags at the most");
            return report.add(
                &device.span,
                message,
                "a VLAN is over a device, or over one VLAN of a device",
            );
        }
        mtu = [mtu, next.mtu.as_ref().map(|at| at.value)].into_iter().flatten().min();
        below = parent(next);
    }
    inherited(draft, report);
    if let (Some(own), Some(most)) = (&draft.mtu, mtu)
        && own.value > most
    {
        let message = format!("mtu {} is above the {most} of the interface below", own.value);
        report.add(&own.span, message, format!("use {most} or less, or leave it out"));
    }
}

/// Reports the keys of a VLAN that belong to the device below.
fn inherited(draft: &DraftInterface, report: &mut Report<'_>) {
    for (key, span) in super::device_keys(draft) {
        let message = format!("a VLAN has the {key} of the interface below");
        report.add(span, message, "leave it out here, and set it there");
    }
}
