//! The key `dhcp6` of an interface: a DHCPv6 client; true, or a section with all of it. And `prefix_from`, by which another
//! interface gets a part of the prefix that it is delegated.

use core::net::Ipv6Addr;
use std::path::PathBuf;

use ipnet::{IpNet, Ipv6Net};
use net::time::Instant;

use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use super::{dhcp_client, draft::unknown_word};
use crate::dhcp6::client::Settings;

const KEYS: &[&str] = &["address", "prefix", "prefix_len", "when", "rapid_commit", "release", "lease"];
/// The folder of leases, if the file does not say.
const FOLDER: &str = "/var/lib/pantala";
/// Bits of a link's prefix.
const LINK_LEN: u8 = 64;

/// A DHCPv6 client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dhcp6Client {
    /// Whether it asks for an address.
    pub address: bool,
    /// Whether it asks for a prefix, and of which length; of any if 0.
    pub prefix: Option<u8>,
    /// Whether it asks only if routers of the link say that there is something to ask for.
    pub by_routers: bool,
    /// Whether it accepts a lease at once.
    pub rapid_commit: bool,
    /// Whether it gives its lease back at the end.
    pub release: bool,
    /// Where its lease is kept; by the interface's name if `None`.
    pub lease: Option<PathBuf>,
}

impl Default for Dhcp6Client {
    fn default() -> Self {
        let (address, prefix) = (true, Some(0));
        Self { address, prefix, by_routers: false, rapid_commit: false, release: false, lease: None }
    }
}

impl Dhcp6Client {
    /// Where the lease of an interface is kept.
    pub(crate) fn path(&self, interface: &str) -> PathBuf {
        self.lease.clone().unwrap_or_else(|| PathBuf::from(FOLDER).join(format!("{interface}.lease6")))
    }

    /// The settings of the client.
    pub(crate) const fn settings(&self) -> Settings {
        let Self { address, prefix, by_routers, rapid_commit, .. } = *self;
        Settings { address, prefix, by_routers, rapid_commit }
    }
}

/// The part of another interface's delegated prefixes that an interface has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixFrom {
    /// The interface with the client.
    pub interface: String,
    /// The number of the subnet of 64 bits.
    pub subnet: u32,
}

impl PrefixFrom {
    /// Our address in the subnet of a delegated prefix; `None` if the prefix has no such subnet.
    pub(crate) fn address(&self, delegated: Ipv6Net) -> Option<Ipv6Net> {
        let bits = LINK_LEN.checked_sub(delegated.prefix_len())?;
        let subnet = u128::from(self.subnet);
        if subnet >> bits != 0 {
            return None;
        }
        let addr = u128::from(delegated.network()) | subnet << LINK_LEN | 1;
        Ipv6Net::new(Ipv6Addr::from(addr), LINK_LEN).ok()
    }
}

/// An address that is leased, or is in a prefix that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leased {
    /// The address, with its network.
    pub net: IpNet,
    /// Until when hosts may use its prefix for what is new, and at all, if it was delegated.
    pub until: Option<(Instant, Instant)>,
}

/// Name servers and more that a provider has told of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolver {
    /// Name servers.
    pub dns: Vec<Ipv6Addr>,
    /// Search list of domain names as DNS writes them.
    pub search: Vec<u8>,
    /// Time servers.
    pub sntp: Vec<Ipv6Addr>,
}

pub(super) fn read(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<Dhcp6Client> {
    interface.key("dhcp6")?;
    let Some(table) = interface.section("dhcp6") else {
        return interface.truth("dhcp6", report)?.value.then(Dhcp6Client::default);
    };
    let fields = Fields::new(table.value, table.span, "in dhcp6", KEYS, report);
    let mut truth = |key, usual| fields.truth(key, report).map_or(usual, |at| at.value);
    let (address, prefix) = (truth("address", true), truth("prefix", true));
    let (rapid_commit, release) = (truth("rapid_commit", false), truth("release", false));
    let len = fields.number("prefix_len", 1..=LINK_LEN.into(), report);
    let len = len.map_or(0, |at| u8::try_from(at.value).unwrap_or(LINK_LEN));
    Some(Dhcp6Client {
        address,
        prefix: prefix.then_some(len),
        by_routers: fields.parsed("when", when, report).is_some_and(|at| at.value),
        rapid_commit,
        release,
        lease: fields.parsed("lease", dhcp_client::path, report).map(|at| at.value),
    })
}

fn when(word: &str) -> Result<bool, Wrong> {
    match word {
        "always" => Ok(false),
        "ra" => Ok(true),
        other => Err(unknown_word("when", other, &["always", "ra"])),
    }
}

/// Reads `prefix_from` and `prefix_subnet`.
pub(super) fn read_prefix_from(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<PrefixFrom> {
    let from = interface.text("prefix_from", report);
    let subnet = interface.number("prefix_subnet", 0..=u32::MAX, report);
    if let (None, Some(subnet)) = (&from, &subnet) {
        let help = "add a line like prefix_from = \"wan\", the interface with the DHCPv6 client";
        report.add(&subnet.span, "prefix_subnet is of no prefix", help);
    }
    Some(PrefixFrom { interface: from?.value, subnet: subnet.map_or(0, |at| at.value) })
}

/// Interfaces that this one has prefixes and name servers from, and where it says so.
pub(super) fn providers(interface: &Fields<'_>) -> Vec<At<String>> {
    let sections = ["ra", "dhcp6_server"].into_iter().filter_map(|key| interface.section(key));
    let names =
        sections.flat_map(|table| ["dns_from", "delegate_from"].map(|key| table.value.get(key))).flatten();
    let own = interface.value("prefix_from").into_iter();
    own.chain(names)
        .filter_map(|value| Some(At::new(value.get_ref().as_str()?.to_owned(), value.span())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Interface, Machine};

    fn parse(text: &str) -> Result<Vec<Interface>, String> {
        let text = format!("[[interface]]\nname = \"wan\"\ndevice = \"tap:a\"\n{text}");
        let config = Config::parse("t", &text, &Machine { cpus: vec![0] }).map_err(|why| why.to_string())?;
        Ok(config.interfaces)
    }

    #[test]
    fn all_that_can_be_said_is_read() {
        assert_eq!(
            (parse("").unwrap()[0].dhcp6.clone(), parse("dhcp6 = false").unwrap()[0].dhcp6.clone()),
            (None, None)
        );
        let client = parse("dhcp6 = true").unwrap()[0].dhcp6.clone().unwrap();
        assert_eq!(
            (&client, client.path("wan")),
            (&Dhcp6Client::default(), "/var/lib/pantala/wan.lease6".into())
        );
        let text = "[interface.dhcp6]\naddress = false\nprefix_len = 56\nwhen = \"ra\"\nrapid_commit = true\nrelease = true\nlease = \"/tmp/x\"\n\
            [[interface]]\ndevice = \"tap:b\"\nprefix_from = \"wan\"\nprefix_subnet = 3\n";
        let interfaces = parse(text).unwrap();
        let expected = Dhcp6Client {
            address: false,
            prefix: Some(56),
            by_routers: true,
            rapid_commit: true,
            release: true,
            lease: Some("/tmp/x".into()),
        };
        assert_eq!(interfaces[0].dhcp6, Some(expected));
        assert_eq!(interfaces[1].prefix_from, Some(PrefixFrom { interface: "wan".to_owned(), subnet: 3 }));
    }

    #[test]
    fn subnets_are_parts_of_the_prefix_or_are_none() {
        for (delegated, subnet, expected) in [
            ("2001:db8:4400::/56", 0, Some("2001:db8:4400::1/64")),
            ("2001:db8:4400::/56", 255, Some("2001:db8:4400:ff::1/64")),
            ("2001:db8:4400::/56", 256, None),
            ("2001:db8::/64", 0, Some("2001:db8::1/64")),
            ("2001:db8::/64", 1, None),
            ("2001:db8::/80", 0, None),
        ] {
            let from = PrefixFrom { interface: String::new(), subnet };
            let address = from.address(delegated.parse().unwrap()).map(|net| net.to_string());
            assert_eq!(address.as_deref(), expected, "{delegated} {subnet}");
        }
    }

    #[test]
    fn what_cannot_be_asked_for_is_explained() {
        let lan = |more: &str| {
            format!("[[interface]]\nname = \"lan\"\ndevice = \"tap:b\"\naddress = \"2001:db8::1/64\"\n{more}")
        };
        for (text, says) in [
            ("dhcp6 = 1", "`dhcp6` cannot be"),
            ("dhcp6 = { adress = true }", "did you mean `address`"),
            ("dhcp6 = { prefix_len = 65 }", "use 1 to 64"),
            ("dhcp6 = { when = \"allways\" }", "did you mean `always`"),
            ("dhcp6 = { lease = \"/tmp/\" }", "cannot be the name of a file"),
            ("prefix_subnet = 1", "is of no prefix"),
            (&lan("prefix_from = \"wan\""), "`wan` has no DHCPv6 client"),
            (&format!("dhcp6 = true\n{}", lan("prefix_from = \"wam\"")), "did you mean `wan`"),
            (&lan("ra = { dns_from = \"wan\" }"), "`wan` has no DHCPv6 client"),
            (&lan("dhcp6_server = { dns_from = \"wan\" }"), "`wan` has no DHCPv6 client"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
