//! `netstat -a` and `netstat -L`. A port of 0 is none.

use core::fmt::Write;
use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, HashMap};

use crate::api::{
    Bound, PacketSocket, ProgramSocket, ProgramSocketKind, RawSocket, TcpConnection, TcpEnds, TcpInfo,
    TcpListener, UdpSocket,
};

/// The unmodified programs that sockets belong to.
#[derive(Debug, Default)]
pub(crate) struct Owners(HashMap<(bool, SocketAddr, Option<SocketAddr>), ProgramSocket>);

impl Owners {
    pub(crate) fn new(sockets: impl IntoIterator<Item = ProgramSocket>) -> Self {
        let key = |socket: &ProgramSocket| {
            let is_udp = socket.kind == ProgramSocketKind::Datagrams;
            Some((is_udp, plain(socket.local?), socket.foreign.map(plain)))
        };
        Self(sockets.into_iter().filter_map(|socket| Some((key(&socket)?, socket))).collect())
    }

    /// Returns the program of a connection.
    pub(crate) fn of(&self, ends: &TcpEnds) -> Option<&ProgramSocket> {
        let foreign = (ends.foreign, ends.foreign_port).into();
        self.0.get(&(false, (ends.local, ends.local_port).into(), Some(foreign)))
    }

    fn of_connection(&self, ends: &TcpEnds) -> String {
        named(self.of(ends))
    }

    fn of_bound(&self, is_udp: bool, bound: &Bound, foreign: Option<SocketAddr>) -> String {
        named(self.0.get(&(is_udp, (bound.local, bound.local_port).into(), foreign.map(plain))))
    }
}

/// An address without its scope.
const fn plain(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip(), addr.port())
}

/// `1234/nginx`, behind a line.
fn named(socket: Option<&ProgramSocket>) -> String {
    socket.map(|socket| format!("{}/{}", socket.pid, socket.command)).unwrap_or_default()
}

/// Returns the heading of connections.
pub(crate) fn head(all: bool) -> String {
    let servers = if all { " (including servers)" } else { "" };
    let columns = line("Proto", ("Recv-Q", "Send-Q"), ("Local Address", "Foreign Address"), "(state)");
    format!("Active Internet connections{servers}\n{columns}")
}

/// Prints a line for each listener, whichever CPUs it is on.
pub(crate) fn listening(listeners: &[TcpListener], owners: &Owners) -> String {
    let text = |listener: &Server<'_>| {
        let owner = owners.of_bound(false, listener.bound, None);
        line(&listener.proto("tcp"), (0, 0), (&listener.local(), "*.*"), &state("LISTEN", &owner))
    };
    let all = listeners.iter().map(|listener| (listener.cpu, &listener.bound, [0; 2]));
    merged(all).iter().map(text).collect()
}

/// A line for each connection, and below it all that is known of it, if that was asked for.
pub(crate) fn connections(connections: &[TcpConnection], owners: &Owners) -> String {
    let mut text = String::new();
    for connection in connections {
        let ends = &connection.ends;
        let proto = if ends.local.is_ipv4() { "tcp4" } else { "tcp6" };
        let interface = ends.interface.as_deref();
        let local = end(ends.local, ends.local_port, interface);
        let foreign = end(ends.foreign, ends.foreign_port, interface);
        let queues = (connection.recv_q, connection.send_q);
        let state = state(connection.state.word(), &owners.of_connection(ends));
        text.push_str(&line(proto, queues, (&local, &foreign), &state));
        if let Some(info) = &connection.info {
            text.push_str(&details(info, connection.cpu));
        }
    }
    text
}

/// A line for each socket; those that are on all CPUs have one.
pub(crate) fn udp(sockets: &[UdpSocket], owners: &Owners) -> String {
    let (connected, waiting): (Vec<_>, Vec<_>) = sockets.iter().partition(|socket| socket.foreign.is_some());
    let waiting = waiting.iter().map(|socket| (socket.cpu, &socket.bound, [socket.recv_q, 0]));
    let mut text: String = merged(waiting)
        .iter()
        .map(|server| {
            let owner = owners.of_bound(true, server.bound, None);
            line(&server.proto("udp"), (server.sums[0], 0), (&server.local(), "*.*"), &state("", &owner))
        })
        .collect();
    for socket in connected {
        let Some(foreign) = socket.foreign else { continue };
        let (bound, interface) = (&socket.bound, socket.bound.interface.as_deref());
        let proto = if bound.local.is_ipv4() { "udp4" } else { "udp6" };
        let local = end(bound.local, bound.local_port, interface);
        let owner = owners.of_bound(true, bound, Some(foreign));
        let foreign = end(foreign.ip(), foreign.port(), interface);
        text.push_str(&line(proto, (socket.recv_q, 0), (&local, &foreign), &state("", &owner)));
    }
    text
}

/// A line for each raw socket; those that are on all CPUs have one.
pub(crate) fn raw(sockets: &[RawSocket]) -> String {
    let (mut seen, mut lines) = (BTreeMap::new(), BTreeMap::new());
    for socket in sockets {
        let RawSocket { cpu, local, foreign, interface, recv_q, .. } = socket;
        let key = (local, foreign, interface);
        let before: &mut usize = seen.entry((cpu, key)).or_default();
        *lines.entry((key, *before)).or_insert(0) += recv_q;
        *before += 1;
    }
    let text = |(((local, foreign, interface), _), bytes): (((&IpAddr, _, &Option<String>), _), u64)| {
        let proto = if local.is_ipv4() { "icmp4" } else { "icmp6" };
        let end = |addr: &IpAddr| end(*addr, 0, interface.as_deref());
        let foreign = Option::as_ref(foreign).map_or_else(|| "*.*".to_owned(), end);
        line(proto, (bytes, 0), (&end(local), &foreign), "")
    };
    lines.into_iter().map(text).collect()
}

/// A line for each packet socket; those that are on all CPUs have one.
pub(crate) fn packet(sockets: &[PacketSocket]) -> String {
    let (mut seen, mut lines) = (BTreeMap::new(), BTreeMap::new());
    for PacketSocket { cpu, interface, takes, recv_q, .. } in sockets {
        let key = (interface, takes);
        let before: &mut usize = seen.entry((cpu, key)).or_default();
        *lines.entry((key, *before)).or_insert(0) += recv_q;
        *before += 1;
    }
    let text = |(((interface, takes), _), bytes): (((&Option<String>, &bool), _), u64)| {
        let interface = interface.as_deref().unwrap_or("*");
        line("pkt", (bytes, 0), (interface, "*"), if *takes { "takes" } else { "" })
    };
    lines.into_iter().map(text).collect()
}

/// The queues of connections that wait to be accepted, of all CPUs together.
pub(crate) fn listen_queues(listeners: &[TcpListener]) -> String {
    let all = listeners.iter().map(|one| (one.cpu, &one.bound, [one.qlen, one.maxqlen]));
    let mut text =
        String::from("Current listen queue sizes (qlen/maxqlen)\nProto  Listen          Local Address\n");
    for server in merged(all) {
        let [waiting, most] = server.sums;
        let queue = format!("{waiting}/{most}");
        let _ = writeln!(text, "{:<5}  {queue:<14}  {}", server.proto("tcp"), server.local());
    }
    text
}

/// A listener on all CPUs.
struct Server<'a> {
    bound: &'a Bound,
    /// Sums over its CPUs.
    sums: [u64; 2],
}

impl Server<'_> {
    fn proto(&self, protocol: &str) -> String {
        match (self.bound.local, self.bound.dual_stack) {
            (IpAddr::V4(_), _) => format!("{protocol}4"),
            (IpAddr::V6(_), false) => format!("{protocol}6"),
            (IpAddr::V6(_), true) => format!("{protocol}46"),
        }
    }

    fn local(&self) -> String {
        end(self.bound.local, self.bound.local_port, self.bound.interface.as_deref())
    }
}

/// Puts together what is the same on several CPUs: of a group that shares a port, the first on one CPU and the first on
/// another are one.
fn merged<'a>(all: impl Iterator<Item = (u32, &'a Bound, [u64; 2])>) -> Vec<Server<'a>> {
    let (mut seen, mut servers) = (BTreeMap::new(), BTreeMap::new());
    for (cpu, bound, counts) in all {
        let before: &mut usize = seen.entry((cpu, bound)).or_default();
        let sums: &mut [u64; 2] = servers.entry((bound.local_port, bound, *before)).or_default();
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        *before += 1;
    }
    servers.into_iter().map(|((_, bound, _), sums)| Server { bound, sums }).collect()
}

/// The state of a connection, and the program that it belongs to, if it is one of `pantala run`.
fn state(word: &str, owner: &str) -> String {
    format!("{word:<12} {owner}")
}

fn line(
    proto: &str,
    (received, sent): (impl core::fmt::Display, impl core::fmt::Display),
    (local, foreign): (&str, &str),
    state: &str,
) -> String {
    let line = format!("{proto:<5} {received:>6} {sent:>6} {local:<22} {foreign:<22} {state}");
    format!("{}\n", line.trim_end())
}

/// `192.0.2.1.80`, `*.80`, `fe80::1%lan.80`.
fn end(address: IpAddr, port: u16, interface: Option<&str>) -> String {
    let is_of_link = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let zone = interface.filter(|_| is_of_link).map(|name| format!("%{name}")).unwrap_or_default();
    let port = if port == 0 { "*".to_owned() } else { port.to_string() };
    match address.is_unspecified() {
        true => format!("*.{port}"),
        false => format!("{address}{zone}.{port}"),
    }
}

/// Prints the words of `ss -ti`: windows and losses in segments, times in milliseconds.
fn details(info: &TcpInfo, cpu: u32) -> String {
    let mss = info.mss.max(1);
    let segments = |bytes: u32| u64::from(bytes.div_ceil(mss));
    let mut words: Vec<String> = Vec::new();
    let flags = [(info.timestamps, "ts"), (info.sack, "sack"), (info.ecn, "ecn")];
    words.extend(flags.iter().filter(|(is_on, _)| *is_on).map(|(_, word)| (*word).to_owned()));
    words.push(info.cc.clone());
    words.extend(info.wscale.map(|(theirs, ours)| format!("wscale:{theirs},{ours}")));
    words.push(format!("rto:{}", ms(info.rto_us)));
    words.extend((info.backoff > 0).then(|| format!("backoff:{}", info.backoff)));
    if let (Some(rtt), Some(variation)) = (info.rtt_us, info.rttvar_us) {
        words.push(format!("rtt:{}/{}", ms(rtt), ms(variation)));
    }
    words.push(format!("mss:{} pmtu:{} rcvmss:{}", info.mss, info.pmtu, info.rcv_mss));
    words.push(format!("cwnd:{}", info.cwnd / mss));
    words.extend(info.ssthresh.map(|bytes| format!("ssthresh:{}", bytes / mss)));
    for (name, count) in [
        ("bytes_acked", info.bytes_acked),
        ("bytes_received", info.bytes_received),
        ("segs_out", info.segs_out),
        ("segs_in", info.segs_in),
        ("data_segs_out", info.data_segs_out),
        ("data_segs_in", info.data_segs_in),
    ] {
        words.extend((count > 0).then(|| format!("{name}:{count}")));
    }
    words.extend(send_rate(info));
    for (name, us) in
        [("lastsnd", info.last_sent_us), ("lastrcv", info.last_received_us), ("lastack", info.last_ack_us)]
    {
        words.push(format!("{name}:{}", us / 1000));
    }
    words.extend(spans(info));
    for (name, count) in [
        ("unacked", segments(info.unacked)),
        ("retrans", info.retrans),
        ("lost", segments(info.lost)),
        ("sacked", segments(info.sacked)),
        ("notsent", info.notsent.into()),
        ("delivered", info.delivered),
        ("delivered_ce", info.delivered_ce),
        ("rcv_ooopack", info.rcv_ooopack),
        ("0-win", info.zero_windows),
        ("probes", info.keepalive_probes.into()),
    ] {
        words.extend((count > 0).then(|| format!("{name}:{count}")));
    }
    words.extend(info.recovery.then(|| "recovery".to_owned()));
    words.push(format!("snd_wnd:{} rcv_wnd:{}", info.snd_wnd, info.rcv_wnd));
    words.extend(info.min_rtt_us.map(|rtt| format!("minrtt:{}", ms(rtt))));
    words.extend(info.user_timeout_us.map(|timeout| format!("user_timeout:{}", ms(timeout))));
    words.extend(info.remote_user_timeout_us.map(|timeout| format!("remote_uto:{}", ms(timeout))));
    words.push(format!("cpu:{cpu}"));
    format!("\t{}\n", words.join(" "))
}

/// Prints the busy time, and the parts of it that were limited by something else than the path.
fn spans(info: &TcpInfo) -> impl Iterator<Item = String> {
    let busy = info.busy_us;
    let waited = [("rwnd_limited", info.rwnd_limited_us), ("sndbuf_limited", info.sndbuf_limited_us)];
    let part = move |us: u64| {
        let thousandths = us.saturating_mul(1000) / busy.max(1);
        format!("{}.{}%", thousandths / 10, thousandths % 10)
    };
    let waited = waited.into_iter().filter(|(_, us)| *us > 0);
    let waited = waited.map(move |(name, us)| format!("{name}:{}ms({})", us / 1000, part(us)));
    (busy > 0).then(|| format!("busy:{}ms", busy / 1000)).into_iter().chain(waited)
}

/// A window in each round trip.
fn send_rate(info: &TcpInfo) -> Option<String> {
    let rtt = info.rtt_us.filter(|rtt| *rtt > 0)?;
    let bits = u64::from(info.cwnd) * 8 * 1_000_000 / rtt;
    Some(match bits {
        0..1_000 => format!("send {bits}bps"),
        1_000..1_000_000 => format!("send {}.{}Kbps", bits / 1000, bits / 100 % 10),
        1_000_000..1_000_000_000 => format!("send {}.{}Mbps", bits / 1_000_000, bits / 100_000 % 10),
        _ => format!("send {}.{}Gbps", bits / 1_000_000_000, bits / 100_000_000 % 10),
    })
}

/// Milliseconds, without zeros behind the point that say nothing.
fn ms(us: u64) -> String {
    let text = format!("{}.{:03}", us / 1000, us % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_as_many_places_as_they_need() {
        for (us, text) in [(204_000, "204"), (75, "0.075"), (1500, "1.5"), (0, "0")] {
            assert_eq!(ms(us), text);
        }
    }

    #[test]
    fn a_rate_is_a_window_in_each_round_trip() {
        let info = |cwnd, rtt| TcpInfo { cwnd, rtt_us: Some(rtt), ..TcpInfo::default() };
        assert_eq!(send_rate(&info(14_480, 10_000)).unwrap(), "send 11.5Mbps");
        assert_eq!(send_rate(&info(100, 10_000_000)).unwrap(), "send 80bps");
        assert_eq!(send_rate(&info(1 << 20, 1000)).unwrap(), "send 8.3Gbps");
        assert_eq!(send_rate(&TcpInfo::default()), None);
    }
}
