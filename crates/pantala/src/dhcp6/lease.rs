//! The lease of a DHCPv6 client, and the file in which it outlives the process.
//!
//! Times are milliseconds since 1970.

use core::fmt::Write as _;
use core::net::Ipv6Addr;

use ipnet::Ipv6Net;
use wire::dhcp6;

/// Addresses and prefixes of a lease; further ones of a server are left out.
pub(crate) const ENTRIES_MAX: usize = 8;
/// Name servers and time servers that are kept.
pub(crate) const SERVERS_MAX: usize = 8;
/// Bytes of the search list that are kept.
pub(crate) const SEARCH_MAX: usize = 240;

/// An address, with 128 bits, or a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) net: Ipv6Net,
    /// When it is not used any more for what is new.
    pub(crate) preferred: u64,
    /// When it is not used any more at all.
    pub(crate) valid: u64,
}

impl Entry {
    pub(crate) const fn is_address(&self) -> bool {
        self.net.prefix_len() == 128
    }
}

/// The bindings of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// DUID of the server.
    pub(crate) server: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    /// When it is to be renewed, and rebound.
    pub(crate) renew: u64,
    pub(crate) rebind: u64,
}

impl Lease {
    /// The delegated prefixes.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.is_address())
    }

    /// The addresses.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_address())
    }

    /// When the last of it ends.
    pub(crate) fn expires(&self) -> u64 {
        self.entries.iter().map(|entry| entry.valid).max().unwrap_or_default()
    }
}

/// Parameters that come with a lease, or without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params {
    pub(crate) dns: Vec<Ipv6Addr>,
    /// Domain search list as DNS writes names.
    pub(crate) search: Vec<u8>,
    pub(crate) sntp: Vec<Ipv6Addr>,
}

/// Writes a lease and its parameters; the last line says that they are whole.
pub(crate) fn write(lease: Option<&Lease>, params: &Params) -> String {
    let mut text = String::from("pantala-dhcp6 1\n");
    // Writing to a string does not fail.
    if let Some(Lease { server, entries, renew, rebind }) = lease {
        let _ = writeln!(text, "server {} {renew} {rebind}", hex(server));
        for Entry { net, preferred, valid } in entries {
            let _ = writeln!(text, "lease {net} {preferred} {valid}");
        }
    }
    for (key, addrs) in [("dns", &params.dns), ("sntp", &params.sntp)] {
        addrs.iter().for_each(|addr| _ = writeln!(text, "{key} {addr}"));
    }
    if !params.search.is_empty() {
        let _ = writeln!(text, "search {}", hex(&params.search));
    }
    text + "end\n"
}

/// Reads them. What a crash has left of a file is nothing.
pub(crate) fn read(text: &str) -> Option<(Option<Lease>, Params)> {
    let body = text.strip_prefix("pantala-dhcp6 1\n")?.strip_suffix("end\n")?;
    let (mut lease, mut params) = (None, Params::default());
    for line in body.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["server", duid, renew, rebind] => {
                let (renew, rebind) = (renew.parse().ok()?, rebind.parse().ok()?);
                lease = Some(Lease { server: bytes(duid)?, entries: Vec::new(), renew, rebind });
            }
            ["lease", net, preferred, valid] => {
                let entry = Entry {
                    net: net.parse().ok()?,
                    preferred: preferred.parse().ok()?,
                    valid: valid.parse().ok()?,
                };
                lease.as_mut()?.entries.push(entry);
            }
            ["dns", addr] => params.dns.push(addr.parse().ok()?),
            ["sntp", addr] => params.sntp.push(addr.parse().ok()?),
            ["search", names] => params.search = bytes(names).filter(|names| dhcp6::are_names(names))?,
            _ => return None,
        }
    }
    lease.iter_mut().for_each(|lease| lease.entries.truncate(ENTRIES_MAX));
    Some((lease, params))
}

/// A DUID of a link address and a time (§11.2): `seconds` since 1970.
pub(crate) fn new_duid(mac: [u8; 6], seconds: u64) -> Vec<u8> {
    /// Seconds from 1970 to 2000.
    const EPOCH: u64 = 946_684_800;
    let [.., a, b, c, d] = seconds.saturating_sub(EPOCH).to_be_bytes();
    [&[0, 1, 0, 1, a, b, c, d][..], &mac].concat()
}

/// Hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [_, _] => u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok(),
        _ => None,
    });
    pairs.collect()
}

/// Domain names in text.
pub(crate) fn names(mut search: &[u8]) -> Vec<String> {
    let (mut names, mut name) = (Vec::new(), String::new());
    while let Some((len, rest)) = search.split_first() {
        let Some((label, rest)) = rest.split_at_checked(usize::from(*len)) else { break };
        if label.is_empty() {
            names.push(core::mem::take(&mut name));
        } else {
            let plain =
                label.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' });
            name.extend((!name.is_empty()).then_some('.').into_iter().chain(plain));
        }
        search = rest;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_read_as_it_was_written_and_a_part_of_it_is_none() {
        let entry = |net: &str| Entry { net: net.parse().unwrap(), preferred: 1, valid: 2 };
        let entries = vec![entry("2001:db8::7/128"), entry("2001:db8:4400::/56")];
        let lease = Lease { server: vec![0, 1, 0xff], entries, renew: 3, rebind: 4 };
        let dns = vec!["2001:db8::53".parse().unwrap()];
        let params = Params { sntp: dns.clone(), dns, search: b"\x02ab\x07example\0".to_vec() };
        for lease in [None, Some(lease)] {
            let text = write(lease.as_ref(), &params);
            assert_eq!(read(&text), Some((lease, params.clone())));
            (0..text.len()).for_each(|cut| assert_eq!(read(&text[..cut]), None, "{cut}"));
        }
        assert_eq!(names(&params.search), ["ab.example"]);
    }

    #[test]
    fn hexadecimal_digits_are_read_in_pairs() {
        assert_eq!(
            (bytes("00ff"), bytes("0"), bytes("zz"), bytes("é0")),
            (Some(vec![0, 255]), None, None, None)
        );
    }

    #[test]
    fn a_duid_is_of_the_link_address_and_the_time() {
        assert_eq!(new_duid([2, 0, 0, 0, 0, 7], 946_684_801), [0, 1, 0, 1, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7]);
    }
}
