//! Rules with everything that can be asked, so that packets match now and then.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

use ipfw::rule::{
    Action, Addr, Bits, Clause, Frag, Hook, If, Key, MacMask, Match, Net, Rule, TableArg, TableRef, Term,
};

use super::choices::Dice;
use super::packets::{PORTS, addr4, addr6, mac};

/// The style of a list's rules.
#[derive(Clone, Copy)]
pub(super) enum Style {
    /// Rules of a router: protocol, addresses, ports.
    Flows,
    /// Anything.
    All,
}

impl Style {
    pub(super) fn of(dice: &mut Dice<'_>) -> Self {
        if dice.one_in(2) { Self::Flows } else { Self::All }
    }
}

pub(super) fn rule(dice: &mut Dice<'_>, style: Style) -> Rule {
    let body = match style {
        Style::Flows => flow(dice),
        Style::All => (0..dice.below(4)).map(|_| clause(dice)).collect(),
    };
    Rule {
        number: dice.of(&[0, 0, 100, 150, 7, 65534]),
        set: dice.of(&[0, 0, 0, 1, 2, 31]),
        prob: None,
        action: dice.of(&[&Action::Allow, &Action::Deny, &Action::Count]).clone(),
        log: None,
        tag: None,
        body,
        keep: None,
        no_offload: false,
        comment: None,
    }
}

fn one(is: Match) -> Clause {
    Clause { any: vec![Term { not: false, is }] }
}

fn flow(dice: &mut Dice<'_>) -> Vec<Clause> {
    let mut body = vec![one(Match::Proto(dice.of(&[6, 6, 17, 1]))), one(Match::Src(addr(dice)))];
    body.push(one(Match::Dst(addr(dice))));
    if dice.one_in(2) {
        body.push(one(Match::DstPort(ports(dice))));
    }
    if dice.one_in(6) {
        body.push(one(Match::SrcPort(ports(dice))));
    }
    if dice.one_in(6) {
        body.push(clause(dice));
    }
    body
}

fn clause(dice: &mut Dice<'_>) -> Clause {
    let terms = 1 + if dice.one_in(4) { dice.below(3) } else { 0 };
    let term = |dice: &mut Dice<'_>| Term { not: dice.one_in(5), is: question(dice) };
    Clause { any: (0..terms).map(|_| term(dice)).collect() }
}

fn question(dice: &mut Dice<'_>) -> Match {
    match dice.below(5) {
        4 => table_question(dice),
        0 => flow_question(dice),
        1 => ip_question(dice),
        2 => transport_question(dice),
        _ => place_question(dice),
    }
}

fn table_question(dice: &mut Dice<'_>) -> Match {
    let numbers = [Key::SrcPort, Key::DstPort, Key::Dscp];
    match dice.below(6) {
        5 => Match::Lookup { key: dice.of(&[Key::SrcMac, Key::DstMac]), table: table(dice, "macs") },
        0 => Match::Lookup { key: dice.of(&[Key::SrcIp, Key::DstIp]), table: table(dice, "addrs") },
        1 | 2 => Match::Lookup { key: dice.of(&numbers), table: table(dice, "numbers") },
        3 => Match::Lookup { key: Key::RecvIf, table: table(dice, "ifs") },
        _ => Match::Flow(table(dice, "flows")),
    }
}

/// A table; sometimes one that is not there, or one value of it.
fn table(dice: &mut Dice<'_>, name: &str) -> TableRef {
    let name = if dice.one_in(9) { "nowhere" } else { name };
    let value = if dice.one_in(4) { Some(TableArg::Number(dice.small(3).into())) } else { None };
    TableRef { name: name.into(), value }
}

fn flow_question(dice: &mut Dice<'_>) -> Match {
    match dice.below(6) {
        0 => Match::Any,
        1 => Match::Proto(dice.of(&[6, 17, 1, 58, 132])),
        2 => Match::Src(addr(dice)),
        3 => Match::Dst(addr(dice)),
        4 => Match::SrcPort(ports(dice)),
        _ => Match::DstPort(ports(dice)),
    }
}

fn place_question(dice: &mut Dice<'_>) -> Match {
    use Hook::{Egress, Forward, Ingress, Layer2, LocalIn, LocalOut};
    match dice.below(10) {
        0 | 1 => Match::At(dice.of(&[Ingress, Egress, Ingress, Egress, LocalIn, Forward, LocalOut, Layer2])),
        2 => Match::Recv(interface(dice)),
        3 => Match::Xmit(interface(dice)),
        4 => Match::Via(interface(dice)),
        5 => Match::VerRevPath,
        6 => Match::VerSrcReach,
        7 => Match::AntiSpoof,
        8 => Match::Fib(dice.of(&[0, 1])),
        _ => Match::Tagged({
            let (from, to) = dice.of(&[(0, 1), (1, 1), (2, 9), (5, 7)]);
            vec![from..=to]
        }),
    }
}

fn ip_question(dice: &mut Dice<'_>) -> Match {
    let small = |dice: &mut Dice<'_>| vec![0..=dice.small(255), 200..=300];
    match dice.below(13) {
        0 => Match::Version(dice.of(&[4, 6, 4, 6, 5])),
        1 => Match::Frag(Frag { bits: bits(dice) }),
        2 => Match::Frag(Frag::default()),
        3 => Match::IpLen(small(dice)),
        4 => Match::IpTtl(small(dice)),
        5 => Match::IpId(small(dice)),
        6 => Match::IpPrecedence(dice.byte() % 8),
        7 => Match::IpTos(Bits { set: dice.of(&[0, 0x10, 0x80]), clear: dice.of(&[0, 1, 0x40]) }),
        8 => Match::Dscp(dice.long()),
        9 => Match::IpOptions(bits(dice)),
        10 => Match::Ext6Header(dice.byte()),
        11 => Match::FlowLabel(vec![dice.of(&[0, 5]), 9]),
        _ => match dice.below(2) {
            0 => Match::MacType(dice.of(&[&[0x800..=0x800], &[0x86dd..=0x88ff], &[1..=1]]).to_vec()),
            _ => Match::Mac { dst: mac_mask(dice), src: mac_mask(dice) },
        },
    }
}

fn mac_mask(dice: &mut Dice<'_>) -> MacMask {
    let mask = dice.of(&[[0; 6], [255; 6], [255, 255, 255, 0, 0, 0], [0, 0, 0, 0, 0, 1]]);
    let addr = mac(dice);
    MacMask { addr: core::array::from_fn(|at| addr[at] & mask[at]), mask }
}

fn transport_question(dice: &mut Dice<'_>) -> Match {
    let any = |dice: &mut Dice<'_>| vec![dice.word() % 300..=dice.word(), 0..=dice.of(&[0, 1])];
    match dice.below(12) {
        0 => Match::TcpFlags(bits(dice)),
        1 => Match::Established,
        2 => Match::Setup,
        3 => Match::TcpOptions(bits(dice)),
        4 => Match::TcpSeq(dice.of(&[1, 2])),
        5 => Match::TcpAck(dice.of(&[1, 2])),
        6 => Match::TcpWin(any(dice)),
        7 => Match::TcpMss(vec![dice.of(&[256, 1000])..=2000]),
        8 => Match::TcpDataLen(any(dice)),
        9 => Match::IcmpTypes(dice.long()),
        10 => Match::IcmpCodes(any(dice)),
        _ => Match::Icmp6Types([dice.long(), dice.long(), dice.long(), dice.long()]),
    }
}

fn bits(dice: &mut Dice<'_>) -> Bits<u8> {
    Bits { set: dice.of(&[0, 1, 2, 4, 8, 16, 3]), clear: dice.of(&[0, 0, 1, 2, 4, 8, 16]) }
}

fn ports(dice: &mut Dice<'_>) -> Vec<RangeInclusive<u16>> {
    let one = |dice: &mut Dice<'_>| {
        let (a, b) = (dice.of(&PORTS), dice.of(&PORTS));
        if dice.one_in(2) { a..=a } else { a.min(b)..=a.max(b) }
    };
    (0..1 + if dice.one_in(3) { dice.below(4) } else { 0 }).map(|_| one(dice)).collect()
}

fn addr(dice: &mut Dice<'_>) -> Addr {
    match dice.below(13) {
        12 => Addr::Table(table(dice, "addrs")),
        0 | 1 => Addr::Any,
        2 => Addr::Me,
        3 => Addr::Me6,
        4 => {
            Addr::Hosts { base: Ipv4Addr::new(10, 0, 1, 0), len: 24, bits: [dice.long(), 0, 0, dice.long()] }
        }
        5 => Addr::Interface { name: dice.of(&["em1", "em2", "igb3", "gone"]).into(), net: dice.one_in(2) },
        _ => Addr::Nets((0..1 + if dice.one_in(4) { dice.below(5) } else { 0 }).map(|_| net(dice)).collect()),
    }
}

fn net(dice: &mut Dice<'_>) -> Net {
    if dice.one_in(2) {
        let mask = match dice.below(6) {
            0 => Ipv4Addr::from_bits(0xff00_00ff),
            len => Ipv4Addr::from_bits(u32::MAX.checked_shl([0, 0, 2, 8, 16, 31][len]).unwrap_or(0)),
        };
        Net::V4 { addr: addr4(dice) & mask, mask }
    } else {
        let shift = dice.of(&[0u32, 0, 16, 64, 79, 95, 128]);
        let mask = Ipv6Addr::from_bits(u128::MAX.checked_shl(shift).unwrap_or(0));
        Net::V6 { addr: addr6(dice) & mask, mask }
    }
}

fn interface(dice: &mut Dice<'_>) -> If {
    match dice.below(5) {
        4 => If::Table(table(dice, "ifs")),
        0 => If::Any,
        1 => If::Name(dice.of(&["em1", "em2", "igb3", "gone"]).into()),
        2 => If::Glob(dice.of(&["em*", "igb*", "*", "x*"]).into()),
        _ => If::Addr(addr4(dice).into()),
    }
}
