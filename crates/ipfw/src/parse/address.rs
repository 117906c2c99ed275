//! Addresses: `any`, `me`, networks, sets of hosts, tables, interfaces.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::value::{interface, no_address, prefix_len, table_ref};
use crate::error::Fault;
use crate::limit::NETS_MAX;
use crate::rule::{Addr, Net};
use crate::words::Word;

pub(crate) const EXPECTED: &str = "any, me, me6, an address, a network, table(NAME) or [INTERFACE]";

pub(crate) fn addr(word: Word<'_>) -> Result<Addr, Fault> {
    match word.text {
        "any" => return Ok(Addr::Any),
        "me" => return Ok(Addr::Me),
        "me6" => return Ok(Addr::Me6),
        text if text.starts_with("table(") => return table_ref(word, false).map(Addr::Table),
        text if text.starts_with('[') => return of_interface(word),
        text if text.contains('{') => return hosts(word),
        _ => {}
    }
    if let Some(extra) = word.split(',').nth(NETS_MAX) {
        let fault = extra.fault(format!("a list has at most {NETS_MAX} networks"));
        return Err(fault.help("put them into a table, which is as fast with a million"));
    }
    word.split(',').map(net).collect::<Result<_, _>>().map(Addr::Nets)
}

/// Tokens that stand for addresses, but not in lists.
const WORDS: [&str; 3] = ["any", "me", "me6"];

pub(crate) fn net(word: Word<'_>) -> Result<Net, Fault> {
    if let Some((addr, mask)) = word.split_once('/').filter(|(addr, _)| !WORDS.contains(&addr.text)) {
        return match parse(addr)? {
            IpAddr::V4(addr) => Ok(v4(addr, prefix4(prefix_len(mask, 32)?))),
            // FreeBSD takes a mask of any form behind the slash for IPv6
            IpAddr::V6(addr) if mask.text.contains(':') => Ok(v6(addr, super::value::ip6(mask)?)),
            IpAddr::V6(addr) => Ok(v6(addr, prefix6(prefix_len(mask, 128)?))),
        };
    }
    if let Some((addr, mask)) = word.split_once(':').filter(|(addr, _)| addr.text.contains('.')) {
        return Ok(v4(super::value::ip4(addr)?, super::value::ip4(mask)?));
    }
    Ok(match parse(word)? {
        IpAddr::V4(addr) => v4(addr, Ipv4Addr::BROADCAST),
        IpAddr::V6(addr) => v6(addr, prefix6(128)),
    })
}

fn parse(word: Word<'_>) -> Result<IpAddr, Fault> {
    word.text.parse().map_err(|_| match word.text {
        text if WORDS.contains(&text) => {
            word.fault(format!("`{text}` is no part of a list")).help(format!("write {{ {text} or … }}"))
        }
        "" => word.fault("an address is missing").expected(EXPECTED),
        text if text.starts_with("table(") => {
            word.fault("a table is no part of a list").help("write { table(NAME) or … }")
        }
        _ => no_address(word).expected(EXPECTED),
    })
}

fn v4(addr: Ipv4Addr, mask: Ipv4Addr) -> Net {
    Net::V4 { addr: addr & mask, mask }
}

fn v6(addr: Ipv6Addr, mask: Ipv6Addr) -> Net {
    Net::V6 { addr: addr & mask, mask }
}

pub(crate) fn prefix4(len: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0))
}

pub(crate) fn prefix6(len: u8) -> Ipv6Addr {
    Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0))
}

/// `[em0]`, `[em0:net]`.
fn of_interface(word: Word<'_>) -> Result<Addr, Fault> {
    let Some(inner) = word.strip_prefix("[").and_then(|rest| rest.strip_suffix("]")) else {
        return Err(word.fault("the bracket is not closed").expected("[INTERFACE] or [INTERFACE:net]"));
    };
    let (name, net) = match inner.strip_suffix(":net") {
        Some(name) => (name, true),
        None => (inner, false),
    };
    Ok(Addr::Interface { name: interface(name)?, net })
}

/// `192.0.2.0/24{1,5-9}`: the numbers are what an address ends in.
fn hosts(word: Word<'_>) -> Result<Addr, Fault> {
    const EXPECTED: &str = "ADDRESS/LENGTH{NUMBER,NUMBER-NUMBER,…}, with a length of 24 to 32";
    let form = || word.fault(format!("`{}` is no set of hosts", word.text)).expected(EXPECTED);
    let (net, list) = word.split_once('{').ok_or_else(form)?;
    let list = list.strip_suffix("}").ok_or_else(form)?;
    let (addr, len) = match net.split_once('/') {
        Some((addr, len)) => (addr, len.number("the length of a prefix", 24..=32)?),
        None => (net, 24),
    };
    let base = super::value::ip4(addr)? & prefix4(len);
    let first = base.octets()[3];
    let last = first | u8::MAX.checked_shr(u32::from(len - 24)).unwrap_or(0);
    let mut bits = [0; 4];
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number =
            |word: Word<'_>| word.number("the last number of an address in the network", first..=last);
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(part.fault("the range runs backward").help(format!("write {to}-{from}")));
        }
        for host in from..=to {
            let n = host - first;
            bits[usize::from(n / 64)] |= 1 << (n % 64);
        }
    }
    Ok(Addr::Hosts { base, len, bits })
}
