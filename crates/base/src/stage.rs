//! Stages of the stack, which counters and drop reasons belong to.

/// A stage of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// The loop: turns, messages, hand-offs.
    Netisr,
    /// Ethernet input.
    Ether,
    /// ARP.
    Arp,
    /// IP, both versions.
    Ip,
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
    /// Reassembly.
    Reass,
    /// Forwarding.
    Forward,
    /// The flow cache.
    Flow,
    /// Delivery on this host.
    Local,
    /// Tunnels.
    Tunnel,
    /// ICMP, and raw sockets of both versions.
    Icmp,
    /// ICMPv6.
    Icmp6,
    /// Neighbor discovery.
    Nd,
    /// Multicast listener discovery.
    Mld,
    /// IGMP.
    Igmp,
    /// Multicast groups.
    Group,
    /// Rules and states of the firewall.
    Firewall,
    /// Address translation.
    Nat,
    /// Pipes and their queues.
    Pipe,
    /// Applications on the netisr, and channels to threads.
    App,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// The neighbour cache.
    Neigh,
    /// Own addresses.
    Addr,
    /// Checksum and segmentation offload.
    Offload,
    /// Output queues and devices.
    Ifq,
}

impl Stage {
    /// All stages, in the order in which a packet meets them.
    pub const ALL: &'static [Self] = &[
        Self::Netisr,
        Self::Ether,
        Self::Arp,
        Self::Ip,
        Self::Ip4,
        Self::Ip6,
        Self::Reass,
        Self::Forward,
        Self::Flow,
        Self::Local,
        Self::Tunnel,
        Self::Icmp,
        Self::Icmp6,
        Self::Nd,
        Self::Mld,
        Self::Igmp,
        Self::Group,
        Self::Firewall,
        Self::Nat,
        Self::Pipe,
        Self::App,
        Self::Udp,
        Self::Tcp,
        Self::Neigh,
        Self::Addr,
        Self::Offload,
        Self::Ifq,
    ];

    /// Stable name, for `netstat -s -p` and `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Netisr => "netisr",
            Self::Ether => "ether",
            Self::Arp => "arp",
            Self::Ip => "ip",
            Self::Ip4 => "ip4",
            Self::Ip6 => "ip6",
            Self::Reass => "reass",
            Self::Forward => "forward",
            Self::Flow => "flow",
            Self::Local => "local",
            Self::Tunnel => "tunnel",
            Self::Icmp => "icmp",
            Self::Icmp6 => "icmp6",
            Self::Nd => "nd",
            Self::Mld => "mld",
            Self::Igmp => "igmp",
            Self::Group => "group",
            Self::Firewall => "firewall",
            Self::Nat => "nat",
            Self::Pipe => "pipe",
            Self::App => "app",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Neigh => "neigh",
            Self::Addr => "addr",
            Self::Offload => "offload",
            Self::Ifq => "ifq",
        }
    }
}
