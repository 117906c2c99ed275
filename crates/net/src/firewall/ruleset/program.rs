//! Compiled tests, as flat arrays of steps.

use core::ops::Range;
use std::sync::Arc;

use ipfw::rule::{Hook, TableArg};
use pkt::Pkt;

use super::Seen;
use super::header::{Field, frame};
use super::route;
use crate::firewall::pkt_info::{Part, PktInfo};
use crate::firewall::table::Lookup;
use crate::link::tables::Tables;

/// The questions of all rules, one behind the other, and the lists that they need.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    /// For each rule where its steps begin, and where those of the last end.
    pub(super) starts: Vec<u32>,
    pub(super) ranges: Vec<(u32, u32)>,
    pub(super) nets4: Vec<Net<u32>>,
    pub(super) nets6: Vec<Net<u128>>,
    /// Link addresses: a frame's receiver and sender.
    pub(super) macs: Vec<[Net<u64>; 2]>,
    pub(super) sets: Vec<Set>,
    pub(super) uses: Vec<Use>,
}

/// A table that is asked, and the value that alone matches, if not any.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) table: Arc<Lookup>,
    pub(super) value: Option<TableArg>,
}

/// A question, and where to go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) test: Test,
    /// The answer is turned round.
    pub(super) not: bool,
    /// Whether the answer is the same for all packets of a flow.
    pub(super) is_pure: bool,
    /// Whether it asks for what any frame has, also one without an IP packet.
    pub(super) is_of_frame: bool,
    /// Where the next clause begins: there it goes on when this one holds.
    pub(super) next: u32,
}

/// 256 bits.
pub(super) type Set = [u64; 4];

/// An address with a mask; bits outside the mask are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Net<A> {
    pub(super) addr: A,
    pub(super) mask: A,
}

/// A part of one of the program's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    pub(super) start: u32,
    pub(super) len: u32,
}

/// Which end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Src,
    Dst,
}

/// One question about a packet. What does not apply to it is false.
#[derive(Clone, Copy, Debug)]
pub(super) enum Test {
    Always,
    Never,
    Ip4(bool),
    At(Hook),
    Proto(u8),
    /// The port is one of these two or between them.
    Port(End, u16, u16),
    /// The address is in this net of IPv4.
    Net4(End, Net<u32>),
    /// The address is in one of these.
    Nets {
        end: End,
        v4: List,
        v6: List,
    },
    /// The address is one of these of IPv4: at the most 256 from a first one.
    Hosts {
        end: End,
        base: u32,
        set: u32,
    },
    /// The address is one of our own, of IPv6 alone or of any family.
    Me(End, bool),
    /// The field is in one of these ranges.
    In(Field, List),
    /// The field's bit is in this set.
    Set(Field, u32),
    /// TCP flags that are set, and flags that are clear.
    TcpFlags {
        set: u8,
        clear: u8,
    },
    /// Bits of the field are set, and others clear.
    Bits {
        field: Field,
        set: u8,
        clear: u8,
    },
    /// One of these bits of the field is set.
    AnyBit(Field, u8),
    /// The address is in a table.
    Table(End, u32),
    /// The field is.
    TableOf(Field, u32),
    /// The flow is.
    Flow(u32),
    /// The frame's link addresses are these.
    Mac(u32),
    /// One of them is in a table.
    MacTable(End, u32),
    Later,
    VerRevPath,
    VerSrcReach,
    AntiSpoof,
}

/// A packet that is asked about.
pub(super) struct Asked<'a> {
    pub(super) info: &'a PktInfo,
    pub(super) pkt: &'a Pkt,
    pub(super) tables: &'a Tables,
}

impl Program {
    /// Whether all clauses of the rule at a position hold.
    #[inline]
    pub(super) fn holds(&self, rule: u32, asked: &Asked<'_>, seen: &mut Seen) -> bool {
        let Some(&[start, end]) = self.starts.get(rule as usize..).and_then(<[u32]>::first_chunk) else {
            return false;
        };
        let mut at = start;
        while at < end {
            let Some(step) = self.steps.get(at as usize) else { return false };
            seen.is_pure &= step.is_pure;
            at = at.wrapping_add(1);
            if self.test(&step.test, asked, &mut seen.arg) != step.not {
                at = step.next;
            } else if at == step.next {
                return false;
            }
        }
        true
    }

    /// [`Self::holds`] for a frame without an IP packet: what is asked of that does not apply.
    pub(super) fn holds_for_frame(&self, rule: u32, asked: &Asked<'_>, seen: &mut Seen) -> bool {
        let Some(&[start, end]) = self.starts.get(rule as usize..).and_then(<[u32]>::first_chunk) else {
            return false;
        };
        let mut at = start;
        while at < end {
            let Some(step) = self.steps.get(at as usize) else { return false };
            at = at.wrapping_add(1);
            let is_so = step.is_of_frame && self.test(&step.test, asked, &mut seen.arg);
            if is_so != step.not {
                at = step.next;
            } else if at == step.next {
                return false;
            }
        }
        true
    }

    #[inline]
    fn test(&self, test: &Test, asked: &Asked<'_>, arg: &mut Option<TableArg>) -> bool {
        let info = asked.info;
        match *test {
            Test::Proto(proto) => info.proto == proto,
            Test::Port(end, from, to) => info.has_ports() && (from..=to).contains(&end.port(info)),
            Test::Net4(end, net) => info.is_ip4 && end.addr4(info) & net.mask == net.addr,
            Test::TcpFlags { set, clear } => {
                info.is_tcp() && info.tcp_flags & set == set && info.tcp_flags & clear == 0
            }
            _ => self.rarer(test, asked, arg),
        }
    }

    #[inline(never)]
    fn rarer(&self, test: &Test, asked: &Asked<'_>, arg: &mut Option<TableArg>) -> bool {
        let info = asked.info;
        match *test {
            Test::Always => true,
            Test::Never | Test::Proto(_) | Test::Port(..) | Test::Net4(..) | Test::TcpFlags { .. } => false,
            Test::Ip4(is_ip4) => info.is_ip4 == is_ip4,
            Test::At(hook) => info.hook.is(hook),
            Test::Nets { end, v4, .. } if info.is_ip4 => {
                let addr = end.addr4(info);
                part(&self.nets4, v4).iter().any(|net| addr & net.mask == net.addr)
            }
            Test::Nets { end, v6, .. } => {
                let addr = end.addr(info);
                part(&self.nets6, v6).iter().any(|net| addr & net.mask == net.addr)
            }
            Test::Hosts { end, base, set } => {
                info.is_ip4 && self.set_has(set, end.addr4(info).wrapping_sub(base))
            }
            Test::Me(end, only_ip6) => !(only_ip6 && info.is_ip4) && asked.tables.is_ours(end.ip_addr(info)),
            Test::In(field, list) => field.of(asked).is_some_and(|value| {
                part(&self.ranges, list).iter().any(|(from, to)| (*from..=*to).contains(&value))
            }),
            Test::Set(field, set) => field.of(asked).is_some_and(|value| self.set_has(set, value)),
            Test::Bits { field, set, clear } => field.of(asked).is_some_and(|value| {
                let (set, clear) = (u32::from(set), u32::from(clear));
                value & set == set && value & clear == 0
            }),
            Test::AnyBit(field, bits) => field.of(asked).is_some_and(|value| value & u32::from(bits) != 0),
            Test::Table(end, at) => self.ask(at, arg, |table| table.addr(info.is_ip4, end.addr(info))),
            Test::TableOf(field, at) => self.ask(at, arg, |table| table.number(field.of(asked)?)),
            Test::Flow(at) => self.ask(at, arg, |table| table.flow(info)),
            Test::Mac(at) => frame(asked).is_some_and(|frame| {
                let meant = self.macs.get(at as usize);
                meant
                    .is_some_and(|meant| meant.iter().zip(frame).all(|(net, mac)| mac & net.mask == net.addr))
            }),
            Test::MacTable(end, at) => self.ask(at, arg, |table| {
                let [dst, src] = frame(asked)?;
                table.mac(if end == End::Src { src } else { dst })
            }),
            Test::Later => info.part == Part::Later,
            Test::VerRevPath => route::leads_back(asked),
            Test::VerSrcReach => route::reaches_back(asked),
            Test::AntiSpoof => route::is_no_spoof(asked),
        }
    }

    /// Whether something is in a table, with the value that is asked for. What was found is `tablearg`.
    fn ask(
        &self,
        at: u32,
        arg: &mut Option<TableArg>,
        find: impl FnOnce(&Lookup) -> Option<TableArg>,
    ) -> bool {
        let Some(asked) = self.uses.get(at as usize) else { return false };
        let found = find(&asked.table).filter(|found| asked.value.is_none_or(|value| value == *found));
        *arg = found.or(*arg);
        found.is_some()
    }

    fn set_has(&self, set: u32, value: u32) -> bool {
        let word = self.sets.get(set as usize).and_then(|set| set.get((value >> 6) as usize));
        word.is_some_and(|word| word >> (value & 63) & 1 != 0)
    }
}

fn part<T>(all: &[T], list: List) -> &[T] {
    all.get(list.range()).unwrap_or_default()
}

impl List {
    fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

impl End {
    #[inline]
    pub(super) const fn addr(self, info: &PktInfo) -> u128 {
        match self {
            Self::Src => info.src,
            Self::Dst => info.dst,
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address is in the lower bits")]
    const fn addr4(self, info: &PktInfo) -> u32 {
        self.addr(info) as u32
    }

    fn ip_addr(self, info: &PktInfo) -> core::net::IpAddr {
        match self {
            Self::Src => info.src_addr(),
            Self::Dst => info.dst_addr(),
        }
    }

    #[inline]
    const fn port(self, info: &PktInfo) -> u16 {
        match self {
            Self::Src => info.src_port,
            Self::Dst => info.dst_port,
        }
    }
}
