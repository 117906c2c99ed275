//! Matches and what they are made of.

use core::fmt::{self, Display, Formatter};
use core::net::IpAddr;

use super::{Named, Ranges, addr_option, hosts, numbers, prefix_len};
use crate::names::{self, Names};
use crate::parse::key_word;
use crate::rule::{Addr, Bits, Frag, Hook, If, MacMask, Match, Net, TableArg, TableRef, frag};

impl Display for Match {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("proto ip"),
            Self::Version(version) => write!(f, "ip{version}"),
            Self::Proto(proto) => write!(f, "proto {}", Named(names::PROTOCOLS, *proto)),
            Self::Src(addr) => write!(f, "{} {addr}", addr_option("src", addr)),
            Self::Dst(addr) => write!(f, "{} {addr}", addr_option("dst", addr)),
            Self::SrcPort(ports) => write!(f, "src-port {}", Ranges(ports)),
            Self::DstPort(ports) => write!(f, "dst-port {}", Ranges(ports)),
            Self::At(hook) => write!(f, "{hook}"),
            Self::Recv(interface) => write!(f, "recv {interface}"),
            Self::Xmit(interface) => write!(f, "xmit {interface}"),
            Self::Via(interface) => write!(f, "via {interface}"),
            Self::Established => f.write_str("established"),
            Self::Setup => f.write_str("setup"),
            Self::MacType(types) => mac_types(f, types),
            Self::Mac { dst, src } => write!(f, "MAC {dst} {src}"),
            Self::VerRevPath => f.write_str("verrevpath"),
            Self::VerSrcReach => f.write_str("versrcreach"),
            Self::AntiSpoof => f.write_str("antispoof"),
            Self::Tagged(tags) => write!(f, "tagged {}", Ranges(tags)),
            Self::Fib(fib) => write!(f, "fib {fib}"),
            Self::Lookup { key, table } => write!(f, "lookup {} {table}", key_word(*key)),
            Self::Flow(table) => write!(f, "flow {table}"),
            other => header(f, other),
        }
    }
}

/// Prints a match on a header field.
fn header(f: &mut Formatter<'_>, is: &Match) -> fmt::Result {
    match is {
        Match::Frag(frag) => write!(f, "{frag}"),
        Match::IpLen(list) => write!(f, "iplen {}", Ranges(list)),
        Match::IpTtl(list) => write!(f, "ipttl {}", Ranges(list)),
        Match::IpId(list) => write!(f, "ipid {}", Ranges(list)),
        Match::IpPrecedence(precedence) => write!(f, "ipprecedence {precedence}"),
        Match::IpTos(bits) => write!(f, "iptos {}", Flags(names::IP_TOS, *bits)),
        Match::Dscp(points) => {
            let points = (0..64).filter(|point| points >> point & 1 != 0);
            f.write_str("dscp ")?;
            points.enumerate().try_for_each(|(i, point)| {
                write!(f, "{}{}", if i > 0 { "," } else { "" }, Named(names::DSCP, point))
            })
        }
        Match::IpOptions(bits) => write!(f, "ipoptions {}", Flags(names::IP_OPTIONS, *bits)),
        Match::TcpFlags(bits) => write!(f, "tcpflags {}", Flags(names::TCP_FLAGS, *bits)),
        Match::TcpOptions(bits) => write!(f, "tcpoptions {}", Flags(names::TCP_OPTIONS, *bits)),
        Match::TcpSeq(number) => write!(f, "tcpseq {number}"),
        Match::TcpAck(number) => write!(f, "tcpack {number}"),
        Match::TcpWin(list) => write!(f, "tcpwin {}", Ranges(list)),
        Match::TcpMss(list) => write!(f, "tcpmss {}", Ranges(list)),
        Match::TcpDataLen(list) => write!(f, "tcpdatalen {}", Ranges(list)),
        Match::IcmpTypes(types) => {
            f.write_str("icmptypes ")?;
            numbers(f, &[*types])
        }
        Match::IcmpCodes(list) => write!(f, "icmpcodes {}", Ranges(list)),
        Match::Icmp6Types(types) => {
            f.write_str("icmp6types ")?;
            numbers(f, types)
        }
        Match::Ext6Header(headers) => {
            write!(f, "ext6hdr {}", Flags(names::EXT6_HEADERS, Bits { set: *headers, clear: 0 }))
        }
        Match::FlowLabel(labels) => {
            f.write_str("flow-id ")?;
            labels
                .iter()
                .enumerate()
                .try_for_each(|(i, label)| write!(f, "{}{label}", if i > 0 { "," } else { "" }))
        }
        // the caller has the others
        _ => Ok(()),
    }
}

fn mac_types(f: &mut Formatter<'_>, types: &[core::ops::RangeInclusive<u16>]) -> fmt::Result {
    f.write_str("mac-type ")?;
    for (i, range) in types.iter().enumerate() {
        write!(f, "{}{:#06x}", if i > 0 { "," } else { "" }, range.start())?;
        if range.end() != range.start() {
            write!(f, "-{:#06x}", range.end())?;
        }
    }
    Ok(())
}

/// Names of bits that are set, and of bits that are clear with `!` in front.
struct Flags(&'static Names<u8>, Bits<u8>);

impl Display for Flags {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(names, bits) = *self;
        let mut comma = "";
        for (not, mut left) in [("", bits.set), ("!", bits.clear)] {
            for &(name, bit) in names.iter().filter(|&&(_, bit)| bit != 0) {
                if left & bit == bit {
                    left &= !bit;
                    write!(f, "{comma}{not}{name}")?;
                    comma = ",";
                }
            }
        }
        Ok(())
    }
}

impl Display for Frag {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.bits {
            Bits { set: 0, clear: 0 } => f.write_str("frag"),
            Bits { set: frag::PART, clear: 0 } => f.write_str("ipfrag"),
            bits => write!(f, "frag {}", Flags(names::FRAG, bits)),
        }
    }
}

impl Display for Hook {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "in",
            Self::LocalIn => "local-in",
            Self::Forward => "forward",
            Self::LocalOut => "local-out",
            Self::Egress => "out",
            Self::Layer2 | Self::Frame => "layer2",
        })
    }
}

impl Display for Addr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Me => f.write_str("me"),
            Self::Me6 => f.write_str("me6"),
            Self::Nets(nets) => nets
                .iter()
                .enumerate()
                .try_for_each(|(i, net)| write!(f, "{}{net}", if i > 0 { "," } else { "" })),
            Self::Hosts { base, len, bits } => {
                write!(f, "{base}/{len}{{")?;
                hosts(f, bits, base.octets()[3].into())?;
                f.write_str("}")
            }
            Self::Table(table) => write!(f, "{table}"),
            Self::Interface { name, net: false } => write!(f, "[{name}]"),
            Self::Interface { name, net: true } => write!(f, "[{name}:net]"),
        }
    }
}

impl Display for Net {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (addr, mask): (IpAddr, IpAddr) = match *self {
            Self::V4 { addr, mask } => (addr.into(), mask.into()),
            Self::V6 { addr, mask } => (addr.into(), mask.into()),
        };
        match prefix_len(mask) {
            Some(len) if len == if mask.is_ipv4() { 32 } else { 128 } => write!(f, "{addr}"),
            Some(len) => write!(f, "{addr}/{len}"),
            None if mask.is_ipv4() => write!(f, "{addr}:{mask}"),
            None => write!(f, "{addr}/{mask}"),
        }
    }
}

impl Display for TableRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "table({},{value})", self.name),
            None => write!(f, "table({})", self.name),
        }
    }
}

impl Display for TableArg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Addr(addr) => write!(f, "{addr}"),
        }
    }
}

impl Display for If {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Name(text) | Self::Glob(text) => f.write_str(text),
            Self::Addr(addr) => write!(f, "{addr}"),
            Self::Table(table) => write!(f, "{table}"),
        }
    }
}

impl Display for MacMask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mask = self.mask.iter().fold(0_u64, |bits, &byte| bits << 8 | u64::from(byte));
        let len = (mask << 16).leading_ones();
        match (len, len == mask.count_ones()) {
            (0, true) => f.write_str("any"),
            (48, _) => mac(f, self.addr),
            (len, true) => {
                mac(f, self.addr)?;
                write!(f, "/{len}")
            }
            _ => {
                mac(f, self.addr)?;
                f.write_str("&")?;
                mac(f, self.mask)
            }
        }
    }
}

/// `02:00:5e:10:00:01`.
pub(crate) fn mac(f: &mut Formatter<'_>, bytes: [u8; 6]) -> fmt::Result {
    bytes.iter().enumerate().try_for_each(|(i, byte)| write!(f, "{}{byte:02x}", if i > 0 { ":" } else { "" }))
}
