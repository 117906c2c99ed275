//! pantala's TCP beside Linux's: each as server and as client, over AF_XDP and TAP, on paths that damage what they carry. And
//! its groups, whose members Linux hears of.
//!
//! ```text
//!   Linux ──▶ pantala:relay ──▶ Linux        one connection comes to pantala, and one begins there
//! ```
//!
//! What one host says to the other goes through both ends of pantala's TCP: it is received, and sent. The damage is done
//! by pipes, to what comes in and to what goes out.

pub(crate) mod bulk;
pub(crate) mod crowd;
pub(crate) mod ends;
pub(crate) mod goodput;
pub(crate) mod groups;
pub(crate) mod querier;
pub(crate) mod silence;
pub(crate) mod sizes;

use core::fmt::Write;
use core::net::SocketAddr;
use std::net::{TcpListener, TcpStream};

use pantala::api::TcpConnection;

use crate::firewall::section;
use crate::lab::{Attach, Family, Host, Lab, Link, at};
use crate::pantala::Pantala;
use crate::socket;
use crate::wait::{PATIENCE, until};

/// Where hosts wait for what is relayed to them.
const HERE: u16 = 9000;
/// Where pantala sends back what it is sent.
const ECHO: u16 = 7;

/// pantala between two hosts: the first on AF_XDP, the second on TAP.
fn lab(test: &str, more: &str) -> Option<Lab> {
    lab_of(test, &[Link::new(Attach::Native), Link::new(Attach::Tap)], more)
}

fn lab_of(test: &str, links: &[Link], more: &str) -> Option<Lab> {
    let mut lab = Lab::without_pantala(test, links)?;
    let mut text = format!("[[service]]\nkind = \"echo\"\nport = {ECHO}\n");
    for host in &lab.hosts {
        for family in Family::BOTH {
            let (port, to) = (port_of(host, family), at(host.addr(family), HERE));
            writeln!(text, "[[service]]\nkind = \"relay\"\nport = {port}\nto = \"{to}\"").unwrap();
        }
    }
    lab.run_pantala(&(text + &section("allow", "") + more));
    Some(lab)
}

/// The port of pantala that leads to a host, by a family.
fn port_of(host: &Host, family: Family) -> u16 {
    8000 + 10 * host.number() + family.pick(4, 6)
}

/// Both ways between the two hosts.
fn directions(lab: &Lab) -> [(&Host, &Host); 2] {
    let (a, b) = lab.pair();
    [(a, b), (b, a)]
}

fn connect(from: &Host, family: Family, port: u16) -> TcpStream {
    let to = at(from.router(family), port);
    let stream = from.netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn listen(host: &Host, family: Family) -> TcpListener {
    let listener = socket::listen(&host.netns, family, HERE);
    listener.set_nonblocking(true).unwrap();
    listener
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = until("pantala connects", || listener.accept().ok());
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A flow from one host to another through pantala: source and destination.
struct Talk {
    near: TcpStream,
    far: TcpStream,
}

impl Talk {
    fn begin(from: &Host, to: &Host, family: Family) -> Self {
        let listener = listen(to, family);
        let near = connect(from, family, port_of(to, family));
        Self { near, far: accept(&listener) }
    }
}

/// The two ends of a socket's connection: its own first.
fn ends(stream: &TcpStream) -> [SocketAddr; 2] {
    [stream.local_addr().unwrap(), stream.peer_addr().unwrap()]
}

/// The connection that pantala has with a socket of a host.
fn theirs(pantala: &Pantala, [here, there]: [SocketAddr; 2]) -> Option<TcpConnection> {
    let is_it = |conn: &TcpConnection| {
        let TcpConnection { ends, .. } = conn;
        at(ends.foreign, ends.foreign_port) == here && at(ends.local, ends.local_port) == there
    };
    pantala.connections().into_iter().find(is_it)
}

/// Begins one with a connection that is there, and its `TCP_INFO`: for Linux a connection is established a moment before it is for pantala,
/// which remembers its SYN until then.
#[track_caller]
fn of(lab: &Lab, stream: &TcpStream) -> (TcpConnection, pantala::api::TcpInfo) {
    until("pantala has the connection, and it stands", || {
        let mut conn = theirs(lab.pantala(), ends(stream))?;
        let info = *conn.info.take()?;
        Some((conn, info))
    })
}
