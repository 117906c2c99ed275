//! The interface between the admin API and TCP, UDP and ICMP.

use super::types::{
    Error, Group, PacketSocket, ProgramSockets, Programs, RawSockets, TcpConnections, TcpEnds, TcpListeners,
    UdpSockets,
};

/// Connections and sockets that can be looked at; a part of [`super::stack::Stack`].
///
/// Parts have `limit` entries, from where `after` points, which an earlier part has named. Whatever comes and goes between
/// two parts, an entry that stays is in one of them, and none is in two.
pub trait Sockets {
    /// A part of the connections, with all that is known of them if `info` is asked for.
    ///
    /// # Errors
    /// The netisrs do not answer, or `after` points nowhere.
    fn tcp_connections(
        &mut self,
        after: Option<&str>,
        limit: usize,
        info: bool,
    ) -> Result<TcpConnections, Error>;

    /// A part of the listeners.
    ///
    /// # Errors
    /// As for connections.
    fn tcp_listeners(&mut self, after: Option<&str>, limit: usize) -> Result<TcpListeners, Error>;

    /// A part of UDP's sockets.
    ///
    /// # Errors
    /// As for connections.
    fn udp_sockets(&mut self, after: Option<&str>, limit: usize) -> Result<UdpSockets, Error>;

    /// A part of the raw sockets.
    ///
    /// # Errors
    /// As for connections.
    fn raw_sockets(&mut self, after: Option<&str>, limit: usize) -> Result<RawSockets, Error>;

    /// The packet sockets: there are few.
    ///
    /// # Errors
    /// As for connections.
    fn packet_sockets(&mut self) -> Result<Vec<PacketSocket>, Error> {
        Ok(Vec::new())
    }

    /// The multicast groups that the host is in, link by link.
    ///
    /// # Errors
    /// As for connections.
    fn groups(&mut self) -> Result<Vec<Group>, Error>;

    /// Unmodified programs that have sockets; `None` if none are served.
    ///
    /// # Errors
    /// The thread that serves programs does not answer.
    fn programs(&mut self) -> Result<Option<Programs>, Error> {
        Ok(None)
    }

    /// A part of the sockets of programs.
    ///
    /// # Errors
    /// As for connections.
    fn program_sockets(&mut self, _after: Option<&str>, _limit: usize) -> Result<ProgramSockets, Error> {
        Ok(ProgramSockets::default())
    }

    /// Ends a connection here and now. The other end is told by a reset, and the program that holds it by an error.
    ///
    /// # Errors
    /// There is no such connection, or the netisrs do not answer.
    fn drop_connection(&mut self, ends: &TcpEnds) -> Result<(), Error>;
}
