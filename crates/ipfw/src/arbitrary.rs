//! Rules of every kind, for tests and fuzzers: of any that text can say, some.
//!
//! What they are follows from the numbers of the source alone, so that a failed test can be run again. Addresses, ports
//! and names are few, so that rules and packets made the same way meet often.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

use crate::rule::{
    Action, Addr, Arg, Bits, Clause, Flow, Frag, Hook, If, Keep, KeepKind, Key, Limit, LimitMask, Log,
    MacMask, Match, NatTarget, Net, Rule, TableArg, TableRef, Tag, Term, Unreach,
};

/// Names of interfaces that rules name.
pub const INTERFACES: [&str; 4] = ["em0", "em1", "vlan10", "lo0"];
/// Names of tables that rules name.
pub const TABLES: [&str; 4] = ["1", "hosts", "ports", "inside"];

/// A rule, made of numbers from `source`.
pub fn rule(source: &mut impl FnMut() -> u64) -> Rule {
    Dice(source).rule()
}

/// One match, made of numbers from `source`.
pub fn matching(source: &mut impl FnMut() -> u64) -> Match {
    Dice(source).matching()
}

/// A source of numbers from a seed (SplitMix64).
pub fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

struct Dice<'a>(&'a mut dyn FnMut() -> u64);

impl Dice<'_> {
    /// From 0 up to `bound`, without it.
    fn below(&mut self, bound: u32) -> u32 {
        u32::try_from((self.0)() % u64::from(bound.max(1))).unwrap_or(0)
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(u32::try_from(of.len()).unwrap_or(1)) as usize]
    }

    fn some<T>(&mut self, one_in: u32, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(one_in).then(|| value(self))
    }

    fn list<T>(&mut self, max: u32, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..=self.below(max)).map(|_| item(self)).collect()
    }

    fn arg<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Arg<T> {
        if self.one_in(4) { Arg::Table } else { Arg::Value(value(self)) }
    }

    fn u16(&mut self, range: RangeInclusive<u16>) -> u16 {
        let width = u32::from(range.end() - range.start()) + 1;
        range.start() + u16::try_from(self.below(width)).unwrap_or(0)
    }

    /// At the edges more often than between them.
    fn ranges(&mut self, max: u16) -> Vec<RangeInclusive<u16>> {
        let few = [0, 1, 25, 53, 80, 443, 1023, 1024, max - 1, max];
        self.list(3, |dice| {
            let one =
                |dice: &mut Self| if dice.one_in(2) { dice.pick(&few).min(max) } else { dice.u16(0..=max) };
            let (a, b) = (one(dice), one(dice));
            if dice.one_in(2) { a..=a } else { a.min(b)..=a.max(b) }
        })
    }

    fn rule(&mut self) -> Rule {
        let action = self.action();
        let has_body = !matches!(action, Action::CheckState(_));
        let may_keep = has_body && !matches!(action, Action::Redirect { .. });
        Rule {
            number: self.u16(0..=65534),
            set: if self.one_in(4) { u8::try_from(self.below(32)).unwrap_or(0) } else { 0 },
            prob: self.some(6, |dice| dice.below(u32::MAX).saturating_add(1)),
            action,
            log: self.some(5, |dice| Log { amount: dice.some(2, |dice| dice.below(u32::MAX)) }),
            tag: self.some(6, |dice| {
                let tag = dice.arg(|dice| dice.u16(1..=65534));
                if dice.one_in(2) { Tag::Set(tag) } else { Tag::Unset(tag) }
            }),
            body: if has_body { self.body() } else { Vec::new() },
            keep: if may_keep { self.some(4, Self::keep) } else { None },
            no_offload: has_body && self.one_in(8),
            comment: self
                .some(6, |dice| dice.pick(&["web", "two words", "# no, // not that", "ä, ö"]).to_owned()),
        }
    }

    fn action(&mut self) -> Action {
        match self.below(33) {
            0..=7 => Action::Allow,
            8..=11 => Action::Deny,
            12 => Action::Unreach(match self.below(4) {
                0 => Unreach::Host,
                1 => Unreach::Code6(u8::try_from(self.below(10)).unwrap_or(0)),
                2 => Unreach::Code { code: 4, mtu: self.some(2, |dice| dice.u16(68..=9000)) },
                _ => Unreach::Code { code: u8::try_from(self.below(20)).unwrap_or(0), mtu: None },
            }),
            13 => Action::Reset,
            14 | 15 => Action::Count,
            16 => {
                let flow = self.flow();
                Action::CheckState(if self.one_in(4) { Flow::Any } else { flow })
            }
            17..=19 => Action::SkipTo(self.arg(|dice| dice.u16(1..=65534))),
            20 => Action::Call(self.arg(|dice| dice.u16(1..=65534))),
            21 => Action::Return,
            22 => {
                Action::Forward { to: self.arg(Self::ip), port: self.some(3, |dice| dice.u16(0..=u16::MAX)) }
            }
            23 => Action::Redirect { to: self.ip(), port: self.some(3, |dice| dice.u16(0..=u16::MAX)) },
            24 if self.one_in(4) => Action::Nat(NatTarget::Global),
            24 => Action::Nat(NatTarget::Instance(self.arg(|dice| dice.u16(1..=9)))),
            25 => Action::Nptv6("inside".to_owned()),
            26 => Action::Nat64("gate".to_owned()),
            27 => Action::Reass,
            28 => Action::TcpSetMss(self.u16(1..=u16::MAX)),
            29 => Action::SetDscp(self.arg(|dice| u8::try_from(dice.below(64)).unwrap_or(0))),
            30 => Action::SetFib(self.arg(|dice| u8::try_from(dice.below(16)).unwrap_or(0))),
            31 => Action::Pipe(self.arg(|dice| dice.u16(1..=u16::MAX))),
            _ => Action::Queue(self.arg(|dice| dice.u16(1..=u16::MAX))),
        }
    }

    fn flow(&mut self) -> Flow {
        if self.one_in(2) { Flow::Default } else { Flow::Named(self.pick(&["web", "a.b-c", "9"]).to_owned()) }
    }

    fn keep(&mut self) -> Keep {
        let kind = match self.below(4) {
            0 => KeepKind::State,
            1 => KeepKind::Record,
            2 => KeepKind::Limit(self.limit()),
            _ => KeepKind::RecordLimit(self.limit()),
        };
        Keep { kind, flow: self.flow(), defer: self.one_in(4) }
    }

    fn limit(&mut self) -> Limit {
        let bits = 1 + self.below(15);
        let mask = LimitMask {
            src_addr: bits & 1 != 0,
            src_port: bits & 2 != 0,
            dst_addr: bits & 4 != 0,
            dst_port: bits & 8 != 0,
        };
        Limit { mask, max: self.arg(|dice| dice.u16(1..=u16::MAX)) }
    }

    /// As people write them more often than not: protocol, addresses, and the rest.
    fn body(&mut self) -> Vec<Clause> {
        let mut body = Vec::new();
        if !self.one_in(4) {
            body.push(self.clause(Self::proto));
            body.push(self.clause(|dice| Match::Src(dice.addr())));
            body.extend(self.some(4, |dice| dice.single(Match::SrcPort)));
            body.push(self.clause(|dice| Match::Dst(dice.addr())));
            body.extend(self.some(3, |dice| dice.single(Match::DstPort)));
        }
        let more = self.below(4);
        body.extend((0..more).map(|_| self.clause(Self::matching)));
        body
    }

    fn single(&mut self, ports: fn(Vec<RangeInclusive<u16>>) -> Match) -> Clause {
        Clause { any: vec![Term { not: self.one_in(6), is: ports(self.ranges(u16::MAX)) }] }
    }

    fn clause(&mut self, mut one: impl FnMut(&mut Self) -> Match) -> Clause {
        let more = if self.one_in(5) { 1 + self.below(3) } else { 0 };
        Clause { any: (0..=more).map(|_| Term { not: self.one_in(6), is: one(self) }).collect() }
    }

    fn proto(&mut self) -> Match {
        match self.below(8) {
            0 | 1 => Match::Any,
            2 => Match::Version(self.pick(&[4, 6])),
            3 => Match::Proto(u8::try_from(1 + self.below(255)).unwrap_or(1)),
            _ => Match::Proto(self.pick(&[1, 6, 17, 58])),
        }
    }

    fn matching(&mut self) -> Match {
        match self.below(28) {
            0 => self.proto(),
            1 => Match::Src(self.addr()),
            2 => Match::Dst(self.addr()),
            3 => Match::SrcPort(self.ranges(u16::MAX)),
            4 => Match::DstPort(self.ranges(u16::MAX)),
            5 | 6 => {
                let [hooks @ .., _] = Hook::ALL;
                Match::At(self.pick(&hooks))
            }
            7 => Match::Recv(self.interface()),
            8 => Match::Xmit(self.interface()),
            9 => Match::Via(self.interface()),
            10 => Match::MacType(self.ranges(u16::MAX)),
            11 => Match::Mac { dst: self.mac(), src: self.mac() },
            12 => self.pick(&[Plain::VerRevPath, Plain::VerSrcReach, Plain::AntiSpoof]).into(),
            13 if self.one_in(4) => Match::Fib(u8::try_from(self.below(16)).unwrap_or(0)),
            13 => Match::Tagged(self.list(3, |dice| {
                let from = dice.u16(1..=65000);
                from..=from + dice.u16(0..=500)
            })),
            14 => {
                let keys = [
                    Key::DstIp,
                    Key::SrcIp,
                    Key::DstPort,
                    Key::SrcPort,
                    Key::Dscp,
                    Key::DstMac,
                    Key::SrcMac,
                    Key::RecvIf,
                ];
                Match::Lookup { key: self.pick(&keys), table: self.table() }
            }
            15 => Match::Flow(self.table()),
            16 | 17 => self.pick(&[Plain::Setup, Plain::Established]).into(),
            _ => self.header(),
        }
    }

    fn header(&mut self) -> Match {
        match self.below(21) {
            0 => Match::Frag(match self.below(3) {
                0 => Frag::default(),
                1 => Frag { bits: Bits { set: crate::rule::frag::PART, clear: 0 } },
                _ => Frag { bits: self.bits(15) },
            }),
            1 => Match::IpLen(self.ranges(u16::MAX)),
            2 => Match::IpTtl(self.ranges(255)),
            3 => Match::IpId(self.ranges(u16::MAX)),
            4 => Match::IpPrecedence(u8::try_from(self.below(8)).unwrap_or(0)),
            5 => {
                let Bits { set, clear } = self.bits(0x1c);
                let ecn = self.pick(&[0, 2, 3]);
                Match::IpTos(if self.one_in(2) {
                    Bits { set: set | ecn, clear }
                } else {
                    Bits { set, clear: clear | ecn }
                })
            }
            6 => Match::Dscp(self.word()),
            7 => Match::IpOptions(self.bits(15)),
            8 | 9 => Match::TcpFlags(self.bits(255)),
            10 => Match::TcpOptions(self.bits(31)),
            11 => Match::TcpSeq(self.below(u32::MAX)),
            12 => Match::TcpAck(self.below(u32::MAX)),
            13 => Match::TcpWin(self.ranges(u16::MAX)),
            14 => Match::TcpMss(self.ranges(u16::MAX)),
            15 => Match::TcpDataLen(self.ranges(u16::MAX)),
            16 => Match::IcmpTypes(self.word()),
            17 => Match::IcmpCodes(self.ranges(255)),
            18 => Match::Icmp6Types([0, self.word(), self.word(), 0]),
            19 => Match::Ext6Header(u8::try_from(1 + self.below(255)).unwrap_or(1)),
            _ => Match::FlowLabel(self.list(3, |dice| dice.below(1 << 20))),
        }
    }

    /// A word with a few bits set, at least one.
    fn word(&mut self) -> u64 {
        (0..=self.below(4)).fold(0, |word, _| word | 1 << self.below(64))
    }

    /// Some of these bits, at least one of them if they are not all zero.
    fn bits(&mut self, of: u8) -> Bits<u8> {
        let low = of & of.wrapping_neg();
        let set = u8::try_from(self.below(256)).unwrap_or(0) & of | low;
        Bits { set, clear: u8::try_from(self.below(256)).unwrap_or(0) & of & !set }
    }

    fn addr(&mut self) -> Addr {
        match self.below(12) {
            0..=3 => Addr::Any,
            4 => Addr::Me,
            5 => Addr::Me6,
            6 => Addr::Table(self.table()),
            7 => Addr::Interface { name: self.pick(&INTERFACES).to_owned(), net: self.one_in(2) },
            8 => self.hosts(),
            _ => Addr::Nets(self.list(3, Self::net)),
        }
    }

    fn hosts(&mut self) -> Addr {
        let len = 24 + u8::try_from(self.below(9)).unwrap_or(0);
        let hosts = 1 << (32 - u32::from(len));
        let mut bits = [0; 4];
        for _ in 0..=self.below(5) {
            let n = self.below(hosts);
            bits[n as usize / 64] |= 1_u64 << (n % 64);
        }
        let base = Ipv4Addr::from_bits(self.ip4().to_bits() & !(hosts - 1));
        Addr::Hosts { base, len, bits }
    }

    fn net(&mut self) -> Net {
        if self.one_in(2) {
            let mask = match self.below(4) {
                0 => Ipv4Addr::from_bits(self.below(u32::MAX)),
                _ => crate::parse::prefix4(u8::try_from(self.below(33)).unwrap_or(32)),
            };
            return Net::V4 { addr: self.ip4() & mask, mask };
        }
        let mask = match self.below(4) {
            0 => Ipv6Addr::from_bits(u128::from((self.0)()) << 64 | u128::from((self.0)())),
            _ => crate::parse::prefix6(u8::try_from(self.below(129)).unwrap_or(128)),
        };
        Net::V6 { addr: self.ip6() & mask, mask }
    }

    fn ip(&mut self) -> IpAddr {
        if self.one_in(2) { self.ip4().into() } else { self.ip6().into() }
    }

    fn ip4(&mut self) -> Ipv4Addr {
        let last = u8::try_from(self.below(256)).unwrap_or(0);
        match self.below(3) {
            0 => Ipv4Addr::new(10, 0, last & 3, last),
            1 => Ipv4Addr::new(192, 0, 2, last),
            _ => Ipv4Addr::from_bits(self.below(u32::MAX)),
        }
    }

    fn ip6(&mut self) -> Ipv6Addr {
        let last = self.u16(0..=9);
        match self.below(3) {
            0 => Ipv6Addr::new(0x2001, 0xdb8, last, 0, 0, 0, 0, last),
            1 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last),
            _ => Ipv6Addr::from_bits(u128::from((self.0)()) << 64 | u128::from((self.0)())),
        }
    }

    fn table(&mut self) -> TableRef {
        let value = self.some(3, |dice| {
            if dice.one_in(3) { TableArg::Addr(dice.ip()) } else { TableArg::Number(dice.below(10)) }
        });
        TableRef { name: self.pick(&TABLES).to_owned(), value }
    }

    fn interface(&mut self) -> If {
        match self.below(8) {
            0 => If::Any,
            1 => If::Addr(self.ip()),
            2 => If::Table(self.table()),
            3 => If::Glob(self.pick(&["em*", "em?", "vlan[0-9]*", "*"]).to_owned()),
            _ => If::Name(self.pick(&INTERFACES).to_owned()),
        }
    }

    fn mac(&mut self) -> MacMask {
        let mask = match self.below(4) {
            0 => 0,
            1 => (self.0)(),
            2 => u64::MAX << self.below(48),
            _ => u64::MAX,
        };
        let (addr, mask) = ((self.0)().to_be_bytes(), mask.to_be_bytes());
        MacMask {
            addr: core::array::from_fn(|i| addr[i + 2] & mask[i + 2]),
            mask: core::array::from_fn(|i| mask[i + 2]),
        }
    }
}

/// Matches without parameters, for `pick`.
#[derive(Clone, Copy)]
enum Plain {
    VerRevPath,
    VerSrcReach,
    AntiSpoof,
    Setup,
    Established,
}

impl From<Plain> for Match {
    fn from(plain: Plain) -> Self {
        match plain {
            Plain::VerRevPath => Self::VerRevPath,
            Plain::VerSrcReach => Self::VerSrcReach,
            Plain::AntiSpoof => Self::AntiSpoof,
            Plain::Setup => Self::Setup,
            Plain::Established => Self::Established,
        }
    }
}
