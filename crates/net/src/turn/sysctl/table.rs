//! All variables, sorted by name.

use core::ops::RangeInclusive;

use pkt::VEC_MAX;

use super::slot::Slot;
use super::{Sysctls, Variable};
use crate::host::tcp::{CONNECTIONS_MAX, HALVES_MAX, KEY_LIFE, WAITS_MAX};
use crate::host::udp::QUEUE_BYTES_MAX;

const SWITCH: RangeInclusive<i64> = 0..=1;
const PORTS: RangeInclusive<i64> = 1..=65_535;
const ANY: RangeInclusive<i64> = 0..=i64::MAX;
/// Most bytes that a window can say (RFC 7323 §2.3).
pub(super) const WINDOW_MAX: i64 = 1 << 30;
/// Full stages of jumbo frames.
const STAGED_BYTES_MAX: i64 = 16 << 20;
const HOUR_MS: i64 = 60 * 60 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// All variables, sorted by name.
pub const VARIABLES: &[Variable] = &[
    v(
        "kern.ipc.maxsockbuf",
        4096..=u32::MAX as i64,
        "maximum receive buffer; values beyond the largest window (1 GiB) count as that",
        |all| Slot::Window(&mut all.tcp.receive_buffer_max),
    ),
    v(
        "kern.ipc.soavailconn",
        0..=65_535,
        "completed connections reported to a listener at a time; 0: all",
        |all| Slot::Places(&mut all.tcp.reported_max),
    ),
    v("kern.ipc.somaxconn", 1..=65_535, "maximum backlog of a listener, on each CPU", |all| {
        Slot::Places(&mut all.tcp.backlog_max)
    }),
    v("net.inet.icmp.bmcastecho", ANY, "answer echo requests to broadcast and multicast addresses", |_| {
        Slot::Fixed(0)
    }),
    v("net.inet.icmp.drop_redirect", ANY, "ignore ICMP redirects (IPv4)", |_| Slot::Fixed(1)),
    v("net.inet.ip.accept_sourceroute", ANY, "accept source-routed packets", |_| Slot::Fixed(0)),
    v(
        "net.inet.ip.directed-broadcast",
        SWITCH,
        "forward broadcasts that are directed to a connected link",
        |all| Slot::Switch(&mut all.directed_broadcast),
    ),
    v(
        "net.inet.ip.portrange.algorithm",
        0..=3,
        "algorithm that chooses ephemeral ports of connections (RFC 6056)",
        |all| Slot::PortAlgorithm(&mut all.port_algorithm),
    ),
    v("net.inet.ip.portrange.first", PORTS, "first ephemeral port", |all| Slot::Port(&mut all.ports.first)),
    v("net.inet.ip.portrange.last", PORTS, "last ephemeral port", |all| Slot::Port(&mut all.ports.last)),
    v("net.inet.ip.redirect", ANY, "send ICMP redirects", |_| Slot::Fixed(0)),
    v("net.inet.ip.sourceroute", ANY, "forward source-routed packets", |_| Slot::Fixed(0)),
    v("net.inet.tcp.always_keepalive", SWITCH, "send keepalives on idle connections", |all| {
        Slot::Switch(&mut all.tcp.keepalive)
    }),
    v("net.inet.tcp.blackhole", ANY, "do not answer segments to closed ports", |_| Slot::Fixed(0)),
    v("net.inet.tcp.cc.algorithm", SWITCH, "congestion control algorithm", |all| {
        Slot::Algorithm(&mut all.tcp.algorithm)
    }),
    v("net.inet.tcp.delacktime", 1..=499, "delay of an acknowledgment", |all| {
        Slot::Time(&mut all.tcp.delayed_ack)
    }),
    v(
        "net.inet.tcp.drop_synfin",
        SWITCH,
        "ignore segments with SYN and FIN that would begin a connection",
        |all| Slot::Switch(&mut all.tcp.drop_synfin),
    ),
    v(
        "net.inet.tcp.ecn.enable",
        0..=2,
        "ECN: 0 off, 1 requested and accepted, 2 accepted if the peer requests it",
        |all| Slot::Ecn(&mut all.tcp.ecn),
    ),
    v("net.inet.tcp.ecn.maxretries", 0..=12, "SYN retransmissions that still request ECN", |all| {
        Slot::Count(&mut all.tcp.ecn_retries)
    }),
    v("net.inet.tcp.fastopen.autokey", ANY, "lifetime of a Fast Open key, seconds", |_| {
        Slot::Fixed(KEY_LIFE.as_secs() as i64)
    }),
    v("net.inet.tcp.fastopen.server_enable", SWITCH, "Fast Open for listeners that enable it", |all| {
        Slot::Switch(&mut all.tcp.may_open_fast)
    }),
    v("net.inet.tcp.finwait2_timeout", 1..=HOUR_MS, "FIN-WAIT-2 timeout after close", |all| {
        Slot::Time(&mut all.tcp.fin_wait_2)
    }),
    v(
        "net.inet.tcp.icmp_may_rst",
        SWITCH,
        "an ICMP error may end a connection that is not established",
        |all| Slot::Switch(&mut all.tcp.icmp_may_rst),
    ),
    v("net.inet.tcp.initcwnd_segments", 1..=1000, "initial congestion window, in segments", |all| {
        Slot::Number(&mut all.tcp.initial_segments)
    }),
    v("net.inet.tcp.insecure_rst", SWITCH, "accept a RST anywhere in the window", |all| {
        Slot::Switch(&mut all.tcp.insecure_rst)
    }),
    v("net.inet.tcp.insecure_syn", SWITCH, "a SYN in the window resets the connection", |all| {
        Slot::Switch(&mut all.tcp.insecure_syn)
    }),
    v("net.inet.tcp.keepcnt", 1..=255, "unanswered keepalives that end a connection", |all| {
        Slot::Count(&mut all.tcp.keep_count)
    }),
    v("net.inet.tcp.keepidle", 1..=30 * DAY_MS, "idle time before the first keepalive", |all| {
        Slot::Time(&mut all.tcp.keep_idle)
    }),
    v("net.inet.tcp.keepinit", 1..=HOUR_MS, "timeout of connection establishment", |all| {
        Slot::Time(&mut all.tcp.establish_within)
    }),
    v("net.inet.tcp.keepintvl", 1..=DAY_MS, "time between keepalives", |all| {
        Slot::Time(&mut all.tcp.keep_interval)
    }),
    v("net.inet.tcp.maxtcptw", ANY, "maximum connections in TIME-WAIT, on each CPU", |_| {
        Slot::Fixed(WAITS_MAX as i64)
    }),
    v(
        "net.inet.tcp.maxunacktime",
        0..=DAY_MS,
        "user timeout: maximum time without an acknowledgment; 0: net.inet.tcp.retries decides",
        |all| Slot::Perhaps(&mut all.tcp.user_timeout),
    ),
    v("net.inet.tcp.msl", 1..=120_000, "maximum segment lifetime; TIME-WAIT is twice that", |all| {
        Slot::Time(&mut all.tcp.msl)
    }),
    v(
        "net.inet.tcp.ncr",
        SWITCH,
        "without RACK, tolerate reordering in proportion to the data in flight (RFC 4653)",
        |all| Slot::Switch(&mut all.tcp.ncr),
    ),
    v("net.inet.tcp.path_mtu_discovery", ANY, "path MTU discovery", |_| Slot::Fixed(1)),
    v("net.inet.tcp.pcbmax", ANY, "maximum connections, on each CPU", |_| {
        Slot::Fixed(CONNECTIONS_MAX as i64)
    }),
    v(
        "net.inet.tcp.pmtud_blackhole_detection",
        SWITCH,
        "detect path MTU black holes by probing (RFC 4821)",
        |all| Slot::Switch(&mut all.tcp.path_probes),
    ),
    v(
        "net.inet.tcp.rack",
        SWITCH,
        "loss detection by time (RACK, RFC 8985); 0: by counting duplicate ACKs",
        |all| Slot::Switch(&mut all.tcp.rack),
    ),
    v("net.inet.tcp.recvbuf_auto", SWITCH, "automatic receive buffer sizing", |all| {
        Slot::Switch(&mut all.tcp.tunes_receive)
    }),
    v("net.inet.tcp.recvspace", 1..=WINDOW_MAX, "initial receive buffer", |all| {
        Slot::Bytes(&mut all.tcp.receive_buffer)
    }),
    v("net.inet.tcp.retries", 1..=255, "unacknowledged retransmissions that end a connection (R2)", |all| {
        Slot::Count(&mut all.tcp.retransmissions_max)
    }),
    v(
        "net.inet.tcp.retries1",
        1..=255,
        "unacknowledged retransmissions before the first hop is probed (R1)",
        |all| Slot::Count(&mut all.tcp.doubts_after),
    ),
    v(
        "net.inet.tcp.rexmit_drop_options",
        SWITCH,
        "drop the options of a SYN after several retransmissions",
        |all| Slot::Switch(&mut all.tcp.drops_options),
    ),
    v("net.inet.tcp.rexmit_initial", 1..=HOUR_MS, "initial retransmission timeout", |all| {
        Slot::Time(&mut all.tcp.initial_rto)
    }),
    v("net.inet.tcp.rexmit_max", 60_000..=HOUR_MS, "maximum retransmission timeout", |all| {
        Slot::Time(&mut all.tcp.rto.max)
    }),
    v("net.inet.tcp.rexmit_min", 1..=60_000, "minimum retransmission timeout", |all| {
        Slot::Time(&mut all.tcp.rto.min)
    }),
    v(
        "net.inet.tcp.rexmit_slop",
        ANY,
        "retransmission timeout allowance for delayed ACKs, milliseconds",
        |all| Slot::Fixed(i64::try_from(all.tcp.rto.slop.as_millis()).unwrap_or(0)),
    ),
    v(
        "net.inet.tcp.rfc1323",
        0..=3,
        "RFC 7323 extensions: 0 none, 1 window scaling and timestamps, 2 scaling only, 3 timestamps only",
        |all| Slot::Extensions(&mut all.tcp.extensions),
    ),
    v("net.inet.tcp.sack.enable", SWITCH, "offer selective acknowledgments (SACK)", |all| {
        Slot::Switch(&mut all.tcp.sack)
    }),
    v("net.inet.tcp.sendbuf_auto", SWITCH, "automatic send buffer sizing", |all| {
        Slot::Switch(&mut all.tcp.tunes_send)
    }),
    v("net.inet.tcp.sendbuf_max", 4096..=WINDOW_MAX, "maximum send buffer", |all| {
        Slot::Bytes(&mut all.tcp.send_buffer_max)
    }),
    v("net.inet.tcp.sendspace", 1..=WINDOW_MAX, "initial send buffer", |all| {
        Slot::Bytes(&mut all.tcp.send_buffer)
    }),
    v("net.inet.tcp.syncache.cachelimit", ANY, "SYN cache entries, on each CPU", |_| {
        Slot::Fixed(HALVES_MAX as i64)
    }),
    v("net.inet.tcp.syncookies", ANY, "send SYN cookies when the SYN cache is full", |_| Slot::Fixed(1)),
    v("net.inet.tcp.syncookies_only", ANY, "use only SYN cookies, no SYN cache", |_| Slot::Fixed(0)),
    v("net.inet.tcp.tlp", SWITCH, "tail loss probes (RFC 8985)", |all| {
        Slot::Switch(&mut all.tcp.tail_loss_probe)
    }),
    v(
        "net.inet.tcp.tolerate_missing_ts",
        SWITCH,
        "accept segments without the negotiated timestamp option",
        |all| Slot::Switch(&mut all.tcp.takes_unstamped),
    ),
    v(
        "net.inet.tcp.uto.advertise",
        0..=DAY_MS,
        "user timeout advertised to the peer (RFC 5482); 0: net.inet.tcp.maxunacktime",
        |all| Slot::Perhaps(&mut all.tcp.uto.told),
    ),
    v("net.inet.tcp.uto.enable", SWITCH, "send and accept the user timeout option (RFC 5482)", |all| {
        Slot::Switch(&mut all.tcp.uto.is_on)
    }),
    v("net.inet.tcp.uto.max", 1000..=DAY_MS, "maximum user timeout accepted from the peer", |all| {
        Slot::Time(&mut all.tcp.uto.most)
    }),
    v("net.inet.tcp.uto.min", 1000..=DAY_MS, "minimum user timeout accepted from the peer", |all| {
        Slot::Time(&mut all.tcp.uto.least)
    }),
    v("net.inet.udp.blackhole", ANY, "do not answer datagrams to closed ports", |_| Slot::Fixed(0)),
    v("net.inet.udp.checksum", ANY, "UDP checksums over IPv4", |_| Slot::Fixed(1)),
    v(
        "net.inet.udp.recvspace",
        1..=QUEUE_BYTES_MAX as i64,
        "receive buffer of a UDP socket, on each CPU",
        |all| Slot::Size(&mut all.udp.queue_bytes),
    ),
    v("net.inet6.ip6.redirect", ANY, "send ICMPv6 redirects", |_| Slot::Fixed(0)),
    v(
        "net.link.bridge.ipfw",
        SWITCH,
        "ask the firewall's rules about frames that bridges forward (`layer2`), ARP excepted",
        |all| Slot::Switch(&mut all.bridge_ipfw.is_asked),
    ),
    v(
        "net.link.bridge.ipfw_arp",
        SWITCH,
        "with net.link.bridge.ipfw, ask the firewall's rules about ARP, too",
        |all| Slot::Switch(&mut all.bridge_ipfw.is_asked_of_arp),
    ),
    v(
        "net.link.stage_bytemax",
        1..=STAGED_BYTES_MAX,
        "staged bytes that ring a device's doorbell before the end of the turn",
        |all| Slot::Size(&mut all.doorbell_at.bytes),
    ),
    v(
        "net.link.stage_cntmax",
        1..=VEC_MAX as i64,
        "staged packets that ring a device's doorbell before the end of the turn",
        |all| Slot::Places(&mut all.doorbell_at.packets),
    ),
];

const fn v(
    name: &'static str,
    range: RangeInclusive<i64>,
    about: &'static str,
    slot: fn(&mut Sysctls) -> Slot<'_>,
) -> Variable {
    Variable { name, about, range, slot }
}
