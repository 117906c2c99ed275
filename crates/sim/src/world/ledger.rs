//! The ledger of a host: packets that begin and packets that end in it, by cause.
//!
//! A packet begins when a device delivers it or the host makes it, and ends when a device takes it, when it is dropped for
//! a reason, or when the host has used it up. Nothing else begins or ends packets, so the two sums are equal when no packet
//! is under way.

use net::count::{Count, IfCount};
use net::drop::DropReason;

use crate::host::{Host, ifindex};

/// Packets that begin.
const BEGUN: &[Count] = &[
    Count::RxPackets,
    // made from nothing
    Count::IcmpEchoSent,
    Count::Icmp6EchoSent,
    Count::IcmpErrorsSent,
    Count::Icmp6ErrorsSent,
    Count::IcmpRawOut,
    Count::PacketSocketOut,
    Count::UdpOut,
    Count::TcpOut,
    Count::TcpResetsSent,
    Count::StateKeepalives,
    Count::ArpRequestsSent,
    Count::ArpRepliesSent,
    Count::NdSolicitsSent,
    Count::NdAdvertsSent,
    Count::NdRouterSolicitsSent,
    Count::NdRouterAdvertsSent,
    Count::MldReportsSent,
    Count::IgmpReportsSent,
    Count::BpdusSent,
    Count::PppoeControlOut,
    Count::IgmpQueriesSent,
    Count::MldQueriesSent,
    // made of others
    Count::Ip4FragmentsMade,
    Count::Ip6FragmentsMade,
    Count::GsoSegmentsMade,
    Count::PipeCopied,
    Count::GroupLooped,
    Count::FloodCopied,
    Count::PuntCopied,
];

/// Packets that end without a drop.
const ENDED: &[Count] = &[
    Count::TxPackets,
    // used up by their receivers
    Count::UdpTaken,
    Count::TcpTaken,
    Count::GroupStayed,
    Count::ArpConsumed,
    Count::NdConsumed,
    Count::MldConsumed,
    Count::IgmpConsumed,
    Count::BpdusConsumed,
    Count::PppoeControlIn,
    Count::IcmpConsumed,
    Count::PacketSocketTaken,
    // become parts of others, or others of their parts
    Count::UdpCoalesced,
    Count::Ip4FragmentsJoined,
    Count::Ip6FragmentsJoined,
    Count::Ip4Fragmented,
    Count::Ip6Fragmented,
    Count::GsoSegmented,
];

/// Fates of UDP datagrams and TCP segments for this host.
const UPPER_IN: &[Count] = &[Count::UdpIn, Count::TcpIn];
const UPPER_TAKEN: &[Count] = &[Count::UdpTaken, Count::TcpTaken];
const UPPER_DROPS: &[DropReason] = &[
    DropReason::NoPort,
    DropReason::UdpMalformed,
    DropReason::UdpBadChecksum,
    DropReason::UdpQueueFull,
    DropReason::DhcpQueueFull,
    DropReason::GroupSource,
    DropReason::TcpMalformed,
    DropReason::TcpBadChecksum,
    DropReason::TcpUnsigned,
    DropReason::TcpBadSignature,
];

/// One line of a sum.
type Entry = (&'static str, u64);

/// The equations that do not hold, in words. To be asked when no packet is under way.
pub(super) fn errors(host: &Host) -> Vec<String> {
    let dropped: Vec<Entry> = host.drops().into_iter().map(|(reason, n)| (reason.name(), n)).collect();
    let all = [counts(host, BEGUN), [counts(host, ENDED), dropped].concat()];
    let taken = [counts(host, UPPER_TAKEN), counts(host, &[Count::VxlanIn])].concat();
    let upper = [counts(host, UPPER_IN), [taken, drops(host, UPPER_DROPS)].concat()];
    let handoffs = [counts(host, &[Count::HandoffOut]), counts(host, &[Count::HandoffIn])];
    let redirects = [counts(host, &[Count::RedirectGiven]), counts(host, &[Count::RedirectTaken])];
    let mut equations = vec![("packets", all), ("datagrams and segments for this host", upper)];
    equations.extend([("hand-offs", handoffs), ("messages about redirected flows", redirects)]);
    equations.extend(tunnels(host));
    equations.extend((0..host.nics.len()).flat_map(|port| devices(host, port)));
    equations.into_iter().filter_map(|(of, sides)| unequal(of, sides)).collect()
}

/// Returns the counts of a device and of the stack of frames between the two.
fn devices(host: &Host, port: usize) -> [(&'static str, [Vec<Entry>; 2]); 2] {
    let count = |what| host.if_count(ifindex(port), what);
    let nic = host.nics[port].stats();
    [
        ("frames received", [vec![("device", nic.rx_frames)], vec![("stack", count(IfCount::RxPackets))]]),
        (
            "frames sent",
            [
                vec![("device", nic.tx_frames), ("refused", nic.tx_errors)],
                vec![("stack", count(IfCount::TxPackets))],
            ],
        ),
    ]
}

/// Returns the packets of tunnels, as their interfaces and as the stack count them.
fn tunnels(host: &Host) -> [(&'static str, [Vec<Entry>; 2]); 2] {
    let spec = &host.spec;
    let tunnels = (0..spec.tunnels.len()).map(|at| spec.tunnel_index(at));
    let all: Vec<_> = tunnels.chain((0..spec.vxlans.len()).map(|at| spec.vxlan_index(at))).collect();
    let all = |what| all.iter().map(|ifindex| host.if_count(*ifindex, what)).sum();
    let congested = drops(host, &[DropReason::TunnelCongested]);
    let [rx, tx] = [IfCount::RxPackets, IfCount::TxPackets].map(|what| vec![("interfaces", all(what))]);
    [
        ("packets decapsulated", [rx, [counts(host, &[Count::TunnelIn]), congested].concat()]),
        ("packets encapsulated", [tx, counts(host, &[Count::TunnelOut])]),
    ]
}

fn counts(host: &Host, which: &[Count]) -> Vec<Entry> {
    which.iter().map(|count| (count.name(), host.count(*count))).collect()
}

fn drops(host: &Host, which: &[DropReason]) -> Vec<Entry> {
    which.iter().map(|reason| (reason.name(), host.dropped(*reason))).collect()
}

fn unequal(of: &str, [left, right]: [Vec<Entry>; 2]) -> Option<String> {
    let sum = |side: &[Entry]| side.iter().map(|(_, n)| n).sum::<u64>();
    let (begun, ended) = (sum(&left), sum(&right));
    let words = |side: &[Entry]| {
        let some = side.iter().filter(|(_, n)| *n > 0);
        some.map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(" + ")
    };
    let (is, but) = (words(&left), words(&right));
    (begun != ended).then(|| format!("{of}: {begun} begun ({is}), but {ended} ended ({but})"))
}
