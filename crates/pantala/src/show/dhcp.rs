//! `dhcp`.

use super::neighbours::duration;
use super::table::Table;
use crate::api::{Dhcp, DhcpClient, DhcpCounters, DhcpLease, DhcpServer};

/// Clients, and servers with their leases.
pub(crate) fn dhcp(all: &Dhcp) -> String {
    all.clients.iter().map(client).chain(all.servers.iter().map(server)).collect::<Vec<_>>().join("\n")
}

fn client(client: &DhcpClient) -> String {
    let DhcpClient { interface, state, sent, acks, naks, ignored, conflicts, .. } = client;
    let mut text = format!("{interface}: client, {state}");
    if let (Some(address), Some(server)) = (client.address, client.server) {
        let left = |seconds: Option<u64>| duration(seconds.unwrap_or_default());
        let (renew, expires) = (left(client.renew_s), left(client.expires_s));
        text += &format!(", {address} from {server}, renews in {renew}, expires in {expires}");
    }
    text.push('\n');
    let words =
        |addrs: &[core::net::Ipv4Addr]| addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let domain = client.domain.clone().unwrap_or_default();
    for (name, value) in [("router", words(&client.routers)), ("dns", words(&client.dns)), ("domain", domain)]
    {
        if !value.is_empty() {
            text += &format!("\t{name} {value}\n");
        }
    }
    text + &format!("\tsent {sent}, acks {acks}, naks {naks}, ignored {ignored}, conflicts {conflicts}\n")
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
