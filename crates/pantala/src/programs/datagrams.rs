//! A program's socket of datagrams: each message on the pair is one.
//!
//! The pair is of type `SOCK_SEQPACKET`: it keeps the bounds of messages, and hangs up when the program is gone, which a pair of
//! type `SOCK_DGRAM` does not. Messages of a socket without a peer begin with a header ([`Head`]). Those of one with a peer are bytes
//! alone, which need no hook in the program, unless there is more to say: then a descriptor comes with the message, as a mark,
//! and it begins with a header. When the peer changes the socket gets another pair, and the program gives back what waits at
//! the old one.
//!
//! That is so where the library is in the program. If a supervisor answers its calls, messages to it are bytes alone, and where there is
//! more to say the header comes as a file ([`Heads`]).
//!
//! A program that does not read fills its Unix socket, and then the queue of the stack's socket, which counts what it drops.

use core::cell::RefCell;
use core::future::{pending, poll_fn};
use core::net::SocketAddr;
use core::task::{Context, Poll, ready};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use net::udp::Failure;
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketType};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::coop::consume_budget;
use tokio::task::spawn_local;
use wire::program::{Details, HEAD_LEN, Head, NO_ADDR, Name, Options, Report, Role, SockOpt};

use super::errors::{self, Errors};
use super::groups::Groups;
use super::heads::Heads;
use super::listener::like;
use super::options;
use super::pair::{dress, hung_up, is_shut, pair, receive, send, watched};
use super::registry::{Held, Registry};
use super::requests::canonical;
use crate::sockets::aio::UdpSocket;
use crate::sockets::{PktInfo, Received};

/// Bytes of datagrams that a program may give back: about what waits in a Unix socket.
const RETURNED_MAX: usize = 512 << 10;

/// A datagram that was received and not read, behind its sender.
pub(super) type Waiting = (SocketAddr, Vec<u8>);

/// A socket of datagrams, and the daemon's end of its pair.
#[derive(Clone)]
pub(super) struct Datagrams {
    udp: Rc<UdpSocket>,
    unix: Rc<UnixStream>,
    /// What the program has received and given back, with its senders.
    returned: Rc<RefCell<Vec<Waiting>>>,
    /// Headers in files, if a supervisor answers the program's calls.
    heads: Option<Rc<Heads>>,
    /// Errors that the program was not told of.
    errors: Rc<RefCell<Errors>>,
    /// Groups that it listens to.
    groups: Rc<RefCell<Groups>>,
    ends: Ends,
}

/// The addresses of a socket of datagrams, as the program has named them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// The address that it was bound to; `None`: any.
    pub(super) bound: Option<SocketAddr>,
    /// Its peer.
    pub(super) remote: Option<SocketAddr>,
}

/// A message for a program, in the scratch memory.
struct Message {
    /// Where it begins: before its header, or behind it.
    start: usize,
    end: usize,
    mark: Option<Rc<OwnedFd>>,
}

/// State that a socket of datagrams begins with.
#[derive(Default)]
pub(super) struct Before {
    pub(super) options: Options,
    /// Datagrams that are received again before others.
    pub(super) waiting: Vec<Waiting>,
    /// Groups that it listens to already.
    pub(super) groups: Groups,
    /// A supervisor answers the program's calls.
    pub(super) is_supervised: bool,
}

/// The local address and the program's end of a socket, whose task has begun.
pub(super) fn begin(
    registry: &Rc<Registry>,
    held: Held,
    udp: Rc<UdpSocket>,
    ends: Ends,
    Before { options, waiting, groups, is_supervised }: Before,
) -> io::Result<(SocketAddr, OwnedFd)> {
    let (id, remote) = (held.id, ends.remote);
    let local = like(udp.local_addr()?, remote.or(ends.bound).unwrap_or(NO_ADDR));
    let name = Name { role: Role::Datagram, id, local, remote: remote.unwrap_or(NO_ADDR) };
    let (program, ours) = pair(SocketType::SEQPACKET, &name)?;
    dress(&program, &options)?;
    for (option, value) in options.iter() {
        options::apply(&udp, option, value)?;
    }
    let heads = is_supervised.then(Rc::default);
    udp.keep_errors();
    let own = Datagrams {
        udp,
        unix: Rc::new(watched(ours)?),
        returned: Rc::default(),
        heads,
        errors: Rc::default(),
        groups: Rc::new(RefCell::new(groups)),
        ends,
    };
    for (_, message) in waiting.iter().filter(|(from, _)| Some(*from) == remote) {
        // As many as there is room for.
        let _ = rustix::net::send(&own.unix, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
    registry.set_ends(id, Some(local), remote);
    registry.set_options(id, options);
    registry.set_unix(id, &own.unix);
    let (all, datagrams) = (Rc::clone(registry), own.clone());
    let task = spawn_local(async move {
        // The number is the socket's until this ends.
        let held = held;
        // Either direction ends with the program or with the stack.
        tokio::select! {
            _ = hung_up(own.unix.as_fd()) => {}
            _ = up(&all, &held, &own) => {}
            _ = down(&all, &held, &own, local) => {}
        }
        // What it has sent before it closed the socket.
        own.flush(&all).await;
    });
    registry.set_datagrams(id, datagrams, task);
    Ok((local, program))
}

impl Datagrams {
    pub(super) fn udp(&self) -> &UdpSocket {
        &self.udp
    }

    pub(super) const fn ends(&self) -> Ends {
        self.ends
    }

    pub(super) fn groups(&self) -> &RefCell<Groups> {
        &self.groups
    }

    const fn is_connected(&self) -> bool {
        self.ends.remote.is_some()
    }

    /// The socket, and what the program has given back, when its task has ended. What it has written is sent.
    pub(super) async fn end(self, registry: &Registry) -> (Rc<UdpSocket>, Vec<Waiting>) {
        self.flush(registry).await;
        (self.udp, self.returned.take())
    }

    /// Sends what the program has written and nothing has read yet.
    async fn flush(&self, registry: &Registry) {
        while let Ok((message, is_marked)) = self.next(registry)
            && !(message.is_empty() && is_shut(&self.unix))
        {
            let _ = self.take(&message, is_marked).await;
        }
    }

    /// Reads a message of the program, and whether it is marked.
    fn next(&self, registry: &Registry) -> io::Result<(Vec<u8>, bool)> {
        let mut scratch = registry.scratch.borrow_mut();
        let (count, is_marked) = receive(self.unix.as_fd(), &mut scratch)?;
        Ok((scratch[..count].to_vec(), is_marked))
    }

    /// Sends a message of the program, or keeps one that it gives back.
    async fn take(&self, message: &[u8], is_marked: bool) -> io::Result<usize> {
        if self.is_connected() && !is_marked {
            return self.udp.send(message).await;
        }
        // What a supervisor did not meet says no receiver.
        if self.heads.is_some() && !is_marked {
            return Ok(0);
        }
        let Some((header, bytes)) = message.split_at_checked(HEAD_LEN) else { return Ok(0) };
        // What has no header was not written by the library.
        let Some(head) = Head::parse(header) else { return Ok(0) };
        if head.is_returned {
            self.keep(head.peer, bytes);
            return Ok(0);
        }
        let to = Some(head.peer).filter(|peer| peer.port() != 0).or(self.ends.remote);
        let to = canonical(to.ok_or(io::ErrorKind::InvalidInput)?);
        let Details { local, hops, class } = head.details;
        let (ttl, tos) = (self.udp.ttl()?, self.udp.tos()?);
        if hops {
            self.udp.set_ttl(head.hops)?;
        }
        if class {
            self.udp.set_tos(head.class)?;
        }
        let sent = if local {
            let source = Some(head.local.to_canonical()).filter(|source| !source.is_unspecified());
            let info = PktInfo { source, interface: head.interface };
            self.udp.send_datagram(bytes, to, info).await
        } else {
            self.udp.send_to(bytes, to).await
        };
        if hops || class {
            // What was there before can be set again.
            let _ = (self.udp.set_ttl(ttl), self.udp.set_tos(tos));
        }
        sent
    }

    fn keep(&self, from: SocketAddr, bytes: &[u8]) {
        let mut returned = self.returned.borrow_mut();
        let held: usize = returned.iter().map(|(_, bytes)| bytes.len() + HEAD_LEN).sum();
        if held + bytes.len() + HEAD_LEN <= RETURNED_MAX {
            returned.push((from, bytes.to_vec()));
        }
    }

    /// Receives a datagram, or the error of one that was sent, into the scratch memory.
    fn poll_message(
        &self,
        (registry, held): (&Registry, &Held),
        context: &Context<'_>,
        scratch: &mut [u8],
        (options, local): (&Options, SocketAddr),
    ) -> Poll<io::Result<Message>> {
        let (header, room) = scratch.split_at_mut(HEAD_LEN);
        let (head, len) = match self.udp.poll_recv_datagram(context, room) {
            Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
            Poll::Ready(Ok(received)) => (head(&received, options, local), received.len),
            Poll::Pending => {
                let mut failures = core::iter::from_fn(|| self.udp.take_failure());
                let error =
                    failures.find_map(|failure| self.note((registry, held), &failure, (options, local)));
                let Some(error) = error else { return Poll::Pending };
                (Head { error, ..Head::of(self.ends.remote.unwrap_or(NO_ADDR)) }, 0)
            }
        };
        header.copy_from_slice(&head.emit());
        let has_head = !self.is_connected() || head.error != 0 || head.details.any();
        let (mark, is_behind) = match &self.heads {
            Some(heads) if has_head => (Some(heads.file(&head)?), true),
            Some(_) => (None, true),
            None if self.is_connected() && has_head => (registry.mark(), false),
            None => (None, self.is_connected()),
        };
        let start = if is_behind { HEAD_LEN } else { 0 };
        Poll::Ready(Ok(Message { start, end: HEAD_LEN + len, mark }))
    }
}

impl Datagrams {
    /// Notes that a datagram did not arrive, and returns the error that the program is to be told of.
    fn note(
        &self,
        (registry, held): (&Registry, &Held),
        (failure, quote): &(Failure, Vec<u8>),
        (options, local): (&Options, SocketAddr),
    ) -> Option<i32> {
        let wants_all = options.is_on(SockOpt::RecvErr);
        let (report, is_hard) = errors::report(failure);
        if !(wants_all || is_hard && self.is_connected()) {
            return None;
        }
        // An error of this host that is none about the size is one of a call.
        let is_queued = wants_all && (report.icmp.is_some() || report.error == Errno::MSGSIZE.raw_os_error());
        let mut report = Report { to: like(report.to, local), ..report };
        // As of Linux, which names its socket's peer.
        if report.icmp.is_none() && report.to.is_ipv4() && !self.is_connected() {
            report.to.set_port(0);
        }
        if !self.errors.borrow_mut().note(report, quote, is_queued) {
            registry.refuse(&held.process);
        }
        Some(report.error)
    }

    /// Takes the error of the socket; 0: there is none. If more are in the queue, the program is told again; of a call that receives
    /// not unless it reports an error, since it would never end.
    pub(super) fn take_error(&self, registry: &Registry, receives: bool) -> i32 {
        let error = self.errors.borrow_mut().take();
        let more = self.errors.borrow().first();
        if more != 0 && (error != 0 || !receives) {
            self.tell(registry, more);
        }
        error
    }

    /// Takes the first of the queue of errors. If there are more, the program is told again.
    pub(super) fn take_report(&self, registry: &Registry) -> Option<(Report, Vec<u8>)> {
        let report = self.errors.borrow_mut().next();
        let more = self.errors.borrow().first();
        if more != 0 {
            self.tell(registry, more);
        }
        report
    }

    /// Queues that a datagram is longer than any packet; the call that would send it has failed.
    pub(super) fn queue_too_long(&self, registry: &Registry, to: SocketAddr, mtu: u32) {
        let error = Errno::MSGSIZE.raw_os_error();
        if self.errors.borrow_mut().queue(Report { to, error, info: mtu, icmp: None }, &[]) {
            self.tell(registry, error);
        }
    }

    /// Tells the program of an error; one that does not read learns nothing more.
    fn tell(&self, registry: &Registry, error: i32) {
        let head = Head { error, ..Head::of(self.ends.remote.unwrap_or(NO_ADDR)) };
        let bytes = head.emit();
        let (bytes, mark) = match &self.heads {
            Some(heads) => (&[][..], heads.file(&head).ok()),
            None if self.is_connected() => (&bytes[..], registry.mark()),
            None => (&bytes[..], None),
        };
        let _ = send(self.unix.as_fd(), bytes, mark.as_ref().map(AsFd::as_fd));
    }
}

/// The header of a datagram that came, with the control messages that the program wants.
fn head(received: &Received, options: &Options, local: SocketAddr) -> Head {
    let details = Details {
        local: options.is_on(SockOpt::PktInfo),
        hops: options.is_on(SockOpt::RecvHops),
        class: options.is_on(SockOpt::RecvClass),
    };
    let to = received.local.map_or(local, |to| like((to, 0).into(), local)).ip();
    Head {
        details,
        hops: received.ttl,
        class: received.tos,
        interface: received.interface,
        local: to,
        ..Head::of(like(received.from, local))
    }
}

/// The number of an error of one datagram, which does not end the socket; that the stack is gone does.
fn error_of(why: io::Error) -> io::Result<i32> {
    match why.kind() {
        io::ErrorKind::NetworkDown => Err(why),
        _ => Ok(Errno::from_io_error(&why).unwrap_or(Errno::IO).raw_os_error()),
    }
}

/// From the program to the network.
async fn up(registry: &Registry, held: &Held, own: &Datagrams) -> io::Result<()> {
    loop {
        consume_budget().await;
        own.unix.readable().await?;
        let read = own.unix.try_io(Interest::READABLE, || own.next(registry));
        let (message, is_marked) = match read {
            Ok(read) => read,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => continue,
            Err(why) => return Err(why),
        };
        // An empty datagram is an empty message, and so is the end, after which the program may still receive.
        if message.is_empty() && is_shut(&own.unix) {
            return pending().await;
        }
        held.process.add_sent(message.len());
        match own.take(&message, is_marked).await {
            Err(why) if why.kind() == io::ErrorKind::NetworkDown => return Err(why),
            Err(why) if own.is_connected() => {
                let error = error_of(why)?;
                own.errors.borrow_mut().fail(error);
                own.tell(registry, error);
            }
            _ => {}
        }
    }
}

/// From the network to the program.
async fn down(registry: &Registry, held: &Held, own: &Datagrams, local: SocketAddr) -> io::Result<()> {
    loop {
        consume_budget().await;
        let mut left = None;
        poll_fn(|context| {
            let mut scratch = registry.scratch.borrow_mut();
            let options = registry.options(held.id);
            let received =
                ready!(own.poll_message((registry, held), context, &mut scratch, (&options, local)));
            let message = match received {
                Err(why) if is_short(&why) => {
                    registry.refuse(&held.process);
                    return Poll::Ready(Ok(()));
                }
                received => received?,
            };
            let bytes = &scratch[message.start..message.end];
            held.process.add_received(bytes.len());
            match write((registry, held, own), bytes, message.mark.as_ref()) {
                Ok(()) => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    left = Some((bytes.to_vec(), message.mark));
                }
                Err(why) => return Poll::Ready(Err(why)),
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        while let Some((bytes, mark)) = &left {
            own.unix.writable().await?;
            match write((registry, held, own), bytes, mark.as_ref()) {
                Ok(()) => left = None,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Err(why),
            }
        }
    }
}

/// Whether it is the error of a process without descriptors, or with too many of them on their way: one datagram is lost by it.
fn is_short(why: &io::Error) -> bool {
    let why = Errno::from_io_error(why);
    matches!(why, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::TOOMANYREFS))
}

/// Writes a message to the program, with a descriptor if it is marked. Without room for the descriptor it is lost, and counted.
fn write(
    (registry, held, own): (&Registry, &Held, &Datagrams),
    bytes: &[u8],
    mark: Option<&Rc<OwnedFd>>,
) -> io::Result<()> {
    let mark = mark.map(AsFd::as_fd);
    match own.unix.try_io(Interest::WRITABLE, || send(own.unix.as_fd(), bytes, mark)) {
        Err(why) if is_short(&why) => {
            registry.refuse(&held.process);
            Ok(())
        }
        done => done.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;
    use tokio::task::{LocalSet, yield_now};

    use super::*;
    use crate::programs::registry::tests::{process, registry};

    #[test]
    fn what_a_program_sends_before_it_closes_its_socket_goes() {
        let (_stack, registry) = registry(8);
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let receiver = UdpSocket::bind(&registry.sockets, "192.0.2.1:0").await.unwrap();
            let to = receiver.local_addr().unwrap();
            for round in 0..20_u8 {
                let held = registry.hold(&process(7), Role::Datagram).ok().unwrap();
                let udp = UdpSocket::bind(&registry.sockets, "192.0.2.1:0").await.unwrap();
                let ends = Ends::default();
                let (_, program) = begin(&registry, held, Rc::new(udp), ends, Before::default()).unwrap();
                let mut message = Head::of(to).emit().to_vec();
                message.push(round);
                rustix::net::send(&program, &message, SendFlags::empty()).unwrap();
                drop(program);
                let mut got = [0; 8];
                assert_eq!((receiver.recv(&mut got).await.unwrap(), got[0]), (1, round));
            }
        });
    }

    #[test]
    fn a_program_gives_back_a_bounded_number_of_bytes() {
        const LEN: usize = 1000;
        let (_stack, registry) = registry(8);
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        let sender = SocketAddr::from(([192, 0, 2, 9], 9));
        LocalSet::new().block_on(&runtime, async {
            let held = registry.hold(&process(7), Role::Datagram).ok().unwrap();
            let id = held.id;
            let udp = UdpSocket::bind(&registry.sockets, "192.0.2.1:0").await.unwrap();
            let (_, program) =
                begin(&registry, held, Rc::new(udp), Ends::default(), Before::default()).unwrap();
            for n in 0..2 * RETURNED_MAX / LEN {
                let mut message = Head { is_returned: true, ..Head::of(sender) }.emit().to_vec();
                message.resize(LEN, u8::try_from(n % 256).unwrap());
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
            assert!(returned.iter().all(|(from, bytes)| *from == sender && bytes.len() == LEN - HEAD_LEN));
        });
    }
}
