//! The Unix socket where programs ask for sockets.

use core::convert::Infallible;
use core::net::SocketAddr;
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
use tokio::task::spawn_local;
use wire::program::{NO_ADDR, Name, REQUEST_LEN, Reply, Request, Role, Transport};

use super::pair::{hung_up, pair, send};
use super::registry::{Admission, Held, Registry};
use super::{datagrams, listener, relay};
use crate::daemon::log;
use crate::sockets::Options;
use crate::sockets::aio::{TcpListener, TcpStream, UdpSocket};

/// The accept queue of a program's listener, whatever it says to `listen`: Linux' default bound is eight times as much.
const BACKLOG: u32 = 511;

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
    let admitted = registry.admit(peer.uid());
    if let Err(why) = &admitted {
        let (pid, uid) = (peer.pid().unwrap_or(0), peer.uid());
        log::info(&format!("process {pid} of user {uid} is not served: {why}"));
    }
    let client = Client { registry: Rc::clone(registry), uid: peer.uid() };
    spawn_local(async move {
        // A process that says what is no request, or is gone, needs no answer.
        let _ = client.serve(stream, admitted).await;
    });
}

/// A process that asks.
struct Client {
    registry: Rc<Registry>,
    uid: u32,
}

/// Result of a request.
type Answer = Result<(SocketAddr, Option<OwnedFd>), Errno>;

impl Client {
    async fn serve(&self, mut stream: UnixStream, admitted: Result<Admission, Errno>) -> io::Result<()> {
        let mut bytes = [0; REQUEST_LEN];
        loop {
            stream.read_exact(&mut bytes).await?;
            let request = Request::parse(&bytes).ok_or(io::ErrorKind::InvalidData)?;
            let answer = match &admitted {
                Ok(_) => self.answer(request).await,
                Err(why) => Err(*why),
            };
            reply(&stream, answer).await?;
            if admitted.is_err() {
                return Ok(());
            }
        }
    }

    async fn answer(&self, request: Request) -> Answer {
        match request {
            Request::Hello => Ok((NO_ADDR, None)),
            Request::Bind { transport, addr, is_shared, only_v6 } => {
                let options = Options::new().reuse_port(is_shared).only_v6(only_v6);
                match transport {
                    Transport::Tcp => self.bind(addr, options).await,
                    Transport::Udp => self.bind_datagrams(addr, &options).await,
                }
            }
            Request::Connect { transport: Transport::Tcp, id, local: _, remote } => {
                self.connect(id, remote).await
            }
            Request::Connect { transport: Transport::Udp, id, local, remote } => {
                self.connect_datagrams(id, local, remote).await
            }
            Request::Outcome(id) => self.registry.outcome(self.uid, id).map_or(Ok((NO_ADDR, None)), Err),
            Request::Local(id) => {
                self.registry.local(self.uid, id).map(|at| (at, None)).ok_or(Errno::NOTCONN)
            }
            Request::Route(to) => match self.registry.has_route(to.to_canonical()).await {
                true => Ok((NO_ADDR, None)),
                false => Err(Errno::NETUNREACH),
            },
        }
    }

    async fn bind(&self, addr: SocketAddr, options: Options) -> Answer {
        if !self.registry.may_bind(self.uid, addr.port()) {
            return Err(Errno::ACCESS);
        }
        let held = self.registry.hold(self.uid)?;
        let options = options.backlog(BACKLOG).nodelay(true);
        let listener = TcpListener::bind_with(&self.registry.sockets, addr, &options).await.map_err(errno)?;
        let local = listener.local_addr().map_err(errno)?;
        let program = listener::begin(&self.registry, self.uid, held, listener).map_err(errno)?;
        Ok((local, Some(program)))
    }

    async fn bind_datagrams(&self, addr: SocketAddr, options: &Options) -> Answer {
        let (held, udp) = self.datagrams(addr, options).await?;
        let (local, program) = datagrams::begin(&self.registry, held, udp, None, &[]).map_err(errno)?;
        Ok((local, Some(program)))
    }

    /// Makes a bound socket of datagrams.
    async fn datagrams(&self, addr: SocketAddr, options: &Options) -> Result<(Held, Rc<UdpSocket>), Errno> {
        if !self.registry.may_bind(self.uid, addr.port()) {
            return Err(Errno::ACCESS);
        }
        let held = self.registry.hold(self.uid)?;
        let udp = UdpSocket::bind_with(&self.registry.sockets, addr, options).await.map_err(errno)?;
        Ok((held, Rc::new(udp)))
    }

    /// Connects a socket of datagrams, which may have been bound, or connected to another peer.
    async fn connect_datagrams(&self, id: u64, local: SocketAddr, remote: SocketAddr) -> Answer {
        let to = canonical(remote);
        if !self.registry.has_route(to.ip()).await {
            return Err(Errno::NETUNREACH);
        }
        let (held, udp, waiting) = if id == 0 {
            // An unspecified address of the peer's family.
            let any = if to.is_ipv4() {
                SocketAddr::from(([0; 4], local.port()))
            } else {
                ([0_u16; 8], local.port()).into()
            };
            let local = if local.ip().is_unspecified() { any } else { canonical(local) };
            let (held, udp) = self.datagrams(local, &Options::new()).await?;
            (held, udp, Vec::new())
        } else {
            let (datagrams, task) = self.registry.take_datagrams(self.uid, id).ok_or(Errno::INVAL)?;
            task.abort();
            let _ = task.await;
            let (udp, waiting) = datagrams.end(&self.registry).await;
            (self.registry.hold(self.uid)?, udp, waiting)
        };
        udp.connect(to).await.map_err(errno)?;
        let (local, program) =
            datagrams::begin(&self.registry, held, udp, Some(remote), &waiting).map_err(errno)?;
        Ok((local, Some(program)))
    }

    async fn connect(&self, id: u64, remote: SocketAddr) -> Answer {
        let to = canonical(remote);
        // Without a route it is the kernel's to try.
        if !self.registry.has_route(to.ip()).await {
            return Err(Errno::NETUNREACH);
        }
        let mut options = Options::new().nodelay(true);
        if id != 0 {
            let (local, task) = self.registry.take_listener(self.uid, id).ok_or(Errno::INVAL)?;
            // Its port is free when it has ended.
            task.abort();
            let _ = task.await;
            options = options.local(local);
        }
        let held = self.registry.hold(self.uid)?;
        let name = Name { role: Role::Stream, id: held.id, local: NO_ADDR, remote };
        let (program, unix) = pair(SocketType::STREAM, &name).map_err(errno)?;
        let filler = fill(&program).map_err(errno)?;
        let unix = UnixStream::from_std(unix.into()).map_err(errno)?;
        let registry = Rc::clone(&self.registry);
        spawn_local(async move {
            let connected = tokio::select! {
                connected = TcpStream::connect_with(&registry.sockets, to, &options) => connected,
                // The program has given up; so does the connection.
                _ = hung_up(unix.as_fd()) => return,
            };
            go_on(&registry, held, unix, filler, connected).await;
        });
        Ok((NO_ADDR, Some(program)))
    }
}

/// The connection stands, or does not: the program's socket becomes writable with its filler gone, or hangs up with it.
async fn go_on(
    registry: &Registry,
    held: Held,
    mut unix: UnixStream,
    filler: usize,
    connected: io::Result<TcpStream>,
) {
    let tcp = match connected {
        Ok(tcp) => tcp,
        Err(why) => {
            registry.end(&held, Some(errno(why)));
            return;
        }
    };
    if let Ok(local) = tcp.local_addr() {
        registry.set_local(held.id, local);
    }
    let mut left = filler;
    while left > 0 {
        let mut scratch = registry.scratch.take();
        let most = left.min(scratch.len());
        let read = unix.read(&mut scratch[..most]).await;
        registry.scratch.replace(scratch);
        match read {
            Ok(count) if count > 0 => left -= count,
            _ => return,
        }
    }
    relay::run(registry, &held, unix, tcp).await;
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
    let (reply, descriptor) = match answer {
        Ok((addr, descriptor)) => (Reply { errno: 0, addr }, descriptor),
        Err(why) => (Reply { errno: why.raw_os_error(), addr: NO_ADDR }, None),
    };
    let bytes = reply.emit();
    let descriptor = descriptor.as_ref().map(AsFd::as_fd);
    let sent = stream.async_io(Interest::WRITABLE, || send(stream.as_fd(), &bytes, descriptor)).await?;
    // So little goes whole, or not at all.
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// An IPv4 address where an IPv6 socket has it mapped.
pub(super) fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        ip if ip.is_ipv4() => (ip, addr.port()).into(),
        _ => addr,
    }
}

fn errno(why: io::Error) -> Errno {
    Errno::from_io_error(&why).unwrap_or(Errno::INVAL)
}
