//! Drop reasons. Every packet that is dropped has one.

use crate::count::Count;

crate::count::named! {
    /// A drop reason: its stage, its name, its description and one counter per CPU.
    DropReason:
    // the loop
    InterfaceGone = Netisr, "interface_gone", "interface removed while the packet was in the stack";
    InterfaceDown = Netisr, "interface_down", "interface down";
    HandoffFull = Netisr, "handoff_full", "hand-off ring to the CPU that owns the flow full";
    NoBuffer = Netisr, "no_buffer", "no free packet buffer for a copy or a reply";
    // programs of users
    XdpDrop = Netisr, "xdp_drop", "dropped by the interface's XDP program (XDP_DROP)";
    XdpAborted = Netisr, "xdp_aborted", "dropped by an error of the interface's XDP program (XDP_ABORTED)";
    XdpRedirect = Netisr, "xdp_redirect", "sent by an XDP program to an interface that does not take the frame";
    // ether
    EtherShort = Ether, "ether_short", "frame shorter than an Ethernet header";
    EtherNotForUs = Ether, "ether_not_for_us", "unicast frame for another station";
    EtherUnknownType = Ether, "ether_unknown_type", "unsupported EtherType";
    EtherLength = Ether, "ether_length", "IEEE 802.3 length field, no EtherType";
    EtherMulticastSource = Ether, "ether_multicast_source", "group address as the frame's source";
    VlanUnknown = Ether, "vlan_unknown", "802.1Q tag of a VLAN that is not configured";
    BridgeReserved = Ether, "bridge_reserved", "frame to an address that bridges do not forward (IEEE 802.1D)";
    BridgeLoop = Ether, "bridge_loop", "frame with the bridge's own link address as source";
    BridgeSpan = Ether, "bridge_span", "frame received by a span port";
    BridgeSamePort = Ether, "bridge_same_port", "destination on the port that received the frame";
    BridgePrivate = Ether, "bridge_private", "frame between two private ports of a bridge";
    BridgeBlocked = Ether, "bridge_blocked", "port of the bridge blocked by the spanning tree";
    BpduMalformed = Ether, "bpdu_malformed", "malformed spanning tree unit (BPDU)";
    BpduLimit = Ether, "bpdu_limit", "limit of spanning tree units (BPDUs) in a turn reached";
    BridgeTooBig = Ether, "bridge_too_big", "frame longer than the MTU of the destination port";
    BridgeStorm = Ether, "bridge_storm", "storm limit of the bridge reached";
    BridgeNoPort = Ether, "bridge_no_port", "no other port of the bridge to flood to";
    Monitor = Ether, "monitor", "received by an interface in monitor mode";
    // arp
    ArpMalformed = Arp, "arp_malformed", "malformed ARP packet (RFC 826)";
    ArpNotCredible = Arp, "arp_not_credible", "ARP packet with an impossible sender address";
    ArpNotForUs = Arp, "arp_not_for_us", "ARP request for an address that is not ours";
    // ip
    UnicastInBroadcast = Ip, "unicast_in_broadcast", "unicast packet in a broadcast or multicast frame";
    // ip4
    Ip4Short = Ip4, "ip4_short", "packet shorter than an IPv4 header";
    Ip4BadVersion = Ip4, "ip4_bad_version", "IPv4 version not 4";
    Ip4BadHeaderLen = Ip4, "ip4_bad_header_len", "IPv4 header length below 5 words or beyond the packet";
    Ip4BadTotalLen = Ip4, "ip4_bad_total_len", "IPv4 total length shorter than the header or longer than the frame";
    Ip4BadChecksum = Ip4, "ip4_bad_checksum", "bad IPv4 header checksum";
    Ip4BadOption = Ip4, "ip4_bad_option", "malformed IPv4 option";
    Ip4SourceRoute = Ip4, "ip4_source_route", "IPv4 source route option refused (RFC 7126)";
    Ip4MartianSource = Ip4, "ip4_martian_source", "invalid IPv4 source address";
    Ip4MartianDestination = Ip4, "ip4_martian_destination", "invalid IPv4 destination address";
    Ip4OwnSource = Ip4, "ip4_own_source", "IPv4 source address is one of ours";
    // ip6
    Ip6Short = Ip6, "ip6_short", "packet shorter than an IPv6 header";
    Ip6BadVersion = Ip6, "ip6_bad_version", "IPv6 version not 6";
    Ip6BadPayloadLen = Ip6, "ip6_bad_payload_len", "IPv6 payload length longer than the frame";
    Ip6MartianSource = Ip6, "ip6_martian_source", "invalid IPv6 source address";
    Ip6MartianDestination = Ip6, "ip6_martian_destination", "invalid IPv6 destination address";
    Ip6OwnSource = Ip6, "ip6_own_source", "IPv6 source address is one of ours";
    Ip6BadExtension = Ip6, "ip6_bad_extension", "malformed or misplaced IPv6 extension header";
    Ip6TooManyExtensions = Ip6, "ip6_too_many_extensions", "too many IPv6 extension headers or options";
    Ip6UnknownOption = Ip6, "ip6_unknown_option", "unknown IPv6 option whose type says discard";
    Ip6RoutingHeader = Ip6, "ip6_routing_header", "IPv6 routing header with segments left refused (RFC 5095)";
    Ip6ScopeExceeded = Ip6, "ip6_scope_exceeded", "link-local address must not leave its link";
    // reassembly
    ReassMalformed = Reass, "reass_malformed", "fragment with an impossible length or offset";
    ReassOverlap = Reass, "reass_overlap", "overlapping fragment, datagram discarded (RFC 5722)";
    ReassTooLong = Reass, "reass_too_long", "fragment ends beyond 65535 bytes";
    ReassTooMany = Reass, "reass_too_many", "too many fragments in one datagram";
    ReassFull = Reass, "reass_full", "reassembly queue full, oldest datagram discarded";
    ReassSourceFull = Reass, "reass_source_full", "reassembly limit of the source reached, its oldest datagram discarded";
    ReassDuplicate = Reass, "reass_duplicate", "duplicate fragment";
    ReassTimeout = Reass, "reass_timeout", "reassembly timeout";
    ReassFirstTooShort = Reass, "reass_first_too_short", "first fragment without the whole header chain (RFC 7112)";
    // for us
    PacketSocketFull = App, "packet_socket_full", "receive buffer of the packet socket full that keeps the frame from the stack";
    NoProtocol = Local, "no_protocol", "unsupported transport protocol";
    NoPort = Local, "no_port", "no socket on the port";
    PuntFull = Local, "punt_full", "queue to the kernel's twin of the interface full";
    UdpMalformed = Udp, "udp_malformed", "UDP length does not fit the packet";
    UdpBadChecksum = Udp, "udp_bad_checksum", "bad UDP checksum, or none over IPv6";
    GroupSource = Udp, "group_source", "multicast source not wanted by any socket";
    UdpQueueFull = Udp, "udp_queue_full", "UDP receive buffer full";
    DhcpQueueFull = Udp, "dhcp_queue_full", "DHCP messages arrive faster than they are answered";
    TcpMalformed = Tcp, "tcp_malformed", "TCP header does not fit the packet";
    TcpBadChecksum = Tcp, "tcp_bad_checksum", "bad TCP checksum";
    TcpUnsigned = Tcp, "tcp_unsigned", "TCP segment without the signature that the connection requires (RFC 2385)";
    TcpBadSignature = Tcp, "tcp_bad_signature", "bad TCP signature, or no key for the sender (RFC 2385)";
    IcmpMalformed = Icmp, "icmp_malformed", "ICMP message shorter than its type requires";
    IcmpBadChecksum = Icmp, "icmp_bad_checksum", "bad ICMP checksum";
    IcmpNotAnswered = Icmp, "icmp_not_answered", "unsupported ICMP type";
    IcmpBroadcastEcho = Icmp, "icmp_broadcast_echo", "echo request to a broadcast or multicast address";
    IcmpRedirect = Icmp, "icmp_redirect", "redirect ignored by a router";
    IcmpUnsolicited = Icmp, "icmp_unsolicited", "unsolicited echo reply, or error about a packet not sent from here";
    IcmpNotSent = Icmp, "icmp_not_sent", "ICMP error or redirect that quotes a packet not sent from here, or not that big";
    NdMalformed = Nd, "nd_malformed", "malformed neighbor discovery message (RFC 4861)";
    NdHopLimit = Nd, "nd_hop_limit", "neighbor discovery message with a hop limit below 255";
    NdFragmented = Nd, "nd_fragmented", "fragmented neighbor discovery message (RFC 6980)";
    NdStranger = Nd, "nd_stranger", "neighbor solicitation from an address that is not on the link";
    NdNotForUs = Nd, "nd_not_for_us", "neighbor solicitation for an address that is not ours";
    MldMalformed = Mld, "mld_malformed", "malformed multicast listener discovery message (RFC 3810)";
    IgmpMalformed = Igmp, "igmp_malformed", "malformed IGMP message, or not from this link (RFC 3376)";
    TunnelUnknown = Tunnel, "tunnel_unknown", "encapsulated packet between addresses that no tunnel has";
    TunnelMalformed = Tunnel, "tunnel_malformed", "encapsulated packet too short, or not of the protocol in its outer header";
    TunnelBadChecksum = Tunnel, "tunnel_bad_checksum", "GRE packet whose checksum is wrong";
    TunnelCongested = Tunnel, "tunnel_congested", "congestion mark on the outer header of a packet without ECN (RFC 6040)";
    TunnelNested = Tunnel, "tunnel_nested", "too many tunnel headers on one packet";
    TunnelLoop = Tunnel, "tunnel_loop", "route to the other end of the tunnel leads through the tunnel, or to this host";
    TunnelNoSource = Tunnel, "tunnel_no_source", "outer source address of the tunnel is not ours";
    TunnelNotIp = Tunnel, "tunnel_not_ip", "not an IP packet, and the tunnel carries nothing else";
    TunnelTooBig = Tunnel, "tunnel_too_big", "frame longer than the outer path of the VXLAN carries, whose sender cannot be told";
    VxlanNoVni = Tunnel, "vxlan_no_vni", "VXLAN header without a valid network identifier: the I flag is not set (RFC 7348)";
    VxlanUnknown = Tunnel, "vxlan_unknown", "VXLAN network identifier that no interface with this address has";
    VxlanNoRemote = Tunnel, "vxlan_no_remote", "unknown destination, and no remote end of the VXLAN to flood to";
    PppoeMalformed = Tunnel, "pppoe_malformed", "malformed PPPoE frame (RFC 2516)";
    PppoeUnknownSession = Tunnel, "pppoe_unknown_session", "PPPoE frame of a session that is not open, or of another sender";
    PppoeNoSession = Tunnel, "pppoe_no_session", "no PPPoE session to send by";
    PppoeQueueFull = Tunnel, "pppoe_queue_full", "PPPoE control frames arrive faster than they are handled";
    GroupNotJoined = Local, "group_not_joined", "multicast group not joined";
    // the firewall
    FirewallBogus = Firewall, "firewall_bogus", "packet or first fragment too short for the firewall's rules";
    FirewallDeny = Firewall, "firewall_deny", "denied by a firewall rule";
    FirewallReject = Firewall, "firewall_reject", "rejected by a firewall rule, sender informed";
    FirewallWindow = Firewall, "firewall_window", "TCP segment outside the window tracked by its state";
    FirewallLimit = Firewall, "firewall_limit", "state limit of the rule reached";
    FirewallStateFull = Firewall, "firewall_state_full", "state table full";
    FirewallRedirectFragment = Firewall, "firewall_redirect_fragment", "fragment of a datagram whose redirection began in flight";
    FirewallRedirect = Firewall, "firewall_redirect", "redirected flow conflicts with another flow, or has ended";
    FirewallLoop = Firewall, "firewall_loop", "loop in the firewall's rules";
    // the choice
    ForwardingOff = Forward, "forwarding_off", "packet for another host while forwarding is off";
    ForwardLinkBroadcast = Forward, "forward_link_broadcast", "link-layer broadcast or multicast is not forwarded";
    ForwardBroadcast = Forward, "forward_broadcast", "directed broadcast is not forwarded";
    ForwardMulticast = Forward, "forward_multicast", "multicast is not forwarded";
    NoRoute = Forward, "no_route", "no route to host";
    RejectRoute = Forward, "reject_route", "reject route";
    BlackholeRoute = Forward, "blackhole_route", "blackhole route";
    TtlExceeded = Forward, "ttl_exceeded", "TTL or hop limit exceeded in transit";
    TooBig = Forward, "too_big", "packet bigger than the MTU and must not be fragmented";
    // pipes
    PipeGone = Pipe, "pipe_gone", "pipe or queue does not exist";
    PipeLoss = Pipe, "pipe_loss", "random loss of the pipe (plr)";
    PipeBuffers = Pipe, "pipe_buffers", "buffer limit of all pipes reached";
    PipeFull = Pipe, "pipe_full", "pipe queue full";
    PipeEarly = Pipe, "pipe_early", "dropped by RED in a pipe";
    PipeCodel = Pipe, "pipe_codel", "dropped by CoDel in a pipe";
    // translation
    NatMalformed = Nat, "nat_malformed", "transport header too short to translate";
    NatNoAddress = Nat, "nat_no_address", "NAT interface has no address";
    NatExhausted = Nat, "nat_exhausted", "no port left on the outside address for this remote host";
    NatFull = Nat, "nat_full", "NAT table full";
    NatDenied = Nat, "nat_denied", "unsolicited packet to an outside address (deny_in)";
    NatUnknown = Nat, "nat_unknown", "ICMP error about a packet that was not translated";
    Nat64Untranslatable = Nat, "nat64_untranslatable", "cannot be translated to the other address family (NAT64)";
    Nptv6Unmappable = Nat, "nptv6_unmappable", "address cannot be mapped to the other prefix (NPTv6)";
    // the way out
    NeighHoldFull = Neigh, "neigh_hold_full", "queue of the address resolution full";
    NeighTableFull = Neigh, "neigh_table_full", "neighbor table full";
    NeighUnreachable = Neigh, "neigh_unreachable", "neighbor unreachable";
    AddressTentative = Addr, "address_tentative", "source address is tentative (duplicate address detection)";
    OffloadMalformed = Ifq, "offload_malformed", "checksum or segmentation offload request does not fit the packet";
    TooManyBuffers = Ifq, "too_many_buffers", "packet in more buffers than the device accepts";
    IfqFull = Ifq, "ifq_full", "output queue full";
    IfqCodel = Ifq, "ifq_codel", "dropped by CoDel in an output queue";
    LinkDown = Ifq, "link_down", "output queue stalled without link";
    DeviceTxError = Ifq, "device_tx_error", "transmit error of the device";
    NoDevice = Ifq, "no_device", "interface has no transmit ring";
    LoopbackFull = Ifq, "loopback_full", "loopback queue full";
    Reconfigured = Netisr, "reconfigured", "configuration replaced while the packet was between hooks or CPUs";
    Shutdown = Netisr, "shutdown", "in the stack when it stopped";
}

/// The end of a packet on this host: consumed, and counted as that, or dropped.
pub type Fate = Result<Count, DropReason>;
