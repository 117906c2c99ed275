//! A connection, common to all interfaces: a call does what is ready, and else its waker is registered.

use core::future::poll_fn;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::task::{Poll, Waker, ready};
use std::io;
use std::net::Shutdown;
use std::sync::{Arc, Mutex};

use net::channel::{Command, Connect, END, Event, Setting, Target, error as error_of};
use net::pcb::FourTuple;
use net::sock::Error;
use net::tcp::IpTxParams;
use pkt::byte_channel::{Reader, Writer};

use super::endpoint::{Endpoint, Lane, lock};
use super::error;
use super::options::{byte, check};
use super::wakers::Wakers;

/// Bytes that may wait in a lane at the least.
const LANE_MIN: u32 = 2048;

/// A connection. Its two directions can be used at the same time, by any threads.
pub(crate) struct Stream {
    endpoint: Arc<Endpoint>,
    cpu: usize,
    lane: u32,
    state: Arc<State>,
    /// Gone only when the stream goes.
    reader: Mutex<Option<Reader>>,
    writer: Mutex<Option<Writer>>,
    /// The program wants to read no more.
    is_deaf: AtomicBool,
    /// The reason of its end was reported.
    is_told: AtomicBool,
    /// It is reset when it is dropped.
    aborts: AtomicBool,
    is_like: Mutex<Like>,
    /// Bytes that may wait in the lane to be sent: those of its send buffer, if its program has chosen one; 0: as many as it holds.
    lane_max: AtomicU32,
}

/// The options of a connection that its program has set.
#[derive(Clone, Copy, Default)]
pub(super) struct Like {
    pub(super) nodelay: bool,
    pub(super) tx_params: IpTxParams,
}

/// The events of a connection.
pub(super) struct State(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// It stands, or stood, between these.
    ends: Option<FourTuple>,
    /// It has ended.
    is_over: bool,
    /// And the netisr with it: nothing will come of what is under way.
    is_gone: bool,
    readers: Wakers,
    writers: Wakers,
}

impl State {
    pub(super) fn new(ends: Option<FourTuple>) -> Self {
        Self(Mutex::new(Inner { ends, ..Inner::default() }))
    }

    pub(super) fn note(&self, event: Event, wakes: &mut Vec<Waker>) {
        let mut told = lock(&self.0);
        match event {
            Event::Readable(_) => told.readers.move_to(wakes),
            Event::Connected(_, ends) => {
                told.ends = Some(ends);
                told.writers.move_to(wakes);
            }
            Event::Ended(_) => told.end(wakes),
            _ => told.writers.move_to(wakes),
        }
    }

    /// Nothing goes on: the netisr is gone.
    pub(super) fn end(&self, wakes: &mut Vec<Waker>) {
        let mut told = lock(&self.0);
        told.is_gone = true;
        told.end(wakes);
    }

    fn is_over(&self) -> bool {
        lock(&self.0).is_over
    }
}

impl Inner {
    /// Whether it stands, or has stood; false if it never will.
    fn poll_stands(&mut self, waker: &Waker) -> Poll<bool> {
        if self.ends.is_some() || self.is_over {
            return Poll::Ready(self.ends.is_some());
        }
        self.writers.add(waker);
        Poll::Pending
    }

    fn end(&mut self, wakes: &mut Vec<Waker>) {
        self.is_over = true;
        self.readers.move_to(wakes);
        self.writers.move_to(wakes);
    }
}

impl Stream {
    pub(super) fn new(
        endpoint: &Arc<Endpoint>,
        (cpu, lane): (usize, u32),
        state: Arc<State>,
        (writer, reader): Lane,
    ) -> Self {
        Self {
            endpoint: Arc::clone(endpoint),
            cpu,
            lane,
            state,
            reader: Mutex::new(Some(reader)),
            writer: Mutex::new(Some(writer)),
            is_deaf: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            aborts: AtomicBool::new(false),
            is_like: Mutex::default(),
            lane_max: AtomicU32::new(0),
        }
    }

    /// Connects, and waits until the connection is established. `early`, which is no longer than a segment, is sent first: with the SYN if the
    /// other end has given a cookie for that. A dropped future has begun nothing.
    pub(super) async fn connect(
        endpoint: &Arc<Endpoint>,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        settings: &[Setting],
        early: &[u8],
    ) -> io::Result<Self> {
        let mut cpu = endpoint.any_cpu();
        // Of a port that was chosen the answers come to one CPU, which is said by the first that is asked.
        for _ in 0..2 {
            let stream = Self::begin((endpoint, cpu), remote, local, settings, early)?;
            let Some(why) = poll_fn(|context| stream.poll_stands(context.waker())).await? else {
                stream.remember(settings);
                return Ok(stream);
            };
            match why {
                Error::Elsewhere(owner) => cpu = owner.index(),
                why => return Err(error::of(why)),
            }
        }
        Err(error::of(Error::AddrNotAvailable))
    }

    fn begin(
        (endpoint, cpu): (&Arc<Endpoint>, usize),
        remote: SocketAddr,
        local: Option<SocketAddr>,
        settings: &[Setting],
        early: &[u8],
    ) -> io::Result<Self> {
        let port = local.map(|local| local.port()).filter(|port| *port != 0);
        let (local, zone) = (local.map(|local| local.ip()), zone(remote));
        endpoint.link(cpu).begin(endpoint, cpu, early, |lane| {
            let set = |setting: &Setting| Command::Set(Target::Lane(lane), *setting);
            let connect = Command::Connect(Connect { lane, remote, local, port, zone });
            settings.iter().map(set).chain([connect]).collect()
        })
    }

    /// Whether it stands, or why not.
    fn poll_stands(&self, waker: &Waker) -> Poll<io::Result<Option<Error>>> {
        match ready!(lock(&self.state.0).poll_stands(waker)) {
            true => Poll::Ready(Ok(None)),
            false => Poll::Ready(error_of(self.how()).map(Some).ok_or_else(error::gone)),
        }
    }

    /// Returns how the incoming stream ends, if that is known.
    fn how(&self) -> u32 {
        lock(&self.reader).as_ref().map_or(0, Reader::how)
    }

    /// Reads what has come. No bytes are the end.
    pub(super) fn poll_read(&self, waker: &Waker, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_bytes(waker, into.is_empty(), |reader| {
            let count = reader.read(into)?;
            Ok((count, reader.release()?))
        })
    }

    /// Peeks at bytes.
    pub(super) fn poll_peek(&self, waker: &Waker, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_bytes(waker, into.is_empty(), |reader| Ok((reader.peek(into)?, false)))
    }

    #[expect(clippy::significant_drop_tightening, reason = "the half is held as long as it is used")]
    fn poll_bytes(
        &self,
        waker: &Waker,
        is_enough: bool,
        mut take: impl FnMut(&mut Reader) -> Result<(usize, bool), pkt::byte_channel::Broken>,
    ) -> Poll<io::Result<usize>> {
        let mut reader = lock(&self.reader);
        let Some(reader) = reader.as_mut().filter(|_| !self.is_deaf.load(Ordering::Relaxed)) else {
            return Poll::Ready(Ok(0));
        };
        loop {
            // First whether more will come, then what is there.
            let is_gone = reader.is_abandoned();
            let (count, has_room) = take(reader).map_err(|_| error::gone())?;
            if has_room {
                self.say(&Command::Look(self.lane));
            }
            if count > 0 || is_enough {
                return Poll::Ready(Ok(count));
            }
            if let Some(how) = reader.end().map_err(|_| error::gone())? {
                return Poll::Ready(self.ended(how).map_or(Ok(0), Err));
            }
            if is_gone || !self.may_wait_to_read(waker) {
                return Poll::Ready(Err(error::gone()));
            }
            // Before a waker was in the list, it would have woken no caller.
            if self.is_deaf.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(0));
            }
            if reader.waits().map_err(|_| error::gone())? {
                return Poll::Pending;
            }
        }
    }

    /// Registers a reader's waker; false if nothing will come.
    fn may_wait_to_read(&self, waker: &Waker) -> bool {
        let mut told = lock(&self.state.0);
        told.readers.add(waker);
        !told.is_gone
    }

    /// Returns why it has ended, if before its time, to the first caller.
    fn ended(&self, how: u32) -> Option<io::Error> {
        if how == END || self.is_told.swap(true, Ordering::Relaxed) {
            return None;
        }
        error_of(how).map(error::of)
    }

    /// Writes as much as there is room for.
    #[expect(clippy::significant_drop_tightening, reason = "the half is held as long as it is used")]
    pub(super) fn poll_write(&self, waker: &Waker, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut writer = lock(&self.writer);
        let Some(writer) = writer.as_mut() else { return Poll::Ready(Err(error::of(Error::Closed))) };
        loop {
            ready!(self.poll_open(waker))?;
            let (room, needs) = self.room(writer)?;
            let now = bytes.get(..room).unwrap_or(bytes);
            let count = writer.write(now).map_err(|_| error::gone())?;
            if writer.publish() {
                self.say(&Command::Look(self.lane));
            }
            if count > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(count));
            }
            lock(&self.state.0).writers.add(waker);
            if writer.waits_for(needs).map_err(|_| error::gone())? && !self.state.is_over() {
                return Poll::Pending;
            }
        }
    }

    /// Returns how many bytes may be written now, and how many are free in the lane when one more may be.
    fn room(&self, writer: &Writer) -> io::Result<(usize, usize)> {
        let most = self.lane_max.load(Ordering::Relaxed) as usize;
        if most == 0 || most >= writer.capacity() {
            return Ok((usize::MAX, 0));
        }
        let waiting = writer.capacity() - writer.free().map_err(|_| error::gone())?;
        Ok((most.saturating_sub(waiting), writer.capacity() - most + 1))
    }

    /// Whether bytes can be sent: it stands, and has not ended.
    fn poll_open(&self, waker: &Waker) -> Poll<io::Result<()>> {
        if self.is_told.load(Ordering::Relaxed) || self.state.is_over() {
            return Poll::Ready(Err(self.ended(self.how()).unwrap_or_else(|| error::of(Error::Closed))));
        }
        lock(&self.state.0).poll_stands(waker).map(|_| Ok(()))
    }

    /// Says or wants no more, or both.
    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if self.state.is_over() {
            return Err(error::of(Error::NotConnected));
        }
        if how != Shutdown::Write {
            self.is_deaf.store(true, Ordering::Relaxed);
            self.wake_readers();
        }
        if how != Shutdown::Read {
            self.shut();
        }
        Ok(())
    }

    /// Says no more. What was written still goes.
    pub(super) fn shut(&self) {
        if let Some(mut writer) = lock(&self.writer).take()
            && writer.finish(END)
        {
            self.say(&Command::Look(self.lane));
        }
    }

    fn wake_readers(&self) {
        let mut wakes = Vec::new();
        lock(&self.state.0).readers.move_to(&mut wakes);
        wakes.into_iter().for_each(Waker::wake);
    }

    /// Changes how it behaves.
    pub(super) fn set(&self, settings: &[Setting]) -> io::Result<()> {
        check(settings, self.ends()?.local())?;
        self.remember(settings);
        settings.iter().for_each(|setting| self.say(&Command::Set(Target::Lane(self.lane), *setting)));
        Ok(())
    }

    /// It was told so.
    pub(super) fn remember(&self, settings: &[Setting]) {
        let mut like = lock(&self.is_like);
        for setting in settings {
            match *setting {
                Setting::NoDelay(on) => like.nodelay = on,
                Setting::SendBuffer(bytes) => self.lane_max.store(bytes.max(LANE_MIN), Ordering::Relaxed),
                Setting::Hops(hops) => like.tx_params.hops = byte(hops),
                Setting::Fib(fib) => like.tx_params.fib = byte(fib),
                // The marks of congestion are the connection's own.
                Setting::Class(class) => like.tx_params.class = byte(class) & !0b11,
                _ => {}
            }
        }
    }

    /// Returns its options.
    pub(super) fn like(&self) -> Like {
        *lock(&self.is_like)
    }

    /// It is reset when it is dropped, and what was written and has not arrived does not.
    pub(super) fn set_aborts(&self, aborts: bool) {
        self.aborts.store(aborts, Ordering::Relaxed);
    }

    /// Returns its addresses.
    pub(super) fn ends(&self) -> io::Result<FourTuple> {
        lock(&self.state.0).ends.ok_or_else(|| error::of(Error::NotConnected))
    }

    /// The CPU where it is.
    pub(super) const fn cpu(&self) -> usize {
        self.cpu
    }

    fn say(&self, command: &Command) {
        self.endpoint.link(self.cpu).say(command);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Both halves before the netisr is told that they are gone.
        drop((lock(&self.reader).take(), lock(&self.writer).take()));
        self.endpoint.link(self.cpu).close(self.lane, self.aborts.load(Ordering::Relaxed));
    }
}

/// The interface that an address names, if it means something only with its link.
pub(super) fn zone(addr: SocketAddr) -> net::tables::IfIndex {
    match addr {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(addr) => addr.scope_id().try_into().unwrap_or(0),
    }
}
