//! A rule: when it is meant, and what it does.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

/// Number of a rule, 1 to [`RULE_LAST`]. Several rules may have the same; they keep the order of their arrival.
pub type Number = u16;

/// The number of the last rule, which matches everything and cannot be deleted.
pub const RULE_LAST: Number = 65535;
/// Step from the highest rule number to that of a rule without one.
pub const NUMBER_STEP: Number = 100;
/// Sets of rules, 0 to 31; the last cannot be disabled, and survives `flush`.
pub const SETS: u8 = 32;

/// A rule, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its place; 0 asks for the next free step.
    pub number: Number,
    /// The set it belongs to.
    pub set: u8,
    /// Chance to match, of 2³²; `None` for always. Checked before anything else.
    pub prob: Option<u32>,
    /// The action on a packet that matches.
    pub action: Action,
    /// Whether matches are logged, and how many of them.
    pub log: Option<Log>,
    /// A mark that a matching packet gets or loses.
    pub tag: Option<Tag>,
    /// The clauses, all of which must match.
    pub body: Vec<Clause>,
    /// The state that it makes of a packet that matches.
    pub keep: Option<Keep>,
    /// `nooffload`: no driver forwards the flow of a packet that matches.
    pub no_offload: bool,
    /// The user's comment.
    pub comment: Option<String>,
}

/// The action on a packet that matches.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It goes on, past all other rules.
    Allow,
    /// It dies silently.
    Deny,
    /// It dies, and its sender is told by ICMP (of the packet's family).
    Unreach(Unreach),
    /// `reset`, `reset6`: it dies, and if it is TCP, its sender gets a reset, of whichever family it is.
    Reset,
    /// Only counters change; the walk goes on.
    Count,
    /// The packet's state is looked for; its rule's action is done if there is one.
    CheckState(Flow),
    /// The walk goes on at the first rule with this number or a higher one.
    SkipTo(Arg<Number>),
    /// As [`Action::SkipTo`], also backward, and [`Action::Return`] comes back.
    Call(Arg<Number>),
    /// The walk goes on behind the rule that called last.
    Return,
    /// It goes to this next hop in place of its route's. It is not changed.
    Forward {
        /// The next hop; one of our own addresses gives the packet to us.
        to: Arg<IpAddr>,
        /// For a packet given to us: the port that it is given to.
        port: Option<u16>,
    },
    /// Its destination is replaced by this one, and its replies' source back again (DragonFly).
    Redirect {
        /// The new destination.
        to: IpAddr,
        /// The new port; `None` leaves it.
        port: Option<u16>,
    },
    /// It is translated by an instance of NAT.
    Nat(NatTarget),
    /// IPv6 prefixes are exchanged by the instance of this name (RFC 6296).
    Nptv6(String),
    /// Translated between IPv6 and IPv4 by the instance of this name (RFC 6146).
    Nat64(String),
    /// Fragments are put together, and the whole walks on at the next rule. `defrag` is DragonFly's word.
    Reass,
    /// The maximum segment size of a SYN is lowered to this.
    TcpSetMss(u16),
    /// It gets this code point (6 bits).
    SetDscp(Arg<u8>),
    /// It is routed by the table of this number.
    SetFib(Arg<u8>),
    /// It passes through this pipe.
    Pipe(Arg<u16>),
    /// It passes through this queue of a pipe.
    Queue(Arg<u16>),
}

/// A value, or what the table that matched says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arg<T> {
    /// This one.
    Value(T),
    /// `tablearg`: the value of the entry that matched.
    Table,
}

/// Which instance of NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NatTarget {
    /// The one of this number, or the table's.
    Instance(Arg<u16>),
    /// All of them, in their order: the first that knows the packet's flow.
    Global,
}

/// The error that the sender of a packet receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreach {
    /// `reject`: unreachable host, or for IPv6 no route; of whichever family the packet is.
    Host,
    /// `unreach`: this code of ICMP's destination unreachable. IPv6 packets get what RFC 7915 §5.2 makes of it.
    Code {
        /// The code.
        code: u8,
        /// For code 4, the MTU that is told.
        mtu: Option<u16>,
    },
    /// `unreach6`: this code of ICMPv6's destination unreachable.
    Code6(u8),
}

/// Whether and how often a match is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    /// Matches until it falls silent, 0 for never; `None` for the default limit.
    pub amount: Option<u32>,
}

/// A mark, seen by `tagged`; it ends with the packet's stay here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    /// The packet gets it.
    Set(Arg<u16>),
    /// The packet loses it.
    Unset(Arg<u16>),
}

/// Name of a set of states: `:flow`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The states that were not given a name.
    #[default]
    Default,
    /// All, whatever their name.
    Any,
    /// The states of this name.
    Named(String),
}

/// The state made of a packet that matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Keep {
    /// The kind of state.
    pub kind: KeepKind,
    /// Among which states it is.
    pub flow: Flow,
    /// `defer-action`: only the state is made; the walk goes on.
    pub defer: bool,
}

/// Kinds of states.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeepKind {
    /// `keep-state`: its flow's packets get the action of this rule.
    State,
    /// `limit`: as above, and there are at most so many with the same.
    Limit(Limit),
    /// `record-state`: the state is made without looking for one first.
    Record,
    /// `set-limit`: as above, limited.
    RecordLimit(Limit),
}

/// At most so many states that agree in what `mask` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The fields that counted states share.
    pub mask: LimitMask,
    /// The limit.
    pub max: Arg<u16>,
}

/// Parts of a flow that states are counted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LimitMask {
    /// `src-addr`.
    pub src_addr: bool,
    /// `src-port`.
    pub src_port: bool,
    /// `dst-addr`.
    pub dst_addr: bool,
    /// `dst-port`.
    pub dst_port: bool,
}

/// An or-block: matches if one of its terms does. Most have one.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// The alternatives, at least one.
    pub any: Vec<Term>,
}

/// A match, perhaps negated. A negated match that makes no sense for a packet (the ports of ICMP) matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// `not`.
    pub not: bool,
    /// The match itself.
    pub is: Match,
}

/// One question about a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Match {
    /// `ip`, `all`: any packet.
    Any,
    /// `ip4`, `ipversion 4` and the like: of this version.
    Version(u8),
    /// `proto`: the protocol of the upper layer, behind IPv6's extension headers.
    Proto(u8),
    /// `from`, `src-ip`, `src-ip6`.
    Src(Addr),
    /// `to`, `dst-ip`, `dst-ip6`.
    Dst(Addr),
    /// Source port in one of these ranges; never of a fragment without a header.
    SrcPort(Vec<RangeInclusive<u16>>),
    /// Destination port.
    DstPort(Vec<RangeInclusive<u16>>),
    /// At this hook. `in` is [`Hook::Ingress`], `out` is [`Hook::Egress`]; the others are our own.
    At(Hook),
    /// `recv`: came in by this interface (known at all hooks).
    Recv(If),
    /// `xmit`: leaves by this interface (known from [`Hook::Egress`] on).
    Xmit(If),
    /// `via`: `recv` on the way in, `xmit` on the way out.
    Via(If),
    /// `frag`, with what its flags and offset must be.
    Frag(Frag),
    /// `iplen`: bytes of the packet, header and all.
    IpLen(Vec<RangeInclusive<u16>>),
    /// `ipttl`: time to live, or hop limit.
    IpTtl(Vec<RangeInclusive<u16>>),
    /// `ipid`: IPv4's identification.
    IpId(Vec<RangeInclusive<u16>>),
    /// `ipprecedence`: the upper three bits of IPv4's type of service.
    IpPrecedence(u8),
    /// `iptos`: bits of IPv4's type of service that are set and clear.
    IpTos(Bits<u8>),
    /// `dscp`: one of these code points (bit n for point n).
    Dscp(u64),
    /// `ipoptions`: options that are there and are not ([`ip_option`]).
    IpOptions(Bits<u8>),
    /// `tcpflags`: flags that are set and clear, as in the header.
    TcpFlags(Bits<u8>),
    /// `established`: RST or ACK set.
    Established,
    /// `setup`: SYN without ACK.
    Setup,
    /// `tcpoptions`: options that are there and are not ([`tcp_option`]).
    TcpOptions(Bits<u8>),
    /// `tcpseq`.
    TcpSeq(u32),
    /// `tcpack`.
    TcpAck(u32),
    /// `tcpwin`: the window field, unscaled.
    TcpWin(Vec<RangeInclusive<u16>>),
    /// `tcpmss`: the option of a SYN.
    TcpMss(Vec<RangeInclusive<u16>>),
    /// `tcpdatalen`: bytes of payload.
    TcpDataLen(Vec<RangeInclusive<u16>>),
    /// `icmptypes`: bit n for type n.
    IcmpTypes(u64),
    /// `icmpcodes` (DragonFly).
    IcmpCodes(Vec<RangeInclusive<u16>>),
    /// `icmp6types`: bits of four words, bit n for type n.
    Icmp6Types([u64; 4]),
    /// `ext6hdr`: IPv6 extension headers that are there ([`ext6_header`]).
    Ext6Header(u8),
    /// `flow-id`: one of these labels of IPv6.
    FlowLabel(Vec<u32>),
    /// `mac-type`: one of these types of the frame.
    MacType(Vec<RangeInclusive<u16>>),
    /// `MAC dst src`: link addresses of the frame that it came in, with masks.
    Mac {
        /// Destination address.
        dst: MacMask,
        /// Source address.
        src: MacMask,
    },
    /// `verrevpath`: the route back to the source leaves by the interface that the packet came in by.
    VerRevPath,
    /// `versrcreach`: there is a route back to the source, other than the default one.
    VerSrcReach,
    /// `antispoof`: if the source is of a network on one of our links, the packet came in by that link.
    AntiSpoof,
    /// `tagged`: has one of these marks.
    Tagged(Vec<RangeInclusive<u16>>),
    /// `fib`: is routed by the table of this number.
    Fib(u8),
    /// `lookup KEY TABLE`: this of the packet is in the table.
    Lookup {
        /// The key.
        key: Key,
        /// Where.
        table: TableRef,
    },
    /// `flow TABLE`: the flow is in the table.
    Flow(TableRef),
}

/// Addresses.
#[derive(Clone, Debug, PartialEq)]
pub enum Addr {
    /// `any`.
    Any,
    /// `me`: one of our own, of either family.
    Me,
    /// `me6`: one of our own of IPv6.
    Me6,
    /// One of these, as in `1.2.3.4,10.0.0.0/8`; at least one.
    Nets(Vec<Net>),
    /// `1.2.3.0/24{1,5-9}`: of a network of 24 to 32 bits the hosts whose bit is set, from its first address.
    Hosts {
        /// Its first address.
        base: Ipv4Addr,
        /// Length of the prefix, bits.
        len: u8,
        /// Bit n: the address `base + n`.
        bits: [u64; 4],
    },
    /// `table(T)`.
    Table(TableRef),
    /// `[em0]`, `[em0:net]` (DragonFly): the addresses of an interface, or of its link.
    Interface {
        /// Its name.
        name: String,
        /// Whether all of its link are meant.
        net: bool,
    },
}

/// An address with a mask: bits that are zero in the mask may be anything, and are zero here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Net {
    /// IPv4. The mask need not be a prefix.
    V4 {
        /// The bits that count.
        addr: Ipv4Addr,
        /// Which they are.
        mask: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// The bits that count.
        addr: Ipv6Addr,
        /// Which they are.
        mask: Ipv6Addr,
    },
}

/// A table, and the value that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableRef {
    /// Its name; tables of old have numbers for names.
    pub name: String,
    /// Only entries with this value match.
    pub value: Option<TableArg>,
}

/// The value of a table's entry: a number, or an address for `fwd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableArg {
    /// A number.
    Number(u32),
    /// An address.
    Addr(IpAddr),
}

/// The part of a packet that is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// Destination address.
    DstIp,
    /// Source address.
    SrcIp,
    /// Destination port.
    DstPort,
    /// Source port.
    SrcPort,
    /// Code point.
    Dscp,
    /// Destination link address.
    DstMac,
    /// Source link address.
    SrcMac,
    /// Number of the interface it came in by.
    RecvIf,
}

/// Where in the stack rules are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// A packet has come in, from a wire, and is valid.
    Ingress,
    /// It is for us.
    LocalIn,
    /// A packet to be forwarded, after the route lookup.
    Forward,
    /// We have made it.
    LocalOut,
    /// It leaves by a known interface.
    Egress,
    /// `layer2`: an IP packet in a frame that a bridge forwards.
    Layer2,
    /// Any other frame that a bridge forwards: `layer2` names it, too.
    Frame,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Ingress,
        Self::LocalIn,
        Self::Forward,
        Self::LocalOut,
        Self::Egress,
        Self::Layer2,
        Self::Frame,
    ];

    /// Whether it is one of a bridge.
    #[must_use]
    pub const fn is_layer2(self) -> bool {
        matches!(self, Self::Layer2 | Self::Frame)
    }

    /// Whether the word for `named` matches here. What a bridge forwards has come in, and has not gone out.
    #[must_use]
    pub const fn is(self, named: Self) -> bool {
        match named {
            Self::Ingress => matches!(self, Self::Ingress) || self.is_layer2(),
            Self::Layer2 | Self::Frame => self.is_layer2(),
            _ => self as u8 == named as u8,
        }
    }
}

/// Which interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum If {
    /// Any; for a packet of our own making `recv any` does not match.
    Any,
    /// The one of this name.
    Name(String),
    /// Interfaces whose names match: `*`, `?` and `[…]` as in a shell.
    Glob(String),
    /// The one that has this address.
    Addr(IpAddr),
    /// The interfaces in this table.
    Table(TableRef),
}

/// Parts of a datagram. Without further words: any fragment but the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frag {
    /// Bits of [`frag`] that are set and clear; none for the plain `frag`, and `ipfrag` (DragonFly) asks for any part.
    pub bits: Bits<u8>,
}

/// Bits that must be set and bits that must be clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bits<T> {
    /// Must be set.
    pub set: T,
    /// Must be clear.
    pub clear: T,
}

/// Bits of [`Frag`].
pub mod frag {
    /// `df`: must not be fragmented.
    pub const DF: u8 = 1;
    /// `mf`: more fragments follow.
    pub const MF: u8 = 2;
    /// `rf`: the reserved bit.
    pub const RF: u8 = 4;
    /// `offset`: not the first fragment.
    pub const OFFSET: u8 = 8;
    /// `ipfrag` (DragonFly): any part of a datagram, the first too.
    pub const PART: u8 = 16;
}

/// Bits of [`Match::IpOptions`].
pub mod ip_option {
    /// Loose source route.
    pub const LSRR: u8 = 1;
    /// Strict source route.
    pub const SSRR: u8 = 2;
    /// Record route.
    pub const RR: u8 = 4;
    /// Timestamp.
    pub const TS: u8 = 8;
}

/// Bits of [`Match::TcpOptions`].
pub mod tcp_option {
    /// Maximum segment size.
    pub const MSS: u8 = 1;
    /// Window scale.
    pub const WINDOW: u8 = 2;
    /// Selective acknowledgement: permitted, or blocks.
    pub const SACK: u8 = 4;
    /// Timestamps.
    pub const TS: u8 = 8;
    /// T/TCP connection count (RFC 1644).
    pub const CC: u8 = 16;
}

/// Bits of [`Match::Ext6Header`].
pub mod ext6_header {
    /// Fragment.
    pub const FRAG: u8 = 1;
    /// Hop-by-hop options.
    pub const HOP_OPTIONS: u8 = 2;
    /// Routing.
    pub const ROUTE: u8 = 4;
    /// Destination options.
    pub const DST_OPTIONS: u8 = 8;
    /// Authentication.
    pub const AH: u8 = 16;
    /// Encapsulating security payload.
    pub const ESP: u8 = 32;
    /// Routing of type 0.
    pub const ROUTE0: u8 = 64;
    /// Routing of type 2.
    pub const ROUTE2: u8 = 128;
}

/// A link address with a mask; a mask of zero is `any`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MacMask {
    /// The bits that count.
    pub addr: [u8; 6],
    /// Which they are.
    pub mask: [u8; 6],
}
