//! Counters besides drops: per CPU, single writer, summed by the reader.

use pkt::counters::{CounterBlock, CounterReader, CounterTable, CounterTableReader, Index};

use crate::base::drop::DropReason;
use crate::base::ids::IfIndex;

/// Makes an enum whose variants have a stable name and a sentence, and index a block of counters.
macro_rules! named {
    ($(#[$doc:meta])* $enum:ident: $($variant:ident = $name:literal, $sentence:literal;)*) => {
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

            /// Returns the description, to be printed behind a number or a name.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }
        }

        impl pkt::counters::Index for $enum {
            const COUNT: usize = Self::ALL.len();

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
    Turns = "turns", "turns of the netisr";
    BusyTurns = "busy_turns", "turns that found work";
    LongTurns = "long_turns", "turns that took longer than they should, so that bursts became smaller";
    Messages = "messages", "messages handled";
    RxPackets = "rx_packets", "packets taken from devices";
    HandoffOut = "handoff_out", "packets handed to other CPUs";
    HandoffIn = "handoff_in", "packets taken over from other CPUs";
    Strays = "strays", "packets routed, or taken, by a CPU that does not own them; a bug, looked for in debug builds only";
    Ip4In = "ip4_in", "IPv4 packets received";
    Ip4Forwarded = "ip4_forwarded", "IPv4 packets forwarded";
    Ip4Local = "ip4_local", "IPv4 packets for this host";
    Ip4Out = "ip4_out", "IPv4 packets sent from here";
    Ip4Fragmented = "ip4_fragmented", "IPv4 packets fragmented";
    Ip4FragmentsMade = "ip4_fragments_made", "IPv4 fragments made";
    Ip4FragmentsIn = "ip4_fragments_in", "IPv4 fragments received for this host";
    Ip4FragmentsJoined = "ip4_fragments_joined", "IPv4 fragments joined to the first one of their datagram";
    Ip4Reassembled = "ip4_reassembled", "IPv4 datagrams reassembled";
    FlowHits = "flow_hits", "packets whose flow was found in the flow cache";
    FlowMisses = "flow_misses", "packets that went the normal way because the flow cache did not know their flow";
    FlowLearnt = "flow_learnt", "flows that the flow cache learnt, or learnt anew";
    FlowFull = "flow_full", "flows that the flow cache had no room for";
    Ip6In = "ip6_in", "IPv6 packets received";
    Ip6Forwarded = "ip6_forwarded", "IPv6 packets forwarded";
    Ip6Local = "ip6_local", "IPv6 packets for this host";
    Ip6Out = "ip6_out", "IPv6 packets sent from here";
    Ip6Fragmented = "ip6_fragmented", "IPv6 packets fragmented";
    Ip6FragmentsMade = "ip6_fragments_made", "IPv6 fragments made";
    Ip6FragmentsIn = "ip6_fragments_in", "IPv6 fragments received for this host";
    Ip6FragmentsJoined = "ip6_fragments_joined", "IPv6 fragments joined to the first one of their packet";
    Ip6Reassembled = "ip6_reassembled", "IPv6 datagrams reassembled";
    IcmpEchoSent = "icmp_echo_sent", "ICMP echo requests sent";
    IcmpEchoAnswered = "icmp_echo_answered", "ICMP echo requests answered";
    IcmpErrorsSent = "icmp_errors_sent", "ICMP errors sent";
    IcmpErrorsLimited = "icmp_errors_limited", "ICMP errors not sent because of the rate limit";
    IcmpErrorsForbidden = "icmp_errors_forbidden", "ICMP errors not sent because the packet must not be answered";
    IcmpErrorsIn = "icmp_errors_in", "ICMP errors received";
    Icmp6EchoSent = "icmp6_echo_sent", "ICMPv6 echo requests sent";
    Icmp6EchoAnswered = "icmp6_echo_answered", "ICMPv6 echo requests answered";
    Icmp6ErrorsSent = "icmp6_errors_sent", "ICMPv6 errors sent";
    Icmp6ErrorsLimited = "icmp6_errors_limited", "ICMPv6 errors not sent because of the rate limit";
    Icmp6ErrorsForbidden = "icmp6_errors_forbidden", "ICMPv6 errors not sent because the packet must not be answered";
    Icmp6ErrorsIn = "icmp6_errors_in", "ICMPv6 errors received";
    IcmpNoBuffer = "icmp_no_buffer", "ICMP messages not sent because no buffer was free";
    IcmpRawTaken = "icmp_raw_taken", "copies of ICMP and ICMPv6 messages that raw sockets took";
    IcmpRawFull = "icmp_raw_full", "copies of ICMP and ICMPv6 messages that raw sockets had no room for";
    IcmpRawOut = "icmp_raw_out", "ICMP and ICMPv6 messages sent by raw sockets";
    StateInstalled = "state_installed", "states made";
    StateReap = "state_reap", "states ended before their time, to make room for others";
    StateHalfOpenEvicted = "state_half_open_evicted", "states of half-open connections ended by a newer one, at their bound";
    StateReapFailed = "state_reapfailed", "searches for states that could make room, in vain";
    StateAskAll = "state_askall", "times that all CPUs were asked to look for states that could make room";
    StateOverflow = "state_overflow", "states not made because there were as many as may be";
    TrackLimit = "track_limit", "states not made because of their rule's limit";
    TrackOverflow = "track_overflow", "states not made because too many groups are limited";
    StateRecycled = "state_tcprecycled", "states of closed connections replaced by another connection's";
    StateKeepalives = "state_keepalives", "keepalives sent to the ends of idle connections that have states";
    StateOutside = "state_outside", "TCP segments that are not within the windows of their state's connection";
    ProgramEvents = "program_events", "events that programs on the netisr were told of";
    ProgramsCut = "programs_cut", "turns in which more events waited for programs than they are told of in one";
    ChannelCommands = "channel_commands", "commands of programs' threads that were obeyed";
    ChannelEventsHeld = "channel_events_held", "times that a channel had no room for events, so that a program's thread was told later";
    ChannelDatagramsWaited = "channel_datagrams_waited", "times that a program's thread found no room for a datagram, and was told when there was";
    ChannelDatagramsTooLong = "channel_datagrams_too_long", "datagrams dropped because they were longer than a channel takes";
    ChannelsBroken = "channels_broken", "channels closed because a program's end of them said what cannot be";
    UdpIn = "udp_in", "UDP datagrams received for this host";
    UdpTaken = "udp_taken", "UDP datagrams that a socket took";
    UdpOut = "udp_out", "UDP datagrams sent by sockets";
    UdpCoalesced = "udp_coalesced", "UDP datagrams sent in the packet of another one, to be segmented later (GSO)";
    TcpIn = "tcp_in", "TCP segments received for this host";
    TcpOut = "tcp_out", "TCP segments sent by connections";
    TcpTaken = "tcp_taken", "TCP segments that a connection or a listener took";
    TcpConnects = "tcp_connects", "TCP connections begun from here";
    TcpAccepts = "tcp_accepts", "TCP connections begun by others that stand";
    TcpCookiesSent = "tcp_cookies_sent", "SYNs answered with a cookie, because there was no room to remember them";
    TcpCookiesTaken = "tcp_cookies_taken", "TCP connections that stand because of a cookie";
    TcpOpened = "tcp_opened", "TCP connections opened with a cookie, before they stood";
    TcpOpenCookies = "tcp_open_cookies", "SYNs that asked for a cookie to open with, or had one that was not good";
    TcpOpensLimited = "tcp_opens_limited", "SYNs with a good cookie that went the usual way, because as many were open as may be";
    TcpQueueFull = "tcp_queue_full", "TCP connections that could not stand because too many wait to be accepted";
    TcpTooMany = "tcp_too_many", "TCP connections that could not stand because there are as many as may be";
    TcpWaitsCut = "tcp_waits_cut", "TCP connections that ended without TIME-WAIT, because as many wait as may";
    TcpHalvesTimedOut = "tcp_halves_timed_out", "SYNs that were answered, and nobody acknowledged";
    TcpChallenges = "tcp_challenges", "TCP segments answered with a challenge, as they could be forged";
    TcpAnswersLimited = "tcp_answers_limited", "TCP challenges, and acknowledgments of what was not acceptable, not sent because a connection had sent enough of them";
    TcpRetransmits = "tcp_retransmits", "TCP segments sent again";
    TcpTimeouts = "tcp_timeouts", "times that no acknowledgment came for as long as it is waited for";
    TcpOutOfOrder = "tcp_out_of_order", "TCP segments that came out of order";
    TcpTailProbes = "tcp_tail_probes", "TCP segments sent to find out whether the last ones were lost";
    TcpBursts = "tcp_bursts", "times that a TCP connection had sent as much as goes in one turn";
    TcpDoubts = "tcp_doubts", "TCP retransmissions in vain for so long that the first hop was doubted";
    TcpPathsFound = "tcp_paths_found", "lengths of TCP segments found that arrive where longer ones do not";
    TcpNoBuffer = "tcp_no_buffer", "TCP segments not sent because no buffer was free";
    TcpRelaysRefused = "tcp_relays_refused", "TCP connections that a relay reset at once: no way to its target, too many, or no memory for them";
    TcpRelaysSlow = "tcp_relays_slow", "pairs of connections that a relay reset because they held memory that others needed, and hardly delivered anything";
    TcpNoKey = "tcp_no_key", "TCP segments not sent because they should be signed, and no key of the other end is known";
    TcpResetsSent = "tcp_resets_sent", "TCP resets sent for segments to closed ports";
    TcpResetsNoBuffer = "tcp_resets_no_buffer", "TCP resets not sent because no buffer was free";
    TcpResetsLimited = "tcp_resets_limited", "TCP resets not sent because of the rate limit";
    ArpRequestsIn = "arp_requests_in", "ARP requests received";
    ArpRepliesIn = "arp_replies_in", "ARP replies received";
    ArpRequestsSent = "arp_requests_sent", "ARP requests sent";
    ArpRepliesSent = "arp_replies_sent", "ARP replies sent";
    ArpConflicts = "arp_conflicts", "ARP packets in which somebody else claimed one of our addresses";
    NdSolicitsIn = "nd_solicits_in", "neighbour solicitations received";
    NdAdvertsIn = "nd_adverts_in", "neighbour advertisements received";
    NdSolicitsSent = "nd_solicits_sent", "neighbour solicitations sent";
    NdAdvertsSent = "nd_adverts_sent", "neighbour advertisements sent";
    NdConflicts = "nd_conflicts", "neighbour discovery messages in which somebody else claimed one of our addresses";
    NdRouterIn = "nd_router_in", "router solicitations and advertisements received";
    NdRouterIgnored = "nd_router_ignored", "router advertisements that an interface was not told to believe, or has no address for";
    NdRouterSolicitsSent = "nd_router_solicits_sent", "router solicitations sent";
    NeighNoBuffer = "neigh_no_buffer", "ARP and neighbour discovery messages not sent because no buffer was free";
    NdRoutersFull = "nd_routers_full", "default routers refused because their link has as many as may be";
    NdPrefixesFull = "nd_prefixes_full", "on-link prefixes refused because their link has as many as may be";
    NdPrefixesRefused = "nd_prefixes_refused", "advertised prefixes refused because they overlap another interface's, or are on no link";
    NdAddrsFull = "nd_addrs_full", "advertised prefixes without an address of ours because their link has as many as may be";
    NdRedirectsIn = "nd_redirects_in", "redirects believed";
    DestEvicted = "dest_evicted", "destinations with a redirect forgotten to make room for others";
    PathEvicted = "path_evicted", "path MTUs forgotten to make room for others";
    MldQueriesIn = "mld_queries_in", "multicast listener queries received";
    MldReportsSent = "mld_reports_sent", "multicast listener reports sent";
    IgmpQueriesIn = "igmp_queries_in", "IGMP queries received";
    IgmpReportsSent = "igmp_reports_sent", "IGMP reports sent";
    GroupNoBuffer = "group_no_buffer", "multicast listener and IGMP reports not sent because no buffer was free";
    GroupLooped = "group_looped", "copies of packets to a multicast group that listeners on this host received";
    GroupStayed = "group_stayed", "packets to a multicast group that the hop limit kept on this host";
    CopiesNoBuffer = "copies_no_buffer", "copies of packets, for a pipe or for listeners on this host, not made because no buffer was free";
    GroupsFull = "groups_full", "multicast groups, or senders to them, refused because there are as many as may be";
    NeighHeld = "neigh_held", "packets that waited for a neighbour's address";
    NeighLimited = "neigh_limited", "neighbours not looked for because of the rate limit or a full table";
    NeighEvicted = "neigh_evicted", "neighbours forgotten to make room for others";
    NeighClaims = "neigh_claims", "packets in which a neighbour's address had another link address than we knew";
    CsumPartialIn = "csum_partial_in", "packets received with a partial checksum";
    CsumCompleted = "csum_completed", "partial checksums completed here";
    GsoIn = "gso_in", "super-packets received";
    GsoSegmented = "gso_segmented", "super-packets cut into segments here";
    GsoSegmentsMade = "gso_segments_made", "segments made of super-packets";
    Redirected = "redirected", "packets redirected by `rdr` to another destination, and their answers";
    RedirectSplit = "redirect_split", "redirected packets, and answers, that another CPU went on with";
    RedirectConflicts = "redirect_conflicts", "packets not redirected because another flow has their new ends";
    RedirectResolved = "redirect_resolved", "redirected flows that were over, and made room for another with the same ends";
    RedirectGiven = "redirect_given", "messages about redirected flows that were sent to another CPU; at rest as many as were taken";
    RedirectTaken = "redirect_taken", "messages about redirected flows that came from another CPU";
    NatOut = "nat_out", "packets translated on their way out";
    NatIn = "nat_in", "packets translated on their way in";
    NatErrors = "nat_errors", "ICMP errors translated with what they quote";
    NatRedirected = "nat_redirected", "packets redirected to a host inside, and its answers";
    NatHairpins = "nat_hairpins", "packets translated from inside to inside";
    NatBindings = "nat_bindings", "translations of a flow begun";
    NatHalfOpenEvicted = "nat_half_open_evicted", "translations of half-open connections ended by a newer one, for its port or its place";
    NatHandoffs = "nat_handoffs", "packets that another CPU translates: those without ports, and errors";
    PipeCopied = "pipe_copied", "packets that a pipe was given twice, as it was told to (duplicate)";
    PipeMoved = "pipe_moved", "packets that a pipe held back for others to overtake, as it was told to (reorder)";
    Doorbells = "doorbells", "doorbells rung";
    TxPackets = "tx_packets", "packets given to devices";
    TxPushedBack = "tx_pushed_back", "times that a transmit ring did not take all, and a queue formed";
    EcnMarked = "ecn_marked", "packets marked in an output queue or a pipe, instead of dropped (ECN)";
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

/// Interfaces that a stack may have: indices are below this.
pub const INTERFACES_MAX: usize = 256;

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
    pub fn add(&mut self, event: Count, n: u64) {
        self.events.add(event, n);
    }

    /// Counts a dropped packet.
    pub fn drop(&mut self, reason: DropReason) {
        self.drops.inc(reason);
    }

    /// Counts `n` packets dropped for the same reason.
    pub fn drop_many(&mut self, reason: DropReason, n: u64) {
        self.drops.add(reason, n);
    }

    /// Counts `n` for an interface.
    pub fn add_if(&mut self, index: IfIndex, what: IfCount, n: u64) {
        self.ifs.add(usize::from(index), what, n);
    }

    /// Returns the count of `event`.
    #[must_use]
    pub fn get(&self, event: Count) -> u64 {
        self.events.get(event)
    }

    /// Returns the packets dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(reason)
    }
}
