//! `dhcp`.

use super::neighbours::duration;
use super::table::Table;
use crate::api::{DhcpCounters, DhcpLease, DhcpServer};

/// The leases of all servers, each under a line about it.
pub(crate) fn dhcp(servers: &[DhcpServer]) -> String {
    servers.iter().map(server).collect::<Vec<_>>().join("\n")
}

fn server(server: &DhcpServer) -> String {
    let DhcpServer { interface, address, pool: [first, last], offered, conflicts, .. } = server;
    let leased = server.leases.iter().filter(|lease| lease.expires_s > 0).count();
    let DhcpCounters { received, malformed, acks, naks, ignored, exhausted, not_written, .. } =
        server.counters;
    let mut text = format!(
        "{interface}: server {address}, pool {first}-{last}, {leased} leased, {offered} offered, {conflicts} in conflict\n\
         \treceived {received}, acks {acks}, naks {naks}, malformed {malformed}, ignored {ignored}, pool exhausted {exhausted}, \
         not written {not_written}\n"
    );
    if !server.leases.is_empty() {
        let mut table = Table::new(&["Address", "Ethernet", "Expires", "Name"], &[]);
        server.leases.iter().for_each(|lease| table.row(row(lease)));
        text += &table.text();
    }
    text
}

fn row(lease: &DhcpLease) -> [String; 4] {
    let expires = if lease.expires_s == 0 { "ended".to_owned() } else { duration(lease.expires_s) };
    let name = lease.name.clone().unwrap_or_default();
    [lease.address.to_string(), lease.mac.to_string(), expires, name]
}
