//! Commands: one for each line.

use core::net::{IpAddr, Ipv4Addr};
use core::ops::RangeInclusive;

use crate::rule::{Number, Rule, TableArg};

/// A line of a rules file, or what stands behind `pantala ipfw`.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `add`.
    Add(Rule),
    /// `delete [set N] num…`, also ranges.
    Delete {
        /// Only rules of this set; alone: all of it.
        set: Option<u8>,
        /// Which.
        numbers: Vec<RangeInclusive<Number>>,
    },
    /// `list`, `show` (with counters).
    List {
        /// Whether counters are asked for.
        counters: bool,
        /// `set N list`: only this set.
        set: Option<u8>,
        /// Only these; empty for all.
        numbers: Vec<RangeInclusive<Number>>,
    },
    /// `flush`: all rules but those of set 31.
    Flush {
        /// Only this set.
        set: Option<u8>,
    },
    /// `zero`: counters become zero.
    Zero {
        /// `set N zero`: only in this set.
        set: Option<u8>,
        /// The rules; empty for all.
        numbers: Vec<RangeInclusive<Number>>,
    },
    /// `resetlog`: rules that fell silent log again.
    ResetLog {
        /// `set N resetlog`: only in this set.
        set: Option<u8>,
        /// These rules; empty for all.
        numbers: Vec<RangeInclusive<Number>>,
    },
    /// `enable`, `disable`.
    Switch {
        /// The switch.
        what: Switch,
        /// On or off.
        on: bool,
    },
    /// `set …`.
    Set(SetCommand),
    /// `table NAME …`.
    Table {
        /// Its name; `None` for `all`.
        name: Option<String>,
        /// The command for it.
        what: TableCommand,
    },
    /// `nat N config …`.
    NatConfig {
        /// Its number.
        number: u16,
        /// Its configuration.
        config: NatConfig,
    },
    /// `nat N delete`.
    NatDelete(u16),
    /// `nat [N] show`, and with `config` how it was configured.
    NatShow {
        /// Its number; `None` for all.
        number: Option<u16>,
        /// Whether the configuration is asked for, and not what it has done.
        config: bool,
    },
    /// `nptv6 NAME create …`.
    Nptv6Create {
        /// Its name.
        name: String,
        /// Its configuration.
        config: Nptv6Config,
    },
    /// `nptv6 NAME destroy`.
    Nptv6Destroy(String),
    /// `nptv6 NAME show`; `None` for `all`.
    Nptv6Show(Option<String>),
    /// `nat64lsn NAME create …`.
    Nat64Create {
        /// Its name.
        name: String,
        /// Its configuration.
        config: Nat64Config,
    },
    /// `nat64lsn NAME destroy`.
    Nat64Destroy(String),
    /// `nat64lsn NAME show`; `None` for `all`.
    Nat64Show(Option<String>),
    /// `pipe N config …`.
    PipeConfig {
        /// Its number.
        number: u16,
        /// Its shape.
        config: PipeConfig,
    },
    /// `queue N config …`.
    QueueConfig {
        /// Its number.
        number: u16,
        /// Its shape.
        config: QueueConfig,
    },
    /// `pipe N delete`, `queue N delete`.
    PipeDelete {
        /// Its number.
        number: u16,
        /// Whether it is a queue.
        queue: bool,
    },
    /// `pipe flush`: all pipes and queues go.
    PipeFlush,
    /// `pipe [N] show`, `queue [N] show`.
    PipeShow {
        /// Its number; `None` for all.
        number: Option<u16>,
        /// Whether queues are asked for.
        queue: bool,
    },
}

impl Command {
    /// Whether it shows something, and changes nothing.
    #[must_use]
    pub const fn only_lists(&self) -> bool {
        use TableCommand::{Info, List, Lookup};
        matches!(
            self,
            Self::List { .. }
                | Self::Set(SetCommand::Show)
                | Self::Table { what: List | Info | Lookup(_), .. }
                | Self::NatShow { .. }
                | Self::Nptv6Show(_)
                | Self::Nat64Show(_)
                | Self::PipeShow { .. }
        )
    }
}

/// A switch of the firewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Switch {
    /// All rules: off, every packet passes.
    Firewall,
    /// A packet that left a pipe, or was translated, is not asked about again.
    OnePass,
    /// States of idle connections are kept alive.
    DynKeepalive,
    /// Logging.
    Verbose,
}

/// `set …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetCommand {
    /// `disable N… enable N…`, at once.
    Switch {
        /// Bit n: set n is to be disabled.
        disable: u32,
        /// Bit n: set n is to be enabled.
        enable: u32,
    },
    /// `move rule N to S`: the rules of a number.
    MoveRule {
        /// The number.
        number: Number,
        /// The set they go to.
        to: u8,
    },
    /// `move A to B`.
    Move {
        /// The set whose rules go.
        from: u8,
        /// Where they go.
        to: u8,
    },
    /// `swap A B`.
    Swap(u8, u8),
    /// `show`.
    Show,
}

/// `table NAME …`.
#[derive(Clone, Debug, PartialEq)]
pub enum TableCommand {
    /// `create`.
    Create(TableSpec),
    /// `add`: all of them, or with an error none.
    Add(Vec<TableEntry>),
    /// `delete`.
    Delete(Vec<TableKey>),
    /// `flush`: all entries go.
    Flush,
    /// `destroy`.
    Destroy,
    /// `list`.
    List,
    /// `info`, `detail`.
    Info,
    /// `lookup KEY`.
    Lookup(TableKey),
    /// `swap OTHER`: their entries change places at once.
    Swap(String),
    /// `lock`, `unlock`: whether changes are refused.
    Lock(bool),
}

/// The type of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TableSpec {
    /// The type of its keys.
    pub kind: TableKind,
    /// Entries it holds at the most; `None` for the default.
    pub limit: Option<u32>,
    /// `missing`, `or-flush`: what if it is there already.
    pub exists: IfExists,
    /// `locked`: changes are refused until `unlock`.
    pub locked: bool,
}

/// The type of a table's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Prefixes of both families; the longest wins.
    #[default]
    Addr,
    /// Numbers of 32 bits: ports, code points.
    Number,
    /// Names of interfaces.
    Iface,
    /// Flows: those parts of them that are named.
    Flow(FlowParts),
    /// Link addresses with a prefix length.
    Mac,
}

/// Parts of a flow that make a table's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowParts {
    /// `src-ip`.
    pub src_ip: bool,
    /// `proto`.
    pub proto: bool,
    /// `src-port`.
    pub src_port: bool,
    /// `dst-ip`.
    pub dst_ip: bool,
    /// `dst-port`.
    pub dst_port: bool,
}

/// The behaviour of `create` for an existing table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IfExists {
    /// An error.
    #[default]
    Refuse,
    /// `missing`: nothing.
    Keep,
    /// `or-flush`: it is emptied.
    Flush,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableEntry {
    /// Its key.
    pub key: TableKey,
    /// Its value.
    pub value: TableArg,
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TableKey {
    /// A prefix; host bits are zero.
    Addr {
        /// Its first address.
        addr: IpAddr,
        /// Its length, bits.
        len: u8,
    },
    /// A number.
    Number(u32),
    /// An interface's name.
    Iface(String),
    /// A flow: the parts that its table asks for, in the order of [`FlowParts`]. Which table that is only a running
    /// stack knows; a table of one part has keys that read like [`TableKey::Addr`] or [`TableKey::Number`].
    Flow(Vec<FlowPart>),
    /// A link address, and how many of its bits count.
    Mac {
        /// The address.
        addr: [u8; 6],
        /// Bits that count.
        len: u8,
    },
}

/// A part of a flow in a table's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowPart {
    /// An address.
    Addr(IpAddr),
    /// A protocol or a port.
    Number(u16),
}

/// The configuration of a NAT instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatConfig {
    /// `ip`: the address that others see.
    pub ip: Option<Ipv4Addr>,
    /// `if`: the interface whose address it is.
    pub interface: Option<String>,
    /// `log`.
    pub log: bool,
    /// `deny_in`: drops unsolicited packets from outside.
    pub deny_in: bool,
    /// `same_ports`: ports are kept where they can be.
    pub same_ports: bool,
    /// `unreg_only`: only private sources are translated (RFC 1918).
    pub unreg_only: bool,
    /// `unreg_cgn`: as above, and shared ones (RFC 6598).
    pub unreg_cgn: bool,
    /// `reset`: all translations end when the address changes.
    pub reset: bool,
    /// `reverse`: the roles of inside and outside are exchanged.
    pub reverse: bool,
    /// `proxy_only`: only proxy rules; nothing is translated by itself.
    pub proxy_only: bool,
    /// `port_range`: the ports that others see.
    pub port_range: Option<RangeInclusive<u16>>,
    /// `redirect_port`, `redirect_addr`, `redirect_proto`.
    pub redirects: Vec<NatRedirect>,
}

/// A redirection of packets from outside to a host inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatRedirect {
    /// `redirect_port PROTO target:ports [alias:]ports [remote[:ports]]`.
    Port {
        /// TCP, UDP or SCTP.
        proto: u8,
        /// Hosts inside; several share the load in turn (LSNAT, RFC 2391).
        targets: Vec<Ipv4Addr>,
        /// Their ports; as many as `alias_ports`, or the one port of each target.
        target_ports: Vec<RangeInclusive<u16>>,
        /// The address that others see; `None` for the instance's.
        alias: Option<Ipv4Addr>,
        /// The ports that others see.
        alias_ports: RangeInclusive<u16>,
        /// Only from this host.
        remote: Option<Ipv4Addr>,
        /// Only from these ports.
        remote_ports: Option<RangeInclusive<u16>>,
    },
    /// `redirect_addr target alias`.
    Addr {
        /// Hosts inside; several share the load in turn.
        targets: Vec<Ipv4Addr>,
        /// The address that others see; 0.0.0.0 for the instance's.
        alias: Ipv4Addr,
    },
    /// `redirect_proto PROTO target [alias [remote]]`.
    Proto {
        /// The protocol.
        proto: u8,
        /// The host inside.
        target: Ipv4Addr,
        /// The address that others see; `None` for the instance's.
        alias: Option<Ipv4Addr>,
        /// Only from this host.
        remote: Option<Ipv4Addr>,
    },
}

/// The prefixes of an NPTv6 instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nptv6Config {
    /// `int_prefix`: the prefix inside.
    pub internal: core::net::Ipv6Addr,
    /// `ext_prefix`: the prefix outside; `None` with `ext_if`.
    pub external: Option<core::net::Ipv6Addr>,
    /// `ext_if`: the interface whose prefix it is.
    pub external_if: Option<String>,
    /// `prefixlen`: bits of both, at most 64.
    pub prefix_len: u8,
}

/// The configuration of a NAT64 instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nat64Config {
    /// `prefix4`: the addresses that IPv4 sees.
    pub prefix4: (Ipv4Addr, u8),
    /// `prefix6`: where IPv4 is in IPv6 (RFC 6052); 64:ff9b::/96 by default.
    pub prefix6: (core::net::Ipv6Addr, u8),
    /// `allow_private`: private hosts of IPv4 are spoken to behind the well-known prefix, too.
    pub allow_private: bool,
}

/// The shape of a pipe. `None` where nothing was said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeConfig {
    /// `bw`: bit/s; 0 for no limit.
    pub bandwidth: Option<u64>,
    /// `delay`: milliseconds.
    pub delay_ms: Option<u32>,
    /// `burst`: bytes that an idle pipe lets pass at once.
    pub burst: Option<u64>,
    /// `exact`: on one CPU; else each has its share of the bandwidth.
    pub exact: bool,
    /// `type`: how its queues take turns.
    pub scheduler: Option<Scheduler>,
    /// `reorder`: packets that others overtake.
    pub reorder: Option<Reorder>,
    /// `duplicate`: chance that a packet comes twice, of 2³².
    pub duplicate: Option<u32>,
    /// Its own queue.
    pub queue: QueueConfig,
}

/// The reordering of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reorder {
    /// Chance that a packet is held back, of 2³².
    pub share: u32,
    /// Packets that overtake it, at the most.
    pub by: u8,
}

/// The shape of a queue. `None` where nothing was said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueConfig {
    /// `pipe N`, `sched N`: where it leads.
    pub pipe: Option<u16>,
    /// `weight`: 1 to 100.
    pub weight: Option<u8>,
    /// `queue`: how long it may be.
    pub limit: Option<QueueLimit>,
    /// `plr`: chance to lose a packet, of 2³².
    pub loss: Option<u32>,
    /// `mask`: what makes flows of its packets.
    pub mask: FlowMask,
    /// `buckets`: size of the hash table of flows.
    pub buckets: Option<u32>,
    /// `noerror`: local senders are not informed of drops.
    pub noerror: bool,
    /// `red`, `gred`, `codel`, `pie`.
    pub aqm: Option<Aqm>,
}

/// The limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueLimit {
    /// Packets, 1 to 100.
    Packets(u32),
    /// Bytes, up to a mebibyte.
    Bytes(u32),
}

/// The header bits that packets of one flow share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowMask {
    /// Protocol.
    pub proto: u8,
    /// IPv4 source address.
    pub src_ip: u32,
    /// IPv4 destination address.
    pub dst_ip: u32,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// IPv6 source address.
    pub src_ip6: u128,
    /// IPv6 destination address.
    pub dst_ip6: u128,
    /// IPv6 flow label.
    pub flow_label: u32,
}

/// When a queue drops before it is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aqm {
    /// Random early detection: `w_q/min_th/max_th/max_p`.
    Red {
        /// Weight of the newest length in the average.
        weight: f64,
        /// Average length from which it drops.
        min: u32,
        /// Average length from which it drops all.
        max: u32,
        /// Share that it drops at `max`.
        max_p: f64,
        /// `gred`: above `max` the share grows on to 1 at twice of it.
        gentle: bool,
    },
    /// CoDel (RFC 8289).
    Codel {
        /// Target, microseconds.
        target_us: u32,
        /// Interval, microseconds.
        interval_us: u32,
        /// Whether packets are marked that can be.
        ecn: bool,
    },
}

/// The scheduler of a pipe's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// One after another.
    Fifo,
    /// By weight (WF2Q+).
    Wf2q,
    /// In turn, by weight.
    Rr,
    /// Flows of their own, each with CoDel (RFC 8290).
    FqCodel {
        /// Target, microseconds.
        target_us: u32,
        /// Interval, microseconds.
        interval_us: u32,
        /// Bytes of a turn.
        quantum: u32,
        /// Packets in all.
        limit: u32,
        /// Flows.
        flows: u32,
        /// Whether packets are marked that can be.
        ecn: bool,
    },
}
