//! The configuration file: TOML in, a checked [`Config`] or everything that is wrong with it out.
//!
//! Reading goes in two steps. `draft` understands every value by itself; `check` compares them with each other
//! and with the machine. Both report all they find, with file, line and column.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use net::fib::{FibIndex, Metrics};
use wire::ether::Mac;

mod admin;
mod autoconf;
pub(crate) mod check;
mod device;
pub(crate) mod document;
mod draft;
mod fdb;
mod http;
mod ipfix;
mod sflow;
mod stp;
pub(crate) mod fields;
pub(crate) mod problem;
mod programs;
pub(crate) mod dhcp;
mod dhcp6_client;
mod dhcp6_server;
mod dhcp_client;
mod dhcp_relay;
mod kernel_ports;
mod ppp;
mod publish;
pub(crate) mod punt;
mod ra;
mod route_sources;
mod serve;
mod service;
mod sysctl;
mod xdp;
#[cfg(test)]
mod tests;

pub use crate::firewall::section::Firewall;
pub use admin::{Admin, Seccomp};
pub use autoconf::{Autoconf, Identifiers};
pub(crate) use device::memif::word as memif_role;
pub use device::{Bridge, Device, Memif, Pppoe, TagKind, Tunnel, Vlan, Vxlan, XdpMode};
pub use dhcp::DhcpServer;
pub use dhcp_client::DhcpClient;
pub use dhcp_relay::DhcpRelay;
pub use dhcp6_client::{Dhcp6Client, Leased, PrefixFrom, Resolver};
pub use dhcp6_server::{Delegate, Dhcp6Server};
pub use fdb::{BridgeKeys, Fdb, Place, StaticAddress};
pub use http::Http;
pub use ipfix::Ipfix;
pub use kernel_ports::KernelPorts;
pub use ppp::{Auth, Password, Ppp, PppSession};
pub use problem::{MOST_PROBLEMS, Problem, Problems};
pub use programs::{DEFAULT_PROGRAM_SOCKET, Programs};
pub use publish::Publish;
pub use ra::Ra;
pub use route_sources::{Common, Fpm, KernelTable, RouteSources};
pub use serve::Serve;
pub use service::{Service, ServiceKind};
pub use sflow::Sflow;
pub use stp::{Stp, StpPort};
pub use sysctl::Sysctls;
pub use xdp::Xdp;

/// Where the configuration is looked for when no file is named.
pub const DEFAULT_FILE: &str = "/etc/pantala/pantala.toml";

/// The most rings one interface may have; as many as AF_XDP and TAP have queues worth naming.
pub const MOST_RINGS: u32 = 256;

/// Limits of a route's metrics: in the configuration, and by hand.
pub(crate) mod limits {
    use core::ops::RangeInclusive;

    /// Bytes. 68 is the least that IPv4 must carry (RFC 791 §3.2).
    pub(crate) const MTU: RangeInclusive<u32> = 68..=65_535;
    /// Milliseconds. RFC 9293 §3.4.1 says two minutes.
    pub(crate) const MSL_MS: RangeInclusive<u32> = 1..=120_000;
    /// Segments. RFC 6928 §2 allows ten; more is for links whose two ends agree.
    pub(crate) const INITIAL_WINDOW: RangeInclusive<u32> = 1..=1000;
}

/// A configuration in which everything fits together.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The CPUs on which a netisr runs, in the order of their indices; not empty. Without pinning they are mere numbers.
    pub cpus: Vec<usize>,
    /// Whether each netisr stays on its CPU.
    pub pinned: bool,
    /// Polling.
    pub polling: Polling,
    /// Whether packets for others are forwarded.
    pub forwarding: bool,
    /// Flows of each family in each CPU's flow cache; 0 for none, as without a firewall if the file does not say.
    pub flow_cache: u32,
    /// Number of routing tables.
    pub fibs: FibIndex,
    /// Whether the routes that follow from addresses are in all tables, not only in that of their interface.
    pub add_addr_all_fibs: bool,
    /// The number of packet buffers; computed from rings and CPUs if `None`.
    pub buffers: Option<u32>,
    /// The path of the control socket, if the file names one.
    pub socket: Option<PathBuf>,
    /// The interfaces, in the order of the file; names and devices are unique.
    pub interfaces: Vec<Interface>,
    /// The static routes; every gateway lies on the link of an interface.
    pub routes: Vec<Route>,
    /// Routes of others: of FRR, and of the kernel.
    pub route_sources: RouteSources,
    /// Folders that are served to the web.
    pub serves: Vec<Serve>,
    /// Small services of this host's own.
    pub services: Vec<Service>,
    /// The firewall, if the file has a section for it.
    pub firewall: Option<Firewall>,
    /// Initial values of sysctl variables that differ from the defaults.
    pub sysctl: Sysctls,
    /// The user that `pantala up` becomes when it was started as root, by name or number: if `None`, `pantala` if there is
    /// such a user, else `nobody`. A program that embeds the stack keeps its own.
    pub user: Option<String>,
    /// The group that it becomes; that of the user if `None`.
    pub group: Option<String>,
    /// Seccomp filter of netisrs, and of threads that read files.
    pub seccomp: Seccomp,
    /// Users of the control sockets.
    pub admin: Admin,
    /// The dashboard and the admin API over TCP, if the file has a section for them.
    pub http: Option<Http>,
    /// Export of flows, if the file has a section for it.
    pub ipfix: Option<Ipfix>,
    /// Export of samples, if the file has a section for it.
    pub sflow: Option<Sflow>,
    /// Unmodified programs on this stack, if the file has a section for them.
    pub programs: Option<Programs>,
    /// The ends of wires that devices `mem:NAME` mean. No file has them: the program that embeds the stack puts them here.
    pub wires: Wires,
    /// Whether interfaces are taken that carry the kernel's default route or the caller's ssh session. No file says so:
    /// `pantala up --force` does.
    pub force: bool,
}

/// Ends of wires by the names that devices call them.
pub type Wires = BTreeMap<String, dev::mem::End>;

/// Polling of netisrs: the key `polling`, or the section of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    /// The policy of an idle netisr.
    pub policy: Policy,
    /// Packets taken from a ring before the next ring has its turn.
    pub each_burst: u16,
    /// Packets taken from a ring in one turn, at the most.
    pub burst_max: u16,
    /// Microseconds that a turn should take at the most, those for others included.
    pub turn_us: u32,
    /// Percent of the time that a netisr with more work than it can do leaves to other threads of its CPU.
    pub user_frac: u32,
}

impl Default for Polling {
    fn default() -> Self {
        let net::netisr::Polling { each_burst, burst_max, .. } = net::netisr::Polling::default();
        Self { policy: Policy::Adaptive, each_burst, burst_max, turn_us: 500, user_frac: 0 }
    }
}

impl Polling {
    /// Returns the settings of the netisrs.
    #[must_use]
    pub fn of_turns(self) -> net::netisr::Polling {
        let share = self.turn_us.saturating_mul(100_u32.saturating_sub(self.user_frac)) / 100;
        let turn_max = core::time::Duration::from_micros(share.into());
        net::netisr::Polling { each_burst: self.each_burst, burst_max: self.burst_max, turn_max }
    }
}

/// The policy of an idle netisr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Spin for a while, then sleep.
    #[default]
    Adaptive,
    /// Never sleep: lowest latency, one busy CPU.
    Always,
    /// Sleep at once.
    Never,
}

/// The policy on transport checksums of received packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RxCsum {
    /// Depends on the kind of device.
    #[default]
    Auto,
    /// Compute and compare.
    Verify,
    /// Believe that the device did.
    Trust,
    /// Finish checksums that the sender left partial (veth does).
    Complete,
}

/// One `[[interface]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Unique name, 1 to 15 bytes.
    pub name: String,
    /// Where its packets come from and go to.
    pub device: Device,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<IpNet>,
    /// Bytes of the largest IP packet; the device's if `None`.
    pub mtu: Option<u32>,
    /// Its Ethernet address; the device's (or a random local one) if `None`.
    pub mac: Option<Mac>,
    /// Pairs of receive and transmit rings; the device's number if `None`.
    pub rings: Option<u32>,
    /// Policy on received checksums.
    pub rxcsum: RxCsum,
    /// Whether its driver may forward established flows by itself.
    pub offload: bool,
    /// The XDP program that sees its frames first.
    pub xdp: Option<Xdp>,
    /// Whether it only counts and measures what it receives.
    pub monitor: bool,
    /// Output queue.
    pub queue: net::ifq::QueueSpec,
    /// IPv6 autoconfiguration, if enabled.
    pub autoconf: Option<Autoconf>,
    /// Priority code point of the tags of a VLAN, 0 to 7.
    pub vlanpcp: u8,
    /// Metric of the default routes that routers advertise or leases bring: the least is in force.
    pub metric: u32,
    /// The routing table of what comes in by it.
    pub fib: FibIndex,
    /// Learnt and static link addresses, if it is a VXLAN or a bridge.
    pub fdb: Fdb,
    /// Its keys as a bridge.
    pub bridge: BridgeKeys,
    /// A text about it, for people.
    pub description: Option<String>,
    /// Whether it is a port of a bridge.
    pub is_port: bool,
    /// Router advertisements that it sends, if it does.
    pub ra: Option<Ra>,
    /// If it is shared with the kernel: what the kernel has of addresses that both have.
    pub kernel_ports: Vec<KernelPorts>,
    /// DHCP client, if an IPv4 address is to be leased.
    pub dhcp: Option<DhcpClient>,
    /// DHCPv6 client, if it is one.
    pub dhcp6: Option<Dhcp6Client>,
    /// The prefix of another interface that it has a subnet of.
    pub prefix_from: Option<PrefixFrom>,
    /// The addresses that are leased, or in delegated prefixes. No file has them.
    pub leased: Vec<Leased>,
    /// Name servers of the provider whose it passes on. No file has them.
    pub resolver: Resolver,
    /// DHCP server for its link, if it is one.
    pub dhcp_server: Option<DhcpServer>,
    /// DHCP relay for its link, if it is one.
    pub dhcp_relay: Option<DhcpRelay>,
    /// Servers of its DHCPv6 relay; none if it has none.
    pub dhcp6_relay: Vec<Ipv6Addr>,
    /// Stateless DHCPv6 server for its link, if it is one.
    pub dhcp6_server: Option<Dhcp6Server>,
    /// Addresses of other hosts that it answers for.
    pub publish: Publish,
    /// PPP, if it is a PPPoE interface.
    pub ppp: Option<Ppp>,
    /// Its PPPoE session, once one carries packets. No file has it.
    pub session: Option<PppSession>,
    /// The kernel's name of its twin, if it has one.
    pub punt: Option<String>,
    /// The interface whose twin it is. No file has it.
    pub twin_of: Option<String>,
}

impl Interface {
    /// An interface of a device, about which nothing else is said.
    #[must_use]
    pub(crate) fn of_device(name: String, device: Device) -> Self {
        Self {
            name,
            device,
            addresses: Vec::new(),
            mtu: None,
            mac: None,
            rings: None,
            rxcsum: RxCsum::Auto,
            offload: false,
            xdp: None,
            monitor: false,
            queue: net::ifq::QueueSpec::default(),
            autoconf: None,
            vlanpcp: 0,
            metric: 0,
            fib: 0,
            description: None,
            fdb: Fdb::default(),
            bridge: BridgeKeys::default(),
            is_port: false,
            ra: None,
            kernel_ports: Vec::new(),
            dhcp_server: None,
            dhcp: None,
            dhcp_relay: None,
            dhcp6_relay: Vec::new(),
            dhcp6: None,
            ppp: None,
            session: None,
            dhcp6_server: None,
            prefix_from: None,
            leased: Vec::new(),
            resolver: Resolver::default(),
            publish: Publish::default(),
            punt: None,
            twin_of: None,
        }
    }
}

/// One `[[route]]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Route {
    /// Its table.
    pub fib: FibIndex,
    /// The destination; no bits are set beyond its length.
    pub to: IpNet,
    /// Target of its packets.
    pub target: RouteTarget,
    /// Its metrics.
    pub metrics: Metrics,
}

/// The target of a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RouteTarget {
    /// Sends to one of these gateways, chosen by the packet's hash.
    Via(Vec<NextHop>),
    /// The destination is on the link of this interface.
    Dev(String),
    /// Answers with an ICMP error.
    Reject,
    /// Discards in silence.
    Blackhole,
}

/// A gateway and the interface on whose link it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// Its address.
    pub gateway: IpAddr,
    /// The name of the interface.
    pub interface: String,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {why}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        why: std::io::Error,
    },
    /// The file is wrong.
    #[error(transparent)]
    Wrong(#[from] Problems),
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file is unreadable or wrong.
    pub fn load(file: &Path, machine: &Machine) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|why| ConfigError::Unreadable { file: file.to_owned(), why })?;
        Ok(Self::parse(&file.display().to_string(), &text, machine)?)
    }

    /// Reads and checks a text; `file` is how problems name it.
    ///
    /// # Errors
    /// Everything that is wrong, up to [`MOST_PROBLEMS`].
    pub fn parse(file: &str, text: &str, machine: &Machine) -> Result<Self, Problems> {
        let mut report = problem::Report::new(file, text);
        let draft = draft::Draft::read(text, &mut report);
        let config = check::check(&draft, machine, &mut report);
        report.finish(config)
    }
}

/// Facts about the machine that a configuration is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The CPUs this process may run on, ascending.
    pub cpus: Vec<usize>,
}

impl Machine {
    /// This machine, as this process may use it (cpusets and affinity count).
    #[must_use]
    pub fn here() -> Self {
        let allowed = rustix::thread::sched_getaffinity(None);
        let cpus = allowed.map_or_else(
            |_| vec![0],
            |set| (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        );
        Self { cpus }
    }
}
