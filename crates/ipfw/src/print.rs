//! Values to text: the form that `ipfw list` shows, which parses to the same value again.

mod matches;
mod command;
mod config;

use core::fmt::{self, Display, Formatter};
use core::net::IpAddr;
use core::ops::RangeInclusive;

use crate::names::{self, Names};
use crate::rule::{
    Action, Addr, Arg, Clause, Flow, Keep, KeepKind, Limit, Match, NatTarget, Rule, Tag, Term, Unreach,
};

/// `00100 allow tcp from any to me 80 setup keep-state`. The set is shown if it is not 0, and with `{:#}` always, as
/// `ipfw -S list` does. A rule that has no number yet shows none.
impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.number != 0 {
            write!(f, "{:05} ", self.number)?;
        }
        if self.set != 0 || f.alternate() {
            write!(f, "set {} ", self.set)?;
        }
        if let Some(prob) = self.prob {
            write!(f, "prob {} ", Share(prob))?;
        }
        write!(f, "{}", self.action)?;
        if let Some(log) = self.log {
            f.write_str(" log")?;
            if let Some(amount) = log.amount {
                write!(f, " logamount {amount}")?;
            }
        }
        match self.tag {
            Some(Tag::Set(tag)) => write!(f, " tag {tag}")?,
            Some(Tag::Unset(tag)) => write!(f, " untag {tag}")?,
            None => {}
        }
        body(f, &self.body)?;
        if let Some(keep) = &self.keep {
            write!(f, " {keep}")?;
        }
        f.write_str(if self.no_offload { " nooffload" } else { "" })?;
        match &self.comment {
            Some(comment) => write!(f, " // {comment}"),
            None => Ok(()),
        }
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => f.write_str("allow"),
            Self::Deny => f.write_str("deny"),
            Self::Unreach(unreach) => write!(f, "{unreach}"),
            Self::Reset => f.write_str("reset"),
            Self::Count => f.write_str("count"),
            Self::CheckState(flow) => write!(f, "check-state{flow}"),
            Self::SkipTo(number) => write!(f, "skipto {number}"),
            Self::Call(number) => write!(f, "call {number}"),
            Self::Return => f.write_str("return"),
            Self::Forward { to, port } => write!(f, "fwd {to}{}", Port(*port)),
            Self::Redirect { to, port } => write!(f, "rdr {to}{}", Port(*port)),
            Self::Nat(NatTarget::Instance(number)) => write!(f, "nat {number}"),
            Self::Nat(NatTarget::Global) => f.write_str("nat global"),
            Self::Nptv6(name) => write!(f, "nptv6 {name}"),
            Self::Nat64(name) => write!(f, "nat64lsn {name}"),
            Self::Reass => f.write_str("reass"),
            Self::TcpSetMss(bytes) => write!(f, "tcp-setmss {bytes}"),
            Self::SetDscp(Arg::Value(dscp)) => write!(f, "setdscp {}", Named(names::DSCP, *dscp)),
            Self::SetDscp(Arg::Table) => f.write_str("setdscp tablearg"),
            Self::SetFib(fib) => write!(f, "setfib {fib}"),
            Self::Pipe(number) => write!(f, "pipe {number}"),
            Self::Queue(number) => write!(f, "queue {number}"),
        }
    }
}

impl Display for Unreach {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Host => f.write_str("reject"),
            Self::Code { code, mtu } => {
                write!(f, "unreach {}", Named(names::UNREACH, code))?;
                mtu.map_or(Ok(()), |mtu| write!(f, " {mtu}"))
            }
            Self::Code6(code) => write!(f, "unreach6 {}", Named(names::UNREACH6, code)),
        }
    }
}

impl<T: Display> Display for Arg<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::Table => f.write_str("tablearg"),
        }
    }
}

/// With a blank in front, or nothing.
impl Display for Flow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => Ok(()),
            Self::Any => f.write_str(" :any"),
            Self::Named(name) => write!(f, " :{name}"),
        }
    }
}

impl Display for Keep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.kind {
            KeepKind::State => f.write_str("keep-state")?,
            KeepKind::Limit(limit) => write!(f, "limit{limit}")?,
            KeepKind::Record => f.write_str("record-state")?,
            KeepKind::RecordLimit(limit) => write!(f, "set-limit{limit}")?,
        }
        write!(f, "{}", self.flow)?;
        f.write_str(if self.defer { " defer-action" } else { "" })
    }
}

impl Display for Limit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.mask.src_addr, "src-addr"),
            (self.mask.src_port, "src-port"),
            (self.mask.dst_addr, "dst-addr"),
            (self.mask.dst_port, "dst-port"),
        ];
        for (_, word) in parts.iter().filter(|(is_set, _)| *is_set) {
            write!(f, " {word}")?;
        }
        write!(f, " {}", self.max)
    }
}

/// `proto from src ports to dst ports` if the body begins so, and the other matches; each with a blank in front.
fn body(f: &mut Formatter<'_>, body: &[Clause]) -> fmt::Result {
    let mut rest = body;
    if let [proto, src, tail @ ..] = body
        && all(proto, |is| matches!(is, Match::Any | Match::Version(_) | Match::Proto(_)))
        && all(src, |is| matches!(is, Match::Src(_)))
    {
        let (src_ports, tail) = take_ports(tail, |is| matches!(is, Match::SrcPort(_)));
        if let [dst, tail @ ..] = tail
            && all(dst, |is| matches!(is, Match::Dst(_)))
        {
            let (dst_ports, tail) = take_ports(tail, |is| matches!(is, Match::DstPort(_)));
            write!(f, " {}", Block(proto))?;
            write!(f, " from {}", Block(src))?;
            src_ports.map_or(Ok(()), |ports| write!(f, " {}", Block(ports)))?;
            write!(f, " to {}", Block(dst))?;
            dst_ports.map_or(Ok(()), |ports| write!(f, " {}", Block(ports)))?;
            rest = tail;
        }
    }
    for (i, clause) in rest.iter().enumerate() {
        // a body that begins with a protocol must go on with addresses, so that here it says `proto`
        match i == 0 && rest.len() == body.len() {
            true => write!(f, " {}", First(clause))?,
            false => write!(f, " {clause}")?,
        }
    }
    Ok(())
}

/// The first clause of a body of matches only.
struct First<'a>(&'a Clause);

impl Display for First<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        block(f, self.0, |f, term| match term.is {
            Match::Version(version) => write!(f, "{}proto ip{version}", if term.not { "not " } else { "" }),
            _ => write!(f, "{term}"),
        })
    }
}

fn all(clause: &Clause, is: impl Fn(&Match) -> bool) -> bool {
    clause.any.iter().all(|term| is(&term.is))
}

/// The first clause, if it is about ports and has no alternatives: ports have no braces.
fn take_ports(body: &[Clause], is: impl Fn(&Match) -> bool) -> (Option<&Clause>, &[Clause]) {
    match body {
        [first, rest @ ..] if first.any.len() == 1 && all(first, is) => (Some(first), rest),
        _ => (None, body),
    }
}

/// A clause as it stands among other matches.
impl Display for Clause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        block(f, self, |f, term| write!(f, "{term}"))
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.not { "not " } else { "" }, self.is)
    }
}

/// A clause where the place says what it is about: a protocol, an address, ports.
struct Block<'a>(&'a Clause);

impl Display for Block<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        block(f, self.0, |f, term| {
            f.write_str(if term.not { "not " } else { "" })?;
            match &term.is {
                Match::Any => f.write_str("ip"),
                Match::Version(version) => write!(f, "ip{version}"),
                Match::Proto(proto) => write!(f, "{}", Named(names::PROTOCOLS, *proto)),
                Match::Src(addr) | Match::Dst(addr) => write!(f, "{addr}"),
                Match::SrcPort(ports) | Match::DstPort(ports) => write!(f, "{}", Ranges(ports)),
                other => write!(f, "{other}"),
            }
        })
    }
}

fn block(
    f: &mut Formatter<'_>,
    clause: &Clause,
    one: impl Fn(&mut Formatter<'_>, &Term) -> fmt::Result,
) -> fmt::Result {
    if let [term] = clause.any.as_slice() {
        return one(f, term);
    }
    f.write_str("{ ")?;
    for (i, term) in clause.any.iter().enumerate() {
        f.write_str(if i > 0 { " or " } else { "" })?;
        one(f, term)?;
    }
    f.write_str(" }")
}

/// `,80`, or nothing.
struct Port(Option<u16>);

impl Display for Port {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |port| write!(f, ",{port}"))
    }
}

/// A number by its name, if it has one.
struct Named(&'static Names<u8>, u8);

impl Display for Named {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match names::word(self.0, self.1) {
            Some(word) => f.write_str(word),
            None => write!(f, "{}", self.1),
        }
    }
}

/// `80,443,6000-6063`.
struct Ranges<'a, T>(&'a [RangeInclusive<T>]);

impl<T: Display + PartialEq> Display for Ranges<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            write!(f, "{}", range.start())?;
            if range.end() != range.start() {
                write!(f, "-{}", range.end())?;
            }
        }
        Ok(())
    }
}

/// A share of 2³² with as few digits as tell it from its neighbours.
struct Share(u32);

impl Display for Share {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let share = u128::from(self.0);
        for digits in 1..=12 {
            let scale = 10_u128.pow(digits);
            let tenths = ((share * scale) + (1 << 31)) >> 32;
            let again = ((tenths << 32) + scale / 2) / scale;
            if again == share && tenths < scale {
                return write!(f, "0.{tenths:0width$}", width = digits as usize);
            }
        }
        f.write_str("1")
    }
}

/// Returns the prefix length of a mask, if it is one.
fn prefix_len(mask: IpAddr) -> Option<u32> {
    let (bits, width) = match mask {
        IpAddr::V4(mask) => (u128::from(mask.to_bits()) << 96, 32),
        IpAddr::V6(mask) => (mask.to_bits(), 128),
    };
    let len = bits.leading_ones();
    (len.min(width) == bits.count_ones()).then_some(len)
}

/// The bits that are set, as numbers with commas between them.
fn numbers(f: &mut Formatter<'_>, bits: &[u64]) -> fmt::Result {
    let all =
        (0_u32..).zip(bits).flat_map(|(i, word)| (0..64).map(move |bit| (i * 64 + bit, word >> bit & 1)));
    let set = all.filter(|&(_, bit)| bit != 0);
    set.enumerate().try_for_each(|(i, (n, _))| write!(f, "{}{n}", if i > 0 { "," } else { "" }))
}

/// Ranges of hosts: the bits that are set, as numbers from `first` on.
fn hosts(f: &mut Formatter<'_>, bits: &[u64; 4], first: u32) -> fmt::Result {
    let is_set = |n: u32| n < 256 && bits[n as usize / 64] >> (n % 64) & 1 != 0;
    let mut comma = "";
    for from in (0..256).filter(|&n| is_set(n) && (n == 0 || !is_set(n - 1))) {
        let to = (from..256).find(|&n| !is_set(n + 1)).unwrap_or(from);
        match from == to {
            true => write!(f, "{comma}{}", from + first)?,
            false => write!(f, "{comma}{}-{}", from + first, to + first)?,
        }
        comma = ",";
    }
    Ok(())
}

/// So that a list of addresses says which of its clauses is which.
fn addr_option(side: &str, addr: &Addr) -> String {
    let is_v6 = match addr {
        Addr::Me6 => true,
        Addr::Nets(nets) => nets.iter().all(|net| matches!(net, crate::rule::Net::V6 { .. })),
        _ => false,
    };
    format!("{side}-ip{}", if is_v6 { "6" } else { "" })
}
