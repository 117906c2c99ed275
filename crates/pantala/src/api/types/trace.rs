//! Ways of packets through the stack: those that are traced, and those that are asked about.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::CaptureInsn;

/// A packet that is not sent, and whose way is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WhyRequest {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// The upper layer's protocol: 1 or 58 for an echo request, 6 for TCP, 17 for UDP.
    pub protocol: u8,
    /// Source port, or identifier of the echo request.
    #[serde(default = "src_port")]
    pub src_port: u16,
    /// Destination port.
    #[serde(default)]
    pub dst_port: u16,
    /// Flags of the TCP header; a SYN by default.
    #[serde(default = "syn")]
    pub tcp_flags: u8,
    /// Bytes of the packet, its IP header included; as few as can be by default.
    #[serde(default)]
    pub len: Option<u16>,
    /// The time to live, or hop limit.
    #[serde(default = "hops")]
    pub ttl: u8,
    /// The interface that it comes in by. By default the one that a packet to its source would leave by, and none if the source
    /// is an address of this stack.
    #[serde(default)]
    pub interface: Option<String>,
}

/// The way that a packet would take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct WhyAnswer {
    /// The way.
    pub packet: TracedPacket,
    /// How it ends.
    pub end: TraceEnd,
    /// The end, as a sentence.
    pub verdict: String,
    /// What would change the end, if something would.
    pub hint: Option<String>,
}

/// The end of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TraceEnd {
    /// It leaves by an interface.
    Sent,
    /// Something on this host takes it.
    Delivered,
    /// It waits for the link address of its next hop.
    Held,
    /// It is dropped, and its sender is told.
    Answered,
    /// It is dropped.
    Dropped,
    /// It cannot be followed further.
    Unknown,
}

/// Packets that are to be traced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// The number of packets.
    #[serde(default = "count")]
    pub count: u32,
    /// The filter, as classic BPF of Ethernet frames; none if it is empty.
    #[serde(default)]
    pub filter: Vec<CaptureInsn>,
}

/// The way of a packet on one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct TracedPacket {
    /// When, nanoseconds since 1970.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u16,
    /// The interface that it came in by; `None` if it was made here.
    pub interface: Option<String>,
    /// The packet in a line.
    pub packet: String,
    /// Bytes of the packet.
    pub len: usize,
    /// The steps.
    pub steps: Vec<TraceStep>,
}

/// A step of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct TraceStep {
    /// The stage: `owner`, a hook's name, `route`, `local`, `neighbour`, `output` and others.
    pub stage: String,
    /// What happened.
    pub text: String,
    /// The rules that matched, as `ipfw list` shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Processor cycles since the step before.
    pub cycles: u64,
}

/// Traces that were read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TraceBatch {
    /// The packets.
    pub packets: Vec<TracedPacket>,
    /// Whether no more will come.
    pub is_over: bool,
}

const fn src_port() -> u16 {
    49_152
}

const fn syn() -> u8 {
    wire::tcp::Flags::SYN.0
}

const fn hops() -> u8 {
    64
}

const fn count() -> u32 {
    1
}
