//! Connections and sockets of TCP, UDP and ICMP: `netstat -a`, `netstat -L`.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Failure, Session};
use crate::api::client::escaped;
use crate::api::{
    Family, PacketSocket, ProgramSocket, ProgramSockets, RawSocket, RawSockets, TcpConnection,
    TcpConnections, TcpListener, TcpListeners, UdpSocket, UdpSockets,
};
use crate::show::sockets as show;

/// Page length: while entries are listed, no other request is served.
const PAGE: usize = 1000;

/// A protocol that has connections or sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    Icmp,
}

/// Which of them are shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Which {
    /// Listeners and unconnected sockets, too.
    pub(crate) all: bool,
    /// All that TCP knows of each connection.
    pub(crate) info: bool,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) family: Option<Family>,
}

/// A part of something, and where the next one begins.
trait Part: DeserializeOwned {
    type Row;
    fn open(self) -> (Vec<Self::Row>, Option<String>);
}

impl Part for TcpConnections {
    type Row = TcpConnection;
    fn open(self) -> (Vec<TcpConnection>, Option<String>) {
        (self.connections, self.next)
    }
}

impl Part for TcpListeners {
    type Row = TcpListener;
    fn open(self) -> (Vec<TcpListener>, Option<String>) {
        (self.listeners, self.next)
    }
}

impl Part for UdpSockets {
    type Row = UdpSocket;
    fn open(self) -> (Vec<UdpSocket>, Option<String>) {
        (self.sockets, self.next)
    }
}

impl Part for ProgramSockets {
    type Row = ProgramSocket;
    fn open(self) -> (Vec<ProgramSocket>, Option<String>) {
        (self.sockets, self.next)
    }
}

impl Part for RawSockets {
    type Row = RawSocket;
    fn open(self) -> (Vec<RawSocket>, Option<String>) {
        (self.sockets, self.next)
    }
}

/// Asks for part after part. `path` has a question mark.
fn each<P: Part>(
    path: &str,
    session: &mut Session<'_>,
    mut see: impl FnMut(Vec<P::Row>, &mut Session<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let first = format!("{path}limit={PAGE}");
    let mut path = first.clone();
    loop {
        let part: P = session.client.get(&path)?;
        let (rows, next) = part.open();
        see(rows, session)?;
        let Some(next) = next else { return Ok(()) };
        path = format!("{first}&after={}", escaped(&next));
    }
}

fn all<P: Part>(path: &str, session: &mut Session<'_>) -> Result<Vec<P::Row>, Failure> {
    let mut all = Vec::new();
    each::<P>(path, session, |rows, _| {
        all.extend(rows);
        Ok(())
    })?;
    Ok(all)
}

/// All connections, part after part.
pub(crate) fn connections(
    info: bool,
    session: &mut Session<'_>,
    see: impl FnMut(Vec<TcpConnection>, &mut Session<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    each::<TcpConnections>(&format!("/v1/tcp/connections?info={info}&"), session, see)
}

/// The programs of sockets; a stack without programs has none.
pub(crate) fn owners(session: &mut Session<'_>) -> show::Owners {
    show::Owners::new(all::<ProgramSockets>("/v1/programs/sockets?", session).unwrap_or_default())
}

#[derive(Serialize)]
struct Everything {
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_listeners: Option<Vec<TcpListener>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<Vec<TcpConnection>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp: Option<Vec<UdpSocket>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp: Option<Vec<RawSocket>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet: Option<Vec<PacketSocket>>,
}

impl Which {
    fn has(&self, protocol: Protocol) -> bool {
        self.protocol.is_none_or(|only| only == protocol)
    }

    fn is_of(&self, address: core::net::IpAddr) -> bool {
        self.family.is_none_or(|family| family == Family::of(address))
    }

    /// Returns the listeners, if they are to be shown. A listener of both families belongs to both.
    fn listeners(&self, session: &mut Session<'_>) -> Result<Option<Vec<TcpListener>>, Failure> {
        if !self.all || !self.has(Protocol::Tcp) {
            return Ok(None);
        }
        let mut found = all::<TcpListeners>("/v1/tcp/listeners?", session)?;
        found.retain(|listener| listener.bound.dual_stack || self.is_of(listener.bound.local));
        Ok(Some(found))
    }

    fn sockets(&self, session: &mut Session<'_>) -> Result<Option<Vec<UdpSocket>>, Failure> {
        if !self.has(Protocol::Udp) {
            return Ok(None);
        }
        let mut found = all::<UdpSockets>("/v1/udp/sockets?", session)?;
        found.retain(|socket| {
            let is_shown = self.all || socket.foreign.is_some();
            is_shown && (socket.bound.dual_stack || self.is_of(socket.bound.local))
        });
        Ok(Some(found))
    }

    fn raw_sockets(&self, session: &mut Session<'_>) -> Result<Option<Vec<RawSocket>>, Failure> {
        if !self.has(Protocol::Icmp) {
            return Ok(None);
        }
        let mut found = all::<RawSockets>("/v1/raw/sockets?", session)?;
        found.retain(|socket| (self.all || socket.foreign.is_some()) && self.is_of(socket.local));
        Ok(Some(found))
    }

    /// Returns the packet sockets, which are of no protocol and no family, if all sockets are to be shown.
    fn packet_sockets(&self, session: &Session<'_>) -> Result<Option<Vec<PacketSocket>>, Failure> {
        if !self.all || self.protocol.is_some() || self.family.is_some() {
            return Ok(None);
        }
        Ok(Some(session.client.get("/v1/packet/sockets")?))
    }

    pub(crate) fn show(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        if session.json {
            return self.show_json(session);
        }
        session.term.show(&show::head(self.all))?;
        let owners = owners(session);
        if let Some(listeners) = self.listeners(session)? {
            session.term.show(&show::listening(&listeners, &owners))?;
        }
        if self.has(Protocol::Tcp) {
            connections(self.info, session, |mut rows, session| {
                rows.retain(|row| self.is_of(row.ends.local));
                Ok(session.term.show(&show::connections(&rows, &owners))?)
            })?;
        }
        if let Some(sockets) = self.sockets(session)? {
            session.term.show(&show::udp(&sockets, &owners))?;
        }
        if let Some(sockets) = self.raw_sockets(session)? {
            session.term.show(&show::raw(&sockets))?;
        }
        if let Some(sockets) = self.packet_sockets(session)? {
            session.term.show(&show::packet(&sockets))?;
        }
        Ok(())
    }

    fn show_json(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        let tcp_listeners = self.listeners(session)?;
        let tcp = match self.has(Protocol::Tcp) {
            true => {
                Some(all::<TcpConnections>(&format!("/v1/tcp/connections?info={}&", self.info), session)?)
            }
            false => None,
        };
        let of_family = |rows: Vec<TcpConnection>| {
            rows.into_iter().filter(|row| self.is_of(row.ends.local)).collect::<Vec<_>>()
        };
        let (udp, icmp) = (self.sockets(session)?, self.raw_sockets(session)?);
        let packet = self.packet_sockets(session)?;
        let everything = Everything { tcp_listeners, tcp: tcp.map(of_family), udp, icmp, packet };
        session.show(&everything, |_| String::new())
    }
}

/// `-L`: the accept queues of listeners.
pub(crate) fn show_queues(family: Option<Family>, session: &mut Session<'_>) -> Result<(), Failure> {
    let which = Which { all: true, family, ..Which::default() };
    let listeners = which.listeners(session)?.unwrap_or_default();
    session.show(&listeners, |listeners| show::listen_queues(listeners))
}
