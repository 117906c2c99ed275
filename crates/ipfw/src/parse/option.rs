//! Matches that stand behind the addresses, or alone.

use super::action::dscp;
use super::list::{bits, items, numbers, ports, ranges};
use super::value::{fib, interface, ip, number_of, table_ref};
use super::{address, body, refuse};
use crate::error::{Fault, nearest};
use crate::limit::NAME_MAX;
use crate::names;
use crate::refused::Place;
use crate::rule::{Addr, Bits, Frag, Hook, If, Key, MacMask, Match, Net, TableRef, frag};
use crate::words::{Tokens, Word};

pub(crate) const OPTIONS: &[&str] = &[
    "in",
    "out",
    "ingress",
    "local-in",
    "forward",
    "local-out",
    "egress",
    "layer2",
    "bridged",
    "recv",
    "xmit",
    "via",
    "frag",
    "fragment",
    "ipfrag",
    "ipversion",
    "ipver",
    "ip4",
    "ipv4",
    "ip6",
    "ipv6",
    "proto",
    "src-ip",
    "src-ip6",
    "src-ipv6",
    "dst-ip",
    "dst-ip6",
    "dst-ipv6",
    "src-port",
    "dst-port",
    "iplen",
    "ipttl",
    "ipid",
    "ipprecedence",
    "iptos",
    "dscp",
    "ipoptions",
    "ipopts",
    "tcpflags",
    "tcpflgs",
    "established",
    "estab",
    "setup",
    "tcpoptions",
    "tcpopts",
    "tcpseq",
    "tcpack",
    "tcpwin",
    "tcpmss",
    "tcpdatalen",
    "icmptypes",
    "icmptype",
    "icmpcodes",
    "icmp6types",
    "icmp6type",
    "ext6hdr",
    "flow-id",
    "MAC",
    "mac",
    "mac-type",
    "src-mac",
    "dst-mac",
    "verrevpath",
    "versrcreach",
    "antispoof",
    "tagged",
    "fib",
    "lookup",
    "flow",
    "keep-state",
    "limit",
    "record-state",
    "set-limit",
    "defer-action",
    "defer-immediate-action",
    "nooffload",
];

pub(crate) fn is_option(text: &str) -> bool {
    OPTIONS.contains(&text) || matches!(text, "or" | "|" | "}" | ")")
}

/// One match. `proto` is the protocol that the rule began with, whose ports may have names of their own.
pub(crate) fn option(words: &mut Tokens<'_>, proto: Option<u8>) -> Result<Match, Fault> {
    let word = words.take("a match, such as `in`, `recv IF`, `setup` or `dst-port 80`")?;
    if let Some(is) = plain(word.text) {
        return Ok(is);
    }
    if matches!(word.text, "src-port" | "dst-port") && words.accept("any") {
        return Ok(Match::Any);
    }
    match word.text {
        "recv" => Ok(Match::Recv(interfaces(words)?)),
        "xmit" => Ok(Match::Xmit(interfaces(words)?)),
        "via" => Ok(Match::Via(interfaces(words)?)),
        "proto" => body::proto(words.take("a protocol")?),
        "src-ip" | "src-ip6" | "src-ipv6" => addr(words, word).map(Match::Src),
        "dst-ip" | "dst-ip6" | "dst-ipv6" => addr(words, word).map(Match::Dst),
        "src-port" => Ok(Match::SrcPort(ports(words.take("ports")?, proto)?)),
        "dst-port" => Ok(Match::DstPort(ports(words.take("ports")?, proto)?)),
        "src-mac" => Ok(Match::Lookup { key: Key::SrcMac, table: table(words, false)? }),
        "dst-mac" => Ok(Match::Lookup { key: Key::DstMac, table: table(words, false)? }),
        "flow" => Ok(Match::Flow(table(words, false)?)),
        "lookup" => Ok(Match::Lookup { key: key(words)?, table: table(words, true)? }),
        "tagged" => {
            if let Some(word) = words.peek().filter(|word| word.is("tablearg")) {
                let fault = word.fault("`tablearg` can be a tag that is set, and none that is asked for");
                return Err(fault.expected("tags, 1 to 65534").help("write the numbers"));
            }
            Ok(Match::Tagged(ranges(words.take("tags")?, |part| part.number("a tag", 1..=u16::MAX - 1))?))
        }
        "fib" => Ok(Match::Fib(fib(words.take("the number of a routing table")?)?)),
        "MAC" | "mac" => {
            let expected = "`any` or a link address, of the receiver and then of the sender";
            Ok(Match::Mac { dst: mac_mask(words.take(expected)?)?, src: mac_mask(words.take(expected)?)? })
        }
        "mac-type" => Ok(Match::MacType(ranges(words.take("types of frames")?, ether_type)?)),
        _ => match (header(words, word)?, refuse(Place::Option, word)) {
            (Some(is), _) => Ok(is),
            (None, Err(fault)) => Err(fault),
            (None, Ok(())) => Err(unknown(word)),
        },
    }
}

/// Parses a match of one word.
fn plain(text: &str) -> Option<Match> {
    Some(match text {
        "in" | "ingress" => Match::At(Hook::Ingress),
        "local-in" => Match::At(Hook::LocalIn),
        "forward" => Match::At(Hook::Forward),
        "local-out" => Match::At(Hook::LocalOut),
        "out" | "egress" => Match::At(Hook::Egress),
        "layer2" | "bridged" => Match::At(Hook::Layer2),
        "ipfrag" => Match::Frag(Frag { bits: Bits { set: frag::PART, clear: 0 } }),
        "ip4" | "ipv4" => Match::Version(4),
        "ip6" | "ipv6" => Match::Version(6),
        "established" | "estab" => Match::Established,
        "setup" => Match::Setup,
        "verrevpath" => Match::VerRevPath,
        "versrcreach" => Match::VerSrcReach,
        "antispoof" => Match::AntiSpoof,
        _ => return None,
    })
}

/// Parses a match on a header field; `None` for other words.
fn header(words: &mut Tokens<'_>, word: Word<'_>) -> Result<Option<Match>, Fault> {
    Ok(Some(match word.text {
        "frag" | "fragment" => Match::Frag(Frag { bits: fragment(words)? }),
        "ipversion" | "ipver" => Match::Version(version(words)?),
        "iplen" => Match::IpLen(numbers(words, "lengths, bytes", u16::MAX)?),
        "ipttl" => Match::IpTtl(numbers(words, "times to live", 255)?),
        "ipid" => Match::IpId(numbers(words, "identifications", u16::MAX)?),
        "ipprecedence" => Match::IpPrecedence(number_of(words, "a precedence", 0..=7)?),
        "iptos" => Match::IpTos(bits(words, "type of service", names::IP_TOS)?),
        "dscp" => {
            let list = items(words.take("code points, such as ef,cs1")?)?;
            Match::Dscp(list.map(|part| Ok(1 << dscp(part)?)).try_fold(0, or)?)
        }
        "ipoptions" | "ipopts" => Match::IpOptions(bits(words, "option of IP", names::IP_OPTIONS)?),
        "tcpflags" | "tcpflgs" => Match::TcpFlags(bits(words, "flag of TCP", names::TCP_FLAGS)?),
        "tcpoptions" | "tcpopts" => Match::TcpOptions(bits(words, "option of TCP", names::TCP_OPTIONS)?),
        "tcpseq" => Match::TcpSeq(number_of(words, "a sequence number", 0..=u32::MAX)?),
        "tcpack" => Match::TcpAck(number_of(words, "a sequence number", 0..=u32::MAX)?),
        "tcpwin" => Match::TcpWin(numbers(words, "windows", u16::MAX)?),
        "tcpmss" => Match::TcpMss(numbers(words, "maximum segment sizes, bytes", u16::MAX)?),
        "tcpdatalen" => Match::TcpDataLen(numbers(words, "lengths, bytes", u16::MAX)?),
        "icmptypes" | "icmptype" => {
            let list = items(words.take("types of ICMP, such as 0,8")?)?;
            Match::IcmpTypes(
                list.map(|part| Ok(1 << part.number("a type of ICMP", 0..=63)?)).try_fold(0, or)?,
            )
        }
        "icmpcodes" => Match::IcmpCodes(numbers(words, "codes of ICMP", 255)?),
        "icmp6types" | "icmp6type" => Match::Icmp6Types(icmp6_types(words)?),
        "ext6hdr" => {
            let bits = bits(words, "extension header", names::EXT6_HEADERS)?;
            match bits.clear {
                0 => Match::Ext6Header(bits.set),
                _ => {
                    return Err(word
                        .fault("`ext6hdr` asks for what is there")
                        .help("write `not ext6hdr NAME`"));
                }
            }
        }
        "flow-id" => {
            let list = items(words.take("flow labels")?)?;
            Match::FlowLabel(
                list.map(|part| part.number("a flow label", 0..=0xf_ffff)).collect::<Result<_, _>>()?,
            )
        }
        _ => return Ok(None),
    }))
}

fn or(bits: u64, bit: Result<u64, Fault>) -> Result<u64, Fault> {
    Ok(bits | bit?)
}

fn unknown(word: Word<'_>) -> Fault {
    let text = word.text;
    if matches!(text, "}" | ")") {
        return word.fault("no brace is open here");
    }
    if matches!(text, "or" | "|") {
        return word.fault("`or` stands inside braces only").help("write { a or b }");
    }
    if matches!(text, "keep-state" | "limit" | "record-state" | "set-limit" | "nooffload") {
        let fault = word.fault(format!("`{text}` is something that a rule does, and no match"));
        return fault.help("write it without braces and without `not`");
    }
    if matches!(text, "log" | "tag" | "untag" | "altq") {
        return word
            .fault(format!("`{text}` stands before the body"))
            .help("write it right behind the action");
    }
    let also = names::words(names::PROTOCOLS);
    if names::value(names::PROTOCOLS, text).is_some() || text == "from" || text == "to" {
        let fault = word.fault(format!("`{text}` is no match"));
        return fault.help("a body is `proto from SOURCE to DESTINATION` and matches, or only matches");
    }
    let fault = word.unknown("match", OPTIONS.iter().copied().chain(also));
    let fault = match nearest(text, names::SERVICES.iter().map(|&(name, ..)| name)) {
        Some(port) if fault.help.is_none() => fault
            .help(format!("did you mean port `{port}`? It stands right behind an address, or `dst-port`")),
        _ => fault,
    };
    fault.expected("a match, `// comment`, or the end of the line")
}

fn version(words: &mut Tokens<'_>) -> Result<u8, Fault> {
    let word = words.take("4 or 6")?;
    match word.text {
        "4" => Ok(4),
        "6" => Ok(6),
        _ => Err(word.fault(format!("there is no version {} of IP here", word.text)).expected("4 or 6")),
    }
}

/// The words behind `frag`, which may be none.
fn fragment(words: &mut Tokens<'_>) -> Result<Bits<u8>, Fault> {
    let is_bit = |text: &str| names::value(names::FRAG, text.trim_start_matches('!')).is_some();
    let has_bits = words.peek().is_some_and(|word| word.text.split(',').any(is_bit));
    if has_bits { bits(words, "fragment flag", names::FRAG) } else { Ok(Bits::default()) }
}

fn icmp6_types(words: &mut Tokens<'_>) -> Result<[u64; 4], Fault> {
    let mut types = [0; 4];
    for part in items(words.take("types of ICMPv6, such as 128,129")?)? {
        let n: u8 = part.number("a type of ICMPv6", 0..=u8::MAX)?;
        types[usize::from(n / 64)] |= 1 << (n % 64);
    }
    Ok(types)
}

fn interfaces(words: &mut Tokens<'_>) -> Result<If, Fault> {
    let word = words.take("an interface, a pattern such as em*, an address, table(NAME) or any")?;
    Ok(match word.text {
        "any" => If::Any,
        text if text.starts_with("table(") => If::Table(table_ref(word, false)?),
        text if text.contains(['*', '?', '[']) => If::Glob(pattern(word)?),
        _ => match ip(word) {
            Ok(addr) => If::Addr(addr),
            Err(_) => If::Name(interface(word).map_err(|fault| match word.split_once(',') {
                Some((one, other)) => {
                    fault.help(format!("write {{ recv {} or recv {} }}", one.text, other.text))
                }
                None => fault,
            })?),
        },
    })
}

fn pattern(word: Word<'_>) -> Result<String, Fault> {
    let odd = |c: char| !c.is_ascii_graphic() || ",(){}\"'`#".contains(c);
    if word.text.len() > NAME_MAX {
        return Err(word.fault(format!("a pattern has at most {NAME_MAX} bytes")));
    }
    if word.text.chars().any(odd) {
        return Err(word.fault("this is no pattern").expected("letters and digits with *, ? and [a-z]"));
    }
    if word.text.matches('[').count() != word.text.matches(']').count() {
        return Err(word.fault("a bracket of the pattern is not closed").expected("[a-z] or [0-9]"));
    }
    Ok(word.text.to_owned())
}

fn table(words: &mut Tokens<'_>, may_be_bare: bool) -> Result<TableRef, Fault> {
    table_ref(words.take("table(NAME) or table(NAME,VALUE)")?, may_be_bare)
}

/// Behind `src-ip6` and `dst-ip6` only addresses of IPv6 make sense.
fn addr(words: &mut Tokens<'_>, option: Word<'_>) -> Result<Addr, Fault> {
    let word = words.take(address::EXPECTED)?;
    let addr = address::addr(word)?;
    let is_v4 = matches!(&addr, Addr::Hosts { .. })
        || matches!(&addr, Addr::Nets(nets) if nets.iter().any(|net| matches!(net, Net::V4 { .. })));
    if is_v4 && option.text.ends_with('6') {
        let help = format!("write `{}`", &option.text[..6]);
        return Err(word.fault(format!("`{}` is an address of IPv4", word.text)).help(help));
    }
    Ok(addr)
}

const KEYS: &[(&str, Key)] = &[
    ("dst-ip", Key::DstIp),
    ("src-ip", Key::SrcIp),
    ("dst-port", Key::DstPort),
    ("src-port", Key::SrcPort),
    ("dscp", Key::Dscp),
    ("dst-mac", Key::DstMac),
    ("src-mac", Key::SrcMac),
    ("recv", Key::RecvIf),
];

fn key(words: &mut Tokens<'_>) -> Result<Key, Fault> {
    const EXPECTED: &str = "dst-ip, src-ip, dst-port, src-port, dscp, dst-mac, src-mac or recv";
    let word = words.take(EXPECTED)?;
    refuse(Place::Key, word)?;
    names::value(KEYS, word.text).ok_or_else(|| word.unknown("key", names::words(KEYS)).expected(EXPECTED))
}

/// The word for a key.
pub(crate) fn key_word(key: Key) -> &'static str {
    names::word(KEYS, key).unwrap_or_default()
}

fn ether_type(word: Word<'_>) -> Result<u16, Fault> {
    if let Some(value) = names::value(names::ETHER_TYPES, word.text) {
        return Ok(value);
    }
    // hexadecimal, with 0x in front or without, as in FreeBSD
    let digits = word.text.trim_start_matches("0x");
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex).ok_or_else(|| {
        let fault = word.unknown("type of frame", names::words(names::ETHER_TYPES));
        fault.expected("a hexadecimal number such as 0x0800, or a name such as ipv6")
    })
}

/// `any`, `02:00:00:00:00:01`, with `/24` behind it or `&ff:ff:ff:00:00:00`.
fn mac_mask(word: Word<'_>) -> Result<MacMask, Fault> {
    if word.is("any") {
        return Ok(MacMask::default());
    }
    let (addr, mask) = if let Some((addr, len)) = word.split_once('/') {
        (addr, mac_prefix(len.number("the length of a prefix", 0..=48)?))
    } else if let Some((addr, mask)) = word.split_once('&') {
        (addr, mac(mask)?)
    } else {
        (word, [0xff; 6])
    };
    let addr = mac(addr)?;
    Ok(MacMask { addr: core::array::from_fn(|i| addr[i] & mask[i]), mask })
}

fn mac_prefix(len: u8) -> [u8; 6] {
    let bits = u64::MAX.checked_shl(64 - u32::from(len)).unwrap_or(0).to_be_bytes();
    core::array::from_fn(|i| bits[i])
}

/// A link address.
pub(crate) fn mac(word: Word<'_>) -> Result<[u8; 6], Fault> {
    parse_mac(word.text).ok_or_else(|| {
        let fault = word.fault(format!("`{}` is no link address", word.text));
        fault.expected("six bytes such as 02:00:5e:10:00:01, or any")
    })
}

pub(crate) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next()?;
        let is_hex = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| is_hex)?;
    }
    parts.next().is_none().then_some(bytes)
}
