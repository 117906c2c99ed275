//! Sockets of UDP.

use core::net::SocketAddr;

use net::sock::Error;
use net::udp::{self, Bind, Connect, Id};

use super::super::errno::Errno;
use super::super::lab::Lab;
use super::super::options::Value;
use super::super::program::Outcome;
use super::{CallFlags, Read, Readiness};

/// Bytes of the longest datagram.
const LEN_MAX: usize = 1 << 16;

/// A socket of UDP: on each CPU, unless it is connected.
pub(super) struct Datagrams {
    /// Calls that would have to wait fail.
    pub(super) is_nonblocking: bool,
    bound: Option<SocketAddr>,
    places: Vec<(usize, Id)>,
    is_connected: bool,
    settings: udp::Settings,
}

impl Datagrams {
    /// One that is nothing yet.
    pub(super) fn new(is_nonblocking: bool) -> Self {
        let settings = udp::Settings::default();
        Self { is_nonblocking, bound: None, places: Vec::new(), is_connected: false, settings }
    }

    /// Takes a place on each CPU.
    pub(super) fn bind(&mut self, lab: &mut Lab, mut addr: SocketAddr) -> Result<(), Errno> {
        if !self.places.is_empty() {
            return Err(Errno("EINVAL"));
        }
        let settings = self.settings;
        for cpu in 0..lab.cpus() {
            let bound = lab.call(cpu, move |netisr| {
                let id = udp::bind(
                    &mut netisr.cpu,
                    &Bind { addr, zone: 0, only_v6: false, is_shared: false, settings },
                )?;
                Ok((id, udp::local(&netisr.cpu, id).unwrap_or(addr)))
            });
            match bound.unwrap_or(Err(Error::NoBuffer)) {
                // The first has drawn the port, if none was named.
                Ok((id, drawn)) => {
                    addr = drawn;
                    self.places.push((cpu, id));
                }
                Err(error) => {
                    self.leave(lab);
                    return Err(error.into());
                }
            }
        }
        self.bound = Some(addr);
        Ok(())
    }

    /// Speaks with one other end from now on.
    pub(super) fn connect(&mut self, lab: &mut Lab, remote: SocketAddr) -> Result<(), Errno> {
        self.leave(lab);
        let local = self.bound.map(|bound| bound.ip()).filter(|ip| !ip.is_unspecified());
        let port = self.bound.map(|bound| bound.port());
        let connect = Connect { remote, local, port, zone: 0, settings: self.settings };
        let mut cpu = lab.cpus() - 1;
        for _ in 0..2 {
            match lab.call(cpu, move |netisr| udp::connect(&mut netisr.cpu, &connect)) {
                Some(Ok(id)) => {
                    self.places = vec![(cpu, id)];
                    self.is_connected = true;
                    return Ok(());
                }
                Some(Err(Error::Elsewhere(owner))) => cpu = owner.index(),
                Some(Err(error)) => return Err(error.into()),
                None => break,
            }
        }
        Err(Errno("ENOBUFS"))
    }

    /// Sends a datagram.
    pub(super) fn send(
        &mut self,
        lab: &mut Lab,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> Result<usize, Errno> {
        if self.places.is_empty()
            && let Some(to) = to
        {
            let anywhere = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
            self.bind(lab, anywhere.parse().map_err(|_| Errno("EINVAL"))?)?;
        }
        if to.is_none() && !self.is_connected {
            return Err(Errno("EDESTADDRREQ"));
        }
        let (cpu, id) = *self.places.first().ok_or(Errno("EDESTADDRREQ"))?;
        let (len, bytes) = (bytes.len(), bytes.to_vec());
        let sent = lab.call(cpu, move |netisr| match to {
            Some(to) => udp::send_to(&mut netisr.cpu, id, to, &bytes),
            None => udp::send(&mut netisr.cpu, id, &bytes),
        });
        sent.unwrap_or(Err(Error::NoBuffer)).map(|()| len).map_err(Errno::from)
    }

    /// Reads a datagram, and drops what of it there is no room for.
    pub(super) fn receive(&self, lab: &mut Lab, len: usize, how: CallFlags) -> Outcome<Read> {
        for (cpu, id) in self.places.clone() {
            let received = lab.call(cpu, move |netisr| {
                udp::read_in_place(&mut netisr.cpu, id, |received, pieces| {
                    let mut bytes = pieces.concat();
                    bytes.truncate(len.min(LEN_MAX));
                    (!how.is_peek, Read { bytes, len: received.len, from: Some(received.from) })
                })
            });
            match received {
                Some(Ok(read)) => return Outcome::Done(Ok(read)),
                Some(Err(Error::WouldBlock)) => {}
                Some(Err(error)) => return Outcome::Done(Err(error.into())),
                None => return Outcome::fails("ENOBUFS"),
            }
        }
        if self.is_nonblocking { Outcome::fails("EWOULDBLOCK") } else { Outcome::Waits }
    }

    /// Bytes of the next datagram; 0 without one.
    pub(super) fn next_len(&self, lab: &mut Lab) -> usize {
        let len = |(cpu, id)| {
            let tx_params = move |netisr: &mut net::netisr::Netisr| {
                udp::read_in_place(&mut netisr.cpu, id, |received, _| (false, received.len))
            };
            lab.call(cpu, tx_params).and_then(Result::ok)
        };
        self.places.iter().copied().find_map(len).unwrap_or(0)
    }

    /// Returns what it could do now.
    pub(super) fn readiness(&self, lab: &mut Lab) -> Readiness {
        let ready = |(cpu, id): (usize, _)| lab.call(cpu, move |netisr| udp::ready(&netisr.cpu, id));
        let all: Vec<_> = self.places.iter().copied().filter_map(ready).collect();
        Readiness {
            readable: all.iter().any(|ready| ready.readable),
            writable: true,
            error: self.is_connected && all.iter().any(|ready| ready.failures > 0),
            ..Readiness::default()
        }
    }

    /// Sets an option.
    pub(super) fn set_option(&mut self, lab: &mut Lab, name: &'static str, value: i64) -> Result<(), Errno> {
        let byte = u8::try_from(value).map_err(|_| Errno("EINVAL"));
        match name {
            "IP_TTL" | "IPV6_UNICAST_HOPS" => self.settings.tx_params.hops = byte?,
            "IP_TOS" | "IPV6_TCLASS" => self.settings.tx_params.class = byte?,
            "SO_BROADCAST" => self.settings.may_broadcast = value != 0,
            "SO_RCVBUF" => self.settings.queue_bytes = usize::try_from(value).unwrap_or(0),
            "SO_REUSEADDR" => {}
            _ => return Err(Errno("ENOPROTOOPT")),
        }
        let settings = self.settings;
        for (cpu, id) in self.places.iter().copied() {
            let change = move |netisr: &mut net::netisr::Netisr| {
                udp::change(&mut netisr.cpu, id, |now| *now = settings)
            };
            lab.call(cpu, change).unwrap_or(Err(Error::NoBuffer))?;
        }
        Ok(())
    }

    /// Reads an option.
    pub(super) fn option(&self, lab: &mut Lab, name: &str) -> Result<Value, Errno> {
        Ok(Value::Number(match name {
            "SO_ERROR" => return Ok(Value::Error(self.take_error(lab))),
            "IP_TTL" | "IPV6_UNICAST_HOPS" => self.settings.tx_params.hops.into(),
            "IP_TOS" | "IPV6_TCLASS" => self.settings.tx_params.class.into(),
            "SO_BROADCAST" => self.settings.may_broadcast.into(),
            "SO_RCVBUF" => i64::try_from(self.settings.queue_bytes).unwrap_or(i64::MAX),
            "SO_REUSEADDR" => 0,
            _ => return Err(Errno("ENOPROTOOPT")),
        }))
    }

    fn take_error(&self, lab: &mut Lab) -> Option<Errno> {
        let failure = |(cpu, id)| lab.call(cpu, move |netisr| udp::failure(&mut netisr.cpu, id)).flatten();
        self.places.iter().copied().find_map(failure).map(|failure| failure.error.into())
    }

    /// Disconnects: any peer from now on.
    pub(super) fn disconnect(&mut self, lab: &mut Lab) -> Result<(), Errno> {
        self.leave(lab);
        self.bound.take().map_or(Ok(()), |addr| self.bind(lab, addr))
    }

    fn leave(&mut self, lab: &mut Lab) {
        for (cpu, id) in self.places.drain(..) {
            // One that is not there any more is as good as closed.
            lab.call(cpu, move |netisr| _ = udp::close(&mut netisr.cpu, id));
        }
        self.is_connected = false;
    }

    /// Gives it up.
    pub(super) fn close(mut self, lab: &mut Lab) {
        self.leave(lab);
    }
}
