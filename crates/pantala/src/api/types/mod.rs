//! Types of the admin API.

mod capture;
mod change;
mod config;
mod dhcp;
mod error;
mod http;
mod ipfix;
mod sflow;
mod interface;
mod link;
mod monitor;
mod neighbour;
mod offload;
mod ping;
mod program;
mod ring;
mod route;
mod route_source;
mod socket;
mod stats;
mod sysctl;
mod trace;

use core::fmt;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use super::firewall::types::{
    FirewallBinding, FirewallBindings, FirewallCommands, FirewallDone, FirewallFlow, FirewallFlows,
    FirewallLog, FirewallLogRecord, FirewallNat, FirewallNat64, FirewallPipe, FirewallPrefixes,
    FirewallQueue, FirewallRule, FirewallSetting, FirewallShape, FirewallShapes, FirewallState,
    FirewallStateKind, FirewallStates, FirewallStatus, FirewallTable, FirewallTableEntry, FirewallTablePage,
    FirewallTrack, FirewallTracks,
};
pub(crate) use capture::wall_ns;
pub use capture::{CaptureBatch, CaptureInsn, CapturePlace, CaptureRequest};
pub use change::{Change, ChangeOp, StackChange};
pub use config::{ConfigEdit, ConfigEdits, ReloadRequest, RunningConfiguration, UndoRequest};
pub use dhcp::{
    Dhcp, Dhcp6Client, Dhcp6Counters, Dhcp6Delegation, Dhcp6Lease, Dhcp6Relay, Dhcp6Server, DhcpClient,
    DhcpCounters, DhcpLease, DhcpRelay, DhcpServer,
};
pub use error::{Error, ErrorKind, TextProblem};
pub use http::{HttpCounter, HttpListener};
pub use interface::{
    Address, AddressState, BridgeInfo, BridgeMember, CopyMode, DeviceInfo, DeviceMode, Interface,
    InterfaceChange, InterfaceCounters, InterfaceFlag, InterfaceOption, Link, MemifFaults, MemifInfo,
    MemifState, OutputQueue, PppoeInfo, RingInfo, Station, StpInfo, StpMember, Umem, XdpInfo,
};
pub use ipfix::IpfixStatus;
pub use link::{DefaultRouter, Learned, LearnedLink, OnLinkPrefix, Preference};
pub use monitor::{Jitter, Latencies, Latency, Monitored};
pub use neighbour::{Neighbour, NeighbourRequest, NeighbourState};
pub use offload::{OffloadInfo, OffloadScope, OffloadedEnds, OffloadedFlow};
pub use ping::{PingEvent, PingRequest};
pub use program::{Program, ProgramCounters, ProgramSocket, ProgramSocketKind, ProgramSockets, Programs};
pub use ring::{Ring, RingChange, Steering};
pub use route::{
    NextHop, RefusedEdit, Route, RouteAction, RouteAnswer, RouteEdit, RouteEdits, RouteMetrics, RouteOrigin,
    RoutePage, RouteRequest,
};
pub use route_source::{RouteSource, RouteSourceState};
pub use sflow::SflowStatus;
pub use socket::{
    Bound, Group, PacketSocket, RawSocket, RawSockets, TcpConnection, TcpConnections, TcpEnds, TcpInfo,
    TcpListener, TcpListeners, TcpOwner, TcpState, UdpSocket, UdpSockets,
};
pub use stats::{Counter, Counters, DropCount, Netisr, Pool};
pub use sysctl::{Sysctl, SysctlChange, SysctlChanged};
pub use trace::{TraceBatch, TraceEnd, TraceRequest, TraceStep, TracedPacket, WhyAnswer, WhyRequest};

/// An address family, by BSD's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// IPv4.
    Inet,
    /// IPv6.
    Inet6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::Inet } else { Self::Inet6 }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inet => "inet",
            Self::Inet6 => "inet6",
        })
    }
}

/// The running pantala.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Version {
    /// The program's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
}

/// The result of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Reloaded {
    /// One sentence for each change; empty if nothing differed.
    pub changes: Vec<String>,
}
