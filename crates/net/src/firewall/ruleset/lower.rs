//! From what people write to what is asked.

use core::ops::RangeInclusive;

use ipfw::rule::{Action, Addr, Arg, Frag, Hook, If, KeepKind, Key, Match, Rule, TableRef, frag, tcp_option};
use ipfw::rule::{Bits, Clause, MacMask, Net as Cidr, Term};
use wire::tcp::Flags;

use super::header::Field;
use super::probes::Probes;
use super::program::{End, List, Net, Program, Set, Step, Test, Use};
use super::tree::{self, Area, Forest};
use super::{Compiled, Entry, Plain, Ruleset, Scope, resolve, view};
use crate::firewall::table::Lookups;
use crate::link::tables::Tables;

/// Compiles a list of rules. Those whose set is disabled are there for their states, and are not asked.
pub(super) fn lower(
    list: &[Entry],
    disabled: u32,
    generation: u64,
    tables: &Tables,
    lookups: &Lookups,
) -> Ruleset {
    let mut lowering = Lowering { program: Program::default(), tables, lookups };
    let is_asked = |rule: &Rule| disabled.checked_shr(rule.set.into()).is_none_or(|bits| bits & 1 == 0);
    let rules: Vec<_> = list.iter().map(|entry| lowering.rule(entry, is_asked(&entry.rule))).collect();
    let (forest, probes) = (forest(list, &rules, tables), Probes::of(&rules));
    let end = lowering.at();
    lowering.program.starts.push(end);
    let (program, lookups) = (lowering.program, lookups.generation());
    let redirects = rules.iter().any(Compiled::redirects);
    let mut ruleset =
        Ruleset { generation, lookups, rules, program, forest, probes, redirects, ..Ruleset::default() };
    for at in 0..ruleset.rules.len() {
        let target = target(&ruleset, at);
        ruleset.rules[at].target = target;
    }
    let of_frames = ruleset.rules.iter().zip(0..).filter(|(rule, _)| rule.scope.meets(FRAMES));
    ruleset.frames = of_frames.map(|(_, at)| at).collect();
    ruleset.places = places(&ruleset.rules);
    ruleset.passing = passing(&ruleset.rules, ruleset.places.len());
    for hook in Hook::ALL.into_iter().filter(|hook| *hook != Hook::Frame) {
        for is_ip4 in [true, false] {
            ruleset.looks_first[view(hook, is_ip4)] = ruleset.finds_first(Scope::at(hook, is_ip4));
        }
    }
    ruleset
}

fn forest(list: &[Entry], rules: &[Compiled], tables: &Tables) -> Forest {
    let areas = |is_ip4| -> Vec<Vec<Area>> {
        list.iter().map(|entry| tree::area(&entry.rule, is_ip4, tables)).collect()
    };
    let (of_ip4, of_ip6) = (areas(true), areas(false));
    tree::build(|scope| {
        if !scope.meets(EVERY_IP) {
            return Vec::new();
        }
        let areas = if scope.meets(EVERY_IP4) { &of_ip4 } else { &of_ip6 };
        let all = rules.iter().zip(areas).zip(0..);
        let here = all.filter(|((rule, _), _)| rule.scope.meets(scope));
        here.flat_map(|((_, areas), at)| areas.iter().map(move |area| (*area, at))).collect()
    })
}

/// Where a jump with a fixed number leads.
fn target(ruleset: &Ruleset, at: usize) -> Option<usize> {
    match ruleset.rules.get(at)?.action {
        Action::SkipTo(Arg::Value(number)) => Some(ruleset.position_of_number(number).max(at + 1)),
        Action::Call(Arg::Value(number)) => Some(ruleset.position_of_number(number)),
        _ => None,
    }
}

fn places(rules: &[Compiled]) -> Vec<Option<(u16, u32)>> {
    let slots = rules.iter().map(|rule| usize::from(rule.id.slot) + 1).max().unwrap_or(0);
    let mut places = vec![None; slots];
    for (rule, at) in rules.iter().zip(0..) {
        places[usize::from(rule.id.slot)] = Some((rule.id.epoch, at));
    }
    places
}

fn passing(rules: &[Compiled], slots: usize) -> Vec<u32> {
    let mut passing = vec![0; slots];
    for Compiled { id, .. } in rules.iter().filter(|rule| rule.plain == Some(Plain::Pass)) {
        passing[usize::from(id.slot)] = u32::from(id.epoch) + 1;
    }
    passing
}

const EVERYWHERE: Scope = EVERY_IP.with(FRAMES);
const EVERY_IP: Scope = Scope((1 << 12) - 1);
const FRAMES: Scope = Scope::at(Hook::Frame, false);

struct Lowering<'t> {
    program: Program,
    tables: &'t Tables,
    lookups: &'t Lookups,
}

impl Lowering<'_> {
    fn rule(&mut self, entry: &Entry, is_asked: bool) -> Compiled {
        let rule = &entry.rule;
        let start = self.at();
        self.program.starts.push(start);
        let mut scope = if is_asked { scope(&rule.body) } else { Scope::NOWHERE };
        for clause in &rule.body {
            match decided(clause) {
                Some(holds_at) => scope = scope.and(holds_at),
                None => self.clause(clause),
            }
            if !clause.any.iter().any(|term| term.not || is_of_frame(&term.is)) {
                scope = scope.and(EVERY_IP);
            }
        }
        Compiled {
            id: entry.id,
            number: rule.number,
            set: rule.set,
            prob: rule.prob,
            action: rule.action.clone(),
            target: None,
            log: rule.log,
            tag: rule.tag,
            keep: rule.keep.clone(),
            no_offload: rule.no_offload,
            flow: entry.flow,
            plain: plain(rule),
            certainly: plain(rule).filter(|_| rule.prob.is_none() && rule.keep.is_none()),
            only_keeps: plain(rule) == Some(Plain::Pass) && rule.prob.is_none() && is_plain_keep(rule),
            scope,
            asks_nothing: self.at() == start,
        }
    }

    fn at(&self) -> u32 {
        index(self.program.steps.len())
    }

    fn clause(&mut self, clause: &Clause) {
        let next = self.at() + index(clause.any.len());
        for term in &clause.any {
            let test = self.test(&term.is);
            let is_of_frame = is_of_frame(&term.is);
            let step = Step { test, not: term.not, is_pure: is_pure(&test), is_of_frame, next };
            self.program.steps.push(step);
        }
    }

    fn test(&mut self, is: &Match) -> Test {
        match is {
            Match::Any => Test::Always,
            Match::Version(version) => match version {
                4 => Test::Ip4(true),
                6 => Test::Ip4(false),
                _ => Test::Never,
            },
            Match::Proto(proto) => Test::Proto(*proto),
            Match::Src(addr) => self.addr(End::Src, addr),
            Match::Dst(addr) => self.addr(End::Dst, addr),
            Match::SrcPort(ports) => self.ports(End::Src, ports),
            Match::DstPort(ports) => self.ports(End::Dst, ports),
            Match::At(hook) => Test::At(*hook),
            Match::Recv(which) => self.interface(Field::Recv, which),
            Match::Xmit(which) => self.interface(Field::Xmit, which),
            Match::Via(which) => self.interface(Field::Via, which),
            Match::Frag(Frag { bits: Bits { set: 0, clear: 0 } }) => Test::Later,
            Match::Frag(Frag { bits }) => of_bits(Field::Frag, *bits),
            Match::Mac { dst, src } => self.macs([*dst, *src]),
            Match::VerRevPath => Test::VerRevPath,
            Match::VerSrcReach => Test::VerSrcReach,
            Match::AntiSpoof => Test::AntiSpoof,
            Match::Lookup { key, table } => self.lookup(*key, table),
            Match::Flow(table) => self.asks(table, Test::Flow),
            _ => self.of_header(is),
        }
    }

    fn of_header(&mut self, is: &Match) -> Test {
        match is {
            Match::IpLen(ranges) => self.ranges(Field::IpLen, ranges),
            Match::IpTtl(ranges) => self.ranges(Field::IpTtl, ranges),
            Match::IpId(ranges) => self.ranges(Field::IpId, ranges),
            Match::IpPrecedence(precedence) => self.is(Field::IpPrecedence, (*precedence).into()),
            Match::IpTos(bits) => of_bits(Field::IpTos, *bits),
            Match::Dscp(points) => self.set(Field::Dscp, [*points, 0, 0, 0]),
            Match::IpOptions(bits) => of_bits(Field::IpOptions, *bits),
            Match::TcpFlags(bits) => Test::TcpFlags { set: bits.set, clear: bits.clear },
            Match::Established => Test::AnyBit(Field::TcpFlags, Flags::RST.0 | Flags::ACK.0),
            Match::Setup => Test::TcpFlags { set: Flags::SYN.0, clear: Flags::ACK.0 },
            Match::TcpOptions(bits) => of_bits(Field::TcpOptions, *bits),
            Match::TcpSeq(seq) => self.is(Field::TcpSeq, *seq),
            Match::TcpAck(ack) => self.is(Field::TcpAck, *ack),
            Match::TcpWin(ranges) => self.ranges(Field::TcpWin, ranges),
            Match::TcpMss(ranges) => self.ranges(Field::TcpMss, ranges),
            Match::TcpDataLen(ranges) => self.ranges(Field::TcpDataLen, ranges),
            Match::IcmpTypes(types) => self.set(Field::IcmpType, [*types, 0, 0, 0]),
            Match::IcmpCodes(ranges) => self.ranges(Field::IcmpCode, ranges),
            Match::Icmp6Types(types) => self.set(Field::Icmp6Type, *types),
            Match::Ext6Header(kinds) => Test::AnyBit(Field::Ext6, *kinds),
            Match::FlowLabel(labels) => {
                let list = labels.iter().map(|label| (*label, *label));
                Test::In(Field::FlowLabel, push(&mut self.program.ranges, list))
            }
            Match::MacType(ranges) => self.ranges(Field::MacType, ranges),
            Match::Tagged(ranges) => self.ranges(Field::Tag, ranges),
            Match::Fib(fib) => self.is(Field::Fib, u32::from(*fib)),
            _ => Test::Never,
        }
    }

    fn addr(&mut self, end: End, addr: &Addr) -> Test {
        match addr {
            Addr::Any => Test::Always,
            Addr::Me => Test::Me(end, false),
            Addr::Me6 => Test::Me(end, true),
            Addr::Nets(nets) => self.nets(end, nets.iter().copied()),
            Addr::Hosts { base, bits, .. } => {
                Test::Hosts { end, base: base.to_bits(), set: self.push_set(*bits) }
            }
            Addr::Table(table) => self.asks(table, |at| Test::Table(end, at)),
            Addr::Interface { name, net } => {
                self.nets(end, resolve::addresses(name, *net, self.tables).into_iter())
            }
        }
    }

    fn nets(&mut self, end: End, nets: impl Iterator<Item = Cidr> + Clone) -> Test {
        let v4 = nets.clone().filter_map(|net| match net {
            Cidr::V4 { addr, mask } => Some((addr.to_bits(), mask.to_bits())),
            Cidr::V6 { .. } => None,
        });
        let v6 = nets.filter_map(|net| match net {
            Cidr::V6 { addr, mask } => Some((addr.to_bits(), mask.to_bits())),
            Cidr::V4 { .. } => None,
        });
        let v4: Vec<_> = v4.map(|(addr, mask)| Net { addr: addr & mask, mask }).collect();
        let v6: Vec<_> = v6.map(|(addr, mask)| Net { addr: addr & mask, mask }).collect();
        match (&*v4, &*v6) {
            ([one], []) => Test::Net4(end, *one),
            _ => Test::Nets {
                end,
                v4: push(&mut self.program.nets4, v4),
                v6: push(&mut self.program.nets6, v6),
            },
        }
    }

    fn macs(&mut self, meant: [MacMask; 2]) -> Test {
        let nets = meant.map(|meant| {
            let [addr, mask] = [meant.addr, meant.mask].map(|[a, b, c, d, e, f]| [0, 0, a, b, c, d, e, f]);
            let [addr, mask] = [addr, mask].map(u64::from_be_bytes);
            Net { addr: addr & mask, mask }
        });
        if nets.iter().all(|net| net.mask == 0) {
            return Test::Always;
        }
        self.program.macs.push(nets);
        Test::Mac(index(self.program.macs.len() - 1))
    }

    fn ports(&mut self, end: End, ranges: &[RangeInclusive<u16>]) -> Test {
        let field = if end == End::Src { Field::SrcPort } else { Field::DstPort };
        match ranges {
            [one] => Test::Port(end, *one.start(), *one.end()),
            _ => self.ranges(field, ranges),
        }
    }

    fn ranges(&mut self, field: Field, ranges: &[RangeInclusive<u16>]) -> Test {
        let ranges = ranges.iter().map(|range| (u32::from(*range.start()), u32::from(*range.end())));
        Test::In(field, push(&mut self.program.ranges, ranges))
    }

    fn is(&mut self, field: Field, value: u32) -> Test {
        Test::In(field, push(&mut self.program.ranges, [(value, value)]))
    }

    fn interface(&mut self, field: Field, which: &If) -> Test {
        match (which, resolve::interfaces(which, self.tables)) {
            (If::Table(table), _) => self.asks(table, |at| Test::TableOf(field, at)),
            (_, Some(set)) => self.set(field, set),
            (_, None) => Test::Never,
        }
    }

    fn lookup(&mut self, key: Key, table: &TableRef) -> Test {
        let field = match key {
            Key::DstIp => return self.asks(table, |at| Test::Table(End::Dst, at)),
            Key::SrcIp => return self.asks(table, |at| Test::Table(End::Src, at)),
            Key::DstPort => Field::DstPort,
            Key::SrcPort => Field::SrcPort,
            Key::Dscp => Field::Dscp,
            Key::RecvIf => Field::Recv,
            Key::DstMac => return self.asks(table, |at| Test::MacTable(End::Dst, at)),
            Key::SrcMac => return self.asks(table, |at| Test::MacTable(End::Src, at)),
        };
        self.asks(table, |at| Test::TableOf(field, at))
    }

    /// A question to a table. One that is not there has no entries.
    fn asks(&mut self, table: &TableRef, test: impl FnOnce(u32) -> Test) -> Test {
        let Some(found) = self.lookups.get(&table.name) else { return Test::Never };
        self.program.uses.push(Use { table: found, value: table.value });
        test(index(self.program.uses.len() - 1))
    }

    fn set(&mut self, field: Field, set: Set) -> Test {
        Test::Set(field, self.push_set(set))
    }

    fn push_set(&mut self, set: Set) -> u32 {
        self.program.sets.push(set);
        index(self.program.sets.len() - 1)
    }
}

/// Whether a match asks for what any frame has, also one without an IP packet.
const fn is_of_frame(is: &Match) -> bool {
    matches!(
        is,
        Match::Any
            | Match::Src(Addr::Any)
            | Match::Dst(Addr::Any)
            | Match::At(_)
            | Match::Recv(_)
            | Match::Xmit(_)
            | Match::Via(_)
            | Match::Mac { .. }
            | Match::MacType(_)
            | Match::Tagged(_)
            | Match::Fib(_)
            | Match::Lookup { key: Key::SrcMac | Key::DstMac | Key::RecvIf, .. }
    )
}

/// Where a rule is asked: on the way in and out, and by bridges, unless it names another hook; then its words decide.
fn scope(body: &[Clause]) -> Scope {
    let names_another = |term: &Term| {
        !term.not && matches!(term.is, Match::At(Hook::LocalIn | Hook::Forward | Hook::LocalOut))
    };
    if body.iter().flat_map(|clause| &clause.any).any(names_another) {
        EVERYWHERE
    } else {
        let by_default = [Hook::Ingress, Hook::Egress, Hook::Layer2, Hook::Frame];
        by_default.into_iter().fold(Scope::NOWHERE, |all, hook| all.with(Scope::hook(hook)))
    }
}

/// Where a clause holds, if hook and family decide that.
fn decided(clause: &Clause) -> Option<Scope> {
    clause.any.iter().try_fold(Scope::NOWHERE, |all, term| {
        let holds_at = match term.is {
            Match::Any | Match::Src(Addr::Any) | Match::Dst(Addr::Any) => EVERYWHERE,
            Match::At(named) => at(named),
            Match::Version(4) => EVERY_IP4,
            Match::Version(6) => EVERY_IP.and(EVERY_IP4.not()),
            Match::Version(_) => Scope::NOWHERE,
            _ => return None,
        };
        Some(all.with(if term.not { holds_at.not() } else { holds_at }))
    })
}

/// Where the word for a hook matches.
fn at(named: Hook) -> Scope {
    let all = Hook::ALL.into_iter().filter(|hook| hook.is(named));
    all.fold(Scope::NOWHERE, |all, hook| all.with(Scope::hook(hook)))
}

const EVERY_IP4: Scope = Scope(0b1010_1010_1010);

impl Scope {
    const fn not(self) -> Self {
        Self(EVERYWHERE.0 & !self.0)
    }
}

fn is_pure(test: &Test) -> bool {
    match test {
        Test::In(field, _)
        | Test::Set(field, _)
        | Test::TableOf(field, _)
        | Test::Bits { field, .. }
        | Test::AnyBit(field, _) => field.is_pure(),
        Test::TcpFlags { .. } | Test::Mac(_) | Test::MacTable(..) => false,
        _ => true,
    }
}

const fn of_bits(field: Field, bits: Bits<u8>) -> Test {
    Test::Bits { field, set: bits.set, clear: bits.clear }
}

fn push<T>(all: &mut Vec<T>, new: impl IntoIterator<Item = T>) -> List {
    let start = all.len();
    all.extend(new);
    List { start: index(start), len: index(all.len() - start) }
}

const fn plain(rule: &Rule) -> Option<Plain> {
    match rule.action {
        Action::Allow if rule.log.is_none() && rule.tag.is_none() => Some(Plain::Pass),
        Action::Deny if rule.log.is_none() && rule.tag.is_none() => Some(Plain::Die),
        _ => None,
    }
}

fn is_plain_keep(rule: &Rule) -> bool {
    rule.keep.as_ref().is_some_and(|keep| keep.kind == KeepKind::State && !keep.defer)
}

/// Fewer than 2³² of anything: there are 65,535 rules, each of which fits a line.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

const _: () = assert!(frag::PART == 16 && tcp_option::CC == 16, "bits fit the fields they are asked of");
