//! TAP and TUN: a network interface of the kernel whose other end is this process.
//!
//! A TUN has no frames: its packets get a link header of zeros on the way in, and lose it on the way out.
//!
//! One queue, one ring, one CPU. Frames come and go with a virtio header, so that super-packets of 64 KiB cross whole
//! and checksums that are not needed are not computed. There is no ring in memory: each frame is one system call, or
//! several are one where the kernel has io_uring.

mod describe;
mod receive;
mod send;

use core::time::Duration;
use std::io;
use std::sync::Arc;

use net::driver::{Caps, Driver, DriverStats, Link};
use pkt::{PktVec, Pool};
use wire::ether::HEADER_LEN;

use crate::Waiter;
use crate::sys::poll::{PollFd, PollFlags, wait};
use crate::sys::tun::{Layer, Offload, TapQueue};
use crate::sys::uring::{BATCH, Uring};
use receive::{Came, Lost, Receiver};
use send::Sent;

/// Buffers of the longest frame: 64 KiB and an Ethernet header.
const BUFFERS_MAX: usize = 33;

/// One queue of a TAP or TUN interface.
pub struct TapRing {
    /// None once the interface is gone: it would be ready for ever.
    queue: Option<Arc<TapQueue>>,
    caps: Caps,
    /// Bytes of the link header, which the kernel does not see.
    link_len: usize,
    receiver: Receiver,
    /// None where the kernel has no io_uring for it.
    batch: Option<Uring>,
    stats: DriverStats,
}

impl TapRing {
    /// A ring over `queue`, which may have at most `allowance` buffers out.
    #[must_use]
    pub fn new(queue: TapQueue, offload: Offload, allowance: usize) -> Self {
        // Writing super-packets and partial checksums is always allowed; what the kernel does with UDP ones depends
        // on its version, as does whether it sends us any.
        let uso = offload == Offload::TcpAndUdp;
        let caps = Caps { tx_csum: true, tso: true, uso, buffers_max: BUFFERS_MAX };
        let link_len = match queue.layer() {
            Layer::Frames => 0,
            Layer::Packets => HEADER_LEN,
        };
        Self {
            queue: Some(Arc::new(queue)),
            caps,
            link_len,
            receiver: Receiver::new(allowance),
            batch: Uring::open().ok(),
            stats: DriverStats::default(),
        }
    }

    /// The ring with a system call for each frame, as where the kernel has no io_uring.
    #[must_use]
    pub fn without_batches(self) -> Self {
        Self { batch: None, ..self }
    }

    /// Whether several frames are one system call.
    #[must_use]
    pub const fn has_batches(&self) -> bool {
        self.batch.is_some()
    }

    /// Returns the descriptor to wait on for frames, for as long as the interface is there.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        self.queue.as_ref().map_or_else(Waiter::never, Waiter::on)
    }

    /// Whether the error says that the interface is gone; then the queue is given up.
    fn is_gone(&mut self, error: &io::Error) -> bool {
        let gone = error.raw_os_error() == Some(libc::EBADFD);
        if gone {
            self.queue = None;
        }
        gone
    }

    /// Answers whether the error is one of a frame, and not that there are no batches, or no interface any more.
    fn is_of_a_frame(&mut self, error: &io::Error) -> bool {
        // Older kernels cannot say that nothing is there without waiting.
        if error.raw_os_error() == Some(libc::EOPNOTSUPP) {
            self.batch = None;
            return false;
        }
        !self.is_gone(error)
    }
}

impl Driver for TapRing {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let (mut got, mut came, mut wanted) = (0, 0, self.receiver.expected());
        loop {
            // Frames that are lost count, too: a flood of them takes no more of the turn.
            wanted = wanted.min(max.saturating_sub(came)).min(into.room());
            let Some(queue) = self.queue.as_ref().filter(|_| wanted > 0) else { break };
            let Came { frames, is_all, error } = self.receiver.read(queue, self.batch.as_mut(), wanted, pool);
            came += frames;
            for at in 0..frames {
                match self.receiver.packet(at, self.link_len, pool).map(|pkt| into.push(pkt)) {
                    Ok(Ok(())) => got += 1,
                    Ok(Err(pkt)) => pool.give(pkt),
                    Err(Lost::NoBuffer) => self.stats.rx_dropped += 1,
                    Err(Lost::NotIp) => self.stats.rx_errors += 1,
                }
            }
            if let Some(error) = error {
                self.stats.rx_errors += u64::from(self.is_of_a_frame(&error));
            }
            if is_all {
                break;
            }
            wanted = BATCH;
        }
        self.receiver.note(came);
        self.stats.rx_frames += got as u64;
        got
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        while let Some(queue) = self.queue.as_ref().filter(|_| !from.is_empty()) {
            let sent = send::some(queue, self.batch.as_mut(), from, self.link_len);
            let Sent { done, frames, lost, is_full, error } = sent;
            self.stats.tx_frames += frames;
            self.stats.tx_errors += lost;
            self.stats.tx_full += u64::from(is_full);
            self.stats.doorbells += u64::from(frames > 0);
            from.drain_front(done).for_each(|pkt| pool.give(pkt));
            if let Some(error) = error {
                self.is_of_a_frame(&error);
            }
            if is_full {
                break;
            }
        }
    }

    /// Frames have gone already.
    fn doorbell(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        self.caps
    }

    /// Asks the kernel: a system call.
    fn link(&self) -> Link {
        let Some(queue) = &self.queue else { return Link::Gone };
        let mut ask = [PollFd::new(queue, PollFlags::OUT)];
        if wait(&mut ask, Some(Duration::ZERO)).is_err() {
            return Link::Down;
        }
        match ask[0].revents() {
            is if is.contains(PollFlags::ERR) => Link::Gone,
            is if is.contains(PollFlags::OUT) => Link::Up,
            _ => Link::Down,
        }
    }

    fn stats(&self) -> DriverStats {
        self.stats
    }

    fn leave(&mut self, pool: &mut Pool) {
        self.receiver.leave(pool);
    }

    /// The queue stays open until the driver is dropped.
    fn close(&mut self, pool: &mut Pool) {
        self.leave(pool);
    }
}
