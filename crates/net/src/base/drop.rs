//! Drop reasons. Every packet that dies has one.

crate::base::count::named! {
    /// Why a packet was dropped: one sentence and one per-CPU counter each.
    DropReason:
    // the loop
    InterfaceGone = "interface_gone", "the interface it came in by, or was to leave by, does not exist any more";
    InterfaceDown = "interface_down", "the interface is down";
    HandoffFull = "handoff_full", "the ring to the CPU that owns the flow was full";
    NoBuffer = "no_buffer", "no free buffer was left for what had to be made of it";
    // ether
    EtherShort = "ether_short", "the frame is shorter than an Ethernet header";
    EtherNotForUs = "ether_not_for_us", "the frame's unicast destination is not our address";
    EtherUnknownType = "ether_unknown_type", "nobody here speaks the frame's EtherType";
    EtherLength = "ether_length", "an 802.3 length frame, which carries no IP";
    EtherMulticastSource = "ether_multicast_source", "the frame's source address is a group address";
    VlanUnknown = "vlan_unknown", "an 802.1Q tag of a network that is not configured";
    Monitor = "monitor", "the interface only counts what it receives";
    // arp
    ArpMalformed = "arp_malformed", "an ARP packet that breaks RFC 826";
    ArpNotCredible = "arp_not_credible", "an ARP packet whose sender cannot be who it says";
    ArpNotForUs = "arp_not_for_us", "an ARP request for an address that is not ours";
    ArpDone = "arp_done", "an ARP packet that was for us and has been dealt with";
    // ip
    UnicastInBroadcast = "unicast_in_broadcast", "a packet for one host in a frame for many";
    // ip4
    Ip4Short = "ip4_short", "shorter than an IPv4 header";
    Ip4BadVersion = "ip4_bad_version", "the IPv4 version is not 4";
    Ip4BadHeaderLen = "ip4_bad_header_len", "the IPv4 header length is under 5 words or beyond the packet";
    Ip4BadTotalLen = "ip4_bad_total_len", "the IPv4 total length is shorter than the header or longer than the frame";
    Ip4BadChecksum = "ip4_bad_checksum", "the IPv4 header checksum is wrong";
    Ip4BadOption = "ip4_bad_option", "an IPv4 option is malformed";
    Ip4SourceRoute = "ip4_source_route", "an IPv4 source route, which is not obeyed";
    Ip4MartianSource = "ip4_martian_source", "an IPv4 source address that nobody can have";
    Ip4MartianDestination = "ip4_martian_destination", "an IPv4 destination address that cannot be on a wire";
    Ip4OwnSource = "ip4_own_source", "an IPv4 source address that is our own";
    // ip6
    Ip6Short = "ip6_short", "shorter than an IPv6 header";
    Ip6BadVersion = "ip6_bad_version", "the IPv6 version is not 6";
    Ip6BadPayloadLen = "ip6_bad_payload_len", "the IPv6 payload length is longer than the frame";
    Ip6MartianSource = "ip6_martian_source", "an IPv6 source address that nobody can have";
    Ip6MartianDestination = "ip6_martian_destination", "an IPv6 destination address that cannot be on a wire";
    Ip6OwnSource = "ip6_own_source", "an IPv6 source address that is our own";
    Ip6BadExtension = "ip6_bad_extension", "an IPv6 extension header is malformed or out of place";
    Ip6TooManyExtensions = "ip6_too_many_extensions", "more IPv6 extension headers or options than are read";
    Ip6UnknownOption = "ip6_unknown_option", "an IPv6 option that asks to be discarded when not known";
    Ip6RoutingHeader = "ip6_routing_header", "an IPv6 routing header with segments left, which is not obeyed";
    Ip6ScopeExceeded = "ip6_scope_exceeded", "a link-local address does not leave its link";
    // reassembly
    ReassMalformed = "reass_malformed", "a fragment whose length or offset is impossible";
    ReassOverlap = "reass_overlap", "a fragment overlaps another, so the whole datagram is discarded";
    ReassTooLong = "reass_too_long", "a fragment ends beyond 65535 bytes";
    ReassTooMany = "reass_too_many", "a datagram with more fragments than are kept";
    ReassFull = "reass_full", "the reassembly queues were full, and the oldest datagram gave way";
    ReassSourceFull = "reass_source_full", "one source had as many unfinished datagrams as it may, and its oldest gave way";
    ReassDuplicate = "reass_duplicate", "a fragment that had come already";
    ReassTimeout = "reass_timeout", "a fragment of a datagram that never became whole";
    ReassFirstTooShort = "reass_first_too_short", "a first fragment without its whole header chain";
    // for us
    NoProtocol = "no_protocol", "for us, but of a protocol that nobody here speaks";
    NoPort = "no_port", "for us, but nobody listens on the port";
    UdpMalformed = "udp_malformed", "a UDP length that does not fit the packet";
    UdpBadChecksum = "udp_bad_checksum", "the UDP checksum is wrong or, over IPv6, missing";
    GroupSource = "group_source", "a UDP datagram to a multicast group whose sender no socket wants to hear";
    UdpQueueFull = "udp_queue_full", "a UDP datagram for a socket that has as many to read as it may";
    TcpMalformed = "tcp_malformed", "a TCP header that does not fit the packet";
    TcpBadChecksum = "tcp_bad_checksum", "the TCP checksum is wrong";
    TcpUnsigned = "tcp_unsigned", "no TCP signature, where the connection takes signed segments only";
    TcpBadSignature = "tcp_bad_signature", "the TCP signature is wrong, or no key of the sender is known";
    IcmpMalformed = "icmp_malformed", "an ICMP message shorter than its type demands";
    IcmpBadChecksum = "icmp_bad_checksum", "the ICMP checksum is wrong";
    IcmpNotAnswered = "icmp_not_answered", "an ICMP message of a type that is not answered";
    IcmpBroadcastEcho = "icmp_broadcast_echo", "an echo request to a broadcast or multicast address";
    IcmpRedirect = "icmp_redirect", "a redirect; a router does not follow them";
    IcmpUnsolicited = "icmp_unsolicited", "an echo reply that nobody waits for, or an error about a packet not sent from here";
    IcmpNotSent = "icmp_not_sent", "an ICMP error that a packet was too big which was not sent from here, or was not as big";
    IcmpDone = "icmp_done", "an ICMP message that was for us and has been dealt with";
    NdMalformed = "nd_malformed", "a neighbour discovery message that breaks RFC 4861";
    NdHopLimit = "nd_hop_limit", "a neighbour discovery message that came from another link";
    NdFragmented = "nd_fragmented", "a neighbour discovery message in fragments";
    NdStranger = "nd_stranger", "a neighbour solicitation from an address that is not on this link";
    NdNotForUs = "nd_not_for_us", "a neighbour solicitation for an address that is not ours";
    NdDone = "nd_done", "a neighbour discovery message that was for us and has been dealt with";
    MldMalformed = "mld_malformed", "a message of multicast listener discovery that breaks RFC 3810";
    IgmpMalformed = "igmp_malformed", "an IGMP message that breaks RFC 3376, or is not from this link";
    IgmpDone = "igmp_done", "an IGMP message that was for us and has been dealt with";
    GroupNotJoined = "group_not_joined", "a multicast group that is not joined here";
    // the firewall
    FirewallBogus = "firewall_bogus", "so short, or so cut, that the firewall's rules cannot be asked about it";
    FirewallDeny = "firewall_deny", "a rule of the firewall says so";
    FirewallReject = "firewall_reject", "a rule of the firewall says so, and the sender was told";
    FirewallWindow = "firewall_window", "of a connection that has a state, and not within its windows";
    FirewallLimit = "firewall_limit", "as many states as a rule of the firewall allows were there";
    FirewallStateFull = "firewall_state_full", "the firewall had no room for another state";
    FirewallRedirectFragment = "firewall_redirect_fragment", "the first fragment of what is redirected, on its way already when that began";
    FirewallRedirect = "firewall_redirect", "of a redirected flow that another flow stands in the way of, or that is over";
    FirewallLoop = "firewall_loop", "the firewall's rules send it round in circles";
    // the choice
    ForwardingOff = "forwarding_off", "not for us, and forwarding is off";
    ForwardLinkBroadcast = "forward_link_broadcast", "a link broadcast or multicast frame is not forwarded";
    ForwardBroadcast = "forward_broadcast", "a directed broadcast is not forwarded";
    ForwardMulticast = "forward_multicast", "multicast is not forwarded";
    NoRoute = "no_route", "no route leads there";
    RejectRoute = "reject_route", "the route says to reject it";
    BlackholeRoute = "blackhole_route", "the route says to lose it";
    TtlExceeded = "ttl_exceeded", "the time to live, or hop limit, ran out here";
    TooBig = "too_big", "bigger than the next link takes, and not to be fragmented";
    // pipes
    PipeGone = "pipe_gone", "the pipe or queue that a rule names does not exist, or was deleted while the packet waited";
    PipeLoss = "pipe_loss", "lost by chance, as the pipe was told to (plr)";
    PipeBuffers = "pipe_buffers", "pipes hold as many buffers as they may";
    PipeFull = "pipe_full", "the queue of the pipe was full";
    PipeEarly = "pipe_early", "dropped before the queue of the pipe was full (RED)";
    PipeCodel = "pipe_codel", "waited too long in a pipe, so that its sender slows down";
    // translation
    NatMalformed = "nat_malformed", "too little of an upper layer to translate it";
    NatNoAddress = "nat_no_address", "the interface whose address it is to get has none";
    NatExhausted = "nat_exhausted", "no port of the outside address was left for this remote host";
    NatFull = "nat_full", "as many flows are translated as there may be";
    NatDenied = "nat_denied", "came in from outside, and nobody inside had asked for it (deny_in)";
    NatUnknown = "nat_unknown", "an ICMP error from inside about a packet that was not translated";
    Nat64Untranslatable = "nat64_untranslatable", "a packet that the other family has no word for, or no address";
    Nptv6Unmappable = "nptv6_unmappable", "an IPv6 address that cannot make up for another prefix";
    // the way out
    NeighHoldFull = "neigh_hold_full", "too many packets wait for this neighbour's address";
    NeighTableFull = "neigh_table_full", "too many neighbours are being looked for";
    NeighUnreachable = "neigh_unreachable", "the neighbour did not answer";
    AddressTentative = "address_tentative", "the source address is not ours to use yet";
    OffloadMalformed = "offload_malformed", "the checksum or the segments asked for do not fit the packet";
    TooManyBuffers = "too_many_buffers", "lies in more buffers than the device takes in one frame";
    IfqFull = "ifq_full", "the output queue was full";
    IfqCodel = "ifq_codel", "waited too long in an output queue, so that its sender slows down";
    LinkDown = "link_down", "the device has no link, and the output queue stood still";
    DeviceTxError = "device_tx_error", "the device refused the frame";
    NoDevice = "no_device", "the interface has no transmit ring";
    LoopbackFull = "loopback_full", "too many packets from us to us";
    Reconfigured = "reconfigured", "between two hooks of the firewall, or on its way to another CPU, when another configuration came";
    Shutdown = "shutdown", "still in the stack when it stopped";
}
