//! The key `dhcp6_server` of an interface: parameters for the hosts of its link, without addresses, and prefixes for routers; true, or a
//! section with all of it.

use core::net::Ipv6Addr;
use std::path::PathBuf;

use ipnet::Ipv6Net;

use super::Resolver;
use super::dhcp::path;
use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use super::ra::{domain, server};
use crate::dhcp6::delegation::Terms;
use crate::dhcp6::lease::{SEARCH_MAX, SERVERS_MAX};

const KEYS: &[&str] = &[
    "dns",
    "dns_from",
    "search",
    "sntp",
    "refresh_s",
    "delegate",
    "delegate_from",
    "delegate_len",
    "lease_s",
    "leases",
];
/// The folder of delegations, if the file does not say.
const FOLDER: &str = "/var/lib/pantala";
/// Bits of the prefix of a link.
const LINK_LEN: u8 = 64;
/// A day (RFC 8415 §21.23).
const REFRESH_S: u32 = 86_400;
/// A day.
const LEASE_S: u32 = 86_400;

/// A DHCPv6 server without addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dhcp6Server {
    /// Parameters that it tells.
    pub resolver: Resolver,
    /// The interface whose provider's parameters it tells besides.
    pub dns_from: Option<String>,
    /// Seconds after which hosts ask again.
    pub refresh_s: u32,
    /// Prefixes that it delegates to routers.
    pub delegate: Option<Delegate>,
}

/// Prefixes for routers of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegate {
    /// The network whose parts are delegated.
    pub net: Option<Ipv6Net>,
    /// The interface whose provider's prefixes are parted besides.
    pub from: Option<String>,
    pub(crate) terms: Terms,
    /// Where delegations are kept; by the interface's name if `None`.
    pub leases: Option<PathBuf>,
}

impl Delegate {
    /// Where the delegations of an interface are kept.
    pub(crate) fn path(&self, interface: &str) -> PathBuf {
        self.leases.clone().unwrap_or_else(|| PathBuf::from(FOLDER).join(format!("{interface}.leases6")))
    }
}

pub(super) fn read(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<At<Dhcp6Server>> {
    let key = interface.key("dhcp6_server")?;
    let empty = toml::de::DeTable::new();
    let fields = match interface.section("dhcp6_server") {
        Some(table) => Fields::new(table.value, table.span, "in dhcp6_server", KEYS, report),
        None if interface.truth("dhcp6_server", report)?.value => {
            Fields::new(&empty, key.clone(), "in dhcp6_server", KEYS, report)
        }
        None => return None,
    };
    let resolver = Resolver {
        dns: addresses(&fields, "dns", report),
        search: search(&fields, report),
        sntp: addresses(&fields, "sntp", report),
    };
    let dns_from = fields.text("dns_from", report).map(|at| at.value);
    let refresh_s = fields.number("refresh_s", 600..=u32::MAX, report).map_or(REFRESH_S, |at| at.value);
    let delegate = delegate(&fields, report);
    Some(At::new(Dhcp6Server { resolver, dns_from, refresh_s, delegate }, key))
}

fn delegate(fields: &Fields<'_>, report: &mut Report<'_>) -> Option<Delegate> {
    let net = fields.parsed("delegate", network, report);
    let from = fields.text("delegate_from", report).map(|at| at.value);
    let len = fields.number("delegate_len", 16..=LINK_LEN.into(), report);
    let len = len.map_or(LINK_LEN, |at| u8::try_from(at.value).unwrap_or(LINK_LEN));
    let lease_s = fields.number("lease_s", 60..=31_536_000, report).map_or(LEASE_S, |at| at.value);
    let leases = fields.parsed("leases", path, report).map(|at| at.value);
    if let Some(net) = net.as_ref().filter(|net| net.value.prefix_len() > len) {
        let message = format!("{} has no prefixes of {len} bits", net.value);
        report.add(&net.span, message, "write a shorter prefix, or a longer delegate_len");
    }
    if net.is_none() && from.is_none() {
        for key in ["delegate_len", "lease_s", "leases"] {
            if let Some(span) = fields.key(key) {
                let help = "add a line like delegate_from = \"wan\", the interface with the DHCPv6 client";
                report.add(&span, format!("{key} is of no prefix"), help);
            }
        }
        return None;
    }
    Some(Delegate { net: net.map(|at| at.value.trunc()), from, terms: Terms { len, lease_s }, leases })
}

fn network(text: &str) -> Result<Ipv6Net, Wrong> {
    let help = "write it as in \"2001:db8:8000::/52\"";
    text.parse().map_err(|_| Wrong::new(format!("`{text}` is no IPv6 network"), help))
}

fn addresses(fields: &Fields<'_>, key: &str, report: &mut Report<'_>) -> Vec<Ipv6Addr> {
    let list = fields.parsed_list(key, server, report);
    if let Some(extra) = list.get(SERVERS_MAX) {
        report.add(
            &extra.span,
            format!("{} servers are too many", list.len()),
            format!("use {SERVERS_MAX} or less"),
        );
    }
    list.into_iter().map(|at| at.value).collect()
}

/// Reads the search list into the bytes that stand in the option (RFC 3646 §4).
fn search(fields: &Fields<'_>, report: &mut Report<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for name in fields.parsed_list("search", |text: &str| -> Result<Vec<u8>, Wrong> { domain(text) }, report)
    {
        bytes.extend(name.value);
        if bytes.len() > SEARCH_MAX {
            let message = format!("the search list is longer than {SEARCH_MAX} bytes");
            report.add(&name.span, message, "leave out some of the names");
            return Vec::new();
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Machine};

    fn parse(text: &str) -> Result<Option<Dhcp6Server>, String> {
        let text = format!("[[interface]]\ndevice = \"tap:a\"\naddress = \"2001:db8::1/64\"\n{text}");
        let config = Config::parse("t", &text, &Machine { cpus: vec![0] }).map_err(|why| why.to_string())?;
        let [interface] = <[_; 1]>::try_from(config.interfaces).unwrap();
        Ok(interface.dhcp6_server)
    }

    #[test]
    fn all_that_can_be_said_is_told() {
        assert_eq!((parse(""), parse("dhcp6_server = false")), (Ok(None), Ok(None)));
        let bare = parse("dhcp6_server = true").unwrap().unwrap();
        assert_eq!(bare, Dhcp6Server { refresh_s: 86_400, ..Dhcp6Server::default() });
        let text = "[interface.dhcp6_server]\ndelegate = \"2001:db8:8000::/52\"\ndelegate_len = 60\nlease_s = 600\nleases = \"/tmp/l\"\n";
        let delegate = parse(text).unwrap().unwrap().delegate.unwrap();
        assert_eq!(delegate.terms, Terms { len: 60, lease_s: 600 });
        assert_eq!((delegate.net.unwrap().prefix_len(), delegate.path("lan")), (52, "/tmp/l".into()));
        let text = "[interface.dhcp6_server]\ndns = \"2001:db8::53\"\nsearch = [\"ab.example\", \"c\"]\nsntp = [\"2001:db8::123\"]\nrefresh_s = 600\n";
        let server = parse(text).unwrap().unwrap();
        assert_eq!(
            (&server.resolver.search[..], server.refresh_s),
            (&b"\x02ab\x07example\0\x01c\0"[..], 600)
        );
        assert_eq!((server.resolver.dns.len(), server.resolver.sntp.len()), (1, 1));
    }

    #[test]
    fn what_cannot_be_told_is_explained() {
        let nine = (0..9).map(|at| format!("\"2001:db8::{at}\"")).collect::<Vec<_>>().join(",");
        let long =
            (0..9).map(|at| format!("\"{}{at}.example\"", "a".repeat(30))).collect::<Vec<_>>().join(",");
        for (text, says) in [
            ("dhcp6_server = 1".to_owned(), "`dhcp6_server` cannot be"),
            ("dhcp6_server = { dsn = \"\" }".to_owned(), "did you mean `dns`"),
            ("dhcp6_server = { dns = \"192.0.2.1\" }".to_owned(), "is no IPv6 address"),
            ("dhcp6_server = { search = \"a..b\" }".to_owned(), "is no domain name"),
            (
                "dhcp6_server = { delegate = \"2001:db8::/62\", delegate_len = 60 }".to_owned(),
                "has no prefixes of 60 bits",
            ),
            ("dhcp6_server = { delegate = \"192.0.2.0/24\" }".to_owned(), "is no IPv6 network"),
            ("dhcp6_server = { lease_s = 600 }".to_owned(), "lease_s is of no prefix"),
            ("dhcp6_server = { delegate_from = \"wan\" }".to_owned(), "no interface `wan`"),
            ("dhcp6_server = { refresh_s = 1 }".to_owned(), "use 600 to"),
            (format!("dhcp6_server = {{ dns = [{nine}] }}"), "9 servers are too many"),
            (format!("dhcp6_server = {{ search = [{long}] }}"), "longer than 240 bytes"),
        ] {
            let said = parse(&text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
