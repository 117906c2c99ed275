//! DHCP servers: what they give must be on their links.

use ipnet::{IpNet, Ipv4Net};

use crate::config::Device;
use crate::config::draft::DraftInterface;
use crate::config::problem::Report;

pub(super) fn check(drafts: &[DraftInterface], report: &mut Report<'_>) {
    drafts.iter().for_each(|draft| relay(draft, report));
    for draft in drafts {
        let Some(server) = &draft.dhcp_server else { continue };
        if let Some(from) = &server.value.dns_from
            && let Some((message, help)) = no_provider(drafts, from)
        {
            report.add(&server.span, message, help);
        }
        let Some(own) = first_v4(draft.addresses.iter().map(|at| &at.value)) else {
            if !draft.doubtful {
                let help = "add one like address = \"192.0.2.1/24\": the addresses of hosts are those of its network";
                report.add(&server.span, "an interface with a DHCP server has no IPv4 address", help);
            }
            continue;
        };
        let ends = server.value.pool.iter().flat_map(|pool| [*pool.start(), *pool.end()]);
        let hosts = server.value.hosts.iter().map(|(_, addr)| *addr);
        if let Some(addr) = ends.chain(hosts).find(|addr| !own.contains(addr)) {
            let help = format!("the link of this interface is {}", own.trunc());
            report.add(&server.span, format!("{addr} is not on the link"), help);
        }
        if server.value.pool.is_none() && own.prefix_len() < 16 {
            let help = "name a part of it, as in pool = \"10.0.0.100-10.0.0.199\"";
            report.add(&server.span, format!("{} is too large for a pool", own.trunc()), help);
        }
    }
}

/// Why no name servers can come from an interface, and what to do.
fn no_provider(drafts: &[DraftInterface], from: &str) -> Option<(String, &'static str)> {
    let has_name = |draft: &&DraftInterface| draft.name.as_ref().is_some_and(|name| name.value == *from);
    let Some(draft) = drafts.iter().find(has_name) else {
        return Some((format!("there is no interface `{from}`"), "write the name of one in dns_from"));
    };
    let is_pppoe = matches!(draft.device.as_ref().map(|at| &at.value), Some(Device::Pppoe(_)));
    let provides = draft.dhcp.is_some() || is_pppoe || draft.doubtful;
    let message = || format!("interface `{from}` has neither a DHCP client nor PPPoE");
    (!provides).then(|| (message(), "add dhcp = true to it, or leave dns_from out"))
}

fn relay(draft: &DraftInterface, report: &mut Report<'_>) {
    if let (Some(relay), Some(_)) = (&draft.dhcp6_relay, &draft.dhcp6_server) {
        report.add(&relay.span, "this interface has a DHCPv6 server and a relay", "leave out one of them");
    }
    let Some(relay) = &draft.dhcp_relay else { return };
    if draft.dhcp_server.is_some() {
        report.add(&relay.span, "this interface has a DHCP server and a relay", "leave out one of them");
    }
    if first_v4(draft.addresses.iter().map(|at| &at.value)).is_none() && !draft.doubtful {
        let help = "add one like address = \"192.0.2.1/24\": servers choose the clients' network by it";
        report.add(&relay.span, "an interface with a DHCP relay has no IPv4 address", help);
    }
}

/// The first IPv4 address, with its network.
pub(crate) fn first_v4<'a>(mut addresses: impl Iterator<Item = &'a IpNet>) -> Option<Ipv4Net> {
    addresses.find_map(|net| match net {
        IpNet::V4(net) => Some(*net),
        IpNet::V6(_) => None,
    })
}
