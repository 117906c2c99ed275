//! Counters besides drops: per CPU, single writer, summed by the reader.

use pkt::counters::{CounterBlock, CounterReader, CounterTable, CounterTableReader, Index};

use crate::drop::DropReason;
use crate::ids::IfIndex;

/// Makes an enum whose variants have a stage, a stable name and a description, and index a block of counters.
macro_rules! named {
    ($(#[$doc:meta])* $enum:ident: $($variant:ident = $stage:ident, $name:literal, $sentence:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $enum { $(#[doc = $sentence] $variant,)* }

        impl $enum {
            /// All of them, in the order in which a packet meets them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Stable name, for counters and `--json`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the stage that counts it.
            #[must_use]
            pub const fn stage(self) -> $crate::stage::Stage {
                match self { $(Self::$variant => $crate::stage::Stage::$stage,)* }
            }

            /// Returns the description, to be printed behind a number or a name.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }
        }

        impl pkt::counters::Index for $enum {
            const COUNT: usize = Self::ALL.len();

            #[inline]
            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

pub(crate) use named;

named! {
    /// An event that is counted.
    Count:
    Turns = Netisr, "turns", "netisr turns";
    BusyTurns = Netisr, "busy_turns", "netisr turns with work";
    LongTurns = Netisr, "long_turns", "netisr turns over the target duration";
    Messages = Netisr, "messages", "messages processed";
    RxPackets = Netisr, "rx_packets", "packets received from devices";
    HandoffOut = Netisr, "handoff_out", "packets handed off to other CPUs";
    HandoffIn = Netisr, "handoff_in", "packets handed off by other CPUs";
    Strays = Netisr, "strays", "packets processed by a CPU that does not own them (a bug; debug builds only)";
    Ip4In = Ip4, "ip4_in", "IPv4 packets received";
    Ip4Forwarded = Ip4, "ip4_forwarded", "IPv4 packets forwarded";
    Ip4Local = Ip4, "ip4_local", "IPv4 packets delivered to this host";
    Ip4Out = Ip4, "ip4_out", "IPv4 packets originated";
    Ip4Fragmented = Ip4, "ip4_fragmented", "IPv4 packets fragmented";
    Ip4FragmentsMade = Ip4, "ip4_fragments_made", "IPv4 fragments created";
    Ip4FragmentsIn = Ip4, "ip4_fragments_in", "IPv4 fragments received for this host";
    Ip4FragmentsJoined = Ip4, "ip4_fragments_joined", "IPv4 fragments joined to the first one of their datagram";
    Ip4Reassembled = Ip4, "ip4_reassembled", "IPv4 datagrams reassembled";
    FlowHits = Flow, "flow_hits", "flow cache hits";
    FlowMisses = Flow, "flow_misses", "flow cache misses";
    FlowMissUnfit = Flow, "flow_miss_unfit", "flow cache misses: fragment, options, other protocol, or made here";
    FlowMissUnknown = Flow, "flow_miss_unknown", "flow cache misses: no entry, or a stale one";
    FlowMissLimits = Flow, "flow_miss_limits", "flow cache misses: longer than the path MTU, or hop limit reached";
    FlowMissEnded = Flow, "flow_miss_ended", "flow cache misses: state or translation ended, or does not admit the packet";
    FlowByPacket = Flow, "flow_by_packet", "flow cache entries not created: rules decide packet by packet";
    FlowLearnt = Flow, "flow_learnt", "flow cache entries created";
    FlowFull = Flow, "flow_full", "flow cache entries not created: no room";
    FlowOffloaded = Flow, "flow_offloaded", "packets forwarded by drivers, by records of offloaded flows";
    OffloadInserted = Flow, "offload_inserted", "flows offloaded to drivers";
    OffloadStale = Flow, "offload_stale", "offloaded flows ended by a change of rules, tables, routes or neighbors";
    OffloadEvicted = Flow, "offload_evicted", "offloaded flows ended: idle, or the room was needed";
    OffloadEnded = Flow, "offload_ended", "offloaded flows ended: state or translation ended, or connection closed";
    OffloadFull = Flow, "offload_full", "flows not offloaded: no room";
    OffloadNoDevice = Flow, "offload_no_device", "flows not offloaded: an interface has no offload, or cannot send such frames";
    OffloadNotOpen = Flow, "offload_not_open", "flows not offloaded: connection not open, or translation unfit";
    OffloadBusy = Flow, "offload_busy", "flows not offloaded yet: another CPU writes records, or the flow has one";
    OffloadWatched = Flow, "offload_watched", "flows not offloaded: a capture or a trace wants to see packets";
    OffloadRefused = Flow, "offload_refused", "flows not offloaded: a rule says nooffload";
    RoutesCached = Ip4, "routes_cached", "routes of connections cached";
    Ip6In = Ip6, "ip6_in", "IPv6 packets received";
    Ip6Forwarded = Ip6, "ip6_forwarded", "IPv6 packets forwarded";
    Ip6Local = Ip6, "ip6_local", "IPv6 packets delivered to this host";
    Ip6Out = Ip6, "ip6_out", "IPv6 packets originated";
    Ip6Fragmented = Ip6, "ip6_fragmented", "IPv6 packets fragmented";
    Ip6FragmentsMade = Ip6, "ip6_fragments_made", "IPv6 fragments created";
    Ip6FragmentsIn = Ip6, "ip6_fragments_in", "IPv6 fragments received for this host";
    Ip6FragmentsJoined = Ip6, "ip6_fragments_joined", "IPv6 fragments joined to the first one of their packet";
    Ip6Reassembled = Ip6, "ip6_reassembled", "IPv6 datagrams reassembled";
    TunnelIn = Tunnel, "tunnel_in", "packets received by tunnels";
    TunnelOut = Tunnel, "tunnel_out", "packets sent by tunnels";
    VxlanIn = Tunnel, "vxlan_in", "datagrams received at the ports of VXLANs";
    VxlanFlooded = Tunnel, "vxlan_flooded", "frames sent to all remote ends of a VXLAN";
    TunnelErrors = Tunnel, "tunnel_errors", "ICMP errors received about packets sent by tunnels";
    TunnelErrorsRelayed = Tunnel, "tunnel_errors_relayed", "ICMP errors about packets sent by tunnels that were passed on to the inner sender";
    PppoeIn = Tunnel, "pppoe_in", "packets received by PPPoE sessions";
    PppoeOut = Tunnel, "pppoe_out", "packets sent by PPPoE sessions";
    PppoeControlIn = Tunnel, "pppoe_control_in", "PPPoE control frames received";
    PppoeControlOut = Tunnel, "pppoe_control_out", "PPPoE control frames sent";
    BridgeForwarded = Ether, "bridge_forwarded", "frames sent by ports of bridges";
    BridgeFlooded = Ether, "bridge_flooded", "frames sent by all ports of a bridge";
    FloodCopied = Ether, "flood_copied", "copies made of frames that leave by several ports or to several ends";
    Punted = Ether, "punted", "packets and copies given to the kernel's twin of their interface";
    PuntCopied = Ether, "punt_copied", "copies made for the kernel's twin of an interface";
    PuntedOut = Ether, "punted_out", "frames that the kernel sent by the twin of an interface";
    BpdusSent = Ether, "bpdus_sent", "spanning tree units (BPDUs) sent";
    BpdusConsumed = Ether, "bpdus_consumed", "spanning tree units (BPDUs) received";
    BpdusNoBuffer = Ether, "bpdus_no_buffer", "spanning tree units (BPDUs) not sent: no free buffer";
    StpFlushes = Ether, "stp_flushes", "ports whose learnt addresses a topology change flushed";
    SnoopLearnt = Ether, "snoop_learnt", "multicast groups learnt on ports of bridges";
    SnoopFull = Ether, "snoop_full", "multicast groups not learnt: limit of the bridge reached, which floods";
    SnoopDeferred = Ether, "snoop_deferred", "multicast groups not learnt from a report: limit of a turn reached";
    IgmpQueriesSent = Ether, "igmp_queries_sent", "IGMP queries sent by bridges";
    MldQueriesSent = Ether, "mld_queries_sent", "MLD queries sent by bridges";
    FdbLearnt = Ether, "fdb_learnt", "link addresses learnt";
    FdbMoved = Ether, "fdb_moved", "learnt link addresses that moved to another port or remote end";
    FdbExpired = Ether, "fdb_expired", "learnt link addresses expired";
    FdbFull = Ether, "fdb_full", "link addresses not learnt: limit of the interface reached";
    FdbDeferred = Ether, "fdb_deferred", "link addresses not learnt from a frame: limit of a turn reached";
    IcmpEchoSent = Icmp, "icmp_echo_sent", "ICMP echo requests sent";
    IcmpEchoAnswered = Icmp, "icmp_echo_answered", "ICMP echo requests answered";
    IcmpErrorsSent = Icmp, "icmp_errors_sent", "ICMP errors sent";
    IcmpErrorsLimited = Icmp, "icmp_errors_limited", "ICMP errors not sent: rate limit";
    IcmpErrorsForbidden = Icmp, "icmp_errors_forbidden", "ICMP errors not sent: forbidden for the packet (RFC 1122)";
    IcmpErrorsIn = Icmp, "icmp_errors_in", "ICMP errors received";
    Icmp6EchoSent = Icmp6, "icmp6_echo_sent", "ICMPv6 echo requests sent";
    Icmp6EchoAnswered = Icmp6, "icmp6_echo_answered", "ICMPv6 echo requests answered";
    Icmp6ErrorsSent = Icmp6, "icmp6_errors_sent", "ICMPv6 errors sent";
    Icmp6ErrorsLimited = Icmp6, "icmp6_errors_limited", "ICMPv6 errors not sent: rate limit";
    Icmp6ErrorsForbidden = Icmp6, "icmp6_errors_forbidden", "ICMPv6 errors not sent: forbidden for the packet (RFC 4443)";
    Icmp6ErrorsIn = Icmp6, "icmp6_errors_in", "ICMPv6 errors received";
    IcmpNoBuffer = Icmp, "icmp_no_buffer", "ICMP messages not sent: no packet buffer";
    IcmpRawTaken = Icmp, "icmp_raw_taken", "ICMP and ICMPv6 messages delivered to raw sockets";
    IcmpRawFull = Icmp, "icmp_raw_full", "ICMP and ICMPv6 messages not delivered to raw sockets: receive buffer full";
    IcmpRawOut = Icmp, "icmp_raw_out", "ICMP and ICMPv6 messages sent by raw sockets";
    IcmpConsumed = Icmp, "icmp_consumed", "ICMP and ICMPv6 messages consumed";
    StateInstalled = Firewall, "state_installed", "states created";
    StateReap = Firewall, "state_reap", "states removed early to make room";
    StateHalfOpenEvicted = Firewall, "state_half_open_evicted", "half-open states evicted by newer ones at their limit";
    StateReapFailed = Firewall, "state_reapfailed", "searches for removable states without result";
    StateAskAll = Firewall, "state_askall", "requests to all CPUs to make room for states";
    StateOverflow = Firewall, "state_overflow", "states not created: state limit reached";
    TrackLimit = Firewall, "track_limit", "states not created: limit of the rule reached";
    TrackOverflow = Firewall, "track_overflow", "states not created: table of limited groups full";
    StateRecycled = Firewall, "state_tcprecycled", "states of closed connections reused for a new connection";
    StateKeepalives = Firewall, "state_keepalives", "keepalives sent for states of idle connections";
    StateOutside = Firewall, "state_outside", "TCP segments outside the window tracked by their state";
    PacketSocketIn = App, "packet_socket_in", "frames delivered to packet sockets";
    PacketSocketFull = App, "packet_socket_full", "frames not delivered to packet sockets: receive buffer full";
    PacketSocketTaken = App, "packet_socket_taken", "frames that packet sockets keep from the stack";
    PacketSocketOut = App, "packet_socket_out", "frames sent by packet sockets";
    ProgramEvents = App, "program_events", "events delivered to applications";
    ProgramsCut = App, "programs_cut", "turns that hit the application event limit";
    ChannelCommands = App, "channel_commands", "commands received through channels";
    ChannelEventsHeld = App, "channel_events_held", "times that the event ring of a channel was full";
    ChannelDatagramsWaited = App, "channel_datagrams_waited", "times that the send ring of a datagram socket was full";
    ChannelDatagramsTooLong = App, "channel_datagrams_too_long", "datagrams dropped: longer than a channel accepts";
    ChannelsBroken = App, "channels_broken", "channels closed: invalid data from the application";
    UdpIn = Udp, "udp_in", "UDP datagrams received for this host";
    UdpTaken = Udp, "udp_taken", "UDP datagrams delivered to sockets";
    UdpOut = Udp, "udp_out", "UDP datagrams sent by sockets";
    UdpCoalesced = Udp, "udp_coalesced", "UDP datagrams sent as segments of another (GSO)";
    TcpIn = Tcp, "tcp_in", "TCP segments received for this host";
    TcpOut = Tcp, "tcp_out", "TCP segments sent by connections";
    TcpTaken = Tcp, "tcp_taken", "TCP segments delivered to connections or listeners";
    TcpConnects = Tcp, "tcp_connects", "connection requests";
    TcpAccepts = Tcp, "tcp_accepts", "connections accepted";
    TcpCookiesSent = Tcp, "tcp_cookies_sent", "SYN cookies sent: SYN cache full";
    TcpCookiesTaken = Tcp, "tcp_cookies_taken", "connections established by a SYN cookie";
    TcpOpened = Tcp, "tcp_opened", "connections opened with a Fast Open cookie";
    TcpOpenCookies = Tcp, "tcp_open_cookies", "SYNs with a Fast Open cookie request or an invalid cookie";
    TcpOpensLimited = Tcp, "tcp_opens_limited", "SYNs with a valid Fast Open cookie handled as usual: limit reached";
    TcpQueueFull = Tcp, "tcp_queue_full", "connections not established: accept queue full";
    TcpTooMany = Tcp, "tcp_too_many", "connections not established: connection limit reached";
    TcpWaitsCut = Tcp, "tcp_waits_cut", "connections closed without TIME-WAIT: limit reached";
    TcpHalvesTimedOut = Tcp, "tcp_halves_timed_out", "half-open connections timed out";
    TcpChallenges = Tcp, "tcp_challenges", "challenge ACKs sent (RFC 5961)";
    TcpAnswersLimited = Tcp, "tcp_answers_limited", "challenge ACKs and duplicate ACKs not sent: limit of the connection";
    TcpRetransmits = Tcp, "tcp_retransmits", "segments retransmitted";
    TcpTimeouts = Tcp, "tcp_timeouts", "retransmission timeouts";
    TcpOutOfOrder = Tcp, "tcp_out_of_order", "segments received out of order";
    TcpTailProbes = Tcp, "tcp_tail_probes", "tail loss probes sent";
    TcpBursts = Tcp, "tcp_bursts", "times that a connection hit the send limit of a turn";
    TcpHeld = Tcp, "tcp_held", "times that a connection waited to send: the queue of its interface is crowded";
    TcpDoubts = Tcp, "tcp_doubts", "connections that suspected a dead gateway after retransmissions";
    TcpPathsFound = Tcp, "tcp_paths_found", "path MTUs discovered by probing (RFC 4821)";
    TcpNoBuffer = Tcp, "tcp_no_buffer", "segments not sent: no packet buffer";
    TcpRelaysRefused = Tcp, "tcp_relays_refused", "connections reset by a relay: target unreachable, or limit reached";
    TcpRelaysSlow = Tcp, "tcp_relays_slow", "relayed connections reset: slow, and their memory was needed";
    TcpNoKey = Tcp, "tcp_no_key", "segments not sent: no signature key for the peer (RFC 2385)";
    TcpResetsSent = Tcp, "tcp_resets_sent", "resets sent for closed ports";
    TcpResetsNoBuffer = Tcp, "tcp_resets_no_buffer", "TCP resets not sent: no packet buffer";
    TcpResetsLimited = Tcp, "tcp_resets_limited", "resets not sent: rate limit";
    ArpRequestsIn = Arp, "arp_requests_in", "ARP requests received";
    ArpRepliesIn = Arp, "arp_replies_in", "ARP replies received";
    ArpRequestsSent = Arp, "arp_requests_sent", "ARP requests sent";
    ArpRepliesSent = Arp, "arp_replies_sent", "ARP replies sent";
    ArpProxied = Arp, "arp_proxied", "ARP replies sent for addresses of other hosts";
    ArpConflicts = Arp, "arp_conflicts", "ARP packets that claimed one of our addresses";
    ArpConsumed = Arp, "arp_consumed", "ARP packets consumed";
    NdSolicitsIn = Nd, "nd_solicits_in", "neighbor solicitations received";
    NdAdvertsIn = Nd, "nd_adverts_in", "neighbor advertisements received";
    NdSolicitsSent = Nd, "nd_solicits_sent", "neighbor solicitations sent";
    NdAdvertsSent = Nd, "nd_adverts_sent", "neighbor advertisements sent";
    NdProxied = Nd, "nd_proxied", "neighbor advertisements sent for addresses of other hosts";
    NdConflicts = Nd, "nd_conflicts", "neighbor discovery messages that claimed one of our addresses";
    NdRouterIn = Nd, "nd_router_in", "router solicitations and advertisements received";
    NdRouterIgnored = Nd, "nd_router_ignored", "router advertisements ignored: no autoconf, or no address on the link";
    NdRouterSolicitsSent = Nd, "nd_router_solicits_sent", "router solicitations sent";
    NdRouterAdvertsSent = Nd, "nd_router_adverts_sent", "router advertisements sent";
    NeighNoBuffer = Neigh, "neigh_no_buffer", "ARP and neighbor discovery messages not sent: no packet buffer";
    NdRoutersFull = Nd, "nd_routers_full", "default routers ignored: limit of the link reached";
    NdPrefixesFull = Nd, "nd_prefixes_full", "on-link prefixes ignored: limit of the link reached";
    NdPrefixesRefused = Nd, "nd_prefixes_refused", "advertised prefixes refused: overlap with another interface, or not on the link";
    NdAddrsFull = Nd, "nd_addrs_full", "prefixes without an address of ours: limit of the link reached";
    NdRedirectsIn = Nd, "nd_redirects_in", "redirects accepted";
    NdConsumed = Nd, "nd_consumed", "neighbor discovery messages consumed";
    DestEvicted = Ip, "dest_evicted", "redirect and path MTU entries evicted";
    PathEvicted = Ip, "path_evicted", "path MTU entries evicted";
    MldQueriesIn = Mld, "mld_queries_in", "multicast listener queries received";
    MldReportsSent = Mld, "mld_reports_sent", "multicast listener reports sent";
    MldConsumed = Mld, "mld_consumed", "multicast listener messages consumed";
    IgmpQueriesIn = Igmp, "igmp_queries_in", "IGMP queries received";
    IgmpReportsSent = Igmp, "igmp_reports_sent", "IGMP reports sent";
    IgmpConsumed = Igmp, "igmp_consumed", "IGMP messages consumed";
    GroupNoBuffer = Group, "group_no_buffer", "MLD and IGMP reports not sent: no packet buffer";
    GroupLooped = Group, "group_looped", "multicast packets looped back to listeners on this host";
    GroupStayed = Group, "group_stayed", "multicast packets kept on this host by their hop limit";
    CopiesNoBuffer = Pipe, "copies_no_buffer", "packet copies not made: no packet buffer";
    GroupsFull = Group, "groups_full", "multicast groups or sources refused: limit reached";
    NeighHeld = Neigh, "neigh_held", "packets queued for address resolution";
    NeighLimited = Neigh, "neigh_limited", "address resolutions not started: rate limit or table full";
    NeighEvicted = Neigh, "neigh_evicted", "neighbour entries evicted";
    NeighClaims = Neigh, "neigh_claims", "packets that claimed another link address for a known neighbour";
    CsumPartialIn = Offload, "csum_partial_in", "packets received with a partial checksum";
    CsumCompleted = Offload, "csum_completed", "partial checksums completed in software";
    GsoIn = Offload, "gso_in", "super-packets received";
    GsoSegmented = Offload, "gso_segmented", "super-packets segmented in software";
    GsoSegmentsMade = Offload, "gso_segments_made", "segments created from super-packets";
    Redirected = Nat, "redirected", "packets redirected by `rdr`, and replies";
    RedirectSplit = Nat, "redirect_split", "redirected packets and replies continued on another CPU";
    RedirectConflicts = Nat, "redirect_conflicts", "packets not redirected: address pair in use";
    RedirectResolved = Nat, "redirect_resolved", "closed redirected flows replaced by a new one";
    RedirectGiven = Nat, "redirect_given", "messages about redirected flows sent to other CPUs";
    RedirectTaken = Nat, "redirect_taken", "messages about redirected flows received from other CPUs";
    NatOut = Nat, "nat_out", "packets translated, outbound";
    NatIn = Nat, "nat_in", "packets translated, inbound";
    NatErrors = Nat, "nat_errors", "ICMP errors translated";
    NatRedirected = Nat, "nat_redirected", "packets of NAT redirections, and replies";
    NatHairpins = Nat, "nat_hairpins", "packets translated from inside to inside (hairpin)";
    NatBindings = Nat, "nat_bindings", "NAT bindings created";
    NatHalfOpenEvicted = Nat, "nat_half_open_evicted", "half-open NAT bindings evicted by newer ones";
    NatHandoffs = Nat, "nat_handoffs", "packets handed off to the CPU of their NAT binding";
    PipeCopied = Pipe, "pipe_copied", "packets duplicated by a pipe (duplicate)";
    PipeMoved = Pipe, "pipe_moved", "packets delayed by a pipe for reordering (reorder)";
    Doorbells = Ifq, "doorbells", "doorbells rung";
    TxPackets = Ifq, "tx_packets", "packets sent to devices";
    TxPushedBack = Ifq, "tx_pushed_back", "times that a transmit ring was full";
    EcnMarked = Ifq, "ecn_marked", "packets marked by ECN in an output queue or a pipe";
}

/// A counter of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IfCount {
    /// Frames received.
    RxPackets,
    /// Bytes received.
    RxBytes,
    /// Frames given to the device.
    TxPackets,
    /// Bytes given to the device.
    TxBytes,
    /// Frames dropped on their way to the device.
    TxDrops,
    /// Frames marked instead of dropped (ECN).
    TxMarks,
    /// Times that the device was told that frames wait.
    Doorbells,
    /// Times that the ring did not take all, and a queue formed.
    PushedBack,
}

impl Index for IfCount {
    const COUNT: usize = 8;

    fn index(self) -> usize {
        self as usize
    }
}

/// Bound of interface indices, all that [`IfIndex`] can hold. A CPU reserves 8 MiB for their counters, which are backed where
/// they are used.
pub const INTERFACES_MAX: usize = 1 << 16;

const _: () = assert!(INTERFACES_MAX == IfIndex::MAX as usize + 1, "each index has its counters");

/// The writing end of one CPU's counters.
pub struct Counters {
    events: CounterBlock<Count>,
    drops: CounterBlock<DropReason>,
    ifs: CounterTable<IfCount>,
}

/// The reading end of one CPU's counters, for any thread.
#[derive(Clone)]
pub struct CountersReader {
    /// Events.
    pub events: CounterReader<Count>,
    /// Dropped packets.
    pub drops: CounterReader<DropReason>,
    /// By interface index.
    pub ifs: CounterTableReader<IfCount>,
}

impl Default for Counters {
    fn default() -> Self {
        let ifs = CounterTable::new(INTERFACES_MAX);
        Self { events: CounterBlock::new(), drops: CounterBlock::new(), ifs }
    }
}

impl Counters {
    /// Where any thread can read these.
    #[must_use]
    pub fn reader(&self) -> CountersReader {
        CountersReader { events: self.events.reader(), drops: self.drops.reader(), ifs: self.ifs.reader() }
    }

    /// Counts `n` events.
    #[inline]
    pub fn add(&mut self, event: Count, n: u64) {
        self.events.add(event, n);
    }

    /// Counts a dropped packet.
    #[inline]
    pub fn drop(&mut self, reason: DropReason) {
        self.drops.inc(reason);
    }

    /// Counts `n` packets dropped for the same reason.
    #[inline]
    pub fn drop_many(&mut self, reason: DropReason, n: u64) {
        self.drops.add(reason, n);
    }

    /// Counts `n` for an interface.
    #[inline]
    pub fn add_if(&mut self, index: IfIndex, what: IfCount, n: u64) {
        self.ifs.add(usize::from(index), what, n);
    }

    /// Returns the count of `event`.
    #[inline]
    #[must_use]
    pub fn get(&self, event: Count) -> u64 {
        self.events.get(event)
    }

    /// Returns the packets dropped for `reason`.
    #[inline]
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(reason)
    }
}
