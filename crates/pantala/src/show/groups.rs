//! `netstat -g`.

use core::net::IpAddr;

use super::table::Table;
use crate::api::Group;

/// A line for each group, with the senders that are listened to.
pub(crate) fn groups(groups: &[Group]) -> String {
    let mut table = Table::new(&["Group", "Netif", "Senders"], &[]);
    for Group { interface, group, excludes, sources } in groups {
        table.row([group.to_string(), interface.clone(), senders(*excludes, sources)]);
    }
    format!("Multicast Group Memberships\n{}", table.text())
}

fn senders(excludes: bool, sources: &[IpAddr]) -> String {
    let named = sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    match (excludes, sources.is_empty()) {
        (true, true) => "*".to_owned(),
        (true, false) => format!("all but {named}"),
        (false, _) => named,
    }
}
