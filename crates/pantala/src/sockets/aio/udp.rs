//! Datagrams, as in `tokio::net`.

use core::future::poll_fn;
#[cfg(feature = "cli")]
use core::net::IpAddr;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::task::{Context, Poll, Waker};
use std::io;

use net::channel::Setting;
#[cfg(feature = "cli")]
use net::channel::{Join, Link, Sender};

use super::ToSocketAddrs;
use super::addrs::{each, first};
use crate::sockets::Sockets;
use crate::sockets::options::Options;
use crate::sockets::socket::Socket;
use crate::sockets::udp::{PktInfo, Received, Undelivered, group4, group6, link4, link6, udp_options};
use crate::sockets::wakers::now;

/// A socket of datagrams, on all CPUs of the stack.
pub struct UdpSocket(Socket);

udp_options!(UdpSocket, |socket| &socket.0);

impl UdpSocket {
    /// Binds on all CPUs, to the first of several addresses that it can.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`, of the last address; `InvalidInput` without any address.
    pub async fn bind(sockets: &Sockets, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(sockets, addr, &Options::new()).await
    }

    /// Binds with options; those of connections mean nothing here.
    ///
    /// # Errors
    ///
    /// As [`Self::bind`].
    pub async fn bind_with(
        sockets: &Sockets,
        addr: impl ToSocketAddrs,
        options: &Options,
    ) -> io::Result<Self> {
        each(addr, |addr| async move {
            Socket::bind(&sockets.endpoint, options.place(addr), options.settings(addr)?).await.map(Self)
        })
        .await
    }

    /// Connects to one peer, the first of several addresses that it can. If the future is dropped before it is ready, the
    /// socket may be connected or not.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`, of the last address; `InvalidInput` without any address.
    pub async fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<()> {
        each(addr, |addr| self.0.connect(addr)).await
    }

    /// Sets the only interface by which datagrams come and go (`SO_BINDTODEVICE`); 0: any.
    ///
    /// # Errors
    ///
    /// None.
    #[cfg(feature = "cli")]
    pub(crate) fn set_device(&self, device: u32) -> io::Result<()> {
        self.0.set(Setting::Device(device))
    }

    /// Sends a datagram to the first of these addresses.
    ///
    /// # Errors
    ///
    /// Those of `sendto(2)` that are known at once; of a connected socket also what became of an earlier one.
    pub async fn send_to(&self, bytes: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        let to = first(to).await?;
        poll_fn(|context| self.0.poll_send(context.waker(), bytes, Some(to))).await
    }

    /// Sends a datagram from the address of ours, and by the interface, that `info` names.
    ///
    /// # Errors
    ///
    /// As [`Self::send_to`]; of an address that is not ours, a later call or [`Self::take_error`] returns `AddrNotAvailable`.
    pub async fn send_datagram(
        &self,
        bytes: &[u8],
        to: impl ToSocketAddrs,
        info: PktInfo,
    ) -> io::Result<usize> {
        let to = first(to).await?;
        poll_fn(|context| self.0.poll_send_from(context.waker(), bytes, Some(to), Some(info.into()))).await
    }

    /// Sends a datagram to the connected peer.
    ///
    /// # Errors
    ///
    /// As [`Self::send_to`].
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|context| self.0.poll_send(context.waker(), bytes, None)).await
    }

    /// Reads a datagram: as much of it as there is room for, and the rest of it is gone.
    ///
    /// # Errors
    ///
    /// Of a connected socket what became of one that was sent.
    pub async fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        poll_fn(|context| self.0.poll_recv(context.waker(), into)).await
    }

    /// Receives a datagram with its metadata.
    ///
    /// # Errors
    ///
    /// As [`Self::recv_from`].
    pub async fn recv_datagram(&self, into: &mut [u8]) -> io::Result<Received> {
        poll_fn(|context| self.0.poll_datagram(context.waker(), into, true)).await
    }

    /// Receives a datagram without its sender.
    ///
    /// # Errors
    ///
    /// As [`Self::recv_from`].
    pub async fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.recv_from(into).await.map(|(count, _)| count)
    }

    /// Reads a datagram, which stays.
    ///
    /// # Errors
    ///
    /// As [`Self::recv_from`].
    pub async fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        poll_fn(|context| self.0.poll_peek(context.waker(), into)).await
    }

    /// Polls [`Self::send_to`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn poll_send_to(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send(context.waker(), bytes, Some(to))
    }

    /// Polls [`Self::recv_from`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.0.poll_recv(context.waker(), into)
    }

    /// From now on calls do not report what became of earlier datagrams, and [`Self::take_failure`] does.
    #[cfg(feature = "cli")]
    pub(crate) fn keep_errors(&self) {
        self.0.keep_errors();
    }

    /// Takes the error of a datagram that did not arrive, and what an ICMP error quotes of its bytes if the socket wants all errors.
    #[cfg(feature = "cli")]
    pub(crate) fn take_failure(&self) -> Option<(net::udp::Failure, Vec<u8>)> {
        self.0.take_failure()
    }

    /// Polls [`Self::recv_datagram`].
    #[cfg(feature = "cli")]
    pub(crate) fn poll_recv_datagram(
        &self,
        context: &Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<Received>> {
        self.0.poll_datagram(context.waker(), into, true)
    }

    /// Listens to a group, or no longer, on the link of an interface.
    #[cfg(feature = "cli")]
    pub(crate) async fn join(&self, wanted: Join) -> io::Result<()> {
        self.0.join(wanted).await
    }

    /// Sets the source filter of a group: these senders, or all but these.
    #[cfg(feature = "cli")]
    pub(crate) async fn set_filter(
        &self,
        (group, on): (IpAddr, Link),
        excludes: bool,
        senders: &[IpAddr],
    ) -> io::Result<()> {
        let of = if excludes { Sender::AllButNamed } else { Sender::Named };
        self.0.set_filter(Join { group, on, joins: true, of }, senders).await
    }

    /// Sends to groups by an interface.
    #[cfg(feature = "cli")]
    pub(crate) async fn send_groups_by(&self, link: Link) -> io::Result<()> {
        self.0.send_groups_by(link).await
    }

    /// Sends a datagram now.
    ///
    /// # Errors
    ///
    /// As [`Self::send_to`], and `WouldBlock` if the way to the stack is full.
    pub fn try_send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        now(|waker: &Waker| self.0.poll_send(waker, bytes, Some(to)))
    }

    /// Reads a datagram that is there.
    ///
    /// # Errors
    ///
    /// As [`Self::recv_from`], and `WouldBlock` if there is none.
    pub fn try_recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        now(|waker: &Waker| self.0.poll_recv(waker, into))
    }

    /// Listens to a group, on the link of the interface with this address, or of the first.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub async fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.0.join(group4(group, interface, true)).await
    }

    /// Listens to a group no longer.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub async fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.0.join(group4(group, interface, false)).await
    }

    /// Listens to a group, on the link of the interface with this number, or of the first.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub async fn join_multicast_v6(&self, group: Ipv6Addr, interface: u32) -> io::Result<()> {
        self.0.join(group6(group, interface, true)).await
    }

    /// Listens to a group no longer.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub async fn leave_multicast_v6(&self, group: Ipv6Addr, interface: u32) -> io::Result<()> {
        self.0.join(group6(group, interface, false)).await
    }

    /// Sends to groups by the interface with this address; by none that is named: where the route leads, or the first.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub async fn set_multicast_if_v4(&self, interface: Ipv4Addr) -> io::Result<()> {
        self.0.send_groups_by(link4(interface)).await
    }

    /// Selects the interface of this number; 0 selects none.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub async fn set_multicast_if_v6(&self, interface: u32) -> io::Result<()> {
        self.0.send_groups_by(link6(interface)).await
    }
}
