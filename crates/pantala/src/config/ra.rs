//! The key `ra` of an interface: router advertisements that it sends; true, or a section with all of it.

use core::net::Ipv6Addr;
use core::time::Duration;

use ipnet::{IpNet, Ipv6Net};
use net::tables::{
    RTADV_PREFIXES_MAX, RTADV_ROUTES_MAX, RTADV_SEARCH_MAX, RTADV_SERVERS_MAX, RtadvExpiry, RtadvSettings,
};
use wire::nd::{Pref64, Preference, Prefix, RouteInfo};

use super::Interface;
use super::draft::unknown_word;
use super::fields::Fields;
use super::problem::{At, Report, Wrong};

const KEYS: &[&str] = &[
    "interval_s",
    "lifetime_s",
    "preference",
    "hop_limit",
    "managed",
    "other",
    "reachable_ms",
    "retrans_ms",
    "mtu",
    "prefix",
    "on_link",
    "autonomous",
    "valid_s",
    "preferred_s",
    "dns",
    "dns_from",
    "search",
    "dns_lifetime_s",
    "route",
    "route_lifetime_s",
    "nat64",
];
/// `MaxRtrAdvInterval`, seconds (RFC 4861 §6.2.1).
const INTERVAL_S: u32 = 600;
/// `AdvValidLifetime` and `AdvPreferredLifetime`, seconds: 30 and 7 days.
const VALID_S: u32 = 2_592_000;
const PREFERRED_S: u32 = 604_800;
/// The longest lifetime of a default router, seconds.
const LIFETIME_MAX_S: u32 = 9000;
/// Lengths of NAT64 prefixes (RFC 6052 §2.2).
const NAT64_LENS: [u8; 6] = [32, 40, 48, 56, 64, 96];
const NAT64_LIFETIME_MAX_S: u32 = 65_528;
/// Bytes of a label of a domain name, and of a name (RFC 1035 §2.3.4).
const LABEL_MAX: usize = 63;
const NAME_MAX: usize = 255;

/// Router advertisements of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ra {
    /// All but the prefixes.
    pub settings: RtadvSettings,
    /// The prefixes; those of the interface's addresses with 64 bits if `None`.
    pub prefixes: Option<Vec<Ipv6Net>>,
    /// Flags and lifetimes of all prefixes.
    pub prefix: Prefix,
    /// The interface whose provider's name servers and search list are advertised besides.
    pub dns_from: Option<String>,
}

impl Ra {
    /// Returns the advertisements of an interface: its own prefixes, those that it was delegated for as long as it may use them, and what its
    /// provider has told of.
    #[must_use]
    pub fn of(&self, interface: &Interface) -> RtadvSettings {
        let mut settings = self.with_addresses(&interface.addresses);
        for leased in &interface.leased {
            let (IpNet::V6(net), Some((preferred, valid))) = (leased.net.trunc(), leased.until) else {
                continue;
            };
            let (addr, len) = (net.addr(), net.prefix_len());
            settings.expiring.push(RtadvExpiry { addr, len, preferred, valid });
            let is_there = settings.prefixes.iter().any(|prefix| (prefix.addr, prefix.len) == (addr, len));
            if !is_there && settings.prefixes.len() < RTADV_PREFIXES_MAX {
                settings.prefixes.push(Prefix { addr, len, ..self.prefix });
            }
        }
        settings.other |= interface.dhcp6_server.is_some();
        let room = RTADV_SERVERS_MAX.saturating_sub(settings.servers.len());
        let learnt = interface.resolver.dns.iter().map(Ipv6Addr::octets).take(room);
        settings.servers.extend(learnt);
        if settings.search.is_empty() && interface.resolver.search.len() <= RTADV_SEARCH_MAX {
            let mut names = interface.resolver.search.clone();
            names.resize(names.len().next_multiple_of(8), 0);
            settings.search = names.into();
        }
        settings
    }

    /// Returns the advertisements of an interface with these addresses.
    #[must_use]
    pub fn with_addresses<'n>(&self, addresses: impl IntoIterator<Item = &'n IpNet>) -> RtadvSettings {
        let own = addresses.into_iter().filter_map(|net| match net {
            IpNet::V6(net) if net.prefix_len() == 64 && !net.addr().is_unicast_link_local() => {
                Some(net.trunc())
            }
            _ => None,
        });
        let mut nets: Vec<Ipv6Net> = self.prefixes.clone().unwrap_or_else(|| own.collect());
        nets.sort_unstable();
        nets.dedup();
        let prefixes = nets.into_iter().take(RTADV_PREFIXES_MAX);
        let prefixes = prefixes.map(|net| Prefix { addr: net.addr(), len: net.prefix_len(), ..self.prefix });
        RtadvSettings { prefixes: prefixes.collect(), ..self.settings.clone() }
    }
}

pub(super) fn read(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<Ra> {
    let key = interface.key("ra")?;
    if interface.section("autoconf").is_some()
        || interface.truth("autoconf", report).is_some_and(|at| at.value)
    {
        let help = "leave out `ra`, or `autoconf`";
        report.add(&key, "an interface configures itself or others, not both", help);
        return None;
    }
    let empty = toml::de::DeTable::new();
    let fields = match interface.section("ra") {
        Some(table) => Fields::new(table.value, table.span, "in ra", KEYS, report),
        None if interface.truth("ra", report)?.value => Fields::new(&empty, key, "in ra", KEYS, report),
        None => return None,
    };
    Some(section(&fields, report))
}

fn section(fields: &Fields<'_>, report: &mut Report<'_>) -> Ra {
    let interval_s = fields.number("interval_s", 4..=1800, report).map_or(INTERVAL_S, |at| at.value);
    let usual_s = 3 * interval_s;
    let lifetime_s = lifetime(fields, interval_s, report);
    let mut number = |key, range, usual| fields.number(key, range, report).map_or(usual, |at| at.value);
    let hop_limit = u8::try_from(number("hop_limit", 0..=255, 64)).unwrap_or_default();
    let (reachable_ms, retrans_ms) =
        (number("reachable_ms", 0..=3_600_000, 0), number("retrans_ms", 0..=60_000, 0));
    let dns_lifetime_s = number("dns_lifetime_s", 0..=u32::MAX, usual_s);
    let route_lifetime_s = number("route_lifetime_s", 0..=u32::MAX, usual_s);
    let mtu = fields.number("mtu", 1280..=65535, report).map(|at| at.value);
    let mut truth = |key, usual| fields.truth(key, report).map_or(usual, |at| at.value);
    let (managed, other) = (truth("managed", false), truth("other", false));
    let (on_link, autonomous) = (truth("on_link", true), truth("autonomous", true));
    let preference = fields.parsed("preference", preference, report).map(|at| at.value).unwrap_or_default();
    let routes = at_most(RTADV_ROUTES_MAX, "routes", fields.parsed_list("route", network, report), report);
    let routes = routes.into_iter().map(|net| RouteInfo {
        addr: net.addr(),
        len: net.prefix_len(),
        preference,
        lifetime_s: route_lifetime_s,
    });
    let servers = fields.parsed_list("dns", server, report);
    let servers = at_most(RTADV_SERVERS_MAX, "name servers", servers, report);
    let settings = RtadvSettings {
        interval: interval(interval_s),
        lifetime_s,
        preference,
        hop_limit,
        managed,
        other,
        reachable_ms,
        retrans_ms,
        mtu,
        prefixes: Vec::new(),
        expiring: Vec::new(),
        servers: servers.iter().map(Ipv6Addr::octets).collect(),
        search: search(fields, report),
        dns_lifetime_s,
        routes: routes.collect(),
        nat64: fields.parsed("nat64", nat64, report).map(|at| {
            let lifetime_s = u16::try_from(usual_s.min(NAT64_LIFETIME_MAX_S)).unwrap_or(u16::MAX);
            Pref64 { lifetime_s, ..at.value }
        }),
    };
    let prefixes = fields.parsed_list("prefix", network, report);
    let prefixes = at_most(RTADV_PREFIXES_MAX, "prefixes", prefixes, report);
    let (valid_s, preferred_s) = lifetimes(fields, report);
    let prefix = Prefix { addr: Ipv6Addr::UNSPECIFIED, len: 0, on_link, autonomous, valid_s, preferred_s };
    let dns_from = fields.text("dns_from", report).map(|at| at.value);
    Ra { settings, prefixes: fields.key("prefix").map(|_| prefixes), prefix, dns_from }
}

/// The shortest and the longest interval.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.1
//# Default: 0.33 * MaxRtrAdvInterval If MaxRtrAdvInterval >= 9 seconds; otherwise, the Default is MaxRtrAdvInterval
fn interval(longest_s: u32) -> (Duration, Duration) {
    let longest = Duration::from_secs(longest_s.into());
    (if longest_s < 9 { longest * 3 / 4 } else { longest / 3 }, longest)
}

/// Reads the lifetime as a default router.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.1
//# MUST be either zero or between MaxRtrAdvInterval and 9000 seconds.
fn lifetime(fields: &Fields<'_>, interval_s: u32, report: &mut Report<'_>) -> u16 {
    let given = fields.number("lifetime_s", 0..=LIFETIME_MAX_S, report);
    if let Some(at) = given.as_ref().filter(|at| at.value != 0 && at.value < interval_s) {
        let message = format!("lifetime_s {} is below interval_s {interval_s}", at.value);
        report.add(
            &at.span,
            message,
            "hosts would lose the router in between; three times the interval is usual",
        );
    }
    u16::try_from(given.map_or(3 * interval_s, |at| at.value)).unwrap_or(u16::MAX)
}

fn lifetimes(fields: &Fields<'_>, report: &mut Report<'_>) -> (u32, u32) {
    let valid = fields.number("valid_s", 0..=u32::MAX, report).map_or(VALID_S, |at| at.value);
    let preferred = fields.number("preferred_s", 0..=u32::MAX, report);
    if let Some(at) = preferred.as_ref().filter(|at| at.value > valid) {
        let message = format!("preferred_s {} is above valid_s {valid}", at.value);
        report.add(&at.span, message, "an address is preferred for a part of its valid lifetime");
    }
    (valid, preferred.map_or_else(|| PREFERRED_S.min(valid), |at| at.value))
}

fn at_most<T>(most: usize, what: &str, list: Vec<At<T>>, report: &mut Report<'_>) -> Vec<T> {
    if let Some(extra) = list.get(most) {
        let message = format!("{} {what} do not fit an advertisement", list.len());
        report.add(&extra.span, message, format!("use {most} or less"));
    }
    list.into_iter().map(|at| at.value).collect()
}

fn preference(word: &str) -> Result<Preference, Wrong> {
    match word {
        "low" => Ok(Preference::Low),
        "medium" => Ok(Preference::Medium),
        "high" => Ok(Preference::High),
        other => Err(unknown_word("preference", other, &["low", "medium", "high"])),
    }
}

fn network(text: &str) -> Result<Ipv6Net, Wrong> {
    let wrong = |why| Wrong::new(format!("`{text}` {why}"), "write an IPv6 prefix as in \"2001:db8:1::/64\"");
    let net: Ipv6Net = text.parse().map_err(|_| wrong("is no IPv6 prefix"))?;
    if net.trunc() != net {
        return Err(wrong("has bits beyond its length"));
    }
    if net.addr().is_unicast_link_local() || net.addr().is_multicast() {
        return Err(wrong("cannot be advertised"));
    }
    Ok(net)
}

pub(super) fn server(text: &str) -> Result<Ipv6Addr, Wrong> {
    let help = "write IPv6 addresses; DHCPv4 tells those of IPv4";
    text.parse().map_err(|_| Wrong::new(format!("`{text}` is no IPv6 address"), help))
}

fn nat64(text: &str) -> Result<Pref64, Wrong> {
    let net = network(text)?;
    if !NAT64_LENS.contains(&net.prefix_len()) {
        let message = format!("a NAT64 prefix cannot have {} bits", net.prefix_len());
        return Err(Wrong::new(message, "use 32, 40, 48, 56, 64 or 96, as in \"64:ff9b::/96\""));
    }
    let mut prefix = [0; 12];
    prefix.iter_mut().zip(net.addr().octets()).for_each(|(to, from)| *to = from);
    Ok(Pref64 { prefix, len: net.prefix_len(), lifetime_s: 0 })
}

/// Reads the search list into the bytes that stand in the option (RFC 8106 §5.2).
fn search(fields: &Fields<'_>, report: &mut Report<'_>) -> Box<[u8]> {
    let mut bytes = Vec::new();
    for name in fields.parsed_list("search", domain, report) {
        bytes.extend(name.value);
        if bytes.len() > RTADV_SEARCH_MAX {
            let message = format!("the search list is longer than {RTADV_SEARCH_MAX} bytes");
            report.add(&name.span, message, "leave out some of the names");
            return Box::default();
        }
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.into()
}

/// A domain name as DNS writes it (RFC 1035 §3.1).
pub(super) fn domain(text: &str) -> Result<Vec<u8>, Wrong> {
    let wrong = || Wrong::new(format!("`{text}` is no domain name"), "write it as in \"office.example\"");
    let mut bytes = Vec::new();
    for label in text.strip_suffix('.').unwrap_or(text).split('.') {
        let is_plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let len = u8::try_from(label.len()).ok().filter(|len| (1..=LABEL_MAX).contains(&usize::from(*len)));
        bytes.push(len.filter(|_| is_plain).ok_or_else(wrong)?);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    if bytes.len() > NAME_MAX { Err(wrong()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Machine};

    fn parse(text: &str) -> Result<Option<Ra>, String> {
        let text = format!(
            "[[interface]]\ndevice = \"tap:a\"\naddress = [\"2001:db8:1::1/64\", \"fe80::1/64\", \"2001:db8:2::1/80\"]\n{text}"
        );
        let config = Config::parse("t", &text, &Machine { cpus: vec![0] }).map_err(|why| why.to_string())?;
        let [interface] = <[_; 1]>::try_from(config.interfaces).unwrap();
        Ok(interface.ra)
    }

    #[test]
    fn without_prefixes_those_of_the_addresses_are_advertised_with_the_lifetimes_of_the_rfc() {
        assert_eq!((parse(""), parse("ra = false")), (Ok(None), Ok(None)));
        let ra = parse("ra = true").unwrap().unwrap();
        assert_eq!(parse("[interface.ra]").unwrap().as_ref(), Some(&ra));
        let own: Vec<IpNet> = ["2001:db8:1::1/64", "fe80::1/64", "2001:db8:2::1/80", "192.0.2.1/24"]
            .map(|net| net.parse().unwrap())
            .into();
        let settings = ra.with_addresses(&own);
        assert_eq!((settings.lifetime_s, settings.hop_limit, settings.dns_lifetime_s), (1800, 64, 1800));
        assert_eq!(settings.interval, (Duration::from_secs(200), Duration::from_secs(600)));
        let addr = "2001:db8:1::".parse().unwrap();
        let (on_link, autonomous) = (true, true);
        let prefix = Prefix { addr, len: 64, on_link, autonomous, valid_s: 2_592_000, preferred_s: 604_800 };
        assert_eq!(settings.prefixes, [prefix]);
    }

    #[test]
    fn all_that_can_be_said_is_advertised() {
        let text = "[interface.ra]\ninterval_s = 60\nlifetime_s = 0\npreference = \"high\"\nmanaged = true\nother = true\nmtu = 1480\n\
            prefix = \"2001:db8:9::/64\"\non_link = false\nvalid_s = 100\npreferred_s = 50\ndns = [\"2001:db8::53\"]\n\
            search = [\"ab.example\"]\nroute = \"2001:db8:f::/48\"\nnat64 = \"64:ff9b::/96\"\n";
        let settings = parse(text).unwrap().unwrap().with_addresses(&[]);
        assert_eq!(
            (settings.lifetime_s, settings.preference, settings.mtu),
            (0, Preference::High, Some(1480))
        );
        assert!(settings.managed && settings.other && !settings.prefixes[0].on_link);
        assert_eq!((settings.prefixes[0].valid_s, settings.prefixes[0].preferred_s), (100, 50));
        assert_eq!(&settings.search[..], b"\x02ab\x07example\0\0\0\0\0");
        assert_eq!((settings.routes[0].len, settings.routes[0].lifetime_s), (48, 180));
        assert_eq!(settings.nat64.map(|nat64| (nat64.len, nat64.lifetime_s)), Some((96, 180)));
        assert_eq!(settings.servers.len(), 1);
    }

    #[test]
    fn what_cannot_be_advertised_is_explained() {
        let long = (0..17).map(|at| format!("\"2001:db8:{at}::/64\"")).collect::<Vec<_>>().join(",");
        for (text, says) in [
            ("ra = 1", "`ra` cannot be"),
            ("ra = { intervall_s = 4 }", "did you mean `interval_s`"),
            ("ra = { interval_s = 3 }", "use 4 to 1800"),
            ("ra = { lifetime_s = 60 }", "lifetime_s 60 is below interval_s 600"),
            ("ra = { valid_s = 1, preferred_s = 2 }", "preferred_s 2 is above valid_s 1"),
            ("ra = { prefix = \"2001:db8::1/64\" }", "bits beyond its length"),
            ("ra = { prefix = \"fe80::/64\" }", "cannot be advertised"),
            ("ra = { prefix = \"192.0.2.0/24\" }", "is no IPv6 prefix"),
            ("ra = { nat64 = \"64:ff9b::/80\" }", "cannot have 80 bits"),
            ("ra = { dns = \"192.0.2.1\" }", "is no IPv6 address"),
            ("ra = { search = \"a..b\" }", "`a..b` is no domain name"),
            ("ra = { preference = \"hig\" }", "did you mean `high`"),
            ("autoconf = true\nra = true", "configures itself or others"),
            (&format!("ra = {{ prefix = [{long}] }}"), "17 prefixes do not fit"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
