//! A reference evaluator: each test evaluated from the rule as it was written and the packet's bytes, one
//! after the other. What is compiled is held against it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

use ipfw::command::{FlowPart, TableEntry, TableKey};
use ipfw::rule::{Addr, Bits, Clause, Hook, If, Key, MacMask, Match, Net, Rule, TableRef, frag};

use crate::fib::{Hop, Prefix, To};
use crate::link::tables::{Ifnet, Tables};

/// The environment of rules: the stack's tables, and lookup tables.
pub(super) struct World<'w> {
    pub(super) tables: &'w Tables,
    pub(super) lists: &'w [(&'static str, Vec<TableEntry>)],
}

impl World<'_> {
    /// Whether the entry that fits best is there, and has the value that is asked for. `fit` says how well a key fits.
    fn has(&self, table: &TableRef, fit: impl Fn(&TableKey) -> Option<u8>) -> bool {
        let of_table = self.lists.iter().filter(|(name, _)| *name == table.name).flat_map(|(_, list)| list);
        let fitting = of_table.filter_map(|entry| Some((fit(&entry.key)?, entry)));
        let best = fitting.max_by_key(|(fit, _)| *fit);
        best.is_some_and(|(_, entry)| table.value.is_none_or(|value| value == entry.value))
    }
}

fn covers(key: &TableKey, addr: IpAddr) -> Option<u8> {
    let TableKey::Addr { addr: of, len } = key else { return None };
    Prefix::new(*of, *len)?.covers(addr).then_some(*len)
}

fn is_name(key: &TableKey, name: &str) -> Option<u8> {
    matches!(key, TableKey::Iface(of) if of == name).then_some(0)
}

fn begins(key: &TableKey, mac: [u8; 6]) -> Option<u8> {
    let TableKey::Mac { addr, len } = key else { return None };
    let bit = |of: &[u8; 6], at: u8| of[usize::from(at / 8)] << (at % 8) & 0x80;
    (0..*len).all(|at| bit(addr, at) == bit(&mac, at)).then_some(*len)
}

fn is_in_table(key: Key, table: &TableRef, plain: &Plain, world: &World<'_>) -> bool {
    let number = |number: u16| world.has(table, |key| (*key == TableKey::Number(number.into())).then_some(0));
    match key {
        Key::SrcIp => world.has(table, |key| covers(key, plain.src)),
        Key::DstIp => world.has(table, |key| covers(key, plain.dst)),
        Key::SrcPort => plain.ports().is_some_and(|(src, _)| number(src)),
        Key::DstPort => plain.ports().is_some_and(|(_, dst)| number(dst)),
        Key::Dscp => number((plain.tos() / 4).into()),
        Key::RecvIf => is_if(&If::Table(table.clone()), plain.recv, world),
        Key::SrcMac => plain.mac(1).is_some_and(|mac| world.has(table, |key| begins(key, mac))),
        Key::DstMac => plain.mac(0).is_some_and(|mac| world.has(table, |key| begins(key, mac))),
    }
}

/// A packet, taken apart the slow way.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    pub(super) hook: Hook,
    pub(super) recv: u16,
    pub(super) xmit: u16,
    pub(super) tag: u16,
    /// The link addresses of its frame, the receiver's first.
    pub(super) frame: Option<[[u8; 6]; 2]>,
    /// The type of a frame without an IP packet.
    kind: u16,
    bytes: Vec<u8>,
    src: IpAddr,
    dst: IpAddr,
    proto: u8,
    /// Kinds and places of IPv6's extension headers.
    extensions: Vec<(u8, usize)>,
    /// Where the upper layer begins.
    upper: usize,
    /// Offset in units of eight bytes, and whether more follow.
    fragment: (u16, bool),
}

impl Plain {
    /// `None` if it is to be dropped whatever the rules say.
    pub(super) fn read(bytes: &[u8], hook: Hook, recv: u16, xmit: u16, tag: u16) -> Option<Self> {
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let mut plain = if bytes[0] >> 4 == 4 {
            let octets = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
            Self {
                src: octets(12).into(),
                dst: octets(16).into(),
                proto: bytes[9],
                extensions: Vec::new(),
                upper: usize::from(bytes[0] & 15) * 4,
                fragment: (word(6) & 0x1fff, word(6) & 0x2000 != 0),
                bytes: bytes.to_vec(),
                hook,
                recv,
                xmit,
                tag,
                frame: None,
                kind: 0,
            }
        } else {
            let octets = |at: usize| <[u8; 16]>::try_from(&bytes[at..at + 16]).map(Ipv6Addr::from).ok();
            Self {
                src: octets(8)?.into(),
                dst: octets(24)?.into(),
                proto: bytes[6],
                extensions: Vec::new(),
                upper: 40,
                fragment: (0, false),
                bytes: bytes.to_vec(),
                hook,
                recv,
                xmit,
                tag,
                frame: None,
                kind: 0,
            }
        };
        plain.step_over()?;
        plain.is_whole_enough().then_some(plain)
    }

    /// A frame of this type without an IP packet.
    pub(super) const fn of_frame(kind: u16, frame: [[u8; 6]; 2], recv: u16, tag: u16) -> Self {
        let nowhere = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        Self {
            hook: Hook::Frame,
            recv,
            xmit: 0,
            tag,
            frame: Some(frame),
            kind,
            bytes: Vec::new(),
            src: nowhere,
            dst: nowhere,
            proto: u8::MAX,
            extensions: Vec::new(),
            upper: 0,
            fragment: (0, false),
        }
    }

    /// The receiver of its frame, or the sender: known while it comes in.
    fn mac(&self, end: usize) -> Option<[u8; 6]> {
        let is_known = self.hook == Hook::Ingress || self.hook.is_layer2();
        self.frame.filter(|_| is_known).map(|frame| frame[end])
    }

    fn step_over(&mut self) -> Option<()> {
        while !self.is_ip4() && [0, 43, 44, 51, 60].contains(&self.proto) && self.fragment.0 == 0 {
            let (kind, at) = (self.proto, self.upper);
            let header = self.bytes.get(at..at + if kind == 44 { 8 } else { 2 })?;
            self.extensions.push((kind, at));
            if self.extensions.len() > 8 {
                return None;
            }
            self.proto = header[0];
            self.upper += match kind {
                44 => 8,
                51 => usize::from(header[1]) * 4 + 8,
                _ => usize::from(header[1]) * 8 + 8,
            };
            if kind == 44 {
                let word = u16::from_be_bytes([header[2], header[3]]);
                self.fragment = (word >> 3, word & 1 != 0);
            }
        }
        Some(())
    }

    fn is_whole_enough(&self) -> bool {
        let shortest = match self.proto {
            6 => 20,
            17 | 136 => 8,
            132 => 12,
            1 if self.is_ip4() => 4,
            58 if !self.is_ip4() => 4,
            _ => 0,
        };
        match self.fragment.0 {
            0 => self.bytes.len() >= self.upper + shortest,
            1 => self.proto != 6,
            _ => true,
        }
    }

    fn is_ip4(&self) -> bool {
        self.src.is_ipv4()
    }

    /// The upper layer's bytes, if this is where they begin.
    fn transport(&self) -> Option<&[u8]> {
        if self.fragment.0 == 0 { self.bytes.get(self.upper..) } else { None }
    }

    fn ports(&self) -> Option<(u16, u16)> {
        let bytes = self.transport().filter(|_| [6, 17, 132, 136].contains(&self.proto))?;
        Some((u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]])))
    }

    fn tcp(&self) -> Option<&[u8]> {
        self.transport().filter(|_| self.proto == 6)
    }

    /// Type and code, if it is ICMP of this family.
    fn icmp(&self, ip4: bool) -> Option<(u8, u8)> {
        let bytes = self.transport().filter(|_| self.is_ip4() == ip4)?;
        (self.proto == if ip4 { 1 } else { 58 }).then(|| (bytes[0], bytes[1]))
    }

    fn tos(&self) -> u8 {
        if self.is_ip4() { self.bytes[1] } else { self.bytes[0] << 4 | self.bytes[1] >> 4 }
    }

    fn via(&self) -> u16 {
        if [Hook::Egress, Hook::LocalOut].contains(&self.hook) { self.xmit } else { self.recv }
    }
}

/// Whether a rule that is enabled matches.
pub(super) fn matches(rule: &Rule, plain: &Plain, world: &World<'_>) -> bool {
    is_asked_at(rule, plain.hook) && rule.body.iter().all(|clause| holds(clause, plain, world))
}

fn is_asked_at(rule: &Rule, hook: Hook) -> bool {
    let usual = [Hook::Ingress, Hook::Egress, Hook::Layer2, Hook::Frame];
    let mut terms = rule.body.iter().flat_map(|clause| &clause.any).filter(|term| !term.not);
    usual.contains(&hook) || terms.any(|term| matches!(&term.is, Match::At(other) if !usual.contains(other)))
}

/// [`is`] for a frame without an IP packet: only what frames have is asked for.
fn is_of_frame(what: &Match, plain: &Plain, world: &World<'_>) -> bool {
    match what {
        Match::Any | Match::Src(Addr::Any) | Match::Dst(Addr::Any) => true,
        Match::At(hook) => [Hook::Ingress, Hook::Layer2].contains(hook),
        Match::Recv(which) | Match::Via(which) => is_if(which, plain.recv, world),
        Match::MacType(ranges) => within(ranges, plain.kind),
        Match::Mac { dst, src } => is_between(plain, [dst, src]),
        Match::Tagged(ranges) => plain.tag != 0 && within(ranges, plain.tag),
        Match::Fib(fib) => *fib == 0,
        Match::Lookup { key: key @ (Key::SrcMac | Key::DstMac | Key::RecvIf), table } => {
            is_in_table(*key, table, plain, world)
        }
        _ => false,
    }
}

fn is_between(plain: &Plain, ends: [&MacMask; 2]) -> bool {
    let is_any = ends.iter().all(|end| end.mask == [0; 6]);
    is_any
        || ends.into_iter().enumerate().all(|(end, meant)| {
            let is = |mac: [u8; 6]| (0..6).all(|at| (mac[at] ^ meant.addr[at]) & meant.mask[at] == 0);
            plain.mac(end).is_some_and(is)
        })
}

fn holds(clause: &Clause, plain: &Plain, world: &World<'_>) -> bool {
    clause.any.iter().any(|term| term.not != is(&term.is, plain, world))
}

fn is(what: &Match, plain: &Plain, world: &World<'_>) -> bool {
    if plain.hook == Hook::Frame {
        return is_of_frame(what, plain, world);
    }
    match what {
        Match::Any => true,
        Match::Version(version) => plain.bytes[0] >> 4 == *version,
        Match::Proto(proto) => plain.proto == *proto,
        Match::Src(addr) => is_addr(addr, plain.src, world),
        Match::Dst(addr) => is_addr(addr, plain.dst, world),
        Match::SrcPort(ranges) => plain.ports().is_some_and(|(src, _)| within(ranges, src)),
        Match::DstPort(ranges) => plain.ports().is_some_and(|(_, dst)| within(ranges, dst)),
        Match::At(hook) => plain.hook.is(*hook),
        Match::Recv(which) => is_if(which, plain.recv, world),
        Match::Xmit(which) => is_if(which, plain.xmit, world),
        Match::Via(which) => is_if(which, plain.via(), world),
        Match::Frag(frag) => is_frag(frag.bits, plain),
        Match::IpLen(ranges) => within(ranges, u16::try_from(plain.bytes.len()).unwrap_or(u16::MAX)),
        Match::IpTtl(ranges) => within(ranges, plain.bytes[if plain.is_ip4() { 8 } else { 7 }].into()),
        Match::IpId(ranges) => {
            plain.is_ip4() && within(ranges, u16::from_be_bytes([plain.bytes[4], plain.bytes[5]]))
        }
        Match::IpPrecedence(precedence) => plain.is_ip4() && plain.bytes[1] / 32 == *precedence,
        Match::IpTos(bits) => plain.is_ip4() && fits(*bits, plain.bytes[1]),
        Match::Dscp(points) => points >> (plain.tos() / 4) & 1 == 1,
        Match::IpOptions(bits) => plain.is_ip4() && fits(*bits, ip_options(plain)),
        Match::Ext6Header(kinds) => !plain.is_ip4() && ext6(plain) & kinds != 0,
        Match::FlowLabel(labels) => {
            let bytes = &plain.bytes;
            let label = u32::from_be_bytes([0, bytes[1] & 15, bytes[2], bytes[3]]);
            !plain.is_ip4() && labels.contains(&label)
        }
        Match::MacType(ranges) => within(ranges, if plain.is_ip4() { 0x800 } else { 0x86dd }),
        Match::Mac { dst, src } => is_between(plain, [dst, src]),
        Match::Tagged(ranges) => plain.tag != 0 && within(ranges, plain.tag),
        Match::Fib(fib) => *fib == 0,
        Match::VerRevPath | Match::VerSrcReach | Match::AntiSpoof => is_way_back(what, plain, world.tables),
        Match::Lookup { key, table } => is_in_table(*key, table, plain, world),
        Match::Flow(table) => world.has(table, |key| {
            let (src, dst) = plain.ports().unwrap_or((0, 0));
            let addrs = [plain.src, plain.dst].map(FlowPart::Addr);
            let flow = [
                addrs[0],
                FlowPart::Number(plain.proto.into()),
                FlowPart::Number(src),
                addrs[1],
                FlowPart::Number(dst),
            ];
            (*key == TableKey::Flow(flow.to_vec())).then_some(0)
        }),
        Match::IcmpTypes(types) => {
            plain.icmp(true).is_some_and(|(kind, _)| kind < 64 && types >> kind & 1 == 1)
        }
        Match::Icmp6Types(types) => {
            plain.icmp(false).is_some_and(|(kind, _)| types[usize::from(kind / 64)] >> (kind % 64) & 1 == 1)
        }
        Match::IcmpCodes(ranges) => {
            let icmp = plain.icmp(true).or_else(|| plain.icmp(false));
            icmp.is_some_and(|(_, code)| within(ranges, code.into()))
        }
        _ => plain.tcp().is_some_and(|segment| is_tcp(what, segment)),
    }
}

fn is_tcp(what: &Match, segment: &[u8]) -> bool {
    let flags = segment[13];
    let word =
        |at: usize| u32::from_be_bytes([segment[at], segment[at + 1], segment[at + 2], segment[at + 3]]);
    let data = segment.len().saturating_sub(usize::from(segment[12] >> 4) * 4);
    match what {
        Match::TcpFlags(bits) => fits(*bits, flags),
        Match::Established => flags & 0x14 != 0,
        Match::Setup => flags & 0x12 == 2,
        Match::TcpSeq(seq) => word(4) == *seq,
        Match::TcpAck(ack) => word(8) == *ack,
        Match::TcpWin(ranges) => within(ranges, u16::from_be_bytes([segment[14], segment[15]])),
        Match::TcpDataLen(ranges) => within(ranges, u16::try_from(data).unwrap_or(u16::MAX)),
        Match::TcpOptions(bits) => {
            let bit = |kind: &(u8, Vec<u8>)| match kind.0 {
                2 => 1,
                3 => 2,
                4 | 5 => 4,
                8 => 8,
                _ => 0,
            };
            fits(*bits, tcp_options(segment).iter().map(bit).fold(0, |all, bit| all | bit))
        }
        Match::TcpMss(ranges) => {
            let mss = tcp_options(segment).into_iter().find(|(kind, _)| *kind == 2);
            let mss = mss.map(|(_, data)| u16::from_be_bytes([data[0], data[1]]));
            flags & 2 != 0 && mss.is_some_and(|mss| within(ranges, mss))
        }
        _ => false,
    }
}

/// Returns the options of a well-formed header: the generated packets have no others.
fn tcp_options(segment: &[u8]) -> Vec<(u8, Vec<u8>)> {
    options(segment.get(20..usize::from(segment[12] >> 4) * 4).unwrap_or_default())
}

fn ip_options(plain: &Plain) -> u8 {
    let bit = |(kind, _): (u8, Vec<u8>)| match kind {
        131 => 1,
        137 => 2,
        7 => 4,
        68 => 8,
        _ => 0,
    };
    options(&plain.bytes[20..plain.upper]).into_iter().map(bit).fold(0, |all, bit| all | bit)
}

fn options(mut rest: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let [kind, tail @ ..] = rest {
        match (kind, tail) {
            (0, _) => break,
            (1, _) => rest = tail,
            (_, [len, ..]) => {
                let (option, after) = rest.split_at(usize::from(*len));
                found.push((*kind, option[2..].to_vec()));
                rest = after;
            }
            _ => break,
        }
    }
    found
}

fn ext6(plain: &Plain) -> u8 {
    let routing = |at: usize| match plain.bytes.get(at + 2) {
        Some(0) => 4 | 64,
        Some(2) => 4 | 128,
        _ => 4,
    };
    let upper = (plain.proto, plain.upper);
    let bit = |(kind, at): &(u8, usize)| match kind {
        44 => 1,
        0 => 2,
        43 => routing(*at),
        60 => 8,
        51 => 16,
        50 => 32,
        _ => 0,
    };
    plain.extensions.iter().chain([&upper]).map(bit).fold(0, |all, bit| all | bit)
}

fn is_frag(bits: Bits<u8>, plain: &Plain) -> bool {
    let (offset, more) = plain.fragment;
    if bits == Bits::default() {
        return offset != 0;
    }
    let flags = if plain.is_ip4() { plain.bytes[6] } else { 0 };
    let facts = [
        (frag::DF, flags & 0x40 != 0),
        (frag::RF, flags & 0x80 != 0),
        (frag::MF, more),
        (frag::OFFSET, offset != 0),
        (frag::PART, more || offset != 0),
    ];
    fits(bits, facts.iter().filter(|(_, is_so)| *is_so).map(|(bit, _)| bit).sum())
}

fn fits(bits: Bits<u8>, value: u8) -> bool {
    value & bits.set == bits.set && value & bits.clear == 0
}

fn within(ranges: &[RangeInclusive<u16>], value: u16) -> bool {
    ranges.iter().any(|range| range.contains(&value))
}

fn is_addr(what: &Addr, addr: IpAddr, world: &World<'_>) -> bool {
    let tables = world.tables;
    match what {
        Addr::Any => true,
        Addr::Me => tables.ifnets().any(|ifnet| ifnet.has(addr)),
        Addr::Me6 => addr.is_ipv6() && tables.ifnets().any(|ifnet| ifnet.has(addr)),
        Addr::Nets(nets) => nets.iter().any(|net| match (net, addr) {
            (Net::V4 { addr, mask }, IpAddr::V4(of)) => of & mask == addr & mask,
            (Net::V6 { addr, mask }, IpAddr::V6(of)) => of & mask == addr & mask,
            _ => false,
        }),
        Addr::Hosts { base, bits, .. } => (0..256u32).any(|n| {
            bits[n as usize / 64] >> (n % 64) & 1 == 1
                && addr == IpAddr::from(Ipv4Addr::from_bits(base.to_bits().wrapping_add(n)))
        }),
        Addr::Table(table) => world.has(table, |key| covers(key, addr)),
        Addr::Interface { name, net } => {
            let own = tables.ifnets().filter(|ifnet| ifnet.name == *name).flat_map(|ifnet| &ifnet.addrs);
            own.into_iter().any(|own| if *net { own.covers(addr) } else { own.addr == addr })
        }
    }
}

fn is_if(which: &If, index: u16, world: &World<'_>) -> bool {
    let tables = world.tables;
    let is = |ifnet: &Ifnet| match which {
        If::Any => true,
        If::Name(name) => ifnet.name == *name,
        // The only kind of pattern that the rules here have.
        If::Glob(pattern) => ifnet.name.starts_with(pattern.trim_end_matches('*')),
        If::Addr(addr) => ifnet.has(*addr),
        If::Table(table) => world.has(table, |key| is_name(key, &ifnet.name)),
    };
    tables.ifnet(index).is_some_and(is)
}

fn is_way_back(what: &Match, plain: &Plain, tables: &Tables) -> bool {
    let on_link = matches!(plain.src, IpAddr::V6(addr) if addr.is_unicast_link_local());
    if [Hook::Egress, Hook::LocalOut].contains(&plain.hook) || plain.recv == 0 || on_link {
        return true;
    }
    let hop: Hop = tables.hop(0, plain.src, || 0);
    match what {
        Match::VerRevPath => hop.to.ifindex() == Some(plain.recv) && !matches!(hop.to, To::Local { .. }),
        Match::VerSrcReach => hop.to.ifindex().is_some() && !matches!(hop.to, To::Gateway { .. }),
        _ => match hop.to {
            To::Local { .. } => false,
            To::OnLink { ifindex } | To::Broadcast { ifindex } => ifindex == plain.recv,
            _ => true,
        },
    }
}
