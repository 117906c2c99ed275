//! Prefixes and name servers of a provider come from an interface with a DHCPv6 client.

use super::Link;
use crate::config::draft::DraftInterface;
use crate::config::problem::Report;
use diagnostic::did_you_mean;

pub(super) fn check(drafts: &[DraftInterface], links: &[Link], report: &mut Report<'_>) {
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    for provider in drafts.iter().flat_map(|draft| &draft.providers) {
        let name = provider.value.as_str();
        let found = links.iter().zip(drafts).find(|(link, _)| link.name == name);
        match found {
            None => report.add(
                &provider.span,
                format!("there is no interface `{name}`"),
                did_you_mean(name, &names),
            ),
            Some((_, draft)) if draft.dhcp6.is_none() && !draft.doubtful => {
                let help = "add dhcp6 = true to it";
                report.add(&provider.span, format!("interface `{name}` has no DHCPv6 client"), help);
            }
            Some(_) => {}
        }
    }
}
