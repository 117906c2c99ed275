//! Pipes, queues, and the flows in them.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

/// All pipes and queues.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallShapes {
    /// The pipes, by number.
    pub pipes: Vec<FirewallPipe>,
    /// The queues, by number.
    pub queues: Vec<FirewallQueue>,
}

/// A pipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallPipe {
    /// Its number.
    pub number: u16,
    /// Configuration, as in `bw 10Mbit/s delay 20`.
    pub config: String,
    /// Bit/s; 0 for no limit.
    pub bandwidth: u64,
    /// Milliseconds that packets are on their way.
    pub delay_ms: u32,
    /// Bytes that pass at once after it was idle.
    pub burst: u64,
    /// Whether one CPU does it for all.
    pub exact: bool,
    /// The chance that a packet is held back, to be overtaken, 0 to 1.
    #[serde(default)]
    pub reorder: f64,
    /// Packets that overtake it, at the most.
    #[serde(default)]
    pub reorder_by: u8,
    /// The chance that a packet comes twice, 0 to 1.
    #[serde(default)]
    pub duplicate: f64,
    /// Scheduler of its queues, as in `fq_codel target 5000us …`.
    pub scheduler: String,
    /// The pipe's own queue.
    pub own: FirewallShape,
}

/// A queue of a pipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallQueue {
    /// Its number.
    pub number: u16,
    /// The pipe that it leads to.
    pub pipe: u16,
    /// Configuration, as in `pipe 1 weight 10`.
    pub config: String,
    /// The queue itself.
    pub own: FirewallShape,
}

/// The shape of a queue, and what went through it on all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallShape {
    /// Limit on each CPU, as in `50` slots or `10Kbytes`.
    pub limit: String,
    /// Its share, 1 to 100.
    pub weight: u8,
    /// The chance that a packet is lost, 0 to 1.
    pub loss: f64,
    /// Flow mask, as in `src-ip 0xffffffff`; empty for a single flow.
    pub mask: String,
    /// When it drops before it is full, as in `codel target …`; `None` for never.
    pub aqm: Option<String>,
    /// Flows that there are.
    pub flows: u64,
    /// Packets that were let in.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were not, or were given up later.
    pub drops: u64,
    /// Packets that wait.
    pub waiting_packets: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

/// A part of the flows in pipes and queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallFlows {
    /// The flows, CPU by CPU.
    pub flows: Vec<FirewallFlow>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<String>,
}

/// A flow in a pipe or a queue: what its packets have in common is as the mask has it, and what that does not name is 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallFlow {
    /// The number of the pipe.
    pub pipe: u16,
    /// The number of the queue; 0 if packets were sent to the pipe itself.
    pub queue: u16,
    /// The CPU it is on.
    pub cpu: u32,
    /// Whether it is all those flows that had no room of their own.
    pub overflow: bool,
    /// The number of the protocol.
    pub proto: u8,
    /// Source address.
    pub src: IpAddr,
    /// From this port.
    pub src_port: u16,
    /// Destination address.
    pub dst: IpAddr,
    /// To this port.
    pub dst_port: u16,
    /// The flow label of IPv6.
    pub flow_label: u32,
    /// Packets that were let in.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were not, or were given up later.
    pub drops: u64,
    /// Packets that wait.
    pub waiting_packets: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Packets that are being sent, or are on their way through the pipe.
    pub flying: u64,
}
