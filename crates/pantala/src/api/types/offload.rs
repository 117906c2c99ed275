//! Flows that drivers forward.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Mac;

/// Packets that a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub enum OffloadScope {
    /// Packets of one flow.
    Flow,
    /// All packets to destinations of a prefix: nothing but the route decides about them.
    Destination,
}

/// A flow whose packets its driver forwards, or all flows to the destinations of a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct OffloadedFlow {
    /// The CPU that owns it.
    pub cpu: u32,
    /// Packets that these are.
    pub scope: OffloadScope,
    /// Bits of the destination that count: all of them for a flow, and for one host.
    pub prefix_len: u8,
    /// Protocol: 6 for TCP, 17 for UDP; 0 for all to a prefix.
    pub protocol: u8,
    /// Addresses and ports of its packets as they come; of all to a prefix, that alone.
    pub before: OffloadedEnds,
    /// Addresses and ports of its packets as they leave.
    pub after: OffloadedEnds,
    /// By which interface they come.
    pub input: String,
    /// By which interface they leave.
    pub output: String,
    /// Link address of the next hop.
    pub next_hop: Mac,
    /// Packets that the driver has forwarded.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
}

/// Addresses and ports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct OffloadedEnds {
    /// Source address.
    pub src: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination port.
    pub dst_port: u16,
}

/// An interface's part in flow offload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct OffloadInfo {
    /// Whether its driver sends what the programs of other interfaces redirect to it.
    pub sends: bool,
    /// Frames that came up because the record of their flow was of an earlier generation.
    pub stale: u64,
    /// Frames that came up because the record of their flow is not for such frames.
    pub exceptions: u64,
}
