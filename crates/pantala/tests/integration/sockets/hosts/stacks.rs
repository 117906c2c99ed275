//! Two stacks with two wires between them, and their sockets for threads and tasks. Their firewalls log what comes and
//! goes.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;
use std::sync::Mutex;

use pantala::api::InterfaceChange;
use pantala::sockets::{aio, blocking};
use pantala::{Interface, Stack, mem};

use super::{Group, Host, Hosts, Link, MTU, Opt, Seen, WIRES, addrs, options};
use crate::sockets::socket_api::Stacks;
use crate::sockets::tasks::{Task, Tasks, wait};

/// Everything is let through, and logged, as often as it comes.
const WATCHED: &str = "add 1 count log logamount 0 ip from any to any\nadd 2 allow ip from any to any";

impl Stacks {
    /// Two hosts that are watched.
    pub(crate) fn apart() -> Self {
        let mut ends = [(); 2].map(|()| mem::wire(2).unwrap().map(Some));
        let hosts = [Host::Server, Host::Client].map(|host| {
            let lan = |wire: usize, end: mem::End| {
                let [four, six] = addrs(host, wire);
                let lan = Interface::mem(end).name(WIRES[wire]).mtu(MTU);
                lan.address(format!("{four}/24")).address(format!("{six}/64"))
            };
            let [one, two] = [0, 1].map(|wire: usize| lan(wire, ends[wire][host as usize].take().unwrap()));
            Stack::builder().threads(2).interface(one).interface(two).firewall(WATCHED).start().unwrap()
        });
        Self::of(hosts)
    }

    /// Returns the packets of a host since the last look.
    fn logged(&self, host: Host) -> Vec<Seen> {
        let log = {
            let mut place = self.places[host as usize].lock().unwrap();
            let mut log = self.stacks[host as usize].admin().firewall_log(place.as_deref()).unwrap();
            *place = Some(core::mem::take(&mut log.next));
            log
        };
        assert_eq!((log.lost, log.suppressed), (0, 0), "more than a log takes");
        log.records.iter().filter_map(|record| Seen::of(&unhex(&record.snap))).collect()
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// Where what each has logged next is.
pub(crate) type Places = [Mutex<Option<String>>; 2];

/// Applies options with the same names on both interfaces.
macro_rules! set {
    ($socket:expr, $opt:expr) => {
        match $opt {
            Opt::NoDelay(on) => $socket.set_nodelay(on),
            Opt::KeepAlive(keepalive) => $socket.set_keepalive(keepalive),
            Opt::Ttl(ttl) => $socket.set_ttl(ttl),
            Opt::Tos(tos) => $socket.set_tos(tos),
            Opt::SendBuffer(bytes) => $socket.set_send_buffer_size(bytes),
            Opt::RecvBuffer(bytes) => $socket.set_recv_buffer_size(bytes),
        }
    };
}

macro_rules! set_udp {
    ($socket:expr, $opt:expr) => {
        match $opt {
            Opt::Ttl(ttl) => $socket.set_ttl(ttl),
            Opt::Tos(tos) => $socket.set_tos(tos),
            Opt::RecvBuffer(bytes) => $socket.set_recv_buffer_size(bytes),
            Opt::NoDelay(_) | Opt::KeepAlive(_) | Opt::SendBuffer(_) => unreachable!(),
        }
    };
}

impl Hosts for Stacks {
    fn bind_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Listener> {
        blocking::TcpListener::bind_with(&self.server, addr, &options(opts))
    }

    fn connect_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Stream> {
        blocking::TcpStream::connect_with(&self.client, addr, &options(opts))
    }

    fn bind_udp_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Socket> {
        blocking::UdpSocket::bind_with(&self.server, addr, &options(opts))
    }

    fn set(stream: &Self::Stream, opt: Opt) -> io::Result<()> {
        set!(stream, opt)
    }

    fn set_udp(socket: &Self::Socket, opt: Opt) -> io::Result<()> {
        set_udp!(socket, opt)
    }

    fn set_write_timeout(stream: &Self::Stream, timeout: Duration) {
        stream.set_write_timeout(Some(timeout)).unwrap();
    }

    fn group(socket: &Self::Socket, group: Group) -> io::Result<()> {
        let is_ipv4 = socket.local_addr()?.is_ipv4();
        match group {
            Group::Join(IpAddr::V4(ip), on) => socket.join_multicast_v4(&ip, &on.addr),
            Group::Join(IpAddr::V6(ip), on) => socket.join_multicast_v6(&ip, on.index),
            Group::Leave(IpAddr::V4(ip), on) => socket.leave_multicast_v4(&ip, &on.addr),
            Group::Leave(IpAddr::V6(ip), on) => socket.leave_multicast_v6(&ip, on.index),
            Group::Ttl(ttl) => socket.set_multicast_ttl(ttl),
            Group::Loop(on) => socket.set_multicast_loop(on),
            Group::By(link) if is_ipv4 => socket.set_multicast_if_v4(&link.addr),
            Group::By(link) => socket.set_multicast_if_v6(link.index),
        }
    }

    fn link(&self, host: Host, wire: usize) -> Link {
        let IpAddr::V4(addr) = addrs(host, wire)[0] else { unreachable!() };
        let interfaces = self.stacks[host as usize].admin().interfaces().unwrap();
        let index = interfaces.iter().find(|interface| interface.name == WIRES[wire]).unwrap().index;
        Link { addr, index }
    }

    fn seen(&self) -> Vec<Seen> {
        self.logged(Host::Server)
    }

    fn has_come(&self, to: SocketAddr) {
        while !self.logged(Host::Client).iter().any(|seen| seen.to == to) {
            std::thread::yield_now();
        }
        // It has left. Each CPU of the server looks at what has come between two calls.
        for cpu in [0, 1, 0, 1] {
            self.stacks[0].call(cpu, |_| ()).unwrap();
        }
    }

    fn cut(&self) {
        let down = InterfaceChange { up: Some(false), ..InterfaceChange::default() };
        self.stacks[0].admin().change_interface(WIRES[0], &down).unwrap();
    }
}

impl Hosts for Tasks {
    fn bind_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Listener> {
        wait(aio::TcpListener::bind_with(&self.0.server, addr, &options(opts))).map(Task::new)
    }

    fn connect_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Stream> {
        wait(aio::TcpStream::connect_with(&self.0.client, addr, &options(opts))).map(Task::new)
    }

    fn bind_udp_as(&self, addr: SocketAddr, opts: &[Opt]) -> io::Result<Self::Socket> {
        wait(aio::UdpSocket::bind_with(&self.0.server, addr, &options(opts))).map(Task::new)
    }

    fn set(stream: &Self::Stream, opt: Opt) -> io::Result<()> {
        set!(stream.socket, opt)
    }

    fn set_udp(socket: &Self::Socket, opt: Opt) -> io::Result<()> {
        set_udp!(socket.socket, opt)
    }

    fn set_write_timeout(stream: &Self::Stream, timeout: Duration) {
        stream.patience.set_timeout(Some(timeout)).unwrap();
    }

    fn group(task: &Self::Socket, group: Group) -> io::Result<()> {
        let socket = &task.socket;
        let is_ipv4 = socket.local_addr()?.is_ipv4();
        match group {
            Group::Join(IpAddr::V4(ip), on) => wait(socket.join_multicast_v4(ip, on.addr)),
            Group::Join(IpAddr::V6(ip), on) => wait(socket.join_multicast_v6(ip, on.index)),
            Group::Leave(IpAddr::V4(ip), on) => wait(socket.leave_multicast_v4(ip, on.addr)),
            Group::Leave(IpAddr::V6(ip), on) => wait(socket.leave_multicast_v6(ip, on.index)),
            Group::Ttl(ttl) => socket.set_multicast_ttl(ttl),
            Group::Loop(on) => socket.set_multicast_loop(on),
            Group::By(link) if is_ipv4 => wait(socket.set_multicast_if_v4(link.addr)),
            Group::By(link) => wait(socket.set_multicast_if_v6(link.index)),
        }
    }

    fn link(&self, host: Host, wire: usize) -> Link {
        self.0.link(host, wire)
    }

    fn seen(&self) -> Vec<Seen> {
        self.0.seen()
    }

    fn has_come(&self, to: SocketAddr) {
        self.0.has_come(to);
    }

    fn cut(&self) {
        self.0.cut();
    }
}
