//! `nptv6 NAME …` and `nat64lsn NAME …`.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::value::{interface, ip4, ip6, name, number_of, prefix_len};
use super::{address, refuse};
use crate::command::{Command, Nat64Config, Nptv6Config};
use crate::error::Fault;
use crate::limit::NAME_MAX;
use crate::refused::Place;
use crate::words::{Tokens, Word};

const EXPECTED: &str = "create, destroy or show";

enum Nat6Command {
    Create(String),
    Destroy(String),
    Show(Option<String>),
}

fn what(words: &mut Tokens<'_>) -> Result<Nat6Command, Fault> {
    let word = words.take("an instance's name or `all`, and what of it")?;
    let instance = match word.text {
        "all" => None,
        _ => Some(name(word, "an instance", NAME_MAX)?),
    };
    let what = words.take(EXPECTED)?;
    match (what.full(&["create", "destroy", "show", "list"]), instance) {
        ("create", Some(name)) => Ok(Nat6Command::Create(name)),
        ("destroy", Some(name)) => Ok(Nat6Command::Destroy(name)),
        ("show" | "list", instance) => Ok(Nat6Command::Show(instance)),
        ("create" | "destroy", None) => {
            let fault = word.fault(format!("`{}` is for one instance", what.text));
            Err(fault.help("name the instance"))
        }
        _ => Err(what
            .unknown("command for instances", ["create", "destroy", "show", "list"])
            .expected(EXPECTED)),
    }
}

pub(crate) fn nptv6(words: &mut Tokens<'_>) -> Result<Command, Fault> {
    Ok(match what(words)? {
        Nat6Command::Create(name) => Command::Nptv6Create { name, config: nptv6_config(words)? },
        Nat6Command::Destroy(name) => Command::Nptv6Destroy(name),
        Nat6Command::Show(name) => Command::Nptv6Show(name),
    })
}

pub(crate) fn nat64(words: &mut Tokens<'_>) -> Result<Command, Fault> {
    Ok(match what(words)? {
        Nat6Command::Create(name) => Command::Nat64Create { name, config: nat64_config(words)? },
        Nat6Command::Destroy(name) => Command::Nat64Destroy(name),
        Nat6Command::Show(name) => Command::Nat64Show(name),
    })
}

/// `int_prefix P (ext_prefix P | ext_if IF) prefixlen N`; a length may stand behind a prefix instead.
fn nptv6_config(words: &mut Tokens<'_>) -> Result<Nptv6Config, Fault> {
    const EXPECTED: &str = "int_prefix PREFIX, ext_prefix PREFIX or ext_if IF, and prefixlen N";
    let (mut internal, mut external, mut external_if) = (None, None, None);
    let mut lens: Vec<u8> = Vec::new();
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "int_prefix" => internal = Some(prefix6(words.take("an IPv6 prefix")?, &mut lens)?),
            "ext_prefix" => external = Some(prefix6(words.take("an IPv6 prefix")?, &mut lens)?),
            "ext_if" => external_if = Some(interface(words.take("an interface")?)?),
            "prefixlen" => lens.push(number_of(words, "the length of both prefixes", 8..=128)?),
            _ => {
                let known = ["int_prefix", "ext_prefix", "ext_if", "prefixlen"];
                return Err(word.unknown("parameter of nptv6", known).expected(EXPECTED));
            }
        }
    }
    let (Some(internal), true) = (internal, external.is_some() != external_if.is_some()) else {
        return Err(words.too_short(EXPECTED));
    };
    let Some(&prefix_len) = lens.first() else { return Err(words.too_short("prefixlen N")) };
    if lens.iter().any(|&len| len != prefix_len) {
        return Err(words
            .too_short("prefixes of one length")
            .help("RFC 6296 exchanges prefixes of the same length"));
    }
    let mask = address::prefix6(prefix_len);
    Ok(Nptv6Config {
        internal: internal & mask,
        external: external.map(|addr: Ipv6Addr| addr & mask),
        external_if,
        prefix_len,
    })
}

fn prefix6(word: Word<'_>, lens: &mut Vec<u8>) -> Result<Ipv6Addr, Fault> {
    let Some((addr, len)) = word.split_once('/') else { return ip6(word) };
    lens.push(len.number("the length of a prefix", 8..=128)?);
    ip6(addr)
}

/// RFC 6052's well-known prefix.
const WELL_KNOWN: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

fn nat64_config(words: &mut Tokens<'_>) -> Result<Nat64Config, Fault> {
    const EXPECTED: &str = "prefix4 ADDRESS/LENGTH, and perhaps prefix6 PREFIX/LENGTH or allow_private";
    let (mut prefix4, mut prefix6, mut allow_private) = (None, (WELL_KNOWN, 96), false);
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "prefix4" => {
                let (addr, len) = with_len(words.take("an IPv4 prefix")?)?;
                let len = prefix_len(len, 32)?;
                prefix4 = Some((ip4(addr)? & address::prefix4(len), len));
            }
            "prefix6" => prefix6 = rfc6052(words.take("an IPv6 prefix")?)?,
            "allow_private" => allow_private = true,
            _ => {
                refuse(Place::Parameters, word)?;
                return Err(word
                    .unknown("parameter of nat64lsn", ["prefix4", "prefix6", "allow_private"])
                    .expected(EXPECTED));
            }
        }
    }
    let prefix4: (Ipv4Addr, u8) = prefix4.ok_or_else(|| words.too_short(EXPECTED))?;
    Ok(Nat64Config { prefix4, prefix6, allow_private })
}

/// RFC 6052 §2.2 knows six lengths.
fn rfc6052(word: Word<'_>) -> Result<(Ipv6Addr, u8), Fault> {
    let (addr, len) = with_len(word)?;
    let bits = prefix_len(len, 128)?;
    if ![32, 40, 48, 56, 64, 96].contains(&bits) {
        let fault = len.fault("addresses of IPv4 cannot be put behind a prefix of this length");
        return Err(fault.expected("32, 40, 48, 56, 64 or 96 (RFC 6052)"));
    }
    Ok((ip6(addr)? & address::prefix6(bits), bits))
}

fn with_len(word: Word<'_>) -> Result<(Word<'_>, Word<'_>), Fault> {
    word.split_once('/').ok_or_else(|| word.fault("the prefix has no length").expected("ADDRESS/LENGTH"))
}
