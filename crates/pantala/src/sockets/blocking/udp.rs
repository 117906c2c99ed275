//! Datagrams, as in [`std::net`].

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::Ordering;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;

use net::channel::Setting;

use super::{Blocking, check};
use crate::sockets::Sockets;
use crate::sockets::addrs::{each, first};
use crate::sockets::endpoint::lock;
use crate::sockets::options::Options;
use crate::sockets::socket::Socket;
use crate::sockets::udp::{PktInfo, Received, Undelivered, group4, group6, link4, link6, udp_options};
use crate::sockets::wakers::block_on;

/// A socket of datagrams, on all CPUs of the stack.
#[derive(Clone)]
pub struct UdpSocket(Arc<Blocking<Socket>>);

udp_options!(UdpSocket, |socket| &socket.0.socket);

impl UdpSocket {
    /// Binds on all CPUs, to the first of several addresses that it can.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`, of the last address; `InvalidInput` without any address.
    pub fn bind(sockets: &Sockets, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(sockets, addr, &Options::new())
    }

    /// Binds with options; those of connections mean nothing here.
    ///
    /// # Errors
    ///
    /// As [`Self::bind`].
    pub fn bind_with(sockets: &Sockets, addr: impl ToSocketAddrs, options: &Options) -> io::Result<Self> {
        each(addr, |addr| {
            let binds = Socket::bind(&sockets.endpoint, options.place(addr), options.settings(addr)?);
            block_on(None, binds).map(|socket| Self(Blocking::new(socket)))
        })
    }

    /// Connects to one peer: the first of several addresses that it can.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`, of the last address; `InvalidInput` without any address.
    pub fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<()> {
        each(addr, |addr| block_on(None, self.0.socket.connect(addr)))
    }

    /// Sends a datagram to the first of these addresses.
    ///
    /// # Errors
    ///
    /// Those of `sendto(2)` that are known at once; of a connected socket also what became of an earlier one.
    pub fn send_to(&self, bytes: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        self.put(bytes, Some(first(to)?))
    }

    /// Sends a datagram from the address of ours, and by the interface, that `info` names.
    ///
    /// # Errors
    ///
    /// As [`Self::send_to`]; of an address that is not ours, a later call or [`Self::take_error`] returns `AddrNotAvailable`.
    pub fn send_datagram(&self, bytes: &[u8], to: impl ToSocketAddrs, info: PktInfo) -> io::Result<usize> {
        let to = first(to)?;
        let send = |waker: &Waker| self.0.socket.poll_send_from(waker, bytes, Some(to), Some(info.into()));
        self.0.wait(&self.0.write_timeout, send)
    }

    /// Sends a datagram to the connected peer.
    ///
    /// # Errors
    ///
    /// As [`Self::send_to`].
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes, None)
    }

    fn put(&self, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<usize> {
        self.0.wait(&self.0.write_timeout, |waker| self.0.socket.poll_send(waker, bytes, to))
    }

    /// Reads a datagram: as much of it as there is room for, and the rest of it is gone.
    ///
    /// # Errors
    ///
    /// Of a connected socket what became of one that was sent.
    pub fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.take(|waker| self.0.socket.poll_recv(waker, into))
    }

    /// Receives a datagram with its metadata.
    ///
    /// # Errors
    ///
    /// As [`Self::recv_from`].
    pub fn recv_datagram(&self, into: &mut [u8]) -> io::Result<Received> {
        self.take(|waker| self.0.socket.poll_datagram(waker, into, true))
    }

    /// Receives a datagram without its sender.
    ///
    /// # Errors
    ///
    /// As [`Self::recv_from`].
    pub fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.recv_from(into).map(|(count, _)| count)
    }

    /// Reads a datagram, which stays.
    ///
    /// # Errors
    ///
    /// As [`Self::recv_from`].
    pub fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.take(|waker| self.0.socket.poll_peek(waker, into))
    }

    /// Peeks at a datagram without its sender.
    ///
    /// # Errors
    ///
    /// As [`Self::recv_from`].
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.peek_from(into).map(|(count, _)| count)
    }

    fn take<R>(&self, what: impl FnMut(&Waker) -> Poll<io::Result<R>>) -> io::Result<R> {
        self.0.wait(&self.0.read_timeout, what)
    }

    /// Returns another handle of the socket; it is closed when all are dropped.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    /// Sets the read timeout; afterwards a read fails with `WouldBlock`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` of no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        *lock(&self.0.read_timeout) = check(timeout)?;
        Ok(())
    }

    /// Sets the time a write waits for room on the way to the stack; afterwards it fails with `WouldBlock`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` of no time at all.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        *lock(&self.0.write_timeout) = check(timeout)?;
        Ok(())
    }

    /// Sets non-blocking mode: calls that would wait fail with `WouldBlock`.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.is_nonblocking.store(nonblocking, Ordering::Relaxed);
        Ok(())
    }

    /// Listens to a group, on the link of the interface with this address, or of the first.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        block_on(None, self.0.socket.join(group4(*group, *interface, true)))
    }

    /// Listens to a group no longer.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        block_on(None, self.0.socket.join(group4(*group, *interface, false)))
    }

    /// Listens to a group, on the link of the interface with this number, or of the first.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        block_on(None, self.0.socket.join(group6(*group, interface, true)))
    }

    /// Listens to a group no longer.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        block_on(None, self.0.socket.join(group6(*group, interface, false)))
    }

    /// Sends to groups by the interface with this address; by none that is named: where the route leads, or the first.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_multicast_if_v4(&self, interface: &Ipv4Addr) -> io::Result<()> {
        block_on(None, self.0.socket.send_groups_by(link4(*interface)))
    }

    /// Selects the interface of this number; 0 selects none.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_multicast_if_v6(&self, interface: u32) -> io::Result<()> {
        block_on(None, self.0.socket.send_groups_by(link6(interface)))
    }
}
