//! Short connections between sockets of the crate `smoltcp`, both ends in one of its interfaces, on its own loopback device, which
//! neither computes checksums nor verifies them.
//!
//! Of a connection that waits for what is under way to die out it is made a new socket at once: there would be no other
//! way to more than a few connections a second.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use dev::sys::affinity;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Loopback, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant as Moment;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use super::client::Seen;
use super::memory::Rate;
use super::{ANSWER, Behind, PORT, QUESTION};
use crate::clock::cpu_time;

/// The address of both ends.
const HOST: IpAddress = IpAddress::v4(127, 0, 0, 1);
/// Where local ports begin, and how many there are.
const PORTS: (u16, u16) = (10_000, 50_000);
/// Bytes that wait at the end that asks, and at the one that answers, of each direction.
const LONG: usize = 2048;
const SHORT: usize = 128;

/// Sockets in pairs.
pub struct Other {
    interface: Interface,
    device: Loopback,
    sockets: SocketSet<'static>,
    servers: Vec<SocketHandle>,
    clients: Vec<(SocketHandle, Talk)>,
    behind: Behind,
    port: u16,
    seen: Seen,
}

#[derive(Clone, Copy)]
struct Talk {
    since: Duration,
    is_asked: bool,
    got: usize,
}

impl Other {
    /// Makes a number of concurrent connections.
    ///
    /// # Errors
    ///
    /// None is expected.
    pub fn new(concurrent: usize, behind: Behind) -> Result<Self> {
        let mut device = Loopback::new(Medium::Ip);
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut device, Moment::ZERO);
        interface.update_ip_addrs(|addrs| _ = addrs.push(IpCidr::new(HOST, 8)));
        let mut sockets = SocketSet::new(Vec::new());
        let servers = (0..concurrent).map(|_| sockets.add(listening())).collect();
        let talk = Talk { since: Duration::ZERO, is_asked: false, got: 0 };
        let clients = (0..concurrent).map(|_| (sockets.add(socket(LONG, SHORT)), talk)).collect();
        Ok(Self { interface, device, sockets, servers, clients, behind, port: 0, seen: Seen::default() })
    }

    /// One look at everything.
    ///
    /// # Errors
    ///
    /// When a connection cannot begin.
    pub fn turn(&mut self, now: Duration) -> Result<()> {
        let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        self.interface.poll(Moment::from_micros(micros), &mut self.device, &mut self.sockets);
        self.servers.iter().for_each(|at| serve(self.sockets.get_mut(*at), self.behind));
        (0..self.clients.len()).try_for_each(|at| self.ask(at, now))
    }

    fn ask(&mut self, at: usize, now: Duration) -> Result<()> {
        let (handle, talk) = &mut self.clients[at];
        let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
        if !socket.is_open() {
            self.port = (self.port + 1) % PORTS.1;
            self.seen.begun += 1;
            *talk = Talk { since: now, is_asked: false, got: 0 };
            let begun = socket.connect(self.interface.context(), (HOST, PORT), PORTS.0 + self.port);
            return begun.map_err(|error| anyhow!("{error}"));
        }
        if !talk.is_asked && socket.can_send() {
            talk.is_asked = socket.send_slice(&[b'q'; QUESTION]).is_ok();
        }
        if socket.can_recv() {
            talk.got += socket.recv(|bytes| (bytes.len(), bytes.len())).unwrap_or(0);
        }
        if talk.got >= ANSWER {
            self.seen.answered += 1;
            let took = u64::try_from((now - talk.since).as_nanos()).unwrap_or(u64::MAX);
            self.seen.latency.saturating_record(took);
            *talk = Talk { since: now, is_asked: self.behind == Behind::Close, got: 0 };
        }
        if !socket.may_recv() && socket.may_send() && talk.is_asked {
            socket.close();
        }
        Ok(())
    }

    fn run(&mut self, began: Instant, until: Duration) -> Result<()> {
        while began.elapsed() < until {
            self.turn(began.elapsed())?;
        }
        Ok(())
    }

    /// Answers that came since this was asked last.
    pub fn answered(&mut self) -> usize {
        core::mem::take(&mut self.seen.answered)
    }

    /// Returns and resets the results.
    pub fn seen(&mut self) -> Seen {
        core::mem::take(&mut self.seen)
    }
}

fn socket(receives: usize, sends: usize) -> Socket<'static> {
    Socket::new(SocketBuffer::new(vec![0; receives]), SocketBuffer::new(vec![0; sends]))
}

fn listening() -> Socket<'static> {
    let mut socket = socket(SHORT, LONG);
    // Of a new socket it is not refused.
    let _ = socket.listen(PORT);
    socket
}

fn serve(socket: &mut Socket<'static>, behind: Behind) {
    if matches!(socket.state(), State::TimeWait | State::Closed) {
        *socket = listening();
        return;
    }
    if socket.recv_queue() >= QUESTION && socket.can_send() {
        let _ = socket.recv(|_| (QUESTION, ()));
        let _ = socket.send_slice(&[b'a'; ANSWER]);
        if behind == Behind::Close {
            socket.close();
        }
    }
}

/// One thread for both ends, on this processor.
///
/// # Errors
///
/// When connections fail.
pub fn together(concurrent: usize, behind: Behind, processor: usize, time: Duration) -> Result<Rate> {
    affinity::pin_to(processor)?;
    let mut other = Other::new(concurrent, behind)?;
    let began = Instant::now();
    other.run(began, time / 4)?;
    other.seen();
    let (since, worked) = (began.elapsed(), cpu_time());
    other.run(began, since + time)?;
    let seen = other.seen();
    ensure!(seen.answered > 0, "no answer comes");
    super::memory::rate(seen, began.elapsed() - since, cpu_time() - worked)
}
