//! Packets.

use core::fmt::{self, Display, Formatter};

use super::List;
use crate::packet::{
    Cookie, Direction, Ecn, EcnCounter, Flags, Icmp, IcmpCode, IcmpKind, Ip, Md5, Packet, Payload, Quote,
    SackBlock, Seq, SeqStart, Tcp, TcpOption, TcpOptions, UTO_MINUTES,
};

impl Display for Packet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.direction == Direction::Inbound { "<" } else { ">" })?;
        self.ip.fmt(f)?;
        if let Some(ports) = self.ports {
            write!(f, " {} > {}", ports.src, ports.dst)?;
        }
        match &self.payload {
            Payload::Tcp(tcp) => write!(f, " {tcp}"),
            Payload::Udp(len) => write!(f, " udp ({})", len.value),
            Payload::Icmp(icmp) => write!(f, " icmp {icmp}"),
        }
    }
}

/// With a blank in front, or nothing.
impl Display for Ip {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut fields = Vec::new();
        let ecn = self.ecn.map(|ecn| ecn.value);
        match (self.dscp.map(|dscp| dscp.value), ecn, ecn.and_then(Ecn::bits)) {
            (Some(dscp), _, Some(ecn)) => fields.push(format!("tos {:#04x}", dscp << 2 | ecn)),
            (Some(dscp), ecn, None) => {
                fields.push(format!("dscp {dscp:#04x}"));
                fields.extend(ecn.map(|ecn| format!("ecn {ecn}")));
            }
            (None, Some(ecn), _) => fields.push(ecn.to_string()),
            (None, None, _) => {}
        }
        fields.extend(self.ttl.map(|ttl| format!("ttl {}", ttl.value)));
        fields.extend(self.flow_label.map(|label| format!("flowlabel {:#07x}", label.value)));
        match fields.as_slice() {
            [] => Ok(()),
            [ecn] if self.ecn.is_some() && self.dscp.is_none() => write!(f, " [{ecn}]"),
            fields => write!(f, " ({})", List(fields, ", ")),
        }
    }
}

impl Display for Ecn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, ecn)| ecn == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl Display for Tcp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.flags.value, self.seq.value)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {}", ack.value)?;
        }
        if let Some(window) = self.window {
            write!(f, " win {}", window.value)?;
        }
        if let Some(urgent) = self.urgent {
            write!(f, " urg {}", urgent.value)?;
        }
        match &self.options.value {
            TcpOptions::Any => f.write_str(" <...>"),
            TcpOptions::List(list) if list.is_empty() => Ok(()),
            TcpOptions::List(list) => {
                let list: Vec<&TcpOption> = list.iter().map(|option| &option.value).collect();
                write!(f, " <{}>", List(&list, ","))
            }
        }
    }
}

impl Display for Flags {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("-");
        }
        let set = Self::LETTERS.iter().filter(|(_, flag)| self.contains(*flag));
        f.write_str(&set.map(|(letter, _)| letter).collect::<String>())
    }
}

impl Display for Seq {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let len = self.len;
        match self.start {
            SeqStart::Any => write!(f, "...({len})"),
            SeqStart::Relative(start) => write!(f, "{start}:{}({len})", start.wrapping_add(len.into())),
            SeqStart::Absolute(start) => write!(f, "{start}:{}({len})!", start.wrapping_add(len.into())),
        }
    }
}

impl Display for TcpOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nop => f.write_str("nop"),
            Self::Eol => f.write_str("eol"),
            Self::Mss(bytes) => write!(f, "mss {bytes}"),
            Self::WindowScale(Some(shift)) => write!(f, "wscale {shift}"),
            Self::WindowScale(None) => f.write_str("wscale *"),
            Self::SackPermitted => f.write_str("sackOK"),
            Self::Sack(blocks) => write!(f, "sack {}", List(blocks, " ")),
            Self::Timestamps { val, ecr, ecr_absolute } => {
                match val {
                    Some(val) => write!(f, "TS val {val} ecr {ecr}")?,
                    None => write!(f, "TS val ... ecr {ecr}")?,
                }
                f.write_str(if *ecr_absolute { "!" } else { "" })
            }
            Self::FastOpen(cookie) => write!(f, "FO{cookie}"),
            Self::FastOpenExp(cookie) => write!(f, "FOEXP{cookie}"),
            Self::Md5(md5) => write!(f, "md5 {md5}"),
            Self::UserTimeout(field) => {
                let unit = if field & UTO_MINUTES == 0 { "" } else { " min" };
                write!(f, "uto {}{unit}", field & !UTO_MINUTES)
            }
            Self::AccEcn(counters) => {
                f.write_str("ECN")?;
                counters.iter().try_for_each(|(counter, bytes)| write!(f, " {counter} {bytes}"))
            }
        }
    }
}

impl Display for SackBlock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.left, self.right)
    }
}

/// With a blank in front, or nothing.
impl Display for Cookie {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) if bytes.is_empty() => Ok(()),
            Self::Bytes(bytes) => write!(f, " {}", Hex(bytes)),
            Self::Name(name) => write!(f, " {name}"),
        }
    }
}

impl Display for Md5 {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid => f.write_str("valid"),
            Self::Invalid => f.write_str("invalid"),
            Self::Digest(bytes) => Hex(bytes).fmt(f),
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Display for EcnCounter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, counter)| counter == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl Display for Icmp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.kind.value {
            IcmpKind::Named(name) => f.write_str(name)?,
            IcmpKind::Number(number) => write!(f, "type_{number}")?,
        }
        match self.code.map(|code| code.value) {
            None => {}
            Some(IcmpCode::Named(name)) => write!(f, " {name}")?,
            Some(IcmpCode::Number(number)) => write!(f, " code_{number}")?,
        }
        if let Some(mtu) = self.mtu {
            write!(f, " mtu {}", mtu.value)?;
        }
        if let Some(id) = self.id {
            write!(f, " id {}", id.value)?;
        }
        match self.quote.map(|quote| quote.value) {
            None => Ok(()),
            Some(Quote::Tcp(seq)) => write!(f, " [{seq}]"),
            Some(Quote::Udp(len)) => write!(f, " [udp ({len})]"),
            Some(Quote::Raw(len)) => write!(f, " [raw ({len})]"),
        }
    }
}
