//! `netstat -a`, `netstat -L`, `netstat -g` and `tcpdrop`: what speaks TCP, UDP and ICMP, page by page.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use net::group::{self, Membership};
use net::pcb::FourTuple;
use net::rss::Placement;
use net::tables::IfIndex;
use net::tcp::congestion::Algorithm;
use net::tcp::tcb::{Info, State, Times};
use net::tcp::{self, ListedListener, Owner};
use net::{packet, raw, udp};

use super::super::control::Control;
use crate::api::sockets::Sockets;
use crate::api::{
    Bound, Error, ErrorKind, Group, PacketSocket, ProgramSockets, Programs, RawSocket, RawSockets,
    TcpConnection, TcpConnections, TcpEnds, TcpInfo, TcpListener, TcpListeners, TcpOwner, TcpState,
    UdpSocket, UdpSockets,
};
use crate::programs::Asker;

/// Bytes of the headers of IP and TCP, without options.
const HEADERS4: u32 = 40;
const HEADERS6: u32 = 60;

impl Sockets for Control {
    fn tcp_connections(
        &mut self,
        after: Option<&str>,
        limit: usize,
        info: bool,
    ) -> Result<TcpConnections, Error> {
        let page = self.page_of(after, limit, move |cpu, from, room| {
            let now = info.then_some(cpu.now);
            cpu.tcp.as_deref().map_or((Vec::new(), None), |pcbs| pcbs.page(from, room, now))
        })?;
        let connections = page.rows.into_iter().map(|(cpu, listed)| self.connection(cpu, listed)).collect();
        Ok(TcpConnections { connections, next: page.next })
    }

    fn tcp_listeners(&mut self, after: Option<&str>, limit: usize) -> Result<TcpListeners, Error> {
        let page = self.page_of(after, limit, |cpu, from, room| {
            cpu.tcp.as_deref().map_or((Vec::new(), None), |pcbs| pcbs.page_of_listeners(from, room))
        })?;
        let listener = |(cpu, listed): (u32, ListedListener)| TcpListener {
            cpu,
            bound: self.bound(listed.addr, listed.zone, listed.takes_mapped, listed.is_shared),
            qlen: listed.waiting as u64,
            maxqlen: listed.backlog as u64,
        };
        Ok(TcpListeners { listeners: page.rows.into_iter().map(listener).collect(), next: page.next })
    }

    fn udp_sockets(&mut self, after: Option<&str>, limit: usize) -> Result<UdpSockets, Error> {
        let page = self.page_of(after, limit, |cpu, from, room| {
            let (Some(sockets), Ok(from)) = (cpu.udp.as_deref(), u32::try_from(from)) else {
                return (Vec::new(), None);
            };
            let (rows, next) = sockets.page(from, room);
            (rows, next.map(u128::from))
        })?;
        let socket = |(cpu, listed): (u32, udp::Listed)| UdpSocket {
            cpu,
            bound: self.bound(listed.addr, listed.zone, listed.takes_mapped, listed.is_shared),
            foreign: listed.ends.map(|ends| ends.remote()),
            recv_q: listed.bytes as u64,
            datagrams: listed.datagrams as u64,
        };
        Ok(UdpSockets { sockets: page.rows.into_iter().map(socket).collect(), next: page.next })
    }

    fn raw_sockets(&mut self, after: Option<&str>, limit: usize) -> Result<RawSockets, Error> {
        let page = self.page_of(after, limit, |cpu, from, room| {
            let (Some(sockets), Ok(from)) = (cpu.raw.as_deref(), u32::try_from(from)) else {
                return (Vec::new(), None);
            };
            let (rows, next) = sockets.page(from, room);
            (rows, next.map(u128::from))
        })?;
        let socket = |(cpu, listed): (u32, raw::Listed)| RawSocket {
            cpu,
            local: listed.local,
            interface: self.name_of(listed.zone),
            foreign: listed.remote,
            recv_q: listed.ready.bytes as u64,
            messages: listed.ready.messages as u64,
        };
        Ok(RawSockets { sockets: page.rows.into_iter().map(socket).collect(), next: page.next })
    }

    fn packet_sockets(&mut self) -> Result<Vec<PacketSocket>, Error> {
        let all = self.cpus.call_all(|netisr| packet::list(&netisr.cpu))?;
        let processors = self.cpus.iter().map(|cpu| u32::try_from(cpu.processor).unwrap_or(u32::MAX));
        let socket = |(cpu, listed): (u32, packet::Listed)| PacketSocket {
            cpu,
            interface: self.name_of(listed.ifindex),
            takes: listed.takes,
            recv_q: listed.ready.bytes as u64,
            frames: listed.ready.frames as u64,
        };
        let each =
            processors.zip(all).flat_map(|(cpu, listed)| listed.into_iter().map(move |one| (cpu, one)));
        Ok(each.map(socket).collect())
    }

    fn groups(&mut self) -> Result<Vec<Group>, Error> {
        let group = |Membership { key, filter }: Membership| {
            Some(Group {
                interface: self.name_of(key.ifindex)?,
                group: key.group,
                excludes: filter.excludes(),
                sources: filter.sources().to_vec(),
            })
        };
        Ok(self.memberships()?.into_iter().filter_map(group).collect())
    }

    fn programs(&mut self) -> Result<Option<Programs>, Error> {
        self.programs.as_ref().map(Asker::programs).transpose()
    }

    fn program_sockets(&mut self, after: Option<&str>, limit: usize) -> Result<ProgramSockets, Error> {
        let after = after.map_or(Ok(0), str::parse);
        let after =
            after.map_err(|_| Error::new(ErrorKind::Invalid, "`after` is not the number of a socket"))?;
        let sockets = self.programs.as_ref().map(|asker| asker.sockets(after, limit));
        sockets.unwrap_or_else(|| Ok(ProgramSockets::default()))
    }

    fn drop_connection(&mut self, ends: &TcpEnds) -> Result<(), Error> {
        let (local, foreign) = (ends.local, ends.foreign);
        if local.is_ipv4() != foreign.is_ipv4() {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("{local} and {foreign} belong to different address families"),
            ));
        }
        let zone = ends.interface.as_deref().map_or(Ok(0), |name| self.zone_of(name))?;
        let (local, foreign) = ((local, ends.local_port).into(), (foreign, ends.foreign_port).into());
        let ends = FourTuple::new(local, foreign, zone);
        let cpus = u16::try_from(self.cpus.iter().count()).unwrap_or(u16::MAX);
        let owner = Placement::new(cpus).owner(ends.flow()).index();
        match self.cpus.call(owner, move |netisr| tcp::drop_connection(&mut netisr.cpu, &ends))? {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::NotFound,
                format!("there is no connection between {local} and {foreign}"),
            )
            .hint("pantala netstat -an shows all; those with an address of a link need its interface: fe80::1%lan")),
        }
    }
}

impl Control {
    /// The groups that the host is in, link by link.
    pub(super) fn memberships(&self) -> Result<Vec<Membership>, Error> {
        let mut all = self.cpus.call_all(|netisr| group::memberships(&netisr.cpu))?.concat();
        all.sort_unstable_by_key(|membership| membership.key);
        Ok(all)
    }

    fn connection(&self, cpu: u32, listed: tcp::Listed) -> TcpConnection {
        let headers = if listed.ends.local.is_ipv4() { HEADERS4 } else { HEADERS6 };
        TcpConnection {
            cpu,
            ends: self.ends(&listed.ends),
            state: state(listed.state),
            owner: match listed.owner {
                Owner::Listener(_) => TcpOwner::Queue,
                Owner::Program => TcpOwner::Program,
                Owner::Nobody => TcpOwner::None,
            },
            recv_q: listed.receive_queue as u64,
            send_q: listed.send_queue as u64,
            info: listed.info.map(|said| Box::new(info(&said.0, &said.1, headers))),
        }
    }

    fn ends(&self, ends: &FourTuple) -> TcpEnds {
        TcpEnds {
            local: ends.local,
            local_port: ends.local_port,
            foreign: ends.remote,
            foreign_port: ends.remote_port,
            interface: self.name_of(ends.zone),
        }
    }

    fn bound(&self, addr: SocketAddr, zone: IfIndex, dual_stack: bool, shared: bool) -> Bound {
        let (local, local_port): (IpAddr, u16) = (addr.ip(), addr.port());
        Bound { local, local_port, interface: self.name_of(zone), dual_stack, shared }
    }

    fn zone_of(&self, name: &str) -> Result<IfIndex, Error> {
        self.interface(name).map(|interface| interface.index).ok_or_else(|| self.no_interface(name))
    }
}

const fn state(state: State) -> TcpState {
    match state {
        State::Closed => TcpState::Closed,
        State::SynSent => TcpState::SynSent,
        State::SynReceived => TcpState::SynReceived,
        State::Established => TcpState::Established,
        State::CloseWait => TcpState::CloseWait,
        State::FinWait1 => TcpState::FinWait1,
        State::FinWait2 => TcpState::FinWait2,
        State::Closing => TcpState::Closing,
        State::LastAck => TcpState::LastAck,
        State::TimeWait => TcpState::TimeWait,
    }
}

fn info(said: &Info, times: &Times, headers: u32) -> TcpInfo {
    let tally = &said.tally;
    TcpInfo {
        timestamps: said.timestamps,
        sack: said.sack,
        ecn: said.ecn,
        wscale: said.window_scale,
        cc: match said.algorithm {
            Algorithm::Cubic => "cubic".to_owned(),
            Algorithm::NewReno => "newreno".to_owned(),
        },
        rto_us: microseconds(said.rto),
        backoff: said.backoffs,
        keepalive_probes: said.probes,
        rtt_us: said.rtt.map(microseconds),
        rttvar_us: said.rtt_variation.map(microseconds),
        min_rtt_us: said.rtt_least.map(microseconds),
        mss: said.snd_mss,
        rcv_mss: said.rcv_mss,
        pmtu: said.path_mss + headers,
        cwnd: said.snd_cwnd,
        ssthresh: Some(said.snd_ssthresh).filter(|bytes| *bytes < u32::MAX),
        snd_wnd: said.snd_wnd,
        rcv_wnd: said.rcv_wnd,
        unacked: said.unacknowledged,
        sacked: said.sacked,
        lost: said.lost,
        notsent: said.unsent,
        recovery: said.recovers,
        user_timeout_us: said.user_timeout.map(microseconds),
        remote_user_timeout_us: said.remote_user_timeout.map(microseconds),
        segs_in: tally.segments_in,
        data_segs_in: tally.data_segments_in,
        segs_out: tally.segments_out,
        data_segs_out: tally.data_segments_out,
        retrans: tally.retransmitted,
        bytes_acked: tally.bytes_acknowledged,
        bytes_received: tally.bytes_received,
        delivered: tally.delivered,
        delivered_ce: tally.delivered_marked,
        rcv_ooopack: tally.out_of_order,
        zero_windows: tally.zero_windows,
        last_sent_us: microseconds(times.data_sent),
        last_received_us: microseconds(times.data_came),
        last_ack_us: microseconds(times.ack_came),
        busy_us: microseconds(times.busy),
        rwnd_limited_us: microseconds(times.shut_out),
        sndbuf_limited_us: microseconds(times.full),
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
