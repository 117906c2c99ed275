//! A socket of datagrams, as all faces have it: a lane on each CPU, since what comes from one sender comes to one of them.
//! What is sent takes one lane, so that what goes to one receiver stays in its order.

use core::future::poll_fn;
use core::net::{IpAddr, SocketAddr, SocketAddrV6};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Poll, Waker};
use std::io;
use std::sync::{Arc, Mutex};

use net::channel::datagram::{self, DATAGRAM_MAX, HEAD_LOCAL, Head, SendParams};
use net::channel::{Bind, Command, Join, Link, Question, Sender, Setting, Target};
use net::sock::Error;
use net::udp::Failure;
use pkt::byte_channel::{Reader, Writer};

use super::dgram_events::State;
use super::endpoint::{Endpoint, lock};
use super::error;
use super::listener::Place;
use super::options::{byte, check};
use super::stream::zone;
use super::udp::Received;

/// A socket. It can be used by any threads.
pub(crate) struct Socket {
    endpoint: Arc<Endpoint>,
    /// Its lane on each CPU.
    lanes: Vec<u32>,
    state: Arc<State>,
    come: Mutex<Come>,
    goes: Mutex<Goes>,
    is_connecting: AtomicBool,
    /// Errors are asked for, and calls do not report them.
    keeps_errors: AtomicBool,
}

/// Where datagrams come.
#[derive(Default)]
struct Come {
    lanes: Vec<Reader>,
    /// The lane that is looked at first: each in its turn.
    next: usize,
}

/// Where datagrams go.
#[derive(Default)]
struct Goes {
    lanes: Vec<Writer>,
    /// The CPU that sends.
    cpu: usize,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    /// As the program wants them to go from now on.
    how: SendParams,
}

impl Socket {
    /// Binds a socket of datagrams, on all CPUs. A dropped future has begun nothing.
    pub(super) async fn bind(
        endpoint: &Arc<Endpoint>,
        place: Place,
        settings: &[Setting],
    ) -> io::Result<Self> {
        let mut socket = Self {
            endpoint: Arc::clone(endpoint),
            lanes: Vec::new(),
            state: Arc::new(State::new()),
            come: Mutex::default(),
            goes: Mutex::default(),
            is_connecting: AtomicBool::new(false),
            keeps_errors: AtomicBool::new(false),
        };
        let Place { mut addr, only_v6, is_shared, .. } = place;
        for cpu in 0..endpoint.cpus() {
            socket.begin(cpu)?;
            // The port that the first has found is everybody's.
            let bind_any = settings.contains(&Setting::BindAny(true));
            let device = settings.iter().find_map(|setting| match setting {
                Setting::Device(device) => u16::try_from(*device).ok(),
                _ => None,
            });
            let device = device.unwrap_or(0);
            let place = Bind { addr, zone: zone(addr), only_v6, is_shared, bind_any, device };
            let bound = socket.ask(cpu, |question| Command::Bind(question, place)).await?;
            addr.set_port(bound.map_err(error::of)?.port());
        }
        socket.sends_from(endpoint.any_cpu(), addr, None);
        settings.iter().for_each(|setting| socket.put(*setting));
        Ok(socket)
    }

    /// Takes a lane on a CPU.
    fn begin(&mut self, cpu: usize) -> io::Result<()> {
        let (writer, reader) = self.endpoint.link(cpu).begin_socket(&self.state)?;
        self.lanes.push(writer.lane());
        lock(&self.goes).lanes.push(writer);
        lock(&self.come).lanes.push(reader);
        Ok(())
    }

    /// Speaks with one other end from now on: the answers of that come to one CPU, which is said by the first that is asked.
    pub(super) async fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        let _only = Only::new(&self.is_connecting)?;
        let mut cpu = lock(&self.goes).cpu;
        for _ in 0..2 {
            let speak = |question| Command::Speak { question, remote, zone: zone(remote) };
            match self.ask(cpu, speak).await? {
                Ok(local) => return self.connected(cpu, local, remote).await,
                Err(Error::Elsewhere(owner)) => cpu = owner.index(),
                Err(why) => return Err(error::of(why)),
            }
        }
        Err(error::of(Error::AddrNotAvailable))
    }

    /// From now on only the peer's datagrams are received.
    async fn connected(&self, cpu: usize, local: SocketAddr, remote: SocketAddr) -> io::Result<()> {
        self.sends_from(cpu, local, Some(remote));
        for other in (0..self.lanes.len()).filter(|other| *other != cpu) {
            self.ask(other, Command::Vacate).await?.map_err(error::of)?;
        }
        Ok(())
    }

    fn sends_from(&self, cpu: usize, local: SocketAddr, remote: Option<SocketAddr>) {
        let mut goes = lock(&self.goes);
        (goes.cpu, goes.local, goes.remote) = (cpu, Some(local), remote);
    }

    /// Asks a CPU something, and waits for the answer.
    async fn ask(
        &self,
        cpu: usize,
        what: impl FnOnce(Question) -> Command,
    ) -> io::Result<Result<SocketAddr, Error>> {
        let asked = self.state.ask();
        let question = Question { lane: self.lanes[cpu], serial: asked.serial() };
        self.endpoint.link(cpu).say(&what(question));
        poll_fn(|context| asked.poll(context.waker())).await
    }

    /// Listens to a group on all CPUs, or no longer: a datagram to it comes to the CPU of its sender.
    pub(super) async fn join(&self, wanted: Join) -> io::Result<()> {
        self.ask_all(|question| Command::Join(question, wanted)).await?.map_err(|why| match why {
            Error::AddrNotAvailable if wanted.joins && wanted.of == Sender::Any => error::no_device(),
            why => error::of(why),
        })
    }

    /// Sets the source filter of a group that it listens to: these senders, or all but these as `wanted` says.
    #[cfg(feature = "cli")]
    pub(super) async fn set_filter(&self, wanted: Join, senders: &[IpAddr]) -> io::Result<()> {
        for cpu in 0..self.lanes.len() {
            for sender in senders {
                self.endpoint.link(cpu).say(&Command::Name { lane: self.lanes[cpu], sender: *sender });
            }
            match self.ask(cpu, |question| Command::Join(question, wanted)).await? {
                // What it speaks with one other end is on another CPU.
                Ok(_) | Err(Error::NotFound) => {}
                Err(why) => return Err(error::of(why)),
            }
        }
        Ok(())
    }

    /// Sends to groups by an interface.
    pub(super) async fn send_groups_by(&self, link: Link) -> io::Result<()> {
        self.ask_all(|question| Command::GroupsBy(question, link)).await?.map_err(|why| match why {
            Error::AddrNotAvailable if link.ifindex != 0 => error::no_device(),
            why => error::of(why),
        })
    }

    /// Asks all CPUs the same, up to the first that cannot.
    async fn ask_all(&self, what: impl Fn(Question) -> Command) -> io::Result<Result<(), Error>> {
        for cpu in 0..self.lanes.len() {
            match self.ask(cpu, &what).await? {
                // What it speaks with one other end is on another CPU.
                Ok(_) | Err(Error::NotFound) => {}
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(()))
    }

    /// Sends a datagram, to the connected peer without an address. All of it, or nothing.
    pub(super) fn poll_send(
        &self,
        waker: &Waker,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> Poll<io::Result<usize>> {
        self.poll_send_from(waker, bytes, to, None)
    }

    /// [`Self::poll_send`] from an end of ours that is named.
    #[expect(clippy::significant_drop_tightening, reason = "the lane is held as long as it is used")]
    pub(super) fn poll_send_from(
        &self,
        waker: &Waker,
        bytes: &[u8],
        to: Option<SocketAddr>,
        local: Option<Link>,
    ) -> Poll<io::Result<usize>> {
        let mut goes = lock(&self.goes);
        let head = self.check(&goes, bytes, to, local)?;
        let cpu = goes.cpu;
        let Some(lane) = goes.lanes.get_mut(cpu) else { return Poll::Ready(Err(error::gone())) };
        loop {
            if self.state.is_gone() {
                return Poll::Ready(Err(error::gone()));
            }
            if datagram::put(lane, &head, [bytes, &[]]).map_err(|_| error::gone())? {
                if lane.publish() {
                    self.look(cpu);
                }
                return Poll::Ready(Ok(bytes.len()));
            }
            self.state.add_writer(waker);
            let waits = lane.waits_for(head.room()).map_err(|_| error::gone())?;
            if waits && !self.state.is_gone() {
                return Poll::Pending;
            }
        }
    }

    /// Whether a datagram can be sent, as far as that is known here; and what stands in front of it.
    fn check(
        &self,
        goes: &Goes,
        bytes: &[u8],
        to: Option<SocketAddr>,
        local: Option<Link>,
    ) -> io::Result<Head> {
        // What names our end has that much less room in a lane.
        let longest = if local.is_some() { DATAGRAM_MAX - HEAD_LOCAL } else { DATAGRAM_MAX };
        let len = u16::try_from(bytes.len()).ok().filter(|len| usize::from(*len) <= longest);
        let len = len.ok_or_else(|| error::of(Error::TooLong))?;
        self.check_failed(goes)?;
        let (Some(remote), Some(bound)) = (to.or(goes.remote), goes.local) else {
            return Err(error::no_destination());
        };
        let is_mapped = bound.ip() == IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED);
        if remote.port() == 0 || bound.is_ipv4() != remote.is_ipv4() && !is_mapped {
            return Err(error::of(Error::BadAddress));
        }
        let is_everybody = matches!(remote.ip(), IpAddr::V4(ip) if ip.is_broadcast());
        if is_everybody && !goes.how.may_broadcast {
            return Err(error::of(Error::NotPermitted));
        }
        let peer = if local.is_some() { Some(remote) } else { to };
        Ok(Head { peer, zone: zone(remote), local, len, how: goes.how })
    }

    /// Returns the error of an earlier datagram, if connected.
    fn check_failed(&self, goes: &Goes) -> io::Result<()> {
        match goes.remote.filter(|_| !self.keeps_errors()).and_then(|_| self.state.take_failure()) {
            Some((failure, _)) => Err(error::of(failure.error)),
            None => Ok(()),
        }
    }

    /// Reads the datagram that is there.
    pub(super) fn poll_recv(&self, waker: &Waker, into: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.poll_datagram(waker, into, true).map_ok(|received| (received.len, received.from))
    }

    /// Peeks at a datagram.
    pub(super) fn poll_peek(&self, waker: &Waker, into: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.poll_datagram(waker, into, false).map_ok(|received| (received.len, received.from))
    }

    /// Reads the datagram that is there, or shows it, and says how it has come.
    #[expect(clippy::significant_drop_tightening, reason = "the lanes are held as long as they are used")]
    pub(super) fn poll_datagram(
        &self,
        waker: &Waker,
        into: &mut [u8],
        takes: bool,
    ) -> Poll<io::Result<Received>> {
        let mut come = lock(&self.come);
        loop {
            let failed = self.check_failed(&lock(&self.goes));
            failed?;
            // First whether more will come, then what is there.
            let is_gone = self.state.is_gone();
            if let Some(received) = self.read(&mut come, into, takes)? {
                return Poll::Ready(Ok(received));
            }
            if is_gone {
                return Poll::Ready(Err(error::gone()));
            }
            self.state.add_reader(waker);
            let mut waits = !self.has_failed();
            for lane in &mut come.lanes {
                waits = waits && lane.waits().map_err(|_| error::gone())?;
            }
            if waits && !self.state.is_gone() {
                return Poll::Pending;
            }
        }
    }

    /// Tells whether the error of an earlier datagram is to be reported.
    fn has_failed(&self) -> bool {
        !self.keeps_errors() && lock(&self.goes).remote.is_some() && self.state.has_failed()
    }

    fn keeps_errors(&self) -> bool {
        self.keeps_errors.load(Ordering::Relaxed)
    }

    /// From now on calls of a connected socket do not report what became of earlier datagrams: [`Self::take_failure`] does.
    #[cfg(feature = "cli")]
    pub(super) fn keep_errors(&self) {
        self.keeps_errors.store(true, Ordering::Relaxed);
    }

    /// Reads a datagram from one of the lanes.
    fn read(&self, come: &mut Come, into: &mut [u8], takes: bool) -> io::Result<Option<Received>> {
        let count = come.lanes.len();
        for cpu in (come.next..count).chain(0..come.next) {
            let read = datagram::take(&mut come.lanes[cpu], |head, pieces| (takes, copy(head, pieces, into)));
            let Some(received) = read.map_err(|_| error::gone())? else { continue };
            if come.lanes[cpu].release().map_err(|_| error::gone())? {
                self.look(cpu);
            }
            come.next = if takes { (cpu + 1) % count } else { cpu };
            return Ok(Some(received));
        }
        Ok(None)
    }

    /// A CPU has something to do on its lane.
    fn look(&self, cpu: usize) {
        self.endpoint.link(cpu).say(&Command::Look(self.lanes[cpu]));
    }

    /// Changes how it behaves.
    pub(super) fn set(&self, setting: Setting) -> io::Result<()> {
        check(&[setting], self.local()?)?;
        self.put(setting);
        Ok(())
    }

    fn put(&self, setting: Setting) {
        match setting {
            Setting::Hops(hops) => return self.change(|how| how.tx_params.hops = byte(hops)),
            Setting::Class(class) => return self.change(|how| how.tx_params.class = byte(class)),
            // The address to send from depends on it, too.
            Setting::Fib(fib) => self.change(|how| how.tx_params.fib = byte(fib)),
            _ => {}
        }
        for (cpu, lane) in self.lanes.iter().enumerate() {
            self.endpoint.link(cpu).say(&Command::Set(Target::Lane(*lane), setting));
        }
    }

    /// Changes how what is sent from now on goes.
    pub(super) fn change(&self, what: impl FnOnce(&mut SendParams)) {
        what(&mut lock(&self.goes).how);
    }

    /// Returns its sending options.
    pub(super) fn how(&self) -> SendParams {
        lock(&self.goes).how
    }

    /// Where it waits, or this end of what it speaks.
    pub(super) fn local(&self) -> io::Result<SocketAddr> {
        lock(&self.goes).local.ok_or_else(error::gone)
    }

    /// Returns its peer.
    pub(super) fn remote(&self) -> io::Result<SocketAddr> {
        lock(&self.goes).remote.ok_or_else(|| error::of(Error::NotConnected))
    }

    /// Returns the error of a datagram that did not arrive, if it was not reported yet, and what an ICMP error quotes of its bytes if the
    /// socket wants all errors.
    pub(super) fn take_failure(&self) -> Option<(Failure, Vec<u8>)> {
        self.state.take_failure()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Both halves of all lanes before netisrs are told that they are gone.
        (*lock(&self.come), *lock(&self.goes)) = Default::default();
        for (cpu, lane) in self.lanes.iter().enumerate() {
            self.endpoint.link(cpu).close(*lane, false);
        }
    }
}

/// An exclusive right.
struct Only<'a>(&'a AtomicBool);

impl<'a> Only<'a> {
    fn new(flag: &'a AtomicBool) -> io::Result<Self> {
        match flag.swap(true, Ordering::Acquire) {
            true => Err(error::already()),
            false => Ok(Self(flag)),
        }
    }
}

impl Drop for Only<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Copies as much of a datagram as there is room for.
fn copy(head: &Head, pieces: [&[u8]; 2], into: &mut [u8]) -> Received {
    let mut count = 0;
    for piece in pieces {
        let len = piece.len().min(into.len() - count);
        into[count..count + len].copy_from_slice(&piece[..len]);
        count += len;
    }
    let nobody = SocketAddr::from(([0; 4], 0));
    let from = scoped(head.peer.unwrap_or(nobody), head.zone);
    let (ttl, tos) = (head.how.tx_params.hops, head.how.tx_params.class);
    let (local, interface) = (head.local.map(|own| own.addr), head.local.map_or(0, |own| own.ifindex.into()));
    Received { len: count, from, ttl, tos, local, interface }
}

/// An address with the interface that it needs, if it needs one.
fn scoped(addr: SocketAddr, zone: u16) -> SocketAddr {
    match addr {
        SocketAddr::V6(v6) if zone != 0 => SocketAddrV6::new(*v6.ip(), v6.port(), 0, zone.into()).into(),
        other => other,
    }
}
