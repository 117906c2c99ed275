//! Sockets for people: as few as there are, in one page.

use core::net::IpAddr;

use super::socket::{Ready, Socket, Sockets};
use crate::link::tables::IfIndex;

/// A socket, at the time of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Our address, or the unspecified one.
    pub local: IpAddr,
    /// Peer, if connected.
    pub remote: Option<IpAddr>,
    /// The interface, where addresses mean something only with their link; else 0.
    pub zone: IfIndex,
    /// Readiness and queue.
    pub ready: Ready,
}

impl Sockets {
    /// Up to `limit` sockets from the place `from` on, and where the next page begins; `None` if nothing can follow. The
    /// first page begins at 0. One that stays is seen once, whatever comes and goes.
    #[must_use]
    pub fn page(&self, from: u32, limit: usize) -> (Vec<Listed>, Option<u32>) {
        let places = from..u32::try_from(self.places_end()).unwrap_or(u32::MAX);
        let found = places.filter_map(|at| self.at(at)).take(limit.max(1));
        let last = found.clone().last().map(|socket| socket.id.at + 1);
        let is_more = last.is_some_and(|next| (next as usize) < self.places_end());
        (found.map(Listed::of).collect(), last.filter(|_| is_more))
    }
}

impl Listed {
    fn of(socket: &Socket) -> Self {
        let (local, zone) = (socket.bound.addr.ip(), socket.bound.zone);
        Self { local, remote: socket.remote, zone, ready: socket.ready() }
    }
}
