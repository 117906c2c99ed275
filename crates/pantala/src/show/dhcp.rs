//! `dhcp`.

use core::net::Ipv6Addr;

use super::neighbours::duration;
use super::table::Table;
use crate::api::{
    Dhcp, Dhcp6Client, Dhcp6Counters, Dhcp6Delegation, Dhcp6Lease, Dhcp6Relay, Dhcp6Server, DhcpClient,
    DhcpCounters, DhcpLease, DhcpRelay, DhcpServer,
};

/// Clients, and servers with their leases.
pub(crate) fn dhcp(all: &Dhcp) -> String {
    let v4 = all.clients.iter().map(client).chain(all.servers.iter().map(server));
    let v4 = v4.chain(all.relays.iter().map(relay));
    let v6 = all.clients6.iter().map(client6).chain(all.servers6.iter().map(server6));
    let v6 = v6.chain(all.relays6.iter().map(relay6));
    v4.chain(v6).collect::<Vec<_>>().join("\n")
}

fn relay(relay: &DhcpRelay) -> String {
    let DhcpRelay { interface, address, servers, requests, replies, malformed, hops, ignored, no_room } =
        relay;
    let counts = [*requests, *replies, *malformed, *hops, *ignored, *no_room];
    relay_lines(&format!("{interface}: relay {address}"), servers, counts)
}

fn relay6(relay: &Dhcp6Relay) -> String {
    let Dhcp6Relay { interface, servers, requests, replies, malformed, hops, ignored, no_room } = relay;
    let counts = [*requests, *replies, *malformed, *hops, *ignored, *no_room];
    relay_lines(&format!("{interface}: DHCPv6 relay"), servers, counts)
}

fn relay_lines(name: &str, servers: &[impl ToString], counts: [u64; 6]) -> String {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let [requests, replies, malformed, hops, ignored, no_room] = counts;
    format!(
        "{name} to {}\n\trequests {requests}, replies {replies}, malformed {malformed}, too many hops {hops}, \
         ignored {ignored}, no room {no_room}\n",
        servers.join(" ")
    )
}

fn client6(client: &Dhcp6Client) -> String {
    let Dhcp6Client {
        interface,
        state,
        sent,
        replies,
        refused,
        malformed,
        ignored,
        conflicts,
        renumbered,
        ..
    } = client;
    let mut text = format!("{interface}: DHCPv6 client, {state}");
    if let Some(seconds) = client.renew_s {
        text += &format!(", renews in {}", duration(seconds));
    }
    text.push('\n');
    for Dhcp6Lease { prefix, preferred_s, valid_s } in &client.leases {
        let (preferred, valid) = (duration(*preferred_s), duration(*valid_s));
        text += &format!("\t{prefix} preferred {preferred}, valid {valid}\n");
    }
    text += &parameters(&client.dns, &client.search, &client.sntp);
    text + &format!(
        "\tsent {sent}, replies {replies}, refused {refused}, malformed {malformed}, ignored {ignored}, conflicts {conflicts}, \
         renumbered {renumbered}\n"
    )
}

fn server6(server: &Dhcp6Server) -> String {
    let Dhcp6Counters { received, replies, malformed, ignored, limited, exhausted, not_written } =
        server.counters;
    let text = format!("{}: DHCPv6 server\n", server.interface);
    let text = text + &parameters(&server.dns, &server.search, &server.sntp);
    let text = text
        + &format!(
            "\treceived {received}, replies {replies}, malformed {malformed}, ignored {ignored}, limited {limited}, \
             prefixes exhausted {exhausted}, not written {not_written}\n"
        );
    if server.delegations.is_empty() {
        return text;
    }
    let mut table = Table::new(&["Prefix", "Router", "Expires", "DUID"], &[]);
    server.delegations.iter().for_each(|own| table.row(delegation(own)));
    text + &table.text()
}

fn delegation(own: &Dhcp6Delegation) -> [String; 4] {
    let Dhcp6Delegation { duid, router, prefixes, expires_s, .. } = own;
    let prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
    [prefixes.join(" "), router.to_string(), duration(*expires_s), duid.clone()]
}

fn parameters(dns: &[Ipv6Addr], search: &[String], sntp: &[Ipv6Addr]) -> String {
    let words = |addrs: &[Ipv6Addr]| addrs.iter().map(Ipv6Addr::to_string).collect::<Vec<_>>().join(" ");
    let all = [("dns", words(dns)), ("search", search.join(" ")), ("sntp", words(sntp))];
    all.iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("\t{name} {value}\n"))
        .collect()
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
