//! Programs on the netisrs of two stacks.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;

use net::group::Filter;
use net::tcp::settings::{Change, Settings};
use net::tcp::{self, IpTxParams};
use net::udp;
use pantala::sockets::io_error;

use super::{Group, Host, Hosts, Link, Opt, Seen};
use crate::sockets::netisr::{Dgram, Listener, Netisrs, Stream};
use crate::sockets::socket_api::{Stacks, Terms};

/// An event of a connection.
enum Reply {
    Changes(Vec<Change>),
    Hops(u8),
    Class(u8),
}

impl Reply {
    fn of(opt: Opt) -> Self {
        Self::Changes(match opt {
            Opt::NoDelay(on) => vec![Change::NoDelay(on)],
            Opt::KeepAlive(None) => vec![Change::KeepAlive(false)],
            Opt::KeepAlive(Some(keep)) => vec![
                Change::KeepIdle(keep.idle),
                Change::KeepInterval(keep.interval),
                Change::KeepCount(keep.count),
                Change::KeepAlive(true),
            ],
            Opt::SendBuffer(bytes) => vec![Change::SendBuffer(bytes)],
            Opt::RecvBuffer(bytes) => vec![Change::ReceiveBuffer(bytes)],
            Opt::Ttl(ttl) => return Self::Hops(ttl),
            Opt::Tos(tos) => return Self::Class(tos),
        })
    }
}

/// Applies options to settings of a new connection, or of a listener.
pub(crate) fn prepare(opts: &[Opt], settings: &mut Settings, tx_params: &mut IpTxParams) {
    for opt in opts {
        match Reply::of(*opt) {
            Reply::Changes(changes) => changes.into_iter().for_each(|change| settings.take(change)),
            Reply::Hops(hops) => tx_params.hops = hops,
            Reply::Class(class) => tx_params.class = class,
        }
    }
}

/// And of a socket of datagrams.
pub(crate) fn prepare_udp(opts: &[Opt], settings: &mut udp::Settings) {
    for opt in opts {
        match *opt {
            Opt::Ttl(ttl) => settings.tx_params.hops = ttl,
            Opt::Tos(tos) => settings.tx_params.class = tos,
            Opt::RecvBuffer(bytes) => settings.queue_bytes = bytes as usize,
            Opt::NoDelay(_) | Opt::KeepAlive(_) | Opt::SendBuffer(_) => unreachable!(),
        }
    }
}

impl Netisrs {
    /// Two hosts of which the first is watched.
    pub(crate) fn apart() -> Self {
        Self::of(Stacks::apart())
    }
}

impl Hosts for Netisrs {
    fn bind_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Listener> {
        Listener::bind(&self.server, addr, Terms::default(), opts)
    }

    fn connect_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Stream> {
        Stream::connect(&self.client, addr, opts)
    }

    fn bind_udp_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Dgram> {
        Dgram::bind(&self.server, addr, opts)
    }

    fn set(stream: &Stream, opt: Opt) -> io::Result<()> {
        stream.ask(move |cx, id| {
            let now = cx.now();
            match Reply::of(opt) {
                Reply::Changes(changes) => changes
                    .into_iter()
                    .try_for_each(|change| tcp::change(cx.cpu, id, |tcb| tcb.change(change, now))),
                Reply::Hops(hops) => tcp::set_tx_params(cx.cpu, id, |tx_params| tx_params.hops = hops),
                Reply::Class(class) => tcp::set_tx_params(cx.cpu, id, |tx_params| tx_params.class = class),
            }
        })
    }

    fn set_udp(socket: &Dgram, opt: Opt) -> io::Result<()> {
        socket.change(move |settings| prepare_udp(&[opt], settings));
        Ok(())
    }

    fn set_write_timeout(stream: &Stream, timeout: Duration) {
        stream.set_timeout(timeout);
    }

    fn group(socket: &Dgram, group: Group) -> io::Result<()> {
        let listen = |group: IpAddr, on: Link, filter: Filter| {
            let ifindex = on.index.try_into().unwrap();
            socket.on_each(move |cx, id| {
                let wanted = udp::Listen { group, ifindex, filter: filter.clone() };
                udp::listen(cx.cpu, id, &wanted)
            })
        };
        match group {
            Group::Join(group, on) => listen(group, on, Filter::ALL).map_err(io_error)?,
            Group::Leave(group, on) => listen(group, on, Filter::NONE).map_err(io_error)?,
            Group::Ttl(ttl) => socket.change(move |settings| settings.group_hops = ttl),
            Group::Loop(on) => socket.change(move |settings| settings.no_loop = !on),
            Group::By(link) => {
                socket.change(move |settings| settings.group_if = link.index.try_into().unwrap())
            }
        }
        Ok(())
    }

    fn link(&self, host: Host, wire: usize) -> Link {
        self.stacks.link(host, wire)
    }

    fn seen(&self) -> Vec<Seen> {
        self.stacks.seen()
    }

    fn has_come(&self, to: SocketAddr) {
        self.stacks.has_come(to);
    }

    fn cut(&self) {
        self.stacks.cut();
    }
}
