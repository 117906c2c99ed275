//! The key `dhcp_server` of an interface: addresses for the hosts of its link; true, or a section with all of it.

use core::net::Ipv4Addr;
use core::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::Ipv4Net;
use wire::ether::Mac;

use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use crate::dhcp::message::{classless_routes, option};
use crate::dhcp::server::{Host, Settings};

const KEYS: &[&str] = &[
    "pool", "lease_s", "host", "router", "dns", "dns_from", "domain", "ntp", "mtu", "option", "route",
    "probe", "leases",
];
/// A day.
const LEASE_S: u32 = 86_400;
/// The folder of leases, if the file does not say.
const FOLDER: &str = "/var/lib/pantala";
/// Addresses of a pool.
pub(crate) const POOL_MAX: u32 = 65_536;
/// Hosts that have their own addresses.
pub(crate) const HOSTS_MAX: usize = 4096;
/// Name servers that hosts are told of, unless a file names more.
const DNS_MAX: usize = 8;
/// Bytes of the options that a file adds.
pub(crate) const OPTIONS_MAX: usize = 512;

/// A DHCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpServer {
    /// The addresses that it gives; all of the link if `None`.
    pub pool: Option<RangeInclusive<Ipv4Addr>>,
    /// Seconds of a lease.
    pub lease_s: u32,
    /// Hosts with addresses of their own.
    pub hosts: Vec<(Mac, Ipv4Addr)>,
    /// Routers; this one if `None`.
    pub routers: Option<Vec<Ipv4Addr>>,
    /// The interface whose provider's name servers are told behind those of the options.
    pub dns_from: Option<String>,
    /// Other options, by their codes.
    pub options: Vec<(u8, Vec<u8>)>,
    /// Whether an address is probed before it is offered.
    pub probe: bool,
    /// Where leases are kept; by the interface's name if `None`.
    pub leases: Option<PathBuf>,
}

impl DhcpServer {
    /// The settings of the server on a link where this is our address, and these are the provider's name servers.
    pub(crate) fn settings(&self, own: Ipv4Net, provided: &[Ipv4Addr]) -> Settings {
        let mut options = self.options.clone();
        tell(&mut options, provided);
        let routers = self.routers.clone().unwrap_or_else(|| vec![own.addr()]);
        if !routers.is_empty() {
            options.insert(0, (option::ROUTER, octets(&routers)));
        }
        let hosts = self.hosts.iter().map(|(mac, addr)| Host { mac: *mac, addr: *addr }).collect();
        let pool = self.pool.clone().unwrap_or_else(|| hosts_of(own));
        Settings { own, pool, hosts, lease_s: self.lease_s, options }
    }

    /// Where the leases of an interface are kept.
    pub(crate) fn path(&self, interface: &str) -> PathBuf {
        let usual = || PathBuf::from(FOLDER).join(format!("{interface}.leases"));
        self.leases.clone().unwrap_or_else(usual)
    }
}

/// All addresses of a link but the first and the last.
pub(crate) fn hosts_of(net: Ipv4Net) -> RangeInclusive<Ipv4Addr> {
    let first = u32::from(net.network()).saturating_add(1);
    first.into()..=u32::from(net.broadcast()).saturating_sub(1).into()
}

/// Adds name servers to the option that tells them, as far as there is room.
fn tell(options: &mut Vec<(u8, Vec<u8>)>, servers: &[Ipv4Addr]) {
    if servers.is_empty() {
        return;
    }
    let at = options.iter().position(|(code, _)| *code == option::DNS).unwrap_or_else(|| {
        options.push((option::DNS, Vec::new()));
        options.len() - 1
    });
    let told = &mut options[at].1;
    for server in servers {
        let is_told = told.chunks(4).any(|own| own == server.octets());
        if !is_told && told.len() < 4 * DNS_MAX {
            told.extend(server.octets());
        }
    }
}

pub(super) fn read(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<At<DhcpServer>> {
    let key = interface.key("dhcp_server")?;
    let empty = toml::de::DeTable::new();
    let fields = match interface.section("dhcp_server") {
        Some(table) => Fields::new(table.value, table.span, "in dhcp_server", KEYS, report),
        None if interface.truth("dhcp_server", report)?.value => {
            Fields::new(&empty, key.clone(), "in dhcp_server", KEYS, report)
        }
        None => return None,
    };
    Some(At::new(section(&fields, report), key))
}

fn section(fields: &Fields<'_>, report: &mut Report<'_>) -> DhcpServer {
    let hosts: Vec<_> = fields.parsed_list("host", host, report);
    if let Some(extra) = hosts.get(HOSTS_MAX) {
        report.add(
            &extra.span,
            format!("{} hosts are too many", hosts.len()),
            format!("use {HOSTS_MAX} or less"),
        );
    }
    let mut addrs = |key| {
        let list = fields.parsed_list(key, address, report);
        list.into_iter().map(|at: At<Ipv4Addr>| at.value).collect::<Vec<_>>()
    };
    let (routers, dns, ntp) = (addrs("router"), addrs("dns"), addrs("ntp"));
    let mut options = Vec::new();
    for (code, list) in [(option::DNS, &dns), (option::NTP, &ntp)] {
        if !list.is_empty() {
            options.push((code, octets(list)));
        }
    }
    if let Some(domain) = fields.parsed("domain", domain, report) {
        options.push((option::DOMAIN, domain.value.into_bytes()));
    }
    if let Some(mtu) = fields.number("mtu", 68..=65_535, report) {
        options.push((option::MTU, u16::try_from(mtu.value).unwrap_or(u16::MAX).to_be_bytes().to_vec()));
    }
    for added in fields.parsed_list("option", added, report) {
        let before: usize = options.iter().map(|(_, value)| 2 + value.len()).sum();
        if before + added.value.1.len() > OPTIONS_MAX {
            let help = format!("a message has room for {OPTIONS_MAX} bytes of them");
            report.add(&added.span, "the options are too long", help);
        }
        options.retain(|(code, _)| *code != added.value.0);
        options.push(added.value);
    }
    let routes: Vec<(Ipv4Net, Ipv4Addr)> =
        fields.parsed_list("route", route, report).into_iter().map(|at| at.value).collect();
    if !routes.is_empty() {
        options.push((option::CLASSLESS_ROUTES, classless_routes(&routes)));
    }
    DhcpServer {
        pool: fields.parsed("pool", pool, report).map(|at| at.value),
        lease_s: fields.number("lease_s", 60..=31_536_000, report).map_or(LEASE_S, |at| at.value),
        hosts: hosts.into_iter().map(|at| at.value).collect(),
        routers: fields.key("router").map(|_| routers),
        dns_from: fields.text("dns_from", report).map(|at| at.value),
        options,
        probe: fields.truth("probe", report).is_none_or(|at| at.value),
        leases: fields.parsed("leases", path, report).map(|at| at.value),
    }
}

fn octets(addrs: &[Ipv4Addr]) -> Vec<u8> {
    addrs.iter().flat_map(Ipv4Addr::octets).collect()
}

pub(super) fn address(text: &str) -> Result<Ipv4Addr, Wrong> {
    text.parse()
        .map_err(|_| Wrong::new(format!("`{text}` is no IPv4 address"), "write it as in \"192.0.2.1\""))
}

pub(super) fn path(text: &str) -> Result<PathBuf, Wrong> {
    if text.is_empty() || text.ends_with('/') {
        return Err(Wrong::new(
            "this cannot be the name of a file",
            "write a path as in \"/var/lib/pantala/lan.leases\"",
        ));
    }
    Ok(text.into())
}

fn domain(text: &str) -> Result<String, Wrong> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > 255 || !text.bytes().all(is_plain) {
        return Err(Wrong::new(format!("`{text}` is no domain name"), "write it as in \"office.example\""));
    }
    Ok(text.to_owned())
}

fn pool(text: &str) -> Result<RangeInclusive<Ipv4Addr>, Wrong> {
    let help = "write the first and the last address, as in \"192.0.2.100-192.0.2.199\"";
    let ends = text.split_once('-').and_then(|(first, last)| {
        Some((first.trim().parse::<Ipv4Addr>().ok()?, last.trim().parse::<Ipv4Addr>().ok()?))
    });
    match ends {
        Some((first, last)) if first <= last && u32::from(last) - u32::from(first) < POOL_MAX => {
            Ok(first..=last)
        }
        Some((first, last)) if first <= last => {
            Err(Wrong::new("this pool is too large", format!("use {POOL_MAX} addresses or less")))
        }
        _ => Err(Wrong::new(format!("`{text}` is no range of addresses"), help)),
    }
}

/// `MAC ADDRESS`
fn host(text: &str) -> Result<(Mac, Ipv4Addr), Wrong> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let read = match words[..] {
        [mac, addr] => mac.parse::<Mac>().ok().zip(addr.parse().ok()),
        _ => None,
    };
    read.filter(|(mac, _)| mac.is_unicast()).ok_or_else(|| {
        let help =
            "write the host's Ethernet address and its IPv4 address, as in \"02:00:00:00:00:07 192.0.2.7\"";
        Wrong::new(format!("bad host `{text}`"), help)
    })
}

/// `NETWORK ROUTER`, or `NETWORK link`
fn route(text: &str) -> Result<(Ipv4Net, Ipv4Addr), Wrong> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let read = match words[..] {
        [to, "link"] => to.parse().ok().map(|to| (to, Ipv4Addr::UNSPECIFIED)),
        [to, via] => to.parse().ok().zip(via.parse().ok()),
        _ => None,
    };
    read.filter(|(to, _): &(Ipv4Net, Ipv4Addr)| to.trunc() == *to).ok_or_else(|| {
        let help =
            "write the network and its router, as in \"10.0.0.0/8 192.0.2.254\" or \"10.1.0.0/16 link\"";
        Wrong::new(format!("bad route `{text}`"), help)
    })
}

/// `CODE text`, or `CODE 0xHEX`
fn added(text: &str) -> Result<(u8, Vec<u8>), Wrong> {
    /// Options of the server itself.
    const OWN: [u8; 11] = [0, 1, 50, 51, 52, 53, 54, 55, 58, 59, 255];
    let wrong = || {
        let help = "write the code and a text, or 0x and hexadecimal digits: \"66 boot.example\", \"43 0x0104c0000201\"";
        Wrong::new(format!("bad option `{text}`"), help)
    };
    let (code, value) = text.split_once(' ').ok_or_else(wrong)?;
    let code: u8 = code.parse().map_err(|_| wrong())?;
    if OWN.contains(&code) || matches!(code, option::CLIENT_ID | option::RELAY_AGENT) {
        return Err(Wrong::new(format!("option {code} is the server's own"), "leave it out"));
    }
    let value = match value.strip_prefix("0x") {
        None => value.as_bytes().to_vec(),
        Some(digits) if digits.len() % 2 == 0 && digits.is_ascii() => {
            let pairs = digits
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap_or_default(), 16));
            pairs.collect::<Result<_, _>>().map_err(|_| wrong())?
        }
        Some(_) => return Err(wrong()),
    };
    if value.is_empty() || value.len() > 255 { Err(wrong()) } else { Ok((code, value)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Machine};

    fn parse(text: &str) -> Result<Option<DhcpServer>, String> {
        let text = format!(
            "[[interface]]\ndevice = \"tap:a\"\naddress = [\"2001:db8::1/64\", \"192.0.2.1/24\"]\n{text}"
        );
        let config = Config::parse("t", &text, &Machine { cpus: vec![0] }).map_err(|why| why.to_string())?;
        let [interface] = <[_; 1]>::try_from(config.interfaces).unwrap();
        Ok(interface.dhcp_server)
    }

    #[test]
    fn name_servers_of_the_provider_are_told_behind_our_own_once() {
        let [own, theirs, other] = [53, 54, 55].map(|host| Ipv4Addr::new(192, 0, 2, host));
        for (keys, expected) in
            [("dns = \"192.0.2.53\"\n", octets(&[own, theirs, other])), ("", octets(&[theirs, own, other]))]
        {
            let text = format!("[interface.dhcp_server]\n{keys}");
            let server = parse(&text).unwrap().unwrap();
            let settings = server.settings("192.0.2.1/24".parse().unwrap(), &[theirs, own, other, theirs]);
            let told = settings.options.iter().find(|(code, _)| *code == option::DNS).unwrap();
            assert_eq!(told.1, expected);
        }
    }

    #[test]
    fn without_more_the_whole_link_is_the_pool_and_we_are_the_router() {
        assert_eq!((parse(""), parse("dhcp_server = false")), (Ok(None), Ok(None)));
        let server = parse("dhcp_server = true").unwrap().unwrap();
        let settings = server.settings("192.0.2.1/24".parse().unwrap(), &[]);
        assert_eq!(settings.pool, Ipv4Addr::new(192, 0, 2, 1)..=Ipv4Addr::new(192, 0, 2, 254));
        assert_eq!(settings.options, [(option::ROUTER, vec![192, 0, 2, 1])]);
        assert_eq!(server.path("lan"), PathBuf::from("/var/lib/pantala/lan.leases"));
        assert!(server.probe);
    }

    #[test]
    fn all_that_can_be_said_is_sent() {
        let text = "[interface.dhcp_server]\npool = \"192.0.2.100-192.0.2.199\"\nlease_s = 600\nrouter = []\ndns = [\"192.0.2.53\"]\n\
            domain = \"office.example\"\nntp = \"192.0.2.5\"\nmtu = 1400\noption = [\"66 boot\", \"43 0x0102\"]\n\
            host = [\"02:00:00:00:00:07 192.0.2.7\"]\nroute = [\"10.0.0.0/8 192.0.2.254\", \"10.1.0.0/16 link\"]\nprobe = false\nleases = \"/tmp/x\"\n";
        let server = parse(text).unwrap().unwrap();
        let settings = server.settings("192.0.2.1/24".parse().unwrap(), &[]);
        let expected: [(u8, &[u8]); 7] = [
            (6, &[192, 0, 2, 53]),
            (42, &[192, 0, 2, 5]),
            (15, b"office.example"),
            (26, &[5, 120]),
            (66, b"boot"),
            (43, &[1, 2]),
            (121, &[8, 10, 192, 0, 2, 254, 16, 10, 1, 0, 0, 0, 0]),
        ];
        assert_eq!(settings.options, expected.map(|(code, value)| (code, value.to_vec())));
        assert_eq!((settings.lease_s, settings.hosts[0].addr), (600, Ipv4Addr::new(192, 0, 2, 7)));
    }

    #[test]
    fn what_cannot_be_served_is_explained() {
        for (text, says) in [
            ("dhcp_server = 1", "`dhcp_server` cannot be"),
            ("dhcp_server = { pol = \"\" }", "did you mean `pool`"),
            ("dhcp_server = { pool = \"192.0.2.9\" }", "is no range"),
            ("dhcp_server = { pool = \"192.0.2.9-192.0.2.8\" }", "is no range"),
            ("dhcp_server = { pool = \"10.0.0.0-10.9.0.0\" }", "too large"),
            ("dhcp_server = { pool = \"198.51.100.1-198.51.100.9\" }", "is not on the link"),
            ("dhcp_server = { host = \"02:00:00:00:00:07 198.51.100.7\" }", "is not on the link"),
            ("dhcp_server = { host = \"02:00:00:00:00:07\" }", "bad host"),
            ("dhcp_server = { option = \"51 x\" }", "the server's own"),
            ("dhcp_server = { option = \"43 0x012\" }", "bad option"),
            ("dhcp_server = { route = \"10.0.0.1/8 192.0.2.1\" }", "bad route"),
            ("dhcp_server = { lease_s = 1 }", "use 60 to"),
            (
                "dhcp_server = true\n[[interface]]\ndevice = \"tap:b\"\ndhcp_server = true",
                "has no IPv4 address",
            ),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
