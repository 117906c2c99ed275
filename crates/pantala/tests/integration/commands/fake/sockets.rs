//! Its connections and sockets: on two CPUs, in pages of one.

use pantala::api::sockets::Sockets;
use pantala::api::*;

use super::{Answer, Fake, ip};

fn ends(local: &str, foreign: &str, foreign_port: u16) -> TcpEnds {
    let (local, foreign) = (ip(local), ip(foreign));
    let interface = local.to_string().starts_with("fe80").then(|| "lan".to_owned());
    TcpEnds { local, local_port: 80, foreign, foreign_port, interface }
}

fn info() -> TcpInfo {
    TcpInfo {
        timestamps: true,
        sack: true,
        wscale: Some((7, 6)),
        cc: "cubic".into(),
        rto_us: 204_000,
        rtt_us: Some(10_000),
        rttvar_us: Some(500),
        min_rtt_us: Some(9_875),
        mss: 1448,
        rcv_mss: 536,
        pmtu: 1500,
        cwnd: 14_480,
        snd_wnd: 65_535,
        rcv_wnd: 65_536,
        unacked: 1448,
        segs_in: 5,
        segs_out: 6,
        data_segs_out: 3,
        retrans: 2,
        bytes_acked: 2896,
        last_sent_us: 5000,
        last_received_us: 70_999,
        busy_us: 80_000,
        rwnd_limited_us: 10_000,
        ..TcpInfo::default()
    }
}

fn connections() -> Vec<TcpConnection> {
    let connection = |cpu, ends, state, owner, queues: (u64, u64)| TcpConnection {
        cpu,
        ends,
        state,
        owner,
        recv_q: queues.0,
        send_q: queues.1,
        info: (owner != TcpOwner::None).then(|| Box::new(info())),
    };
    let (program, none) = (TcpOwner::Program, TcpOwner::None);
    vec![
        connection(0, ends("192.0.2.1", "198.51.100.7", 40_000), TcpState::Established, program, (0, 1448)),
        connection(1, ends("192.0.2.1", "198.51.100.8", 40_001), TcpState::TimeWait, none, (0, 0)),
        connection(1, ends("2001:db8::1", "2001:db8::7", 40_002), TcpState::CloseWait, program, (12, 0)),
        connection(1, ends("fe80::1", "fe80::7", 40_003), TcpState::SynReceived, none, (0, 0)),
    ]
}

fn bound(local: &str, local_port: u16, dual_stack: bool) -> Bound {
    Bound { local: ip(local), local_port, interface: None, dual_stack, shared: false }
}

fn listeners() -> Vec<TcpListener> {
    let listener = |cpu, bound, qlen| TcpListener { cpu, bound, qlen, maxqlen: 128 };
    let on = |cpu| {
        [
            listener(cpu, bound("192.0.2.1", 22, false), 0),
            listener(cpu, bound("::", 80, true), u64::from(cpu) + 2),
        ]
    };
    [on(0), on(1)].concat()
}

fn sockets() -> Vec<UdpSocket> {
    let waiting = |cpu, recv_q| UdpSocket {
        cpu,
        bound: bound("0.0.0.0", 514, false),
        foreign: None,
        recv_q,
        datagrams: recv_q.min(1),
    };
    let foreign = Some("[2001:db8::53]:53".parse().unwrap());
    let connected = UdpSocket { bound: bound("2001:db8::1", 40_004, false), foreign, ..waiting(1, 0) };
    vec![waiting(0, 100), waiting(1, 20), connected]
}

fn raw_sockets() -> Vec<RawSocket> {
    let socket = |cpu, local: &str, foreign: Option<&str>| RawSocket {
        cpu,
        local: ip(local),
        interface: None,
        foreign: foreign.map(ip),
        recv_q: 64,
        messages: 1,
    };
    let on = |cpu| [socket(cpu, "0.0.0.0", None), socket(cpu, "2001:db8::1", Some("2001:db8::7"))];
    [on(0), on(1)].concat()
}

fn groups() -> Vec<Group> {
    let group = |interface: &str, group: &str, excludes, sources: &[&str]| Group {
        interface: interface.into(),
        group: ip(group),
        excludes,
        sources: sources.iter().map(|source| ip(source)).collect(),
    };
    vec![
        group("lan", "239.1.2.3", true, &[]),
        group("lan", "232.1.2.3", false, &["192.0.2.7", "192.0.2.8"]),
        group("wan", "ff05::1:3", true, &["2001:db8::7"]),
    ]
}

/// One row, and where the next page begins.
fn page<T>(all: Vec<T>, after: Option<&str>) -> (Vec<T>, Option<String>) {
    let at = after.map_or(0, |after| after.parse().unwrap());
    let next = (at + 1 < all.len()).then(|| (at + 1).to_string());
    (all.into_iter().skip(at).take(1).collect(), next)
}

impl Sockets for Fake {
    fn tcp_connections(&mut self, after: Option<&str>, _limit: usize, info: bool) -> Answer<TcpConnections> {
        let (mut connections, next) = page(connections(), after);
        connections.iter_mut().filter(|_| !info).for_each(|connection| connection.info = None);
        Ok(TcpConnections { connections, next })
    }

    fn tcp_listeners(&mut self, after: Option<&str>, _limit: usize) -> Answer<TcpListeners> {
        let (listeners, next) = page(listeners(), after);
        Ok(TcpListeners { listeners, next })
    }

    fn udp_sockets(&mut self, after: Option<&str>, _limit: usize) -> Answer<UdpSockets> {
        let (sockets, next) = page(sockets(), after);
        Ok(UdpSockets { sockets, next })
    }

    fn raw_sockets(&mut self, after: Option<&str>, _limit: usize) -> Answer<RawSockets> {
        let (sockets, next) = page(raw_sockets(), after);
        Ok(RawSockets { sockets, next })
    }

    fn groups(&mut self) -> Answer<Vec<Group>> {
        Ok(groups())
    }

    fn drop_connection(&mut self, ends: &TcpEnds) -> Answer<()> {
        if !connections().iter().any(|known| known.ends == *ends) {
            let error = format!("there is no connection between {} and {}", ends.local, ends.foreign);
            return Err(Error::new(ErrorKind::NotFound, error));
        }
        self.tell(format!("drop {} {}", ends.local, ends.foreign_port));
        Ok(())
    }
}
