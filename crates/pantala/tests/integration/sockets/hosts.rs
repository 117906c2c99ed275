//! The interface for bodies about options: sockets with options, on two hosts with two wires between them, of which
//! one is watched.

mod kernel;
mod netisrs;
mod seen;
mod stacks;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::io;

use pantala::sockets::{KeepAlive, Options};

use crate::sockets::datagram_api::Datagrams;

pub(crate) use self::netisrs::{prepare, prepare_udp};
pub(crate) use self::seen::Seen;
pub(crate) use self::stacks::Places;

/// A socket option.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opt {
    NoDelay(bool),
    KeepAlive(Option<KeepAlive>),
    Ttl(u8),
    Tos(u8),
    SendBuffer(u32),
    RecvBuffer(u32),
}

/// A group operation of a UDP socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Group {
    Join(IpAddr, Link),
    Leave(IpAddr, Link),
    Ttl(u8),
    Loop(bool),
    /// Sends to groups by this link, if their family is the one that is said.
    By(Link),
}

/// An interface of a host, as each family names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) addr: Ipv4Addr,
    pub(crate) index: u32,
}

/// The server and the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Server,
    Client,
}

/// Two hosts. Of the first wire [`Face::addrs`](crate::sockets::socket_api::Face::addrs) are the server's.
pub(crate) trait Hosts: Datagrams {
    fn bind_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Listener>;
    fn connect_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Stream>;
    fn bind_udp_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Socket>;
    fn set(stream: &Self::Stream, opt: Opt) -> io::Result<()>;
    fn set_udp(socket: &Self::Socket, opt: Opt) -> io::Result<()>;
    fn set_write_timeout(stream: &Self::Stream, timeout: Duration);
    fn group(socket: &Self::Socket, group: Group) -> io::Result<()>;
    /// A host's end of one of the wires.
    fn link(&self, host: Host, wire: usize) -> Link;
    /// Returns what the server's host has received and sent since the last look, in order; packets that one CPU has sent and another
    /// received may have changed places.
    fn seen(&self) -> Vec<Seen>;
    /// Waits until a datagram of the client to `to` has come to the server's host since this was asked last, whether or not
    /// any receiver hears it there.
    fn has_come(&self, to: SocketAddr);
    /// From now on the server hears nothing more.
    fn cut(&self);
}

/// The address of a host on a wire, of either family.
pub(crate) fn addrs(host: Host, wire: usize) -> [IpAddr; 2] {
    let number = host as usize + 1;
    let addrs = match wire {
        0 => [format!("192.0.2.{number}"), format!("2001:db8::{number}")],
        _ => [format!("198.51.100.{number}"), format!("2001:db8:1::{number}")],
    };
    addrs.map(|addr| addr.parse().unwrap())
}

/// Its names.
pub(crate) const WIRES: [&str; 2] = ["lan0", "lan1"];
/// Bytes that a packet may have on either.
pub(crate) const MTU: u32 = 9000;

/// Converts to the options of a stack's sockets.
fn options(opts: &[Opt]) -> Options {
    opts.iter().fold(Options::new(), |options, opt| match *opt {
        Opt::NoDelay(on) => options.nodelay(on),
        Opt::KeepAlive(keepalive) => options.keepalive(keepalive),
        Opt::Ttl(ttl) => options.ttl(ttl),
        Opt::Tos(tos) => options.tos(tos),
        Opt::SendBuffer(bytes) => options.send_buffer_size(bytes),
        Opt::RecvBuffer(bytes) => options.recv_buffer_size(bytes),
    })
}
