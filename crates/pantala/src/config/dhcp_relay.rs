//! The key `dhcp_relay` of an interface: servers that the hosts of its link are to ask; a list, or a section with all of it.

use core::net::{Ipv4Addr, Ipv6Addr};

use ipnet::Ipv4Net;

use super::dhcp::address;
use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use crate::dhcp::relay::Settings;

const KEYS: &[&str] = &["server", "circuit_id"];
/// Servers that each request is sent to.
pub(crate) const SERVERS_MAX: usize = 8;

/// A DHCP relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpRelay {
    /// Where requests are sent.
    pub servers: Vec<Ipv4Addr>,
    /// Whether servers are told the interface by its name (option 82).
    pub circuit_id: bool,
}

impl DhcpRelay {
    /// The settings of the relay of a link where this is our address.
    pub(crate) fn settings(&self, own: Ipv4Net, interface: &str) -> Settings {
        let circuit = self.circuit_id.then(|| interface.to_owned());
        Settings { own: own.addr(), servers: self.servers.clone(), circuit }
    }
}

pub(super) fn read(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<At<DhcpRelay>> {
    let key = interface.key("dhcp_relay")?;
    let (servers, circuit_id) = match interface.section("dhcp_relay") {
        Some(table) => {
            let fields = Fields::new(table.value, table.span, "in dhcp_relay", KEYS, report);
            let circuit_id = fields.truth("circuit_id", report).is_some_and(|at| at.value);
            (fields.parsed_list("server", address, report), circuit_id)
        }
        None => (interface.parsed_list("dhcp_relay", address, report), false),
    };
    if servers.is_empty() {
        report.add(&key, "this relay has no server", "write its address as in dhcp_relay = \"198.51.100.1\"");
    }
    if let Some(extra) = servers.get(SERVERS_MAX) {
        report.add(
            &extra.span,
            format!("{} servers are too many", servers.len()),
            format!("use {SERVERS_MAX} or less"),
        );
    }
    let servers = servers.into_iter().map(|at| at.value).collect();
    Some(At::new(DhcpRelay { servers, circuit_id }, key))
}

/// Reads `dhcp6_relay`: the servers that the hosts of a link are to ask.
pub(super) fn read6(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<At<Vec<Ipv6Addr>>> {
    let key = interface.key("dhcp6_relay")?;
    let servers = interface.parsed_list("dhcp6_relay", server6, report);
    if let Some(extra) = servers.get(SERVERS_MAX) {
        let message = format!("{} servers are too many", servers.len());
        report.add(&extra.span, message, format!("use {SERVERS_MAX} or less"));
    }
    if servers.is_empty() {
        report.add(&key, "this relay has no server", "write its address as in dhcp6_relay = \"2001:db8::1\"");
    }
    Some(At::new(servers.into_iter().map(|at| at.value).collect(), key))
}

fn server6(text: &str) -> Result<Ipv6Addr, Wrong> {
    let addr = text.parse().ok();
    addr.filter(|addr: &Ipv6Addr| !addr.is_multicast() && !addr.is_unicast_link_local()).ok_or_else(|| {
        let help = "write an IPv6 address that routes lead to, as in \"2001:db8::1\"";
        Wrong::new(format!("`{text}` is no address of a server"), help)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Machine};

    fn parse(text: &str) -> Result<Option<DhcpRelay>, String> {
        let text = format!("[[interface]]\ndevice = \"tap:a\"\n{text}");
        let config = Config::parse("t", &text, &Machine { cpus: vec![0] }).map_err(|why| why.to_string())?;
        let [interface] = <[_; 1]>::try_from(config.interfaces).unwrap();
        Ok(interface.dhcp_relay)
    }

    #[test]
    fn servers_stand_alone_or_in_a_section() {
        let own = "address = \"192.0.2.1/24\"\n";
        assert_eq!(parse(""), Ok(None));
        let server = Ipv4Addr::new(198, 51, 100, 1);
        for (text, circuit_id) in [
            ("dhcp_relay = \"198.51.100.1\"", false),
            ("dhcp_relay = { server = \"198.51.100.1\", circuit_id = true }", true),
        ] {
            let relay = parse(&format!("{own}{text}"));
            assert_eq!(relay, Ok(Some(DhcpRelay { servers: vec![server], circuit_id })));
        }
    }

    #[test]
    fn what_cannot_be_relayed_is_explained() {
        let nine = ["\"198.51.100.1\""; 9].join(",");
        let own = "address = \"192.0.2.1/24\"\n";
        for (text, says) in [
            (format!("{own}dhcp_relay = []"), "has no server"),
            (format!("{own}dhcp_relay = \"x\""), "is no IPv4 address"),
            (format!("{own}dhcp_relay = [{nine}]"), "9 servers are too many"),
            (format!("{own}dhcp_relay = {{ sever = \"198.51.100.1\" }}"), "did you mean `server`"),
            (
                format!("{own}dhcp_relay = \"198.51.100.1\"\ndhcp_server = true"),
                "has a DHCP server and a relay",
            ),
            ("dhcp_relay = \"198.51.100.1\"".to_owned(), "has no IPv4 address"),
            ("dhcp6_relay = []".to_owned(), "has no server"),
            ("dhcp6_relay = \"ff02::1:2\"".to_owned(), "is no address of a server"),
            (
                "dhcp6_relay = \"2001:db8::1\"\ndhcp6_server = true".to_owned(),
                "has a DHCPv6 server and a relay",
            ),
        ] {
            let said = parse(&text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
