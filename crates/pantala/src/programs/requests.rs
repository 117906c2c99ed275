//! The Unix socket where programs ask for sockets.

mod groups;

use core::convert::Infallible;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_send_buffer_size;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{spawn_local, yield_now};
use wire::program::{
    NO_ADDR, Name, Options as SetOptions, QUOTE_MAX, REPORT_LEN, REQUEST_LEN, Request, Role, SENDERS_LEN,
    SockOpt, Transport, own_number, parse_senders, thread,
};

use super::datagrams::{Before, Datagrams, Ends};
use super::info::tcp_info;
use super::options::{setting, settings};
use super::pair::{bound, dress, early, hung_up, pair, send};
use super::process::Process;
use super::registry::{Admission, Held, Registry};
use super::{datagrams, listener, relay};
use crate::daemon::log;
use crate::sockets::Options;
use crate::sockets::aio::{TcpListener, TcpStream, UdpSocket};

/// Times that the port of a socket of datagrams, which gets another one in its place, is asked for: as soon as the stack has closed
/// the old one it is free.
const PORT_TRIES: u32 = 64;

/// Serves programs for ever.
pub(super) async fn serve(
    listener: std::os::unix::net::UnixListener,
    registry: Rc<Registry>,
) -> io::Result<Infallible> {
    let listener = UnixListener::from_std(listener)?;
    // Without a descriptor nothing can be accepted, not even to be closed.
    let mut spare = File::open("/dev/null").ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => begin(&registry, stream),
            Err(why) if matches!(Errno::from_io_error(&why), Some(Errno::MFILE | Errno::NFILE)) => {
                drop(spare.take());
                let _ = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
                spare = File::open("/dev/null").ok();
            }
            Err(_) => {}
        }
    }
}

/// Serves one process, if its user may.
fn begin(registry: &Rc<Registry>, stream: UnixStream) {
    let Ok(peer) = stream.peer_cred() else { return };
    let process = registry.process(peer.uid(), peer.pid().unwrap_or(0));
    let admitted = registry.admit(&process);
    if let Err(why) = &admitted {
        log::info(&format!("process {} of user {} is not served: {why}", process.pid, process.uid));
    }
    let client = Client { registry: Rc::clone(registry), process, is_supervisor: false };
    spawn_local(async move {
        let mut client = client;
        // A process that says what is no request, or is gone, needs no answer.
        let _ = client.serve(stream, admitted).await;
    });
}

/// A process that asks.
struct Client {
    registry: Rc<Registry>,
    process: Rc<Process>,
    /// It makes this request for a program whose calls it answers.
    is_supervisor: bool,
}

/// An answer, besides that there was no error.
struct Reply {
    addr: SocketAddr,
    value: i32,
    descriptor: Option<OwnedFd>,
    /// Bytes of the request that follow.
    more: Vec<u8>,
}

/// Result of a request.
type Answer = Result<Reply, Errno>;

impl Reply {
    /// A reply that says nothing.
    const fn new() -> Self {
        Self { addr: NO_ADDR, value: 0, descriptor: None, more: Vec::new() }
    }

    fn socket(addr: SocketAddr, descriptor: OwnedFd) -> Self {
        Self { addr, descriptor: Some(descriptor), ..Self::new() }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.registry.leave(&self.process, 1);
    }
}

impl Client {
    async fn serve(&mut self, mut stream: UnixStream, admitted: Result<Admission, Errno>) -> io::Result<()> {
        let mut bytes = [0; REQUEST_LEN];
        loop {
            stream.read_exact(&mut bytes).await?;
            let request = Request::parse(&bytes).ok_or(io::ErrorKind::InvalidData)?;
            let senders = match request {
                Request::SetFilter { count, .. } => {
                    let mut bytes = [0; SENDERS_LEN];
                    stream.read_exact(&mut bytes).await?;
                    parse_senders(&bytes).take(count.into()).collect()
                }
                _ => Vec::new(),
            };
            let answer = match &admitted {
                Ok(_) => self.answer_for(thread(&bytes), request, senders).await,
                Err(why) => Err(*why),
            };
            reply(&stream, answer).await?;
            if admitted.is_err() {
                return Ok(());
            }
        }
    }

    /// Answers a request for the process of a thread, if it is for another one than that which asks.
    async fn answer_for(&mut self, thread: Option<u32>, request: Request, senders: Vec<IpAddr>) -> Answer {
        self.is_supervisor = thread.is_some();
        let Some(other) = thread.and_then(|thread| self.registry.served_by(&self.process, thread)) else {
            return self.answer(request, senders).await;
        };
        let own = core::mem::replace(&mut self.process, other);
        let answer = self.answer(request, senders).await;
        let other = core::mem::replace(&mut self.process, own);
        self.registry.leave(&other, 1);
        answer
    }

    async fn answer(&self, request: Request, senders: Vec<IpAddr>) -> Answer {
        let uid = self.process.uid;
        match request {
            Request::Hello => Ok(Reply::new()),
            Request::Bind { transport: Transport::Tcp, addr, options } => {
                self.bind(own_scope(addr), options).await
            }
            Request::Bind { transport: Transport::Udp, addr, options } => {
                self.bind_datagrams(own_scope(addr), options).await
            }
            Request::Connect { transport: Transport::Tcp, id, local: _, remote, options } => {
                self.connect(id, remote, options).await
            }
            Request::Connect { transport: Transport::Udp, id, local, remote, options } => {
                self.connect_datagrams(id, local, remote, options).await
            }
            Request::Outcome(id) => self.registry.outcome(uid, id).map_or(Ok(Reply::new()), Err),
            Request::Failure { id, receives } => {
                let own = self.registry.datagrams(uid, id).ok_or(Errno::BADF)?;
                Ok(Reply { value: own.take_error(&self.registry, receives), ..Reply::new() })
            }
            Request::Report(id) => self.report(id),
            Request::TooLong { id, to } => self.too_long(id, to).await,
            Request::Local(id) => {
                let local = self.registry.local(uid, id).ok_or(Errno::NOTCONN)?;
                Ok(Reply { addr: local, ..Reply::new() })
            }
            Request::Route(to) => match self.registry.has_route((to, 0).into(), None).await {
                true => Ok(Reply::new()),
                false => Err(Errno::NETUNREACH),
            },
            Request::Listen { id, backlog } => {
                let listener = self.registry.listener(uid, id)?;
                // Not before peers are no longer refused.
                listener.open(backlog.max(1)).await.map_err(errno)?;
                Ok(Reply::new())
            }
            Request::Disconnect(id) => self.disconnect(id).await,
            Request::Rebind { id, addr, options } => self.rebind(id, own_scope(addr), options).await,
            Request::Set { id, option, value } => {
                // What was written while the cork was in goes in full segments.
                if (option, value) == (SockOpt::Cork, 0) {
                    self.registry.relayed(id).await;
                }
                self.registry.set(uid, id, option, value).map(|()| Reply::new())
            }
            Request::Get { id, option } => self.get(id, option).await,
            Request::Info(id) => {
                let listed = self.registry.info(uid, id).await.ok_or(Errno::NOTCONN)?;
                Ok(Reply { more: tcp_info(&listed).to_vec(), ..Reply::new() })
            }
            Request::Group { id, group, addr, interface, joins, sender } => {
                self.group(id, group, (addr, interface), (joins, sender)).await
            }
            Request::SetFilter { id, group, excludes, count: _ } => {
                self.set_filter(id, group, excludes, senders).await
            }
            Request::Filter { id, group } => self.filter(id, group),
            Request::Interfaces(from) => self.interfaces(from).await,
        }
    }

    fn report(&self, id: u64) -> Answer {
        let own = self.registry.datagrams(self.process.uid, id).ok_or(Errno::BADF)?;
        let (report, quote) = own.take_report(&self.registry).ok_or(Errno::AGAIN)?;
        let mut more = report.emit().to_vec();
        more.extend(&quote);
        more.resize(REPORT_LEN + QUOTE_MAX, 0);
        Ok(Reply { more, value: i32::try_from(quote.len()).unwrap_or(0), ..Reply::new() })
    }

    async fn too_long(&self, id: u64, to: SocketAddr) -> Answer {
        let own = self.registry.datagrams(self.process.uid, id).ok_or(Errno::BADF)?;
        let mtu = self.registry.link_mtu(to.ip().to_canonical()).await.ok_or(Errno::NETUNREACH)?;
        if self.registry.options(id).is_on(SockOpt::RecvErr) {
            own.queue_too_long(&self.registry, to, mtu);
        }
        Ok(Reply::new())
    }

    async fn interfaces(&self, from: u32) -> Answer {
        let page = self.registry.interfaces(from).await.ok_or(Errno::NETDOWN)?;
        let value = i32::try_from(page.total).unwrap_or(i32::MAX);
        Ok(Reply { value, more: page.bytes, ..Reply::new() })
    }

    async fn get(&self, id: u64, option: SockOpt) -> Answer {
        let mut value = self.registry.value(self.process.uid, id, option)?;
        // Of a connection it is what both ends have agreed on.
        if option == SockOpt::MaxSegment
            && let Some(listed) = self.registry.info(self.process.uid, id).await
            && let Some((info, _)) = listed.info.as_deref()
        {
            value = info.snd_mss.cast_signed();
        }
        Ok(Reply { value, ..Reply::new() })
    }

    async fn bind(&self, addr: SocketAddr, set: SetOptions) -> Answer {
        if !self.registry.may_bind(self.process.uid, addr.port()) {
            return Err(Errno::ACCESS);
        }
        let held = self.registry.hold(&self.process, Role::Listener)?;
        let id = held.id;
        let options = placed(&set).closed().with(settings(&set));
        let bind = async || TcpListener::bind_with(&self.registry.sockets, addr, &options).await;
        let listener = self.with_port(addr.port(), bind).await?;
        let local = listener.local_addr().map_err(errno)?;
        let program = listener::begin(&self.registry, held, listener).map_err(errno)?;
        dress(&program, &set).map_err(errno)?;
        self.registry.set_options(id, set);
        Ok(Reply::socket(local, program))
    }

    async fn bind_datagrams(&self, addr: SocketAddr, options: SetOptions) -> Answer {
        let (held, udp) = self.datagrams(addr, &options).await?;
        let ends = Ends { bound: Some(addr), remote: None };
        let (local, program) =
            datagrams::begin(&self.registry, held, udp, ends, self.before(options)).map_err(errno)?;
        Ok(Reply::socket(local, program))
    }

    /// Binds a socket to a port. If a program has closed another one that has it, again when that has ended.
    async fn with_port<T>(&self, port: u16, bind: impl AsyncFn() -> io::Result<T>) -> Result<T, Errno> {
        let (mut tries, mut is_closed) = (PORT_TRIES, false);
        loop {
            let done = bind().await.map_err(errno);
            is_closed |= port != 0 && self.registry.may_become_free(port);
            if done.as_ref().err() != Some(&Errno::ADDRINUSE) || !is_closed || tries == 0 {
                return done;
            }
            tries -= 1;
            yield_now().await;
        }
    }

    fn before(&self, options: SetOptions) -> Before {
        Before { options, is_supervised: self.is_supervisor, ..Before::default() }
    }

    /// Makes a bound socket of datagrams.
    async fn datagrams(
        &self,
        addr: SocketAddr,
        options: &SetOptions,
    ) -> Result<(Held, Rc<UdpSocket>), Errno> {
        if !self.registry.may_bind(self.process.uid, addr.port()) {
            return Err(Errno::ACCESS);
        }
        let held = self.registry.hold(&self.process, Role::Datagram)?;
        let options = placed(options);
        let bind = async || UdpSocket::bind_with(&self.registry.sockets, addr, &options).await;
        let udp = self.with_port(addr.port(), bind).await?;
        Ok((held, Rc::new(udp)))
    }

    /// Connects a socket of datagrams, which may have been bound, or connected to another peer.
    async fn connect_datagrams(
        &self,
        id: u64,
        local: SocketAddr,
        remote: SocketAddr,
        options: SetOptions,
    ) -> Answer {
        let to = canonical(remote);
        if !self.registry.has_route(remote, options.get(SockOpt::Device)).await {
            return Err(Errno::NETUNREACH);
        }
        let remote = own_scope(remote);
        let (held, udp, bound, before) = if id == 0 {
            let local = if local.ip().is_unspecified() { any(to, local.port()) } else { canonical(local) };
            let (held, udp) = self.datagrams(local, &options).await?;
            let bound = Some(local).filter(|local| local.port() != 0);
            (held, udp, bound, self.before(options))
        } else {
            let options = self.registry.options(id);
            let (own, bound) = self.take(id).await?;
            let groups = own.groups().take();
            let (udp, waiting) = own.end(&self.registry).await;
            let before = Before { waiting, groups, ..self.before(options) };
            (self.registry.hold(&self.process, Role::Datagram)?, udp, bound, before)
        };
        udp.connect(to).await.map_err(errno)?;
        let ends = Ends { bound, remote: Some(remote) };
        let (local, program) = datagrams::begin(&self.registry, held, udp, ends, before).map_err(errno)?;
        Ok(Reply::socket(local, program))
    }

    /// Takes a socket of datagrams whose task has ended, and the address that it was bound to.
    async fn take(&self, id: u64) -> Result<(Datagrams, Option<SocketAddr>), Errno> {
        let (own, task) = self.registry.take_datagrams(self.process.uid, id).ok_or(Errno::INVAL)?;
        task.abort();
        let _ = task.await;
        let bound = own.ends().bound;
        Ok((own, bound))
    }

    async fn connect(&self, id: u64, remote: SocketAddr, mut set: SetOptions) -> Answer {
        let to = canonical(remote);
        // Without a route it is the kernel's to try.
        if !self.registry.has_route(remote, set.get(SockOpt::Device)).await {
            return Err(Errno::NETUNREACH);
        }
        let remote = own_scope(remote);
        let mut options = Options::new();
        if id != 0 {
            set = self.registry.options(id);
            let (local, task) = self.registry.take_listener(self.process.uid, id).ok_or(Errno::INVAL)?;
            // Its port is free when it has ended.
            task.abort();
            let _ = task.await;
            options = options.local(local);
        }
        let options = options.with(settings(&set));
        let held = self.registry.hold(&self.process, Role::Stream)?;
        let name = Name { role: Role::Stream, id: held.id, local: NO_ADDR, remote };
        let (program, unix) = pair(SocketType::STREAM, &name).map_err(errno)?;
        dress(&program, &set).map_err(errno)?;
        bound(&unix, &set).map_err(errno)?;
        self.registry.set_options(held.id, set);
        self.registry.set_ends(held.id, None, Some(remote));
        let is_at_once = set.is_on(SockOpt::FastOpenConnect);
        let filler = if is_at_once { 0 } else { fill(&program).map_err(errno)? };
        let unix = UnixStream::from_std(unix.into()).map_err(errno)?;
        let registry = Rc::clone(&self.registry);
        spawn_local(async move {
            let connected = if is_at_once {
                // A program that closes its socket before it writes has nothing to say.
                let Some(early) = early(&unix).await else { return };
                TcpStream::connect_early(&registry.sockets, to, &options, &early).await
            } else {
                tokio::select! {
                    connected = TcpStream::connect_with(&registry.sockets, to, &options) => connected,
                    // The program has given up; so does the connection.
                    _ = hung_up(unix.as_fd()) => return,
                }
            };
            go_on(&registry, held, (unix, filler), (to, connected), &set).await;
        });
        Ok(Reply { descriptor: Some(program), value: is_at_once.into(), ..Reply::new() })
    }
}

/// Returns the options of the place where a socket is bound.
fn placed(options: &SetOptions) -> Options {
    let (is_shared, only_v6) = (options.is_on(SockOpt::ReusePort), options.is_on(SockOpt::OnlyV6));
    let device = options.get(SockOpt::Device).and_then(|device| setting(SockOpt::Device, device));
    Options::new().reuse_port(is_shared).only_v6(only_v6).with(device)
}

/// The unspecified address of a peer's family.
fn any(peer: SocketAddr, port: u16) -> SocketAddr {
    if peer.is_ipv4() { ([0; 4], port).into() } else { ([0_u16; 8], port).into() }
}

/// The connection stands, or does not: the program's socket becomes writable with its filler gone, or hangs up with it.
async fn go_on(
    registry: &Registry,
    held: Held,
    (unix, filler): (UnixStream, usize),
    (to, connected): (SocketAddr, io::Result<TcpStream>),
    began_with: &SetOptions,
) {
    let tcp = match connected {
        Ok(tcp) => tcp,
        Err(why) => {
            registry.end(&held, Some(errno(why)));
            return;
        }
    };
    let [local, remote] = [tcp.local_addr(), tcp.peer_addr()].map(|addr| Some(on_link_of(to, addr.ok()?)));
    registry.set_ends(held.id, local, remote);
    // Options that were set meanwhile.
    let options = registry.options(held.id);
    if options != *began_with {
        let _ = tcp.change(&settings(&options));
    }
    if drain(registry, &unix, filler).await.is_err() {
        return;
    }
    relay::run(registry, &held, Rc::new(unix), tcp).await;
}

/// An address of a connection to `to`; one of a link is of the same link.
fn on_link_of(to: SocketAddr, mut addr: SocketAddr) -> SocketAddr {
    if let (SocketAddr::V6(addr), SocketAddr::V6(to)) = (&mut addr, to)
        && addr.ip().is_unicast_link_local()
    {
        addr.set_scope_id(to.scope_id());
    }
    addr
}

/// Takes the filler out of a program's socket. The memory that all tasks share is not held while it waits.
async fn drain(registry: &Registry, unix: &UnixStream, filler: usize) -> io::Result<()> {
    let mut left = filler;
    while left > 0 {
        unix.readable().await?;
        let mut scratch = registry.scratch.borrow_mut();
        let most = left.min(scratch.len());
        match unix.try_read(&mut scratch[..most]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => left -= count,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Fills a program's socket so that `poll` does not call it writable before it is connected. Returns the bytes.
fn fill(program: &OwnedFd) -> io::Result<usize> {
    // A Unix socket is writable while no more than a quarter of its send buffer is used.
    let count = socket_send_buffer_size(program)? / 4 + 1;
    let mut socket = StdUnixStream::from(program.try_clone()?);
    socket.write_all(&vec![0; count])?;
    Ok(count)
}

async fn reply(stream: &UnixStream, answer: Answer) -> io::Result<()> {
    let (errno, Reply { addr, value, descriptor, more }) = match answer {
        Ok(reply) => (0, reply),
        Err(why) => (why.raw_os_error(), Reply::new()),
    };
    let mut bytes = wire::program::Reply { errno, addr, value }.emit().to_vec();
    bytes.extend(more);
    let descriptor = descriptor.as_ref().map(AsFd::as_fd);
    let sent = stream.async_io(Interest::WRITABLE, || send(stream.as_fd(), &bytes, descriptor)).await?;
    // So little goes whole, or not at all.
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// An IPv4 address where an IPv6 socket has it mapped.
pub(super) fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        ip if ip.is_ipv4() => (ip, addr.port()).into(),
        _ => own_scope(addr),
    }
}

/// An address whose scope is the number of an interface here.
fn own_scope(mut addr: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(addr) = &mut addr {
        addr.set_scope_id(own_number(addr.scope_id()));
    }
    addr
}

fn errno(why: io::Error) -> Errno {
    Errno::from_io_error(&why).unwrap_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;
    use crate::programs::registry::tests::registry;

    #[test]
    fn a_connection_that_begins_leaves_others_the_memory_that_they_share() {
        let (_stack, registry) = registry(2);
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        let name = Name { role: Role::Stream, id: 1, local: NO_ADDR, remote: NO_ADDR };
        runtime.block_on(async {
            let (program, ours) = pair(SocketType::STREAM, &name).unwrap();
            let unix = UnixStream::from_std(ours.into()).unwrap();
            let waits = drain(&registry, &unix, 3);
            tokio::pin!(waits);
            assert!(
                core::future::poll_fn(|cx| core::task::Poll::Ready(waits.as_mut().poll(cx).is_pending()))
                    .await
            );
            assert!(!registry.scratch.borrow().is_empty());
            StdUnixStream::from(program).write_all(b"abcd").unwrap();
            waits.await.unwrap();
            assert_eq!(unix.try_read(&mut [0; 8]).unwrap(), 1, "no more than the filler");
        });
    }
}
