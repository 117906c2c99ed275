//! A bound socket of a program: connections are accepted for it, and handed over with their descriptors.
//!
//! The queue of accepted connections is the Unix socket that all processes of a listener share, so each connection goes to
//! one of them. When it is full, connections stay in the stack's accept queue.

use core::net::SocketAddr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::net::SocketType;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::spawn_local;
use wire::program::{Name, Options, Role, SockOpt, emit_addr};

use super::pair::{bound, dress, hung_up, pair, send, watched};
use super::registry::{Held, Registry};
use super::relay;
use crate::sockets::aio::{TcpListener, TcpStream};

/// Bytes of messages that wait to be accepted: some dozens, each with what the kernel needs for it.
const QUEUE_BYTES: usize = 64 << 10;

/// The program's end of a listener, whose task has begun.
pub(super) fn begin(registry: &Rc<Registry>, held: Held, listener: TcpListener) -> io::Result<OwnedFd> {
    let (id, local) = (held.id, listener.local_addr()?);
    let remote = wire::program::NO_ADDR;
    let (program, ours) = pair(SocketType::SEQPACKET, &Name { role: Role::Listener, id, local, remote })?;
    set_socket_send_buffer_size(&ours, QUEUE_BYTES)?;
    let (ours, listener) = (Rc::new(watched(ours)?), Rc::new(listener));
    registry.set_ends(id, Some(local), None);
    registry.set_unix(id, &ours);
    let (own, accepts) = (Rc::clone(registry), Rc::clone(&listener));
    let task = spawn_local(async move {
        // The number is the listener's until this ends.
        let held = held;
        tokio::select! {
            _ = hung_up(ours.as_fd()) => {}
            _ = accept(&own, &held, &accepts, &ours) => {}
        }
    });
    registry.set_listener(id, &listener, task);
    Ok(program)
}

/// Accepts until the program or the stack is gone.
async fn accept(
    registry: &Rc<Registry>,
    own: &Held,
    listener: &TcpListener,
    ours: &UnixStream,
) -> io::Result<()> {
    let at = listener.local_addr()?;
    loop {
        let (tcp, _) = listener.accept().await?;
        let remote = scoped(&tcp, tcp.peer_addr()?);
        // Without room for it the connection is reset.
        let Ok(held) = registry.hold(&own.process, Role::Stream) else {
            tcp.set_linger(Some(core::time::Duration::ZERO))?;
            continue;
        };
        let options = registry.options(own.id);
        let Ok((program, unix)) = connection(registry, &held, &tcp, (at, options)) else {
            tcp.set_linger(Some(core::time::Duration::ZERO))?;
            continue;
        };
        let message = emit_addr(like(remote, at));
        ours.async_io(Interest::WRITABLE, || send(ours.as_fd(), &message, Some(program.as_fd()))).await?;
        drop(program);
        let own = Rc::clone(registry);
        spawn_local(async move { relay::run(&own, &held, unix, tcp).await });
    }
}

/// Both ends of an accepted connection.
fn connection(
    registry: &Registry,
    held: &Held,
    tcp: &TcpStream,
    (of, mut options): (SocketAddr, Options),
) -> io::Result<(OwnedFd, Rc<UnixStream>)> {
    let (local, remote) = (scoped(tcp, tcp.local_addr()?), scoped(tcp, tcp.peer_addr()?));
    let (local, remote) = (like(local, of), like(remote, of));
    let (program, ours) = pair(SocketType::STREAM, &Name { role: Role::Stream, id: held.id, local, remote })?;
    dress(&program, &options)?;
    bound(&ours, &options)?;
    options.set(SockOpt::AcceptConn, 0);
    registry.set_options(held.id, options);
    registry.set_ends(held.id, Some(local), Some(remote));
    Ok((program, Rc::new(watched(ours)?)))
}

/// An address of a connection, with the number of its interface if it means something only with its link.
fn scoped(tcp: &TcpStream, mut addr: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(addr) = &mut addr
        && addr.ip().is_unicast_link_local()
        && let Ok((_, ends)) = tcp.place()
    {
        addr.set_scope_id(ends.zone.into());
    }
    addr
}

/// An IPv4 address as a program has it at an IPv6 socket (RFC 3493, section 3.7).
pub(super) fn like(addr: SocketAddr, listener: SocketAddr) -> SocketAddr {
    match (addr, listener) {
        (SocketAddr::V4(at), SocketAddr::V6(_)) => (at.ip().to_ipv6_mapped(), at.port()).into(),
        _ => addr,
    }
}
