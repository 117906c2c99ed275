//! The kernel's sockets on two hosts: two namespaces with wires between them.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;
use std::net;

use dev::netlink::Veth;
use dev::netns::Netns;
use dev::sys::caps::{CapabilitySet, effective};
use ipnet::IpNet;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, sockopt};

use super::{Group, Host, Hosts, Link, MTU, Opt, Seen, WIRES, addrs};
use crate::sockets::datagram_api::Datagrams;
use crate::sockets::socket_api::{Face, Kernel, Terms};

/// All that comes and goes on all interfaces (`ETH_P_ALL`), as packets.
const ALL: u32 = 3_u16.to_be() as u32;
/// Bytes of the packets that wait to be looked at.
const WATCHED: usize = 16 << 20;

impl Kernel {
    /// Two hosts; `None`, and the running test is skipped, if this process may not make them.
    pub(crate) fn apart() -> Option<Self> {
        let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
        if !effective().is_ok_and(|held| held.contains(needed)) {
            harness::skip("needs root");
            return None;
        }
        let hosts = [(); 2].map(|()| Netns::anonymous().unwrap());
        let [mut server, mut client] = [0, 1].map(|host: usize| hosts[host].netlink().unwrap());
        for (wire, name) in WIRES.into_iter().enumerate() {
            let far = format!("{name}-far");
            server.add_veth(&Veth { mtu: Some(MTU), ..Veth::new(name, &far) }).unwrap();
            server.move_to(&far, &hosts[1]).unwrap();
            client.rename(&far, name).unwrap();
            for (host, netlink) in [(Host::Server, &mut server), (Host::Client, &mut client)] {
                netlink.set_up("lo", true).unwrap();
                netlink.set_up(name, true).unwrap();
                for (addr, prefix) in addrs(host, wire).into_iter().zip([24, 64]) {
                    netlink.add_address(name, IpNet::new(addr, prefix).unwrap()).unwrap();
                }
            }
        }
        let watch = hosts[0].run(|| {
            let (kind, flags) = (SocketType::DGRAM, SocketFlags::NONBLOCK);
            let all = Protocol::from_raw(ALL.try_into().unwrap());
            rustix::net::socket_with(AddressFamily::PACKET, kind, flags, Some(all)).unwrap()
        });
        let watch = watch.unwrap();
        sockopt::set_socket_recv_buffer_size_force(&watch, WATCHED).unwrap();
        Some(Self { hosts: Some((hosts, watch)) })
    }

    fn netns(&self, host: Host) -> &Netns {
        &self.hosts.as_ref().unwrap().0[host as usize]
    }
}

fn set(socket: impl rustix::fd::AsFd, opt: Opt) -> io::Result<()> {
    let is_ipv4 = sockopt::socket_domain(&socket)? == AddressFamily::INET;
    match opt {
        Opt::NoDelay(on) => sockopt::set_tcp_nodelay(socket, on)?,
        Opt::KeepAlive(None) => sockopt::set_socket_keepalive(socket, false)?,
        Opt::KeepAlive(Some(keep)) => {
            sockopt::set_tcp_keepidle(&socket, keep.idle)?;
            sockopt::set_tcp_keepintvl(&socket, keep.interval)?;
            sockopt::set_tcp_keepcnt(&socket, keep.count.into())?;
            sockopt::set_socket_keepalive(socket, true)?;
        }
        Opt::Ttl(ttl) if is_ipv4 => sockopt::set_ip_ttl(socket, ttl.into())?,
        Opt::Ttl(hops) => sockopt::set_ipv6_unicast_hops(socket, Some(hops))?,
        Opt::Tos(tos) if is_ipv4 => sockopt::set_ip_tos(socket, tos)?,
        Opt::Tos(class) => sockopt::set_ipv6_tclass(socket, class.into())?,
        Opt::SendBuffer(bytes) => sockopt::set_socket_send_buffer_size(socket, bytes as usize)?,
        Opt::RecvBuffer(bytes) => sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?,
    }
    Ok(())
}

impl Hosts for Kernel {
    fn bind_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Listener> {
        let listener = self.bind_with(addr, Terms::default())?;
        opts.iter().try_for_each(|opt| set(&listener, *opt)).map(|()| listener)
    }

    fn connect_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Stream> {
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = self.on(Host::Client, || Ok(rustix::net::socket(family, SocketType::STREAM, None)?))?;
        opts.iter().try_for_each(|opt| set(&socket, *opt))?;
        rustix::net::connect(&socket, &addr)?;
        Ok(socket.into())
    }

    fn bind_udp_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Socket> {
        let socket = self.bind_udp(addr)?;
        opts.iter().try_for_each(|opt| set(&socket, *opt)).map(|()| socket)
    }

    fn set(stream: &net::TcpStream, opt: Opt) -> io::Result<()> {
        set(stream, opt)
    }

    fn set_udp(socket: &net::UdpSocket, opt: Opt) -> io::Result<()> {
        set(socket, opt)
    }

    fn set_write_timeout(stream: &net::TcpStream, timeout: Duration) {
        stream.set_write_timeout(Some(timeout)).unwrap();
    }

    fn group(socket: &net::UdpSocket, group: Group) -> io::Result<()> {
        let is_ipv4 = socket.local_addr()?.is_ipv4();
        match group {
            Group::Join(IpAddr::V4(ip), on) => socket.join_multicast_v4(&ip, &on.addr),
            Group::Join(IpAddr::V6(ip), on) => socket.join_multicast_v6(&ip, on.index),
            Group::Leave(IpAddr::V4(ip), on) => socket.leave_multicast_v4(&ip, &on.addr),
            Group::Leave(IpAddr::V6(ip), on) => socket.leave_multicast_v6(&ip, on.index),
            Group::Ttl(ttl) if is_ipv4 => socket.set_multicast_ttl_v4(ttl.into()),
            Group::Ttl(hops) => Ok(sockopt::set_ipv6_multicast_hops(socket, hops.into())?),
            Group::Loop(on) if is_ipv4 => socket.set_multicast_loop_v4(on),
            Group::Loop(on) => socket.set_multicast_loop_v6(on),
            Group::By(link) if is_ipv4 => Ok(sockopt::set_ip_multicast_if(socket, &link.addr)?),
            Group::By(link) => Ok(sockopt::set_ipv6_multicast_if(socket, link.index)?),
        }
    }

    fn link(&self, host: Host, wire: usize) -> Link {
        let IpAddr::V4(addr) = addrs(host, wire)[0] else { unreachable!() };
        let index = self.netns(host).netlink().unwrap().link(WIRES[wire]).unwrap().index;
        Link { addr, index }
    }

    fn seen(&self) -> Vec<Seen> {
        let watch = &self.hosts.as_ref().unwrap().1;
        let mut packet = [0; 128];
        let next = || {
            rustix::net::recv(watch, &mut packet[..], RecvFlags::empty())
                .ok()
                .map(|(len, _)| packet[..len].to_vec())
        };
        core::iter::from_fn(next).filter_map(|packet| Seen::of(&packet)).collect()
    }

    fn has_come(&self, to: SocketAddr) {
        while !self.seen().iter().any(|seen| seen.to == to) {
            std::thread::yield_now();
        }
    }

    fn cut(&self) {
        self.netns(Host::Server).netlink().unwrap().set_up(WIRES[0], false).unwrap();
    }
}
