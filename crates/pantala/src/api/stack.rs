//! The interface between the admin API and the stack.
//!
//! The server knows nothing else of the stack. The daemon implements this with messages to the netisrs, tests with
//! a few vectors.

use core::net::IpAddr;
use core::time::Duration;

use tokio::sync::mpsc;

use super::firewall::{Filter, FirewallSnapshot};
use super::sockets::Sockets;
use super::types::{
    CaptureBatch, CaptureRequest, ConfigEdits, Counters, Dhcp, Error, ErrorKind, Family, HttpListener,
    Interface, InterfaceChange, IpfixStatus, Latencies, Learned, LearnedLink, Monitored, Neighbour,
    NeighbourRequest, Netisr, OffloadedFlow, Pool, ReloadRequest, Reloaded, Ring, RingChange, Route,
    RouteAnswer, RouteEdit, RoutePage, RouteSource, RunningConfiguration, SflowStatus, StackChange, Sysctl,
    SysctlChange, SysctlChanged, TraceBatch, TraceRequest, WhyAnswer, WhyRequest,
};
use crate::Mac;
use crate::serve::Hit;

/// A web server, to be looked at.
pub struct Web<'a> {
    /// Its address and port.
    pub(crate) at: String,
    /// Returns the count of an event.
    pub(crate) count: Box<dyn Fn(Hit) -> u64 + 'a>,
}

/// All that a scrape shows.
pub struct Snapshot {
    /// Interfaces, without their addresses and groups.
    pub(crate) interfaces: Vec<Interface>,
    /// The netisrs.
    pub(crate) netisrs: Vec<Netisr>,
    /// Every counter and every drop reason.
    pub(crate) counters: Counters,
    /// The packet buffers.
    pub(crate) pools: Vec<Pool>,
    /// The firewall.
    pub(crate) firewall: FirewallSnapshot,
}

/// A stack that can be looked at and changed.
///
/// All methods are called on the control thread, one at a time, and should answer within milliseconds: while one
/// runs, no other request is served. None may touch what a netisr owns except by a message to it.
pub trait Stack: Filter + Sockets + Send {
    /// Returns when no driver forwards packets by a decision that was made before, whatever has been changed.
    fn retire_offloaded(&mut self) {}

    /// All interfaces, in the order of their index.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn interfaces(&mut self) -> Result<Vec<Interface>, Error>;

    /// All that a scrape shows. A stack whose netisrs write it down answers with that, and asks none of them.
    ///
    /// # Errors
    /// The netisrs were asked, and do not answer.
    fn snapshot(&mut self) -> Result<Snapshot, Error> {
        Ok(Snapshot {
            interfaces: self.interfaces()?,
            netisrs: self.netisrs()?,
            counters: self.counters()?,
            pools: self.pools()?,
            firewall: FirewallSnapshot {
                status: self.firewall_status()?,
                rules: self.firewall_rules()?,
                nat: self.firewall_nat()?,
                nat64: self.firewall_nat64()?,
                shapes: self.firewall_shapes()?,
            },
        })
    }

    /// The web servers that run here.
    fn webs(&mut self) -> Vec<Web<'_>> {
        Vec::new()
    }

    /// The HTTP listener, if there is one.
    fn http(&mut self) -> Option<HttpListener> {
        None
    }

    /// The exporter of flows, if there is one.
    fn ipfix(&mut self) -> Option<IpfixStatus> {
        None
    }

    /// The exporter of samples, if there is one.
    fn sflow(&mut self) -> Option<SflowStatus> {
        None
    }

    /// Changes an interface.
    ///
    /// # Errors
    /// There is no such interface, or its device refuses.
    fn change_interface(&mut self, name: &str, change: &InterfaceChange) -> Result<(), Error>;

    /// All rings, by interface and number.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn rings(&mut self) -> Result<Vec<Ring>, Error>;

    /// Moves a ring to another CPU while packets flow. No packet is lost.
    ///
    /// # Errors
    /// There is no such interface, ring or CPU, or the CPU has no buffers for another ring.
    fn move_ring(&mut self, interface: &str, ring: u32, change: RingChange) -> Result<(), Error>;

    /// Returns the latencies that each interface in monitor mode has measured.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn latencies(&mut self) -> Result<Vec<Latencies>, Error> {
        Ok(Vec::new())
    }

    /// Returns the measurements of an interface in monitor mode.
    ///
    /// # Errors
    /// There is no such interface, or it does not monitor.
    fn monitored(&mut self, name: &str) -> Result<Monitored, Error>;

    /// A part of the routes, IPv4 first, in the order of their prefix.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn routes(&mut self, page: &RoutePage) -> Result<Vec<Route>, Error>;

    /// The route that a packet from here to `to` would take.
    ///
    /// # Errors
    /// No route leads there.
    fn route_to(&mut self, fib: u8, to: IpAddr) -> Result<RouteAnswer, Error>;

    /// Changes the table, one edit after the other, and answers what became of each. An edit that is refused changes
    /// nothing, and the others are made all the same. That targets are given as they should be has been checked.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn edit_routes(&mut self, edits: &[RouteEdit]) -> Result<Vec<Result<(), Error>>, Error>;

    /// Removes all routes of a family, or of both, that do not follow from addresses; says how many there were.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn flush_routes(&mut self, fib: u8, family: Option<Family>) -> Result<u64, Error>;

    /// All neighbours of all CPUs, one entry for each address and interface.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn neighbours(&mut self) -> Result<Vec<Neighbour>, Error>;

    /// Makes a permanent entry, replacing what was known.
    ///
    /// # Errors
    /// The address is not on a link.
    fn set_neighbour(&mut self, address: IpAddr, request: &NeighbourRequest) -> Result<(), Error>;

    /// Forgets a neighbour, permanent or learnt.
    ///
    /// # Errors
    /// It is not known.
    fn delete_neighbour(&mut self, address: IpAddr) -> Result<(), Error>;

    /// Forgets all learnt neighbours of a family; says how many there were.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn flush_neighbours(&mut self, family: Family) -> Result<u64, Error>;

    /// Forgets a link address that an interface has learnt, or all of them; returns how many.
    ///
    /// # Errors
    /// No such interface or address; the address is static; the netisrs do not answer.
    fn forget_stations(&mut self, interface: &str, mac: Option<Mac>) -> Result<u64, Error>;

    /// Returns the links of `autoconf` interfaces, as router advertisements describe them.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn links(&mut self) -> Result<Vec<LearnedLink>, Error>;

    /// Forgets default routers or prefixes that router advertisements have brought; returns how many.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn forget_learned(&mut self, what: Learned) -> Result<u64, Error>;

    /// Flows that drivers forward, as many of each CPU as `limit`.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn offloaded(&mut self, limit: usize) -> Result<Vec<OffloadedFlow>, Error> {
        _ = limit;
        Ok(Vec::new())
    }

    /// Returns the DHCP servers with their leases, and the clients.
    ///
    /// # Errors
    /// None is expected.
    fn dhcp(&mut self) -> Result<Dhcp, Error> {
        Ok(Dhcp::default())
    }

    /// Returns the sources of routes.
    ///
    /// # Errors
    /// None is expected.
    fn route_sources(&mut self) -> Result<Vec<RouteSource>, Error> {
        Ok(Vec::new())
    }

    /// Returns the netisrs and their counters.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn netisrs(&mut self) -> Result<Vec<Netisr>, Error>;

    /// The packet buffers.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn pools(&mut self) -> Result<Vec<Pool>, Error>;

    /// Every counter and every drop reason, also those that are zero.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn counters(&mut self) -> Result<Counters, Error>;

    /// All variables, by name.
    ///
    /// # Errors
    /// None that is known.
    fn sysctls(&mut self) -> Result<Vec<Sysctl>, Error>;

    /// Gives a variable another value on all CPUs, while packets flow.
    ///
    /// # Errors
    /// There is no such variable, it cannot have this value, or the netisrs do not answer.
    fn change_sysctl(&mut self, name: &str, change: &SysctlChange) -> Result<SysctlChanged, Error>;

    /// Sends one echo request. What comes back for it is sent to `answers` (which holds a bounded number and may be
    /// closed; both are to be ignored), until the stack gives the request up after [`Echo::timeout`].
    ///
    /// # Errors
    /// It cannot be sent: no route, no such source address, too large.
    fn echo(&mut self, echo: &Echo, answers: mpsc::Sender<EchoAnswer>) -> Result<(), Error>;

    /// Begins to copy packets into buffers of the netisrs; answers the number of the capture.
    ///
    /// # Errors
    /// There is no such interface, the filter cannot be run, too many captures run, or the netisrs do not answer.
    fn begin_capture(&mut self, _request: &CaptureRequest) -> Result<u32, Error> {
        Err(Error::new(ErrorKind::Unsupported, "this stack captures no packets"))
    }

    /// Returns what was captured since the last call. What buffers had no room for meanwhile is lost, and counted.
    ///
    /// # Errors
    /// There is no such capture, or the netisrs do not answer.
    fn read_capture(&mut self, _capture: u32) -> Result<CaptureBatch, Error> {
        Err(Error::new(ErrorKind::NotFound, "there is no such capture"))
    }

    /// Ends a capture, if it is there.
    fn end_capture(&mut self, _capture: u32) {}

    /// Returns the way that a packet would take, which is not sent, and leaves nothing behind.
    ///
    /// # Errors
    /// There is no such interface, no such packet, no free buffer, or the netisrs do not answer.
    fn why(&mut self, _request: &WhyRequest) -> Result<WhyAnswer, Error> {
        Err(Error::new(ErrorKind::Unsupported, "this stack cannot be asked about packets"))
    }

    /// Begins to trace packets.
    ///
    /// # Errors
    /// The filter cannot be run, packets are being traced already, or the netisrs do not answer.
    fn begin_trace(&mut self, _request: &TraceRequest) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unsupported, "this stack traces no packets"))
    }

    /// Returns the packets that were traced since the last call.
    ///
    /// # Errors
    /// No packets are being traced, or the netisrs do not answer.
    fn read_trace(&mut self) -> Result<TraceBatch, Error> {
        Err(Error::new(ErrorKind::NotFound, "no packets are being traced"))
    }

    /// Ends tracing.
    fn end_trace(&mut self) {}

    /// Begins to note changes for a reader; answers its number.
    ///
    /// # Errors
    /// Limit of readers reached, or the netisrs do not answer.
    fn begin_changes(&mut self) -> Result<u32, Error> {
        Err(Error::new(ErrorKind::Unsupported, "this stack tells no changes"))
    }

    /// Returns the changes since the last call. What the reader's queue had no room for is lost, and counted.
    ///
    /// # Errors
    /// There is no such reader, or the netisrs do not answer.
    fn read_changes(&mut self, _reader: u32) -> Result<Vec<StackChange>, Error> {
        Err(Error::new(ErrorKind::NotFound, "there is no such reader"))
    }

    /// Forgets a reader, if it is there.
    fn end_changes(&mut self, _reader: u32) {}

    /// Reads the configuration again and changes what differs, without dropping a packet.
    ///
    /// # Errors
    /// The configuration is wrong, and nothing was changed; or a change failed.
    fn reload(&mut self) -> Result<Reloaded, Error>;

    /// Reads the configuration again, to be rolled back unless it is confirmed; or confirms that.
    ///
    /// # Errors
    /// As [`Self::reload`]; or nothing waits for a confirmation.
    fn reload_with(&mut self, request: &ReloadRequest) -> Result<Reloaded, Error> {
        if *request == ReloadRequest::default() { self.reload() } else { Err(no_running()) }
    }

    /// The running configuration.
    ///
    /// # Errors
    /// The stack was not started from a file.
    fn configuration(&mut self) -> Result<RunningConfiguration, Error> {
        Err(no_running())
    }

    /// Changes the running configuration, as a whole or not at all.
    ///
    /// # Errors
    /// A change does not fit, and nothing was changed; or it failed.
    fn edit_configuration(&mut self, _edits: &ConfigEdits) -> Result<Reloaded, Error> {
        Err(no_running())
    }

    /// Notes that the running configuration was written to its file.
    ///
    /// # Errors
    /// The stack was not started from a file.
    fn configuration_saved(&mut self) -> Result<(), Error> {
        Err(no_running())
    }

    /// Takes the last changes of the configuration back.
    ///
    /// # Errors
    /// There are not so many, or they cannot be taken back; nothing was changed.
    fn undo_configuration(&mut self, _count: u32) -> Result<Reloaded, Error> {
        Err(no_running())
    }
}

fn no_running() -> Error {
    Error::new(ErrorKind::Unsupported, "this stack has no running configuration")
}

/// One echo request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Echo {
    /// Destination.
    pub to: IpAddr,
    /// The address to send from.
    pub source: Option<IpAddr>,
    /// Tells the requests of one ping from those of another.
    pub ident: u16,
    /// Number of the request within its ping.
    pub seq: u32,
    /// Bytes of data.
    pub bytes: u16,
    /// The time to live or hop limit.
    pub ttl: Option<u8>,
    /// Whether routers must not fragment it.
    pub dont_fragment: bool,
    /// The routing table.
    pub fib: u8,
    /// Time limit of replies.
    pub timeout: Duration,
}

/// The reply to an [`Echo`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EchoAnswer {
    /// [`Echo::seq`] of the request (all of it, not only the 16 bits on the wire).
    pub seq: u32,
    /// Its sender.
    pub from: IpAddr,
    /// Its kind.
    pub kind: EchoAnswerKind,
}

/// The kind of reply to an [`Echo`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EchoAnswerKind {
    /// An echo reply.
    Reply {
        /// Bytes of the ICMP message.
        bytes: u32,
        /// The time to live or hop limit that was left.
        ttl: u8,
        /// There and back, as the netisr's clock saw it.
        rtt: Duration,
    },
    /// An ICMP error, in words.
    Unreachable(String),
}
