//! Sockets for people, a page at a time.

use core::net::SocketAddr;

use super::socket::Socket;
use super::table::Sockets;
use crate::base::collections::slab;
use crate::host::pcb::FourTuple;
use crate::link::tables::IfIndex;

/// Places that are looked at for one page, whether there are sockets or not.
const PLACES_PER_PAGE: usize = 16 * slab::SEGMENT;
/// Sockets of a page at the most.
const PER_PAGE: usize = 1024;

/// A socket, at the time of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where it waits.
    pub addr: SocketAddr,
    /// The interface, where the address means something only with its link; else 0.
    pub zone: IfIndex,
    /// Whether IPv4 datagrams are for it as well, although its address is of IPv6.
    pub takes_mapped: bool,
    /// Others may wait for the same, and share what comes.
    pub is_shared: bool,
    /// Peer, if connected.
    pub ends: Option<FourTuple>,
    /// Datagrams that wait to be read.
    pub datagrams: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Sockets {
    /// Up to `limit` sockets from the place `from` on, and where the next page begins; `None` if nothing can follow. The
    /// first page begins at 0. Of sockets that come and go between two pages some are seen, and some are not; one that
    /// stays is seen once, and none twice.
    #[must_use]
    pub fn page(&self, from: u32, limit: usize) -> (Vec<Listed>, Option<u32>) {
        let limit = limit.clamp(1, PER_PAGE);
        let end = u32::try_from(self.places_end()).unwrap_or(u32::MAX);
        let mut listed = Vec::new();
        for (looked_at, place) in (from..end).enumerate() {
            if listed.len() == limit || looked_at == PLACES_PER_PAGE {
                return (listed, Some(place));
            }
            listed.extend(self.at(place).map(Listed::of));
        }
        (listed, None)
    }
}

impl Listed {
    fn of(socket: &Socket) -> Self {
        let (bound, ready) = (socket.bound, socket.ready());
        Self {
            addr: bound.addr,
            zone: bound.zone,
            takes_mapped: bound.takes_mapped(),
            is_shared: bound.is_shared,
            ends: socket.ends,
            datagrams: ready.datagrams,
            bytes: ready.bytes,
        }
    }
}

#[cfg(test)]
mod tests;
