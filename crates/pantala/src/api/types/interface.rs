//! Interfaces.

use core::net::IpAddr;

use super::OffloadInfo;
use serde::{Deserialize, Serialize};

use crate::Mac;

/// An interface as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number, from 1; IPv6 scopes are these numbers.
    pub index: u32,
    /// Its flags.
    pub flags: Vec<InterfaceFlag>,
    /// A text about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Offloads of its device.
    pub options: Vec<InterfaceOption>,
    /// Metric of the default routes by it.
    #[serde(default)]
    pub metric: u32,
    /// The routing table of what comes in by it.
    #[serde(default)]
    pub fib: u8,
    /// Bytes of the largest IP packet.
    pub mtu: u32,
    /// Its Ethernet address; a loopback has none.
    pub mac: Option<Mac>,
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// Joined multicast groups of its link; `netstat -g` shows their source filters.
    #[serde(default)]
    pub groups: Vec<IpAddr>,
    /// Stations that it has learnt, and static ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fdb: Vec<Station>,
    /// The kernel's name of its twin, which gets what nothing here wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin: Option<String>,
    /// The interface whose twin it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin_of: Option<String>,
    /// Its device; a loopback has none.
    pub device: Option<DeviceInfo>,
    /// The link below it.
    pub link: Link,
    /// Its rings, each with the CPU that owns it.
    pub rings: Vec<RingInfo>,
    /// Its output queues, one on each CPU that has a ring of it or sends through one that has.
    #[serde(default)]
    pub queues: Vec<OutputQueue>,
    /// Counters, all rings together.
    pub counters: InterfaceCounters,
}

/// A station on the network of an interface that learns link addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Station {
    /// Its link address.
    pub mac: Mac,
    /// The remote end of the VXLAN that it is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vtep: Option<IpAddr>,
    /// The port of the bridge that it is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Whether it comes from the configuration.
    #[serde(rename = "static")]
    pub is_static: bool,
    /// Seconds until it is forgotten; `None` for never.
    pub left_s: Option<u64>,
}

/// An output queue: packets that the device did not take yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct OutputQueue {
    /// The CPU whose netisr owns it.
    pub cpu: u32,
    /// Queue discipline: `fifo` or `fq_codel`.
    pub discipline: String,
    /// Packets that wait.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Flows that wait, if they are told apart.
    pub flows: u64,
    /// Packets that may wait.
    pub packets_max: u64,
    /// Bytes that may wait.
    pub bytes_max: u64,
    /// Bytes that the ring may hold, learned from what keeps it busy (BQL); none if the device does not say what it
    /// holds.
    pub byte_limit: Option<u64>,
    /// Bytes that the ring held when it was last given something.
    pub in_flight: u64,
}

impl Interface {
    /// Whether a flag is set.
    #[must_use]
    pub fn is(&self, flag: InterfaceFlag) -> bool {
        self.flags.contains(&flag)
    }
}

/// BSD's interface flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InterfaceFlag {
    /// Administratively up.
    Up,
    /// Has a broadcast address.
    Broadcast,
    /// Is the loopback.
    Loopback,
    /// Has one peer: a tunnel.
    PointToPoint,
    /// Its device is ready.
    Running,
    /// Takes every frame.
    Promisc,
    /// Does not hear itself.
    Simplex,
    /// Can do multicast.
    Multicast,
    /// Only counts what it receives.
    Monitor,
}

/// An offload of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InterfaceOption {
    /// Verifies received transport checksums.
    Rxcsum,
    /// Computes sent transport checksums.
    Txcsum,
    /// Cuts large TCP segments over IPv4.
    Tso4,
    /// Cuts large TCP segments over IPv6.
    Tso6,
    /// Joins received TCP segments.
    Lro,
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// Prefix length.
    pub prefix_len: u8,
    /// Whether it may be used.
    pub state: AddressState,
    /// Whether a router's prefix made it.
    #[serde(default)]
    pub autoconf: bool,
    /// Whether it was made up for a while (RFC 8981).
    #[serde(default)]
    pub temporary: bool,
    /// Seconds for which it is preferred still; `None` if for ever.
    #[serde(default)]
    pub preferred_s: Option<u64>,
    /// Seconds for which it is ours still; `None` if for ever.
    #[serde(default)]
    pub valid_s: Option<u64>,
}

/// Where an address is on its way to be used (RFC 4862, RFC 5227).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AddressState {
    /// Tentative: duplicate address detection runs.
    Tentative,
    /// Yes.
    Preferred,
    /// Only by what uses it already: its preferred lifetime is over.
    Deprecated,
    /// Duplicate: another station has it.
    Duplicated,
}

/// The device of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct DeviceInfo {
    /// As in the configuration: `tap:lan0`.
    pub device: String,
    /// Mode of the driver.
    pub mode: DeviceMode,
    /// Whether frames are copied between the kernel and us; `None` where the question has no meaning.
    pub copy: Option<CopyMode>,
    /// Whether the kernel must be called for each batch (AF_XDP's need-wakeup).
    pub need_wakeup: bool,
    /// The memory shared with the kernel.
    pub umem: Option<Umem>,
    /// Queues in use.
    pub queues: u32,
    /// Flow offload, if it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<OffloadInfo>,
    /// Its XDP program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xdp: Option<XdpInfo>,
    /// A memif interface and its peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memif: Option<MemifInfo>,
    /// A bridge and its ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeInfo>,
    /// Priority of the tags of a VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlanpcp: Option<u8>,
    /// The PPPoE client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pppoe: Option<PppoeInfo>,
}

/// The XDP program of an interface, and frames by its verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct XdpInfo {
    /// The object file.
    pub file: String,
    /// Name of the program.
    pub program: String,
    /// Whether the kernel runs it, in the driver.
    pub in_kernel: bool,
    /// Errors of the program, or of a redirect (`XDP_ABORTED`).
    pub aborted: u64,
    /// Dropped (`XDP_DROP`).
    pub dropped: u64,
    /// Left to the stack (`XDP_PASS`).
    pub passed: u64,
    /// Sent back by the interface (`XDP_TX`).
    pub sent_back: u64,
    /// Sent to another interface or socket (`XDP_REDIRECT`).
    pub redirected: u64,
}

/// A PPPoE client: its session, and what was negotiated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct PppoeInfo {
    /// `down`, `waiting`, `discovery`, `request`, `establish`, `authenticate`, `network` or `open`.
    pub phase: String,
    /// The number of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u16>,
    /// The name of the access concentrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ac: Option<String>,
    /// Its link address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ac_mac: Option<Mac>,
    /// The addresses of the other end, of each family that is carried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<IpAddr>,
    /// Name servers that the provider has told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<IpAddr>,
    /// Seconds since the session has begun to carry packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_s: Option<u64>,
    /// Seconds until another session is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_s: Option<u64>,
    /// Why the last session has ended, or there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Control frames sent.
    pub sent: u64,
    /// Control frames received.
    pub received: u64,
    /// Control frames that could not be read.
    pub malformed: u64,
    /// Control frames of other sessions or senders, or not expected.
    pub ignored: u64,
    /// Sessions that were begun.
    pub sessions: u64,
    /// Echo requests without an answer.
    pub echo_lost: u64,
}

/// A bridge and its ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct BridgeInfo {
    /// Its ports.
    pub members: Vec<BridgeMember>,
    /// Link addresses that it learns.
    pub maxaddr: u32,
    /// Seconds after which a silent station is forgotten; 0 for never.
    pub timeout_s: u32,
    /// Frames that are flooded in a second; 0 for no limit.
    pub storm: u32,
    /// Its part in the spanning tree, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stp: Option<StpInfo>,
}

/// A bridge's part in the spanning tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct StpInfo {
    /// `rstp` or `stp`.
    pub protocol: String,
    /// Its identifier: priority and address, as in `8000.02:00:00:00:00:01`.
    pub id: String,
    /// The identifier of the root.
    pub root: String,
    /// Cost of the path to the root.
    pub cost: u32,
    /// The port that leads to the root; `None` at the root itself.
    pub root_port: Option<String>,
    /// Seconds between units.
    pub hellotime_s: u8,
    /// Seconds after which information is discarded.
    pub maxage_s: u8,
    /// Seconds that a port spends in each of listening and learning.
    pub fwddelay_s: u8,
    /// Units that a port sends in a second.
    pub holdcnt: u8,
}

/// A port of a bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct BridgeMember {
    /// The name of the interface.
    pub name: String,
    /// It exchanges no frames with other such ports.
    pub private: bool,
    /// It only gets a copy of all that the bridge receives.
    pub span: bool,
    /// Its part in the spanning tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stp: Option<StpMember>,
}

/// A port's part in the spanning tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct StpMember {
    /// `disabled`, `root`, `designated`, `alternate` or `backup`.
    pub role: String,
    /// `discarding`, `learning` or `forwarding`.
    pub state: String,
    /// Number of the port in the bridge.
    pub port: u16,
    /// Its priority.
    pub priority: u8,
    /// Cost of the path over it.
    pub cost: u32,
    /// `rstp` or `stp`: what is spoken on its link.
    pub protocol: String,
    /// No bridge is behind it.
    pub edge: bool,
    /// One other bridge can be behind it.
    pub ptp: bool,
}

/// A memif interface and its peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct MemifInfo {
    /// `master` or `slave`.
    pub role: String,
    /// Which of the interfaces that share the socket.
    pub id: u32,
    /// The socket's file.
    pub socket: String,
    /// Its state.
    pub state: MemifState,
    /// The program at the other end, now or last.
    pub peer: String,
    /// The peer's name of its interface.
    pub peer_interface: String,
    /// Ring pairs of the connection.
    pub rings: u32,
    /// Number of connections.
    pub connects: u64,
    /// Number of connections refused or closed.
    pub ends: u64,
    /// Attempts of a slave to connect that failed.
    #[serde(default)]
    pub failed_connects: u64,
    /// Why, the last time.
    pub last_error: Option<String>,
    /// Faults of peers in the rings.
    pub faults: MemifFaults,
}

/// The state of a memif interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemifState {
    /// There is no peer.
    Waiting,
    /// There is one, and the two ends are agreeing.
    Greeting,
    /// Frames flow.
    Connected,
}

/// Faults of peers in the rings of a memif interface. Frames of the first three were dropped; because of the others
/// connections ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct MemifFaults {
    /// Descriptors that point outside the peer's memory.
    pub bad_descriptor: u64,
    /// Frames that are empty or longer than any.
    pub bad_length: u64,
    /// Chains of buffers without an end.
    pub bad_chain: u64,
    /// Ring indices that jumped.
    pub index_jump: u64,
    /// Empty buffers outside the peer's memory.
    pub bad_buffer: u64,
}

/// The mode of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceMode {
    /// A TAP file descriptor.
    Tap,
    /// A TUN file descriptor.
    Tun,
    /// AF_XDP in the device's driver.
    Native,
    /// AF_XDP in the kernel's generic receive path.
    Generic,
    /// Capture files.
    Pcap,
    /// None: what is sent is forgotten.
    Null,
    /// Shared memory with another program.
    Memif,
    /// In-process wire.
    Mem,
    /// None: tagged frames of another interface.
    Vlan,
    /// None: packets between two addresses.
    Tunnel,
    /// None: frames in datagrams.
    Vxlan,
    /// None: frames of other interfaces.
    Bridge,
    /// None: a PPPoE session over another interface.
    Pppoe,
    /// None: addresses on no link.
    Loopback,
}

/// Whether frames are copied between the kernel and us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CopyMode {
    /// They are.
    Copy,
    /// They are not.
    ZeroCopy,
}

/// The memory shared with the kernel by AF_XDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Umem {
    /// Number of chunks.
    pub chunks: u32,
    /// Bytes of each.
    pub chunk_bytes: u32,
}

/// The link below an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Link {
    /// Whether it has carrier.
    pub active: bool,
    /// Media: `Ethernet autoselect`; empty if unknown.
    pub media: String,
}

/// A pair of receive and transmit rings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct RingInfo {
    /// Its number in the interface.
    pub ring: u32,
    /// The CPU whose netisr owns it.
    pub cpu: u32,
    /// Its counters.
    pub counters: InterfaceCounters,
}

/// Counters of an interface or a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct InterfaceCounters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames that the device received damaged.
    pub rx_errors: u64,
    /// Frames that the device lost because a ring was full.
    pub rx_drops: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames that the device refused.
    pub tx_errors: u64,
    /// Frames dropped on their way to the device: the output queue was full, or they waited too long in it.
    pub tx_drops: u64,
    /// Frames marked in the output queue instead of dropped (ECN).
    #[serde(default)]
    pub tx_marks: u64,
    /// Times that a ring did not take all, and packets had to queue.
    #[serde(default)]
    pub tx_pushed_back: u64,
    /// Times that a netisr had frames for the device: packets share them.
    #[serde(default)]
    pub tx_flushes: u64,
    /// Doorbells: notifications of the device.
    pub doorbells: u64,
}

impl InterfaceCounters {
    /// Returns the difference to `earlier`; 0 where it counts less (the counters started anew).
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.combine(earlier, u64::saturating_sub)
    }

    fn combine(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            rx_packets: with(self.rx_packets, other.rx_packets),
            rx_bytes: with(self.rx_bytes, other.rx_bytes),
            rx_errors: with(self.rx_errors, other.rx_errors),
            rx_drops: with(self.rx_drops, other.rx_drops),
            tx_packets: with(self.tx_packets, other.tx_packets),
            tx_bytes: with(self.tx_bytes, other.tx_bytes),
            tx_errors: with(self.tx_errors, other.tx_errors),
            tx_drops: with(self.tx_drops, other.tx_drops),
            tx_marks: with(self.tx_marks, other.tx_marks),
            tx_pushed_back: with(self.tx_pushed_back, other.tx_pushed_back),
            tx_flushes: with(self.tx_flushes, other.tx_flushes),
            doorbells: with(self.doorbells, other.doorbells),
        }
    }
}

impl core::iter::Sum for InterfaceCounters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum.combine(&one, u64::saturating_add))
    }
}

/// A change; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InterfaceChange {
    /// Bring it up or take it down.
    pub up: Option<bool>,
    /// Let it only count and measure what it receives; that begins anew each time.
    pub monitor: Option<bool>,
}
