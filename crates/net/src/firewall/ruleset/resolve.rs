//! Names that only a running stack knows: interfaces.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipfw::rule::{If, Net};

use super::program::Set;
use crate::link::tables::{Ifnet, Tables};

/// The interfaces that are meant, a bit for each index; `None` if only a table knows.
pub(super) fn interfaces(which: &If, tables: &Tables) -> Option<Set> {
    let is_meant = |ifnet: &Ifnet| match which {
        If::Any => true,
        If::Name(name) => ifnet.name == *name,
        If::Glob(pattern) => glob(pattern.as_bytes(), ifnet.name.as_bytes()),
        If::Addr(addr) => ifnet.addrs.iter().any(|own| own.addr == *addr),
        If::Table(_) => false,
    };
    if matches!(which, If::Table(_)) {
        return None;
    }
    let mut set = Set::default();
    for ifnet in tables.ifnets().filter(|ifnet| is_meant(ifnet)) {
        if let Some(word) = set.get_mut(usize::from(ifnet.index / 64)) {
            *word |= 1 << (ifnet.index % 64);
        }
    }
    Some(set)
}

/// The addresses of the interface of this name, or the networks of its link.
pub(super) fn addresses(name: &str, net: bool, tables: &Tables) -> Vec<Net> {
    let addrs = tables.ifnet_named(name).into_iter().flat_map(|ifnet| &ifnet.addrs);
    let whole = |addr: IpAddr| if addr.is_ipv4() { 32 } else { 128 };
    addrs.map(|own| prefix(own.addr, if net { own.prefix_len } else { whole(own.addr) })).collect()
}

fn prefix(addr: IpAddr, len: u8) -> Net {
    let len = u32::from(len);
    match addr {
        IpAddr::V4(addr) => {
            let mask = Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - len).unwrap_or(0));
            Net::V4 { addr: addr & mask, mask }
        }
        IpAddr::V6(addr) => {
            let mask = Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - len).unwrap_or(0));
            Net::V6 { addr: addr & mask, mask }
        }
    }
}

/// Whether a name matches a pattern of the shell: `*`, `?`, `[…]`, `[!…]` and `\` before what is meant as it is.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'*', rest @ ..] => (0..=name.len()).any(|skip| glob(rest, name.get(skip..).unwrap_or_default())),
        _ => name
            .split_first()
            .is_some_and(|(first, name)| one(pattern, *first).is_some_and(|rest| glob(rest, name))),
    }
}

/// Returns the rest of a pattern whose first part matches this byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'\\', first, rest @ ..] => (*first == byte).then_some(rest),
        [b'[', set @ ..] => {
            // A bracket that stands first in the set is one of its members.
            let close = 1 + set.get(1..)?.iter().position(|byte| *byte == b']')?;
            let (set, rest) = (set.get(..close)?, set.get(close + 1..)?);
            let (set, not) = match set {
                [b'!' | b'^', set @ ..] => (set, true),
                _ => (set, false),
            };
            (is_member(set, byte) != not).then_some(rest)
        }
        [first, rest @ ..] => (*first == byte).then_some(rest),
        [] => None,
    }
}

fn is_member(set: &[u8], byte: u8) -> bool {
    match set {
        [] => false,
        [from, b'-', to, rest @ ..] => (*from..=*to).contains(&byte) || is_member(rest, byte),
        [first, rest @ ..] => *first == byte || is_member(rest, byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_the_shell() {
        let yes = [
            ("em*", "em0"),
            ("*", ""),
            ("?m0", "em0"),
            ("e[m-n]0", "en0"),
            ("e[!x]0", "em0"),
            ("a*b*c", "aXbbc"),
        ];
        let no =
            [("em*", "igb0"), ("?", ""), ("em", "em0"), ("e[m-n]0", "ex0"), ("e[!m]0", "em0"), ("[em", "e")];
        for (pattern, name) in yes {
            assert!(glob(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in no {
            assert!(!glob(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }
}
