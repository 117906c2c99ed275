//! Methods of UDP sockets under the same names in all interfaces.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io;

use net::channel::{Join, Link, Sender};
use net::udp::Icmp;

use super::error;

/// A datagram that was read, and how it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes that were read.
    pub len: usize,
    /// Sender.
    pub from: SocketAddr,
    /// Its time to live, or hop limit (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    pub ttl: u8,
    /// Its type of service, or traffic class (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    pub tos: u8,
    /// To which address of ours, or to which group, it was sent (`IP_PKTINFO`, `IPV6_RECVPKTINFO`); `None` of one that is longer
    /// than 65,488 bytes.
    pub local: Option<IpAddr>,
    /// Number of the interface that it came by; 0 where the address is not known either.
    pub interface: u32,
}

/// Our end of a datagram that is sent (`IP_PKTINFO`, `IPV6_PKTINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PktInfo {
    /// The address of ours that it is sent from: the socket's, or what the route says, if this does not.
    pub source: Option<IpAddr>,
    /// Number of the interface that it leaves by, if it goes to a group, to all on a link, or to a link-local address; 0: what the
    /// socket or the route says.
    pub interface: u32,
}

impl From<PktInfo> for Link {
    fn from(info: PktInfo) -> Self {
        let addr = info.source.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Self { addr, ..link6(info.interface) }
    }
}

/// A datagram that was sent and did not arrive.
#[derive(Debug)]
pub struct Undelivered {
    /// Destination.
    pub to: SocketAddr,
    /// Why it did not arrive.
    pub why: io::Error,
    /// The ICMP error that says so; `None` if it was not sent at all.
    pub icmp: Option<Icmp>,
}

impl From<net::udp::Failure> for Undelivered {
    fn from(failure: net::udp::Failure) -> Self {
        Self { to: failure.to, why: error::of(failure.error), icmp: failure.icmp }
    }
}

/// A group of IPv4, on the link of the interface with this address.
pub(super) const fn group4(group: Ipv4Addr, on: Ipv4Addr, joins: bool) -> Join {
    Join { group: IpAddr::V4(group), on: link4(on), joins, of: Sender::Any }
}

/// A group of IPv6, on the link of the interface with this number.
pub(super) fn group6(group: Ipv6Addr, ifindex: u32, joins: bool) -> Join {
    Join { group: IpAddr::V6(group), on: link6(ifindex), joins, of: Sender::Any }
}

/// The interface with this address.
pub(super) const fn link4(addr: Ipv4Addr) -> Link {
    Link { addr: IpAddr::V4(addr), ifindex: 0 }
}

/// The interface of this number.
pub(super) fn link6(ifindex: u32) -> Link {
    // One that is so high there is not.
    let ifindex = u16::try_from(ifindex).unwrap_or(u16::MAX);
    Link { addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED), ifindex }
}

/// The options of a socket, and what it knows of itself. `$socket` is what a face has of it.
macro_rules! udp_options {
    ($face:ident, |$own:ident| $socket:expr) => {
        impl core::fmt::Debug for $face {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let (local, peer) = (self.own().local(), self.own().remote());
                let mut shown = f.debug_struct(stringify!($face));
                shown.field("addr", &local.ok()).field("peer", &peer.ok()).finish()
            }
        }

        impl $face {
            /// Where it waits, or its own end when it is connected.
            ///
            /// # Errors
            ///
            /// None; it returns a result as the kernel's sockets do, as do those that follow and have none.
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.own().local()
            }

            /// Returns the connected peer.
            ///
            /// # Errors
            ///
            /// `NotConnected`.
            pub fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.own().remote()
            }

            /// Time to live, or hop limit, of what is sent to one host.
            ///
            /// # Errors
            ///
            /// `InvalidInput` of 0 over IPv4.
            pub fn set_ttl(&self, ttl: u8) -> io::Result<()> {
                self.set(Setting::Hops(ttl.into()))
            }

            /// Returns the option as it was set.
            ///
            /// # Errors
            ///
            /// None.
            pub fn ttl(&self) -> io::Result<u8> {
                Ok(self.own().how().tx_params.hops)
            }

            /// Type of service, or traffic class, of what is sent.
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_tos(&self, tos: u8) -> io::Result<()> {
                self.set(Setting::Class(tos.into()))
            }

            /// Sets the routing table of what is sent (`SO_SETFIB`).
            ///
            /// # Errors
            ///
            /// `InvalidInput` if it cannot exist. If it does not, sending fails.
            pub fn set_fib(&self, fib: u8) -> io::Result<()> {
                self.set(Setting::Fib(fib.into()))
            }

            /// Sets whether datagrams that are too big for a link on their way fail instead of being fragmented (`IP_DONTFRAG`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_dont_fragment(&self, fails: bool) -> io::Result<()> {
                self.set(Setting::DontFragment(fails))
            }

            /// Sets whether all ICMP errors are errors of the socket: also that a datagram was too long on its way, or malformed
            /// (`IP_RECVERR` of Linux).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_all_errors(&self, all: bool) -> io::Result<()> {
                self.set(Setting::AllErrors(all))
            }

            /// Returns the option as it was set.
            ///
            /// # Errors
            ///
            /// None.
            pub fn tos(&self) -> io::Result<u8> {
                Ok(self.own().how().tx_params.class)
            }

            /// Bytes of datagrams that may wait on each CPU, besides those in the socket's rings (`SO_RCVBUF`): 2 MiB at the
            /// most.
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_recv_buffer_size(&self, bytes: u32) -> io::Result<()> {
                self.set(Setting::ReceiveBuffer(bytes))
            }

            /// It may send to everybody on a link.
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
                self.own().change(|how| how.may_broadcast = broadcast);
                Ok(())
            }

            /// Returns the option as it was set.
            ///
            /// # Errors
            ///
            /// None.
            pub fn broadcast(&self) -> io::Result<bool> {
                Ok(self.own().how().may_broadcast)
            }

            /// Time to live, or hop limit, of what is sent to groups, of either family.
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_multicast_ttl(&self, ttl: u8) -> io::Result<()> {
                self.own().change(|how| how.group_hops = ttl);
                Ok(())
            }

            /// Returns the option as it was set.
            ///
            /// # Errors
            ///
            /// None.
            pub fn multicast_ttl(&self) -> io::Result<u8> {
                Ok(self.own().how().group_hops)
            }

            /// Sets whether listeners on this host receive what is sent to a group from here, of either family.
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_multicast_loop(&self, back: bool) -> io::Result<()> {
                self.own().change(|how| how.group_loop = back);
                Ok(())
            }

            /// Returns the option as it was set.
            ///
            /// # Errors
            ///
            /// None.
            pub fn multicast_loop(&self) -> io::Result<bool> {
                Ok(self.own().how().group_loop)
            }

            /// Returns the error of a datagram that did not arrive, if it was not reported yet. A connected socket reports it with the
            /// next call.
            ///
            /// # Errors
            ///
            /// None.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                Ok(self.take_undelivered().map(|failed| failed.why))
            }

            /// Returns the error and the destination: also of a socket with many destinations, whose calls never report it.
            #[must_use]
            pub fn take_undelivered(&self) -> Option<Undelivered> {
                self.own().take_failure().map(|(failure, _)| failure.into())
            }

            fn set(&self, setting: Setting) -> io::Result<()> {
                self.own().set(setting)
            }

            fn own(&self) -> &Socket {
                let $own = self;
                $socket
            }
        }
    };
}
pub(super) use udp_options;
