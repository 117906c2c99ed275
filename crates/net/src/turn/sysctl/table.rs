//! All variables, sorted by name.

use core::ops::RangeInclusive;

use super::slot::Slot;
use super::{Sysctls, Variable};
use crate::host::tcp::{CONNECTIONS_MAX, HALVES_MAX, KEY_LIFE, WAITS_MAX};
use crate::host::udp::QUEUE_BYTES_MAX;

const SWITCH: RangeInclusive<i64> = 0..=1;
const PORTS: RangeInclusive<i64> = 1..=65_535;
const ANY: RangeInclusive<i64> = 0..=i64::MAX;
/// Most bytes that a window can say (RFC 7323 §2.3).
pub(super) const WINDOW_MAX: i64 = 1 << 30;
const HOUR_MS: i64 = 60 * 60 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// All variables, sorted by name.
pub const VARIABLES: &[Variable] = &[
    v(
        "kern.ipc.maxsockbuf",
        4096..=u32::MAX as i64,
        "the most that a receive buffer may become; more than a window can say is as much",
        |all| Slot::Window(&mut all.tcp.receive_buffer_max),
    ),
    v("kern.ipc.soavailconn", 0..=65_535, "connections that wait, as a program is told; 0: all", |all| {
        Slot::Places(&mut all.tcp.reported_max)
    }),
    v("kern.ipc.somaxconn", 1..=65_535, "connections that may wait to be accepted, on each CPU", |all| {
        Slot::Places(&mut all.tcp.backlog_max)
    }),
    v("net.inet.icmp.bmcastecho", ANY, "echo requests to many are answered", |_| Slot::Fixed(0)),
    v("net.inet.icmp.drop_redirect", ANY, "redirects of IPv4 are not followed", |_| Slot::Fixed(1)),
    v("net.inet.ip.accept_sourceroute", ANY, "packets with a source route are taken", |_| Slot::Fixed(0)),
    v("net.inet.ip.portrange.first", PORTS, "the first port for a socket that names none", |all| {
        Slot::Port(&mut all.ports.first)
    }),
    v("net.inet.ip.portrange.last", PORTS, "the last port for a socket that names none", |all| {
        Slot::Port(&mut all.ports.last)
    }),
    v("net.inet.ip.redirect", ANY, "hosts are told of better routers", |_| Slot::Fixed(0)),
    v("net.inet.ip.sourceroute", ANY, "packets with a source route are forwarded", |_| Slot::Fixed(0)),
    v("net.inet.tcp.always_keepalive", SWITCH, "the other end of an idle connection is asked", |all| {
        Slot::Switch(&mut all.tcp.keepalive)
    }),
    v("net.inet.tcp.blackhole", ANY, "segments to closed ports are not answered", |_| Slot::Fixed(0)),
    v("net.inet.tcp.cc.algorithm", SWITCH, "how the congestion window grows", |all| {
        Slot::Algorithm(&mut all.tcp.algorithm)
    }),
    v("net.inet.tcp.delacktime", 1..=499, "how long an acknowledgment may wait for company", |all| {
        Slot::Time(&mut all.tcp.delayed_ack)
    }),
    v("net.inet.tcp.drop_synfin", SWITCH, "what has SYN and FIN begins no connection", |all| {
        Slot::Switch(&mut all.tcp.drop_synfin)
    }),
    v(
        "net.inet.tcp.ecn.enable",
        0..=2,
        "marks of routers: 0 never, 1 asked for, 2 if the other end asks",
        |all| Slot::Ecn(&mut all.tcp.ecn),
    ),
    v("net.inet.tcp.ecn.maxretries", 0..=12, "repetitions of a SYN that ask for marks", |all| {
        Slot::Count(&mut all.tcp.ecn_retries)
    }),
    v("net.inet.tcp.fastopen.autokey", ANY, "how long cookies are made with one key, seconds", |_| {
        Slot::Fixed(KEY_LIFE.as_secs() as i64)
    }),
    v(
        "net.inet.tcp.fastopen.server_enable",
        SWITCH,
        "listeners that want it let connections bring data with their SYN",
        |all| Slot::Switch(&mut all.tcp.may_open_fast),
    ),
    v("net.inet.tcp.finwait2_timeout", 1..=HOUR_MS, "how long the other end may take to close too", |all| {
        Slot::Time(&mut all.tcp.fin_wait_2)
    }),
    v("net.inet.tcp.icmp_may_rst", SWITCH, "a connection that begins ends when a router says so", |all| {
        Slot::Switch(&mut all.tcp.icmp_may_rst)
    }),
    v("net.inet.tcp.initcwnd_segments", 1..=1000, "segments that the congestion window begins with", |all| {
        Slot::Number(&mut all.tcp.initial_segments)
    }),
    v("net.inet.tcp.insecure_rst", SWITCH, "a reset anywhere in the window ends a connection", |all| {
        Slot::Switch(&mut all.tcp.insecure_rst)
    }),
    v("net.inet.tcp.insecure_syn", SWITCH, "a SYN in the window ends a connection", |all| {
        Slot::Switch(&mut all.tcp.insecure_syn)
    }),
    v("net.inet.tcp.keepcnt", 1..=255, "questions without an answer that end a connection", |all| {
        Slot::Count(&mut all.tcp.keep_count)
    }),
    v("net.inet.tcp.keepidle", 1..=30 * DAY_MS, "silence before the other end is asked", |all| {
        Slot::Time(&mut all.tcp.keep_idle)
    }),
    v("net.inet.tcp.keepinit", 1..=HOUR_MS, "how long it may take until a connection stands", |all| {
        Slot::Time(&mut all.tcp.establish_within)
    }),
    v("net.inet.tcp.keepintvl", 1..=DAY_MS, "from one question to the next", |all| {
        Slot::Time(&mut all.tcp.keep_interval)
    }),
    v("net.inet.tcp.maxtcptw", ANY, "connections in TIME-WAIT, on each CPU", |_| {
        Slot::Fixed(WAITS_MAX as i64)
    }),
    v(
        "net.inet.tcp.maxunacktime",
        0..=DAY_MS,
        "silence that ends a connection, whatever is sent again; 0: retries say",
        |all| Slot::Perhaps(&mut all.tcp.user_timeout),
    ),
    v("net.inet.tcp.msl", 1..=120_000, "how long a segment lives; half of TIME-WAIT", |all| {
        Slot::Time(&mut all.tcp.msl)
    }),
    v(
        "net.inet.tcp.ncr",
        SWITCH,
        "who counts losses waits out the more reordering, the more is under way",
        |all| Slot::Switch(&mut all.tcp.ncr),
    ),
    v("net.inet.tcp.path_mtu_discovery", ANY, "segments may not be cut on the way", |_| Slot::Fixed(1)),
    v("net.inet.tcp.pcbmax", ANY, "connections that stand, on each CPU", |_| {
        Slot::Fixed(CONNECTIONS_MAX as i64)
    }),
    v(
        "net.inet.tcp.pmtud_blackhole_detection",
        SWITCH,
        "paths that swallow long segments are found out",
        |all| Slot::Switch(&mut all.tcp.path_probes),
    ),
    v("net.inet.tcp.rack", SWITCH, "losses are found by when segments were sent, else by counting", |all| {
        Slot::Switch(&mut all.tcp.rack)
    }),
    v("net.inet.tcp.recvbuf_auto", SWITCH, "receive buffers grow with what the path carries", |all| {
        Slot::Switch(&mut all.tcp.tunes_receive)
    }),
    v("net.inet.tcp.recvspace", 1..=WINDOW_MAX, "bytes that may wait to be read, at first", |all| {
        Slot::Bytes(&mut all.tcp.receive_buffer)
    }),
    v("net.inet.tcp.retries", 1..=255, "retransmissions in vain that end a connection", |all| {
        Slot::Count(&mut all.tcp.retransmissions_max)
    }),
    v(
        "net.inet.tcp.retries1",
        1..=255,
        "retransmissions in vain after which the first hop is asked after",
        |all| Slot::Count(&mut all.tcp.doubts_after),
    ),
    v("net.inet.tcp.rexmit_drop_options", SWITCH, "a SYN that is repeated often offers nothing", |all| {
        Slot::Switch(&mut all.tcp.drops_options)
    }),
    v("net.inet.tcp.rexmit_initial", 1..=HOUR_MS, "the first retransmission timeout", |all| {
        Slot::Time(&mut all.tcp.initial_rto)
    }),
    v("net.inet.tcp.rexmit_max", 60_000..=HOUR_MS, "the greatest retransmission timeout", |all| {
        Slot::Time(&mut all.tcp.rto.max)
    }),
    v("net.inet.tcp.rexmit_min", 1..=60_000, "the least retransmission timeout", |all| {
        Slot::Time(&mut all.tcp.rto.min)
    }),
    v(
        "net.inet.tcp.rexmit_slop",
        ANY,
        "what a retransmission timeout has for delayed acknowledgments",
        |all| Slot::Fixed(i64::try_from(all.tcp.rto.slop.as_millis()).unwrap_or(0)),
    ),
    v(
        "net.inet.tcp.rfc1323",
        0..=3,
        "0 nothing of it, 1 window scaling and timestamps, 2 scaling alone, 3 timestamps alone",
        |all| Slot::Extensions(&mut all.tcp.extensions),
    ),
    v("net.inet.tcp.sack.enable", SWITCH, "selective acknowledgments are offered", |all| {
        Slot::Switch(&mut all.tcp.sack)
    }),
    v("net.inet.tcp.sendbuf_auto", SWITCH, "send buffers grow with what the path carries", |all| {
        Slot::Switch(&mut all.tcp.tunes_send)
    }),
    v("net.inet.tcp.sendbuf_max", 4096..=WINDOW_MAX, "the most that a send buffer may become", |all| {
        Slot::Bytes(&mut all.tcp.send_buffer_max)
    }),
    v("net.inet.tcp.sendspace", 1..=WINDOW_MAX, "bytes that may wait to be acknowledged, at first", |all| {
        Slot::Bytes(&mut all.tcp.send_buffer)
    }),
    v("net.inet.tcp.syncache.cachelimit", ANY, "half-open connections, on each CPU", |_| {
        Slot::Fixed(HALVES_MAX as i64)
    }),
    v("net.inet.tcp.syncookies", ANY, "SYNs that are not remembered are answered with cookies", |_| {
        Slot::Fixed(1)
    }),
    v("net.inet.tcp.syncookies_only", ANY, "no SYN is remembered", |_| Slot::Fixed(0)),
    v("net.inet.tcp.tlp", SWITCH, "the last segments are asked after when nothing is heard of them", |all| {
        Slot::Switch(&mut all.tcp.tail_loss_probe)
    }),
    v("net.inet.tcp.tolerate_missing_ts", SWITCH, "segments without the agreed timestamp are taken", |all| {
        Slot::Switch(&mut all.tcp.takes_unstamped)
    }),
    v(
        "net.inet.tcp.uto.advertise",
        0..=DAY_MS,
        "what the other end is told to wait; 0: net.inet.tcp.maxunacktime",
        |all| Slot::Perhaps(&mut all.tcp.uto.told),
    ),
    v(
        "net.inet.tcp.uto.enable",
        SWITCH,
        "each end tells the other how long it waits, and may be told",
        |all| Slot::Switch(&mut all.tcp.uto.is_on),
    ),
    v("net.inet.tcp.uto.max", 1000..=DAY_MS, "the longest that the other end can make us wait", |all| {
        Slot::Time(&mut all.tcp.uto.most)
    }),
    v("net.inet.tcp.uto.min", 1000..=DAY_MS, "the shortest that the other end can make us wait", |all| {
        Slot::Time(&mut all.tcp.uto.least)
    }),
    v("net.inet.udp.blackhole", ANY, "datagrams to closed ports are not answered", |_| Slot::Fixed(0)),
    v("net.inet.udp.checksum", ANY, "datagrams of IPv4 have a checksum", |_| Slot::Fixed(1)),
    v(
        "net.inet.udp.recvspace",
        1..=QUEUE_BYTES_MAX as i64,
        "bytes that may wait to be read at a socket",
        |all| Slot::Size(&mut all.udp.queue_bytes),
    ),
    v("net.inet6.ip6.redirect", ANY, "hosts are told of better routers", |_| Slot::Fixed(0)),
];

const fn v(
    name: &'static str,
    range: RangeInclusive<i64>,
    about: &'static str,
    slot: fn(&mut Sysctls) -> Slot<'_>,
) -> Variable {
    Variable { name, about, range, slot }
}
