//! Interfaces that are shared with the kernel.

use std::collections::HashSet;

use crate::config::draft::DraftInterface;
use crate::config::problem::Report;

/// `ports`: names of ports of bridges.
pub(super) fn check(drafts: &[DraftInterface], ports: &HashSet<&str>, report: &mut Report<'_>) {
    for draft in drafts {
        let Some(device) = &draft.device else { continue };
        let is_port = draft.name.as_ref().is_some_and(|name| ports.contains(&*name.value));
        if device.value.is_shared() && is_port {
            let help = "leave `,share` out: a bridge gets the frames for all stations";
            report.add(
                &device.span,
                "an interface that is shared with the kernel cannot be a port of a bridge",
                help,
            );
        }
        if let Some(ports) = draft.kernel_ports.first().filter(|_| !device.value.is_shared()) {
            let help = "write af_xdp:NAME,share as its device, or leave the key out";
            report.add(
                &ports.span,
                "`kernel_ports` is for an interface that is shared with the kernel",
                help,
            );
        }
    }
}
