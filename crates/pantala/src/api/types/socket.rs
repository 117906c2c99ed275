//! TCP's connections and listeners, UDP's sockets.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A part of the connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct TcpConnections {
    /// The connections, CPU by CPU.
    pub connections: Vec<TcpConnection>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<String>,
}

/// A connection, whatever it is at the moment: half-open, standing, or in TIME-WAIT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct TcpConnection {
    /// The CPU that owns it.
    pub cpu: u32,
    /// Local and remote address.
    #[serde(flatten)]
    pub ends: TcpEnds,
    /// Where it is in its life.
    pub state: TcpState,
    /// Owner.
    pub owner: TcpOwner,
    /// Bytes that wait to be read.
    pub recv_q: u64,
    /// Bytes that wait to be acknowledged, sent or not.
    pub send_q: u64,
    /// `TCP_INFO`, if that was asked for and there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<Box<TcpInfo>>,
}

/// The two ends of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct TcpEnds {
    /// Our address.
    pub local: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// The other end's address.
    pub foreign: IpAddr,
    /// The other end's port.
    pub foreign_port: u16,
    /// The interface, where addresses mean something only with their link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

/// Where a connection is in its life (RFC 9293 §3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the RFC")]
pub enum TcpState {
    Closed,
    SynSent,
    SynReceived,
    Established,
    CloseWait,
    #[serde(rename = "fin_wait_1")]
    FinWait1,
    #[serde(rename = "fin_wait_2")]
    FinWait2,
    Closing,
    LastAck,
    TimeWait,
}

/// The owner of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TcpOwner {
    /// It waits to be accepted.
    Queue,
    /// A program.
    Program,
    /// None: it is half-open, or its program has closed it.
    None,
}

/// `TCP_INFO` of a connection. Sizes and windows are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct TcpInfo {
    /// Segments bear timestamps.
    pub timestamps: bool,
    /// Selective acknowledgments are understood.
    pub sack: bool,
    /// Marks of routers are understood.
    pub ecn: bool,
    /// By how many bits the other end's windows are shifted, and ours, if they are.
    pub wscale: Option<(u8, u8)>,
    /// Congestion control algorithm: `cubic`, `newreno`.
    pub cc: String,
    /// The retransmission timeout, in microseconds, and how often in a row it was in vain.
    pub rto_us: u64,
    /// See [`Self::rto_us`].
    pub backoff: u8,
    /// Questions in a silence that are not answered.
    pub keepalive_probes: u8,
    /// The smoothed round trip, its deviation, and the shortest, in microseconds; none before the first.
    pub rtt_us: Option<u64>,
    /// See [`Self::rtt_us`].
    pub rttvar_us: Option<u64>,
    /// See [`Self::rtt_us`].
    pub min_rtt_us: Option<u64>,
    /// Payload of the longest segment that is sent.
    pub mss: u32,
    /// Payload of the longest segment that has come, or that was asked for.
    pub rcv_mss: u32,
    /// The longest packet that the path takes.
    pub pmtu: u32,
    /// The congestion window.
    pub cwnd: u32,
    /// Below it, slow start; none before the first loss.
    pub ssthresh: Option<u32>,
    /// Send window.
    pub snd_wnd: u32,
    /// Receive window.
    pub rcv_wnd: u32,
    /// Bytes sent and not acknowledged, of these those that the other end has behind a gap, and those taken for lost.
    pub unacked: u32,
    /// See [`Self::unacked`].
    pub sacked: u32,
    /// See [`Self::unacked`].
    pub lost: u32,
    /// Bytes not sent yet.
    pub notsent: u32,
    /// Losses are being repaired.
    pub recovery: bool,
    /// User timeout, if there is one, and the one announced by the peer, in
    /// microseconds.
    pub user_timeout_us: Option<u64>,
    /// See [`Self::user_timeout_us`].
    pub remote_user_timeout_us: Option<u64>,
    /// Segments that have come, and of these those with data.
    pub segs_in: u64,
    /// See [`Self::segs_in`].
    pub data_segs_in: u64,
    /// Segments that were sent, and of these those with data.
    pub segs_out: u64,
    /// See [`Self::segs_out`].
    pub data_segs_out: u64,
    /// Segments that were sent again.
    pub retrans: u64,
    /// Bytes that the other end has acknowledged.
    pub bytes_acked: u64,
    /// Bytes that have come in order.
    pub bytes_received: u64,
    /// Segments of ours that have arrived, and of these those that were acknowledged with word of a mark.
    pub delivered: u64,
    /// See [`Self::delivered`].
    pub delivered_ce: u64,
    /// Segments that have come out of order.
    pub rcv_ooopack: u64,
    /// Segments that said that we take nothing.
    pub zero_windows: u64,
    /// Since data was sent, since some came, and since an acknowledgment did, in microseconds; without any, since the connection
    /// stands.
    pub last_sent_us: u64,
    /// See [`Self::last_sent_us`].
    pub last_received_us: u64,
    /// See [`Self::last_sent_us`].
    pub last_ack_us: u64,
    /// Time with data to send or to be acknowledged, in microseconds; of that, the time limited by the peer's window, and
    /// by the send buffer.
    pub busy_us: u64,
    /// See [`Self::busy_us`].
    pub rwnd_limited_us: u64,
    /// See [`Self::busy_us`].
    pub sndbuf_limited_us: u64,
}

/// A part of the listeners.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct TcpListeners {
    /// The listeners, CPU by CPU.
    pub listeners: Vec<TcpListener>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<String>,
}

/// A listener on one CPU: each has its own accept queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct TcpListener {
    /// The CPU.
    pub cpu: u32,
    /// Local address.
    #[serde(flatten)]
    pub bound: Bound,
    /// Connections that wait to be accepted.
    pub qlen: u64,
    /// The backlog.
    pub maxqlen: u64,
}

/// The local address of a listener or a socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Bound {
    /// Our address, or the unspecified one for all.
    pub local: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// The interface, where the address means something only with its link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// IPv4 is waited for as well, although the address is of IPv6.
    pub dual_stack: bool,
    /// Others may wait for the same (`SO_REUSEPORT`).
    pub shared: bool,
}

/// A part of UDP's sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct UdpSockets {
    /// The sockets, CPU by CPU.
    pub sockets: Vec<UdpSocket>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<String>,
}

/// A socket, on one CPU: one that is not connected is on each, and has on each what comes there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct UdpSocket {
    /// The CPU.
    pub cpu: u32,
    /// Local address.
    #[serde(flatten)]
    pub bound: Bound,
    /// Peer, if connected.
    pub foreign: Option<SocketAddr>,
    /// Bytes that wait to be read.
    pub recv_q: u64,
    /// Datagrams that wait to be read.
    pub datagrams: u64,
}

/// A part of the raw sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct RawSockets {
    /// The sockets, CPU by CPU.
    pub sockets: Vec<RawSocket>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<String>,
}

/// A raw socket of ICMP or ICMPv6, on one CPU: each has what comes there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct RawSocket {
    /// The CPU.
    pub cpu: u32,
    /// Our address, or the unspecified one for all.
    pub local: IpAddr,
    /// The interface, where addresses mean something only with their link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Peer, if connected.
    pub foreign: Option<IpAddr>,
    /// Bytes that wait to be read.
    pub recv_q: u64,
    /// Messages that wait to be read.
    pub messages: u64,
}

/// A packet socket, on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct PacketSocket {
    /// The CPU.
    pub cpu: u32,
    /// Its interface; none for all devices.
    pub interface: Option<String>,
    /// Frames that it selects are kept from the stack.
    pub takes: bool,
    /// Bytes that wait to be read.
    pub recv_q: u64,
    /// Frames that wait to be read.
    pub frames: u64,
}

/// A multicast group on the link of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Group {
    /// The interface.
    pub interface: String,
    /// The group.
    pub group: IpAddr,
    /// All senders are listened to but those in [`Self::sources`]; else those alone.
    pub excludes: bool,
    /// See [`Self::excludes`].
    pub sources: Vec<IpAddr>,
}

impl TcpState {
    /// As `netstat` has it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::SynSent => "SYN_SENT",
            Self::SynReceived => "SYN_RCVD",
            Self::Established => "ESTABLISHED",
            Self::CloseWait => "CLOSE_WAIT",
            Self::FinWait1 => "FIN_WAIT_1",
            Self::FinWait2 => "FIN_WAIT_2",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST_ACK",
            Self::TimeWait => "TIME_WAIT",
        }
    }
}

impl fmt::Display for TcpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
