//! A program's socket of datagrams: each message on the pair is one.
//!
//! The pair is of type `SOCK_SEQPACKET`: it keeps the bounds of messages, and hangs up when the program is gone, which a pair of
//! type `SOCK_DGRAM` does not. Messages of a socket without a peer begin with an address, the sender's or the receiver's. When it
//! is connected it gets another pair, and the program gives back what waits at the old one.
//!
//! A program that does not read fills its Unix socket, and then the queue of the stack's socket, which counts what it drops.

use core::cell::RefCell;
use core::future::{pending, poll_fn};
use core::net::SocketAddr;
use core::task::ready;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::net::{SendFlags, SocketType};
use tokio::net::UnixStream;
use tokio::task::coop::consume_budget;
use tokio::task::spawn_local;
use wire::program::{ADDR_LEN, NO_ADDR, Name, Role, emit_addr, parse_addr, parse_returned};

use super::listener::like;
use super::pair::{hung_up, is_shut, pair, watched};
use super::registry::{Held, Registry};
use super::requests::canonical;
use crate::sockets::aio::UdpSocket;

/// Bytes of datagrams that a program may give back: about what waits in a Unix socket.
const RETURNED_MAX: usize = 512 << 10;

/// A datagram that was received and not read, behind its sender.
type Waiting = (SocketAddr, Vec<u8>);

/// A socket of datagrams, and the daemon's end of its pair.
#[derive(Clone)]
pub(super) struct Datagrams {
    udp: Rc<UdpSocket>,
    unix: Rc<UnixStream>,
    /// What the program has received and given back, with its senders.
    returned: Rc<RefCell<Vec<Waiting>>>,
}

/// The local address and the program's end of a socket, whose task has begun. `remote`: its peer, as the program has named it;
/// `waiting`: datagrams that are received again before others.
pub(super) fn begin(
    registry: &Rc<Registry>,
    held: Held,
    udp: Rc<UdpSocket>,
    remote: Option<SocketAddr>,
    waiting: &[Waiting],
) -> io::Result<(SocketAddr, OwnedFd)> {
    let id = held.id;
    let local = like(udp.local_addr()?, remote.unwrap_or(NO_ADDR));
    let name = Name { role: Role::Datagram, id, local, remote: remote.unwrap_or(NO_ADDR) };
    let (program, ours) = pair(SocketType::SEQPACKET, &name)?;
    let own = Datagrams { udp, unix: Rc::new(watched(ours)?), returned: Rc::default() };
    for (_, message) in waiting.iter().filter(|(from, _)| Some(*from) == remote) {
        // As many as there is room for.
        let _ = rustix::net::send(&own.unix, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
    registry.set_local(id, local);
    let (all, datagrams) = (Rc::clone(registry), own.clone());
    let is_connected = remote.is_some();
    let task = spawn_local(async move {
        // The number is the socket's until this ends.
        let _held = held;
        // Either direction ends with the program or with the stack.
        tokio::select! {
            _ = hung_up(own.unix.as_fd()) => {}
            _ = up(&all, &own, is_connected) => {}
            _ = down(&all, &own, local, is_connected) => {}
        }
    });
    registry.set_datagrams(id, datagrams, task);
    Ok((local, program))
}

impl Datagrams {
    /// The socket, and what the program has given back, when its task has ended. What it has written is sent.
    pub(super) async fn end(self, registry: &Registry) -> (Rc<UdpSocket>, Vec<Waiting>) {
        while let Some(message) = self.next(registry) {
            let _ = self.take(&message, false).await;
        }
        (self.udp, self.returned.take())
    }

    /// A message that the program has written; `None` if there is none.
    fn next(&self, registry: &Registry) -> Option<Vec<u8>> {
        let mut scratch = registry.scratch.borrow_mut();
        let count = self.unix.try_read(&mut scratch).ok().filter(|count| *count > 0)?;
        Some(scratch[..count].to_vec())
    }

    /// Sends a message of the program, or keeps one that it gives back.
    async fn take(&self, message: &[u8], is_connected: bool) -> io::Result<usize> {
        if is_connected {
            return self.udp.send(message).await;
        }
        let Some((header, bytes)) = message.split_at_checked(ADDR_LEN) else { return Ok(0) };
        if let Some(from) = parse_returned(header) {
            let mut returned = self.returned.borrow_mut();
            let held: usize = returned.iter().map(|(_, bytes)| bytes.len() + ADDR_LEN).sum();
            if held + message.len() <= RETURNED_MAX {
                returned.push((from, bytes.to_vec()));
            }
            return Ok(0);
        }
        // What names no address was not written by the library.
        let Some(to) = parse_addr(header) else { return Ok(0) };
        self.udp.send_to(bytes, canonical(to)).await
    }
}

/// From the program to the network.
async fn up(registry: &Registry, own: &Datagrams, is_connected: bool) -> io::Result<()> {
    loop {
        consume_budget().await;
        own.unix.readable().await?;
        let message = {
            let mut scratch = registry.scratch.borrow_mut();
            match own.unix.try_read(&mut scratch) {
                Ok(count) => scratch[..count].to_vec(),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => continue,
                Err(why) => return Err(why),
            }
        };
        // An empty datagram is an empty message, and so is the end, after which the program may still receive.
        if message.is_empty() && is_shut(&own.unix) {
            return pending().await;
        }
        goes_on(own.take(&message, is_connected).await)?;
    }
}

/// From the network to the program.
async fn down(
    registry: &Registry,
    Datagrams { udp, unix, .. }: &Datagrams,
    local: SocketAddr,
    is_connected: bool,
) -> io::Result<()> {
    loop {
        consume_budget().await;
        let mut left = None;
        let done = poll_fn(|context| {
            let mut scratch = registry.scratch.borrow_mut();
            let (header, room) = scratch.split_at_mut(ADDR_LEN);
            let (count, from) = match ready!(udp.poll_recv_from(context, room)) {
                Ok(received) => received,
                Err(why) => return Err(why).into(),
            };
            header.copy_from_slice(&emit_addr(like(from, local)));
            let start = if is_connected { ADDR_LEN } else { 0 };
            let message = &scratch[start..ADDR_LEN + count];
            match unix.try_write(message) {
                Ok(_) => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => left = Some(message.to_vec()),
                Err(why) => return Err(why).into(),
            }
            Ok(count).into()
        });
        goes_on(done.await)?;
        while let Some(message) = &left {
            unix.writable().await?;
            match unix.try_write(message) {
                Ok(_) => left = None,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Err(why),
            }
        }
    }
}

/// What becomes of one datagram, a refusal by its receiver included, does not end the socket; that the stack is gone does.
fn goes_on(done: io::Result<usize>) -> io::Result<()> {
    match done {
        Err(why) if why.kind() == io::ErrorKind::NetworkDown => Err(why),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use tokio::runtime::Builder;
    use tokio::task::{LocalSet, yield_now};
    use wire::program::mark_returned;

    use super::*;
    use crate::programs::registry::tests::registry;

    #[test]
    fn a_program_gives_back_a_bounded_number_of_bytes() {
        const LEN: usize = 1000;
        let (_stack, registry) = registry(8);
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        let sender = SocketAddr::from(([192, 0, 2, 9], 9));
        LocalSet::new().block_on(&runtime, async {
            let held = registry.hold(7).ok().unwrap();
            let id = held.id;
            let udp = UdpSocket::bind(&registry.sockets, "192.0.2.1:0").await.unwrap();
            let (_, program) = begin(&registry, held, Rc::new(udp), None, &[]).unwrap();
            for n in 0..2 * RETURNED_MAX / LEN {
                let mut message = emit_addr(sender).to_vec();
                message.resize(LEN, u8::try_from(n % 256).unwrap());
                mark_returned(&mut message);
                while let Err(why) = rustix::net::send(&program, &message, SendFlags::DONTWAIT) {
                    assert_eq!(why, Errno::AGAIN);
                    yield_now().await;
                }
            }
            let (datagrams, task) = registry.take_datagrams(7, id).unwrap();
            task.abort();
            let _ = task.await;
            let (_, returned) = datagrams.end(&registry).await;
            assert_eq!(returned.len(), RETURNED_MAX / LEN);
            let first: Vec<u8> = returned.iter().take(3).map(|(_, bytes)| bytes[0]).collect();
            assert_eq!(first, [0, 1, 2], "those that came first");
            assert!(returned.iter().all(|(from, bytes)| *from == sender && bytes.len() == LEN - ADDR_LEN));
        });
    }
}
