//! Packet sockets for threads: whole frames, received by a filter and sent as they are made.
//!
//! ```text
//!   netisr of each CPU: Port, an application               thread: PacketSocket
//!     packet socket ──▶ lane: headers and frames ─────────────▶ recv
//!     packet::send  ◀── lane: lengths and frames ────────────── send, on CPU 0
//! ```
//!
//! The netisr wakes the thread by a descriptor, and only while the thread waits; it never waits itself. What a lane has no
//! room for waits in the socket of its CPU, and then is counted (`packet_socket_full`).

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Instant as Clock;

use dev::sys::poll::{self, EventFd, PollFd, PollFlags};
use net::app::{App, AppContext, Handle};
use net::msg::{Msg, Notifier, Remote};
use net::packet::{self, Open};
use net::sock::Error;
use net::time::Instant;
use pkt::byte_channel::{Broken, Reader, Writer, lanes};

use super::endpoint::lock;
use super::error;

/// Bytes that a lane has room for in each direction, on each CPU.
const LANE_BYTES: usize = 512 << 10;
/// Bytes in front of a received frame: its length here and on the link, the time, the interface, facts.
const HEADER: usize = 20;
/// Bytes in front of a frame that is sent: its length.
const LENGTH: usize = 4;
/// Bytes of the longest frame that is sent.
const FRAME_MAX: usize = 65_600;
/// Frames that are sent in a turn at the most.
const SENDS_MAX: usize = 256;
/// Facts about a frame.
const OUTGOING: u16 = 1;
const PARTIAL: u16 = 2;

/// A frame that was received, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes that were read.
    pub len: usize,
    /// Bytes that it had on the link.
    pub frame_len: usize,
    /// When it came, by the clock of the stack.
    pub at: Instant,
    /// Number of its interface.
    pub interface: u32,
    /// It was sent by this host.
    pub is_outgoing: bool,
    /// Its checksum is not complete, or the device cuts it into segments.
    pub is_partial: bool,
}

/// A packet socket on all CPUs of a stack, for any thread. Its descriptor ([`AsFd`]) is readable when frames may have come.
pub struct PacketSocket {
    /// Frames from each CPU, and where to look next.
    receives: Mutex<(Vec<Reader>, usize)>,
    sends: Mutex<Writer>,
    notifiers: Vec<Notifier>,
    shared: Arc<Shared>,
    read_timeout: Mutex<Option<Duration>>,
    is_nonblocking: AtomicBool,
}

/// State that the ports share with the socket.
struct Shared {
    bell: EventFd,
    /// The `errno` of a frame that was not sent; 0 for none.
    failure: AtomicU32,
}

impl PacketSocket {
    /// Opens a socket on each of these netisrs, which are all of a stack: [`crate::Stack::remotes`]. Not to be called on a
    /// netisr's thread.
    ///
    /// # Errors
    ///
    /// `ENODEV` without such an interface, or if its frames come by no device; `ENOBUFS` if there are too many sockets.
    pub fn open(remotes: &[Remote], wanted: &Open) -> io::Result<Self> {
        let shared = Arc::new(Shared { bell: EventFd::new()?, failure: AtomicU32::new(0) });
        let (mut receives, mut sends, mut notifiers) = (Vec::new(), None, Vec::new());
        for remote in remotes {
            let (near, far) =
                lanes(1, LANE_BYTES).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
            let (Some((writer, reader)), Some((frames, orders))) = (near.take(0), far.take(0)) else {
                return Err(error::too_many());
            };
            let (wanted, shared) = (wanted.clone(), Arc::clone(&shared));
            let port = Port { wanted, socket: None, frames: Some(frames), orders, frame: Vec::new(), shared };
            let (told, opened) = sync_channel(1);
            let begin = Msg::Call(Box::new(move |netisr: &mut net::netisr::Netisr| {
                // The caller waits for it, or has gone.
                let _ = told.send(netisr.open(Box::new(port)));
            }));
            remote.send(begin).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
            let (_, flag) = opened.recv().map_err(|_| error::gone())?.map_err(error::of)?;
            notifiers.push(remote.notifier(flag));
            receives.push(reader);
            sends.get_or_insert(writer);
        }
        let sends = Mutex::new(sends.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?);
        Ok(Self {
            receives: Mutex::new((receives, 0)),
            sends,
            notifiers,
            shared,
            read_timeout: Mutex::default(),
            is_nonblocking: AtomicBool::new(false),
        })
    }

    /// Receives a frame; what `into` has no room for is lost.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if none has come in time; the error of a frame that was not sent; `ENETDOWN` if the stack has ended.
    #[expect(clippy::significant_drop_tightening, reason = "one thread waits at a time")]
    pub fn recv(&self, into: &mut [u8]) -> io::Result<Frame> {
        let mut receives = lock(&self.receives);
        let (readers, next) = &mut *receives;
        let deadline = lock(&self.read_timeout).map(|timeout| Clock::now() + timeout);
        loop {
            self.take_error()?;
            if let Some(frame) = self.next(readers, next, into).map_err(|Broken| error::gone())? {
                return Ok(frame);
            }
            if readers.iter().all(Reader::is_abandoned) {
                return Err(error::gone());
            }
            self.wait(readers, deadline)?;
        }
    }

    /// The next frame, from each CPU in its turn.
    fn next(
        &self,
        readers: &mut [Reader],
        next: &mut usize,
        into: &mut [u8],
    ) -> Result<Option<Frame>, Broken> {
        for at in 0..readers.len() {
            let cpu = (*next + at) % readers.len();
            let reader = &mut readers[cpu];
            if reader.is_empty()? {
                continue;
            }
            let mut header = [0; HEADER];
            reader.read(&mut header)?;
            let (frame, len) = decode(&header);
            let kept = frame.len.min(into.len());
            reader.read(&mut into[..kept])?;
            reader.read_in_place(|_| (len - kept, ()))?;
            if reader.release()? {
                self.notifiers[cpu].knock();
            }
            *next = cpu + 1;
            return Ok(Some(Frame { len: kept, ..frame }));
        }
        Ok(None)
    }

    /// Waits until a netisr has written something. A netisr that writes from now on makes the descriptor readable.
    fn wait(&self, readers: &mut [Reader], deadline: Option<Clock>) -> io::Result<()> {
        self.shared.bell.clear()?;
        let mut waits = true;
        for reader in readers.iter_mut() {
            waits &= reader.waits().map_err(|Broken| error::gone())?;
        }
        if !waits {
            return Ok(());
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Clock::now()));
        if self.is_nonblocking.load(Ordering::Relaxed) || left.is_some_and(|left| left.is_zero()) {
            return Err(error::would_block());
        }
        poll::wait(&mut [PollFd::new(&self.shared.bell, PollFlags::IN)], left).map(|_| ())
    }

    /// Sends a frame, which begins with its Ethernet header, by the interface of the socket. It is queued, and sent by CPU 0; an
    /// error there is what the next call returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` of a frame without a header, `EMSGSIZE` of one that is too long, `ENOBUFS` if the netisr has not taken what was
    /// sent before; the error of an earlier frame.
    pub fn send(&self, frame: &[u8]) -> io::Result<usize> {
        self.take_error()?;
        if frame.len() > FRAME_MAX {
            return Err(error::of(Error::TooLong));
        }
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX).to_le_bytes();
        let mut sends = lock(&self.sends);
        if sends.free().map_err(|Broken| error::gone())? < LENGTH + frame.len() {
            return Err(error::of(Error::NoBuffer));
        }
        if sends.is_abandoned() {
            return Err(error::gone());
        }
        let written = sends.write(&length).and_then(|_| sends.write(frame));
        written.map_err(|Broken| error::gone())?;
        // This stream has no waiting reader: the netisr is notified by a flag.
        let _ = sends.publish();
        drop(sends);
        self.notifiers[0].knock();
        Ok(frame.len())
    }

    fn take_error(&self) -> io::Result<()> {
        match self.shared.failure.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno.cast_signed())),
        }
    }

    /// Sets how long [`Self::recv`] waits; `None` for as long as it takes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` of no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        *lock(&self.read_timeout) = timeout;
        Ok(())
    }

    /// Sets non-blocking mode.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.is_nonblocking.store(nonblocking, Ordering::Relaxed);
        Ok(())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl core::fmt::Debug for PacketSocket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PacketSocket").field("cpus", &self.notifiers.len()).finish_non_exhaustive()
    }
}

/// The ports learn that nothing is read any more.
impl Drop for PacketSocket {
    fn drop(&mut self) {
        lock(&self.receives).0.clear();
        self.notifiers.iter().for_each(Notifier::knock);
    }
}

/// The part of a socket on one CPU.
struct Port {
    wanted: Open,
    socket: Option<packet::Id>,
    /// Frames for the thread.
    frames: Option<Writer>,
    /// Frames of the thread.
    orders: Reader,
    /// One of them, on its way.
    frame: Vec<u8>,
    shared: Arc<Shared>,
}

impl App for Port {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        let socket = packet::open(cx.cpu, self.wanted.clone())?;
        cx.hold_packet(socket, 0);
        self.socket = Some(socket);
        Ok(())
    }

    fn frames(&mut self, cx: &mut AppContext<'_>, _: Handle<packet::Id>) {
        self.run(cx);
    }

    fn called(&mut self, cx: &mut AppContext<'_>) {
        self.run(cx);
    }
}

impl Port {
    fn run(&mut self, cx: &mut AppContext<'_>) {
        let done = self.send(cx).and_then(|()| self.deliver(cx));
        // The thread has gone, or has written what cannot be.
        if done.is_err() || self.frames.as_ref().is_none_or(Writer::is_abandoned) {
            self.frames = None;
            let _ = self.shared.bell.notify();
            cx.leave();
        }
    }

    /// Sends what the thread has queued; the rest in the next turn.
    fn send(&mut self, cx: &mut AppContext<'_>) -> Result<(), Broken> {
        let Some(socket) = self.socket else { return Ok(()) };
        for _ in 0..SENDS_MAX {
            if self.orders.len()? < LENGTH {
                break;
            }
            let mut length = [0; LENGTH];
            self.orders.read(&mut length)?;
            let len = u32::from_le_bytes(length) as usize;
            if len > FRAME_MAX || self.orders.len()? < len {
                return Err(Broken);
            }
            self.frame.resize(len, 0);
            self.orders.read(&mut self.frame)?;
            if let Err(why) = packet::send(cx.cpu, socket, &self.frame) {
                let errno = error::of(why).raw_os_error().unwrap_or_default();
                self.shared.failure.store(errno.cast_unsigned(), Ordering::Relaxed);
                let _ = self.shared.bell.notify();
            }
        }
        let _ = self.orders.release()?;
        if self.orders.len()? >= LENGTH {
            cx.again_packet(socket);
        }
        Ok(())
    }

    /// Moves frames of the socket to the thread, as many as there is room for.
    fn deliver(&mut self, cx: &mut AppContext<'_>) -> Result<(), Broken> {
        let (Some(socket), Some(frames)) = (self.socket, &mut self.frames) else { return Ok(()) };
        loop {
            let moved = packet::show(cx.cpu, socket, |received, pieces| {
                let wants = HEADER + received.len;
                let room = frames.free();
                if room.is_ok_and(|room| room < wants) {
                    return (false, Ok(Some(wants)));
                }
                let written = room
                    .and_then(|_| frames.write(&encode(received)))
                    .and_then(|_| pieces.iter().try_for_each(|piece| frames.write(piece).map(|_| ())));
                (true, written.map(|()| None))
            });
            match moved {
                Ok(Ok(None)) => {}
                // The thread notifies when it has read enough.
                Ok(Ok(Some(wants))) if frames.waits_for(wants)? => break,
                Ok(Ok(Some(_))) => {}
                Ok(Err(broken)) => return Err(broken),
                Err(_) => break,
            }
        }
        if frames.publish() {
            let _ = self.shared.bell.notify();
        }
        Ok(())
    }
}

/// The thread learns that the stack has ended.
impl Drop for Port {
    fn drop(&mut self) {
        self.frames = None;
        let _ = self.shared.bell.notify();
    }
}

fn encode(received: &packet::Received) -> [u8; HEADER] {
    let length = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
    let facts = (OUTGOING * u16::from(received.is_outgoing)) | (PARTIAL * u16::from(received.is_partial));
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&length(received.len));
    header[4..8].copy_from_slice(&length(received.frame_len));
    header[8..16].copy_from_slice(&received.at.ns().to_le_bytes());
    header[16..18].copy_from_slice(&received.ifindex.to_le_bytes());
    header[18..].copy_from_slice(&facts.to_le_bytes());
    header
}

/// Reads a header; returns also the number of bytes behind it.
fn decode(header: &[u8; HEADER]) -> (Frame, usize) {
    let [a, b, c, d, e, f, g, h, time @ .., i, j, k, l] = *header;
    let (len, facts) = (u32::from_le_bytes([a, b, c, d]) as usize, u16::from_le_bytes([k, l]));
    let frame = Frame {
        len,
        frame_len: u32::from_le_bytes([e, f, g, h]) as usize,
        at: Instant::from_ns(u64::from_le_bytes(time)),
        interface: u16::from_le_bytes([i, j]).into(),
        is_outgoing: facts & OUTGOING != 0,
        is_partial: facts & PARTIAL != 0,
    };
    (frame, len)
}
