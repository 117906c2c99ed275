//! Names that only a running stack knows: interfaces.

use core::net::IpAddr;

use ipfw::rule::If;

use super::program::Set;
use crate::tables::{Ifnet, Tables};

/// The interfaces that are meant, a bit for each index. Those of a table are not known here.
pub(super) fn interfaces(which: &If, tables: &Tables) -> Set {
    let is_meant = |ifnet: &Ifnet| match which {
        If::Any => true,
        If::Name(name) => ifnet.name == *name,
        If::Glob(pattern) => glob(pattern.as_bytes(), ifnet.name.as_bytes()),
        If::Addr(addr) => ifnet.addrs.iter().any(|own| own.addr == *addr),
        If::Table(_) => false,
    };
    let mut set = Set::default();
    for ifnet in tables.ifnets().filter(|ifnet| is_meant(ifnet)) {
        if let Some(word) = set.get_mut(usize::from(ifnet.index / 64)) {
            *word |= 1 << (ifnet.index % 64);
        }
    }
    set
}

/// The addresses of the interface of this name, with the length of the prefix that is meant: of its link's networks, or
/// of the addresses alone.
pub(super) fn addresses(name: &str, net: bool, tables: &Tables) -> Vec<(IpAddr, u8)> {
    let addrs = tables.ifnet_named(name).into_iter().flat_map(|ifnet| &ifnet.addrs);
    let whole = |addr: IpAddr| if addr.is_ipv4() { 32 } else { 128 };
    addrs.map(|own| (own.addr, if net { own.prefix_len } else { whole(own.addr) })).collect()
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

/// What is left of a pattern whose first part matches this byte.
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
