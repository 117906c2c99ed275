//! Sockets of datagrams of programs on netisrs.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::sync::{Mutex, MutexGuard};

use net::app::AppContext;
use net::sock::Error;
use net::udp::{self, Id, Received};
use pantala::sockets::io_error;
use rustix::io::Errno;

use super::{Agents, Netisrs};
use crate::sockets::datagram_api::{Datagrams, Socket};
use crate::sockets::hosts::{Opt, prepare_udp};
use crate::sockets::timeout::Patience;

/// Sockets of one address, on all CPUs; or one, on the CPU of its peer.
pub(crate) struct Dgram {
    agents: Agents,
    key: u32,
    is: Mutex<Is>,
    patience: Patience,
}

struct Is {
    /// The bound address.
    place: SocketAddr,
    /// From where it speaks.
    local: SocketAddr,
    peer: Option<SocketAddr>,
    /// On each CPU where there is one.
    ids: Vec<(usize, Id)>,
    settings: udp::Settings,
}

impl Dgram {
    pub(crate) fn bind(agents: &Agents, place: SocketAddr, opts: &[Opt]) -> io::Result<Self> {
        let mut settings = settings();
        prepare_udp(opts, &mut settings);
        let is = Mutex::new(Is { place, local: place, peer: None, ids: Vec::new(), settings });
        let (agents, key) = (agents.clone(), agents.told.name());
        // What stands already is given up if another CPU cannot.
        let socket = Self { agents, key, is, patience: Patience::default() };
        for cpu in 0..socket.agents.cpus() {
            let addr = socket.is().local;
            let wanted = udp::Bind { addr, zone: 0, only_v6: false, is_shared: false, settings };
            let bound = socket.agents.ask(cpu, move |cx| {
                let id = udp::bind(cx.cpu, &wanted)?;
                cx.hold(id, key);
                Ok((id, udp::local(cx.cpu, id).unwrap()))
            });
            let (id, at) = bound.map_err(io_error)?;
            let mut is = socket.is();
            is.ids.push((cpu, id));
            (is.place, is.local) = (at, at);
        }
        Ok(socket)
    }

    fn is(&self) -> MutexGuard<'_, Is> {
        self.is.lock().unwrap()
    }

    /// Where it sends from: always the same, so that what is sent stays in its order.
    fn home(&self) -> (usize, Id) {
        self.is().ids[0]
    }

    /// Speaks with one other end, on the CPU that says it is its own.
    fn speak(&self, remote: SocketAddr) -> Result<(), Error> {
        let Is { place, settings, .. } = *self.is();
        let (key, port) = (self.key, Some(place.port()));
        let local = Some(place.ip()).filter(|local| !local.is_unspecified());
        let wanted = udp::Connect { remote, local, port, zone: 0, settings };
        let begin = |cpu| {
            self.agents.ask(cpu, move |cx| {
                let id = udp::connect(cx.cpu, &wanted)?;
                cx.hold(id, key);
                Ok((id, udp::local(cx.cpu, id).unwrap()))
            })
        };
        let (cpu, (id, at)) = match begin(0) {
            Err(Error::Elsewhere(cpu)) => (cpu.index(), begin(cpu.index())?),
            begun => (0, begun?),
        };
        let now = Is { place, local: at, peer: Some(remote), ids: vec![(cpu, id)], settings };
        let before = core::mem::replace(&mut *self.is(), now);
        self.close(before.ids);
        Ok(())
    }

    /// Changes how it behaves, wherever it is.
    pub(crate) fn change(&self, what: impl FnOnce(&mut udp::Settings)) {
        what(&mut self.is().settings);
        let settings = self.is().settings;
        self.on_each(move |cx, id| udp::change(cx.cpu, id, |is| *is = settings)).unwrap();
    }

    /// Does the same on each CPU where it is.
    pub(crate) fn on_each(
        &self,
        what: impl Fn(&mut AppContext<'_>, Id) -> Result<(), Error> + Clone + Send + 'static,
    ) -> Result<(), Error> {
        let ids = self.is().ids.clone();
        ids.into_iter().try_for_each(|(cpu, id)| {
            let what = what.clone();
            self.agents.ask(cpu, move |cx| what(cx, id))
        })
    }

    fn close(&self, ids: Vec<(usize, Id)>) {
        for (cpu, id) in ids {
            self.agents.ask(cpu, move |cx| udp::close(cx.cpu, id)).unwrap();
        }
    }

    /// Shows the next datagram, of whichever CPU; whether it is gone then says `takes`.
    fn next(&self, into: &mut [u8], takes: bool) -> io::Result<(usize, SocketAddr)> {
        self.agents.patiently(self.key, &self.patience, || {
            let ids = self.is().ids.clone();
            let show =
                move |received: &Received, pieces: [&[u8]; 2]| (takes, (pieces.concat(), received.from));
            let mut come = ids
                .into_iter()
                .map(|(cpu, id)| self.agents.ask(cpu, move |cx| udp::read_in_place(cx.cpu, id, show)));
            let come = come.find(|come| !matches!(come, Err(Error::WouldBlock)));
            let (bytes, from) = come.unwrap_or(Err(Error::WouldBlock)).map_err(io_error)?;
            let count = bytes.len().min(into.len());
            into[..count].copy_from_slice(&bytes[..count]);
            Ok((count, from))
        })
    }
}

impl Drop for Dgram {
    fn drop(&mut self) {
        let ids = core::mem::take(&mut self.is().ids);
        self.close(ids);
        self.agents.told.forget(self.key);
    }
}

/// Buffer sizes as with the sockets of threads.
fn settings() -> udp::Settings {
    udp::Settings { queue_bytes: 212_992, ..udp::Settings::default() }
}

impl Socket for Dgram {
    fn addr(&self) -> SocketAddr {
        self.is().local
    }

    fn peer(&self) -> io::Result<SocketAddr> {
        self.is().peer.ok_or_else(|| io_error(Error::NotConnected))
    }

    fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.speak(to).map_err(io_error)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let ((cpu, id), sent) = (self.home(), bytes.to_vec());
        match self.agents.ask(cpu, move |cx| udp::send(cx.cpu, id, &sent)) {
            Err(Error::NotConnected) => Err(Errno::DESTADDRREQ.into()),
            done => done.map(|()| bytes.len()).map_err(io_error),
        }
    }

    fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        let ((cpu, id), sent) = (self.home(), bytes.to_vec());
        let done = self.agents.ask(cpu, move |cx| udp::send_to(cx.cpu, id, to, &sent));
        done.map(|()| bytes.len()).map_err(io_error)
    }

    fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.next(into, true)
    }

    fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.next(into, false)
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.patience.set_timeout(timeout).unwrap();
    }

    fn set_nonblocking(&self, nonblocking: bool) {
        self.patience.set_nonblocking(nonblocking);
    }

    fn take_error(&self) -> Option<io::Error> {
        let (cpu, id) = self.home();
        self.agents.ask(cpu, move |cx| udp::failure(cx.cpu, id)).map(|failure| io_error(failure.error))
    }
}

impl Datagrams for Netisrs {
    type Socket = Dgram;

    fn bind_udp(&self, addr: SocketAddr) -> io::Result<Dgram> {
        Dgram::bind(&self.server, addr, &[])
    }

    fn client_udp(&self, addr: SocketAddr) -> io::Result<Dgram> {
        Dgram::bind(&self.client, addr, &[])
    }
}
