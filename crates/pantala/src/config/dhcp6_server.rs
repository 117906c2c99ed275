//! The key `dhcp6_server` of an interface: parameters for the hosts of its link, without addresses; true, or a section with all
//! of it.

use core::net::Ipv6Addr;

use super::Resolver;
use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use super::ra::{domain, server};
use crate::dhcp6::lease::{SEARCH_MAX, SERVERS_MAX};

const KEYS: &[&str] = &["dns", "dns_from", "search", "sntp", "refresh_s"];
/// A day (RFC 8415 §21.23).
const REFRESH_S: u32 = 86_400;

/// A stateless DHCPv6 server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dhcp6Server {
    /// Parameters that it tells.
    pub resolver: Resolver,
    /// The interface whose provider's parameters it tells besides.
    pub dns_from: Option<String>,
    /// Seconds after which hosts ask again.
    pub refresh_s: u32,
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
    Some(At::new(Dhcp6Server { resolver, dns_from, refresh_s }, key))
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
            ("dhcp6_server = { refresh_s = 1 }".to_owned(), "use 600 to"),
            (format!("dhcp6_server = {{ dns = [{nine}] }}"), "9 servers are too many"),
            (format!("dhcp6_server = {{ search = [{long}] }}"), "longer than 240 bytes"),
        ] {
            let said = parse(&text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
