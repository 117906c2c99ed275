//! TAP and TUN: a network interface of the kernel whose other end is this process.
//!
//! A TUN has no frames: its packets get a link header of zeros on the way in, and lose it on the way out.
//!
//! One queue, one ring, one CPU. Frames come and go with a virtio header, so that super-packets of 64 KiB cross whole
//! and checksums that are not needed are not computed. There is no ring in memory: each frame is one system call.

use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use net::driver::{Caps, Driver, DriverStats, Link};
use pkt::{DATA_LEN, Flags, Gso, HEADROOM, Pkt, PktVec, Pool, RingId};
use wire::ether::{EtherType, HEADER_LEN};

use crate::Waiter;
use crate::sys::poll::{PollFd, PollFlags, wait};
use crate::sys::tun::{Layer, Offload, TapQueue};
use crate::sys::vnet_hdr::{self, VNET_HDR_LEN, VnetHdr};

/// Buffers of the longest frame: 64 KiB and an Ethernet header.
const BUFFERS_MAX: usize = 33;
/// Slices of a system call: the virtio header and the buffers.
const SLICES: usize = BUFFERS_MAX + 1;

/// One queue of a TAP or TUN interface.
pub struct TapRing {
    /// None once the interface is gone: it would be ready for ever.
    queue: Option<Arc<TapQueue>>,
    caps: Caps,
    /// Bytes of the link header, which the kernel does not see.
    link_len: usize,
    /// Empty buffers that the next frame is read into.
    empty: Vec<Pkt>,
    account: Option<RingId>,
    allowance: usize,
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
            empty: Vec::with_capacity(BUFFERS_MAX),
            account: None,
            allowance,
            stats: DriverStats::default(),
        }
    }

    /// Returns the descriptor to wait on for frames, for as long as the interface is there.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        self.queue.as_ref().map_or_else(Waiter::never, Waiter::on)
    }

    fn refill(&mut self, pool: &mut Pool) {
        let account = *self.account.get_or_insert_with(|| pool.open_ring(self.allowance.max(BUFFERS_MAX)));
        while self.empty.len() < BUFFERS_MAX
            && let Some(pkt) = pool.take_for(account)
        {
            self.empty.push(pkt);
        }
    }

    /// Reads one frame into the empty buffers; `None` if there is none.
    fn read(&mut self) -> Option<(VnetHdr, usize)> {
        let queue = self.queue.as_ref()?;
        let mut header = [0; VNET_HDR_LEN];
        let slices = 1 + self.empty.len();
        let mut room = self.empty.iter_mut().map(|pkt| &mut pkt.buffer_mut()[HEADROOM..]);
        let mut first = Some(&mut header[..]);
        let mut all: [_; SLICES] = core::array::from_fn(|_| {
            IoSliceMut::new(first.take().or_else(|| room.next()).unwrap_or_default())
        });
        match queue.readv(&mut all[..slices]) {
            Ok(len) => Some((VnetHdr::decode(&header), len?.saturating_sub(VNET_HDR_LEN))),
            Err(error) => {
                self.stats.rx_errors += u64::from(!self.is_gone(&error));
                None
            }
        }
    }

    /// Makes a packet of the first `len` bytes that were read.
    ///
    /// The kernel does not say when it cut a frame off because the allowance left too few buffers: one that fills them
    /// all to the last byte counts as cut off.
    fn packet(&mut self, header: &VnetHdr, len: usize) -> Option<Pkt> {
        if len >= self.empty.len() * DATA_LEN {
            self.stats.rx_dropped += 1;
            return None;
        }
        let link = match self.link_len {
            0 => None,
            _ => {
                let link = link_header(self.empty.first_mut()?.buffer_mut().get(HEADROOM).copied());
                self.stats.rx_errors += u64::from(link.is_none());
                Some(link?)
            }
        };
        let mut parts = self.empty.drain(..len.div_ceil(DATA_LEN));
        let mut pkt = parts.next()?;
        pkt.place(HEADROOM, len.min(DATA_LEN)).ok()?;
        for (before, mut part) in (1..).zip(parts) {
            part.place(HEADROOM, (len - before * DATA_LEN).min(DATA_LEN)).ok()?;
            pkt.chain(part);
        }
        if let Some(link) = link {
            pkt.prepend_array(&link).ok()?;
        }
        describe(&mut pkt, header, self.link_len);
        Some(pkt)
    }

    /// Whether the error says that the interface is gone; then the queue is given up.
    fn is_gone(&mut self, error: &std::io::Error) -> bool {
        let gone = error.raw_os_error() == Some(libc::EBADFD);
        if gone {
            self.queue = None;
        }
        gone
    }

    /// Whether the frame at the front of the vector has been dealt with.
    fn write(&mut self, pkt: &Pkt) -> bool {
        let Some(queue) = &self.queue else { return false };
        let link_len = self.link_len;
        if link_len > 0 && !is_ip(pkt) {
            self.stats.tx_errors += 1;
            return true;
        }
        let header = header_for(pkt, link_len).encode();
        let slices = 1 + pkt.buffers();
        let mut skip = link_len;
        let mut parts =
            pkt.fragments().map(|part| part.get(core::mem::take(&mut skip)..).unwrap_or_default());
        let mut first = Some(&header[..]);
        let all: [_; SLICES] =
            core::array::from_fn(|_| IoSlice::new(first.take().or_else(|| parts.next()).unwrap_or_default()));
        let Some(all) = all.get(..slices) else {
            self.stats.tx_errors += 1; // longer than any frame
            return true;
        };
        match queue.writev(all) {
            Ok(Some(_)) => self.stats.tx_frames += 1,
            Ok(None) => {
                self.stats.tx_full += 1;
                return false;
            }
            Err(error) => {
                self.stats.tx_errors += 1;
                return !self.is_gone(&error);
            }
        }
        true
    }
}

impl Driver for TapRing {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let mut got = 0;
        while got < max && !into.is_full() {
            self.refill(pool);
            if self.empty.is_empty() {
                break;
            }
            let Some((header, len)) = self.read() else { break };
            match self.packet(&header, len).map(|pkt| into.push(pkt)) {
                Some(Ok(())) => got += 1,
                Some(Err(pkt)) => pool.give(pkt),
                None => {}
            }
        }
        self.stats.rx_frames += got as u64;
        got
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        let sent = from.iter().take_while(|pkt| self.write(pkt)).count();
        for pkt in from.drain_front(sent) {
            pool.give(pkt);
        }
    }

    /// Each frame was its own doorbell.
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
        DriverStats { doorbells: self.stats.tx_frames, ..self.stats }
    }

    fn leave(&mut self, pool: &mut Pool) {
        self.empty.drain(..).for_each(|pkt| pool.give(pkt));
        self.account.take().into_iter().for_each(|account| pool.close_ring(account));
    }

    /// The queue stays open until the driver is dropped.
    fn close(&mut self, pool: &mut Pool) {
        self.leave(pool);
    }
}

/// Notes what the kernel says about a frame. What it says impossibly is not believed: the frame then has a wrong
/// checksum, and dies of it where that matters.
fn describe(pkt: &mut Pkt, header: &VnetHdr, link_len: usize) {
    if header.flags & vnet_hdr::NEEDS_CSUM != 0 {
        let start = usize::from(header.csum_start) + link_len;
        let field = start + usize::from(header.csum_offset);
        if field + 2 <= pkt.head().len()
            && let (Ok(start), Ok(offset)) = (u16::try_from(start), u8::try_from(header.csum_offset))
        {
            pkt.csum_start = start;
            pkt.csum_off = offset;
            pkt.flags.set(Flags::CSUM_PARTIAL);
        }
    } else if header.flags & vnet_hdr::DATA_VALID != 0 {
        pkt.flags.set(Flags::CSUM_GOOD);
    }
    pkt.gso = match header.gso_type & !vnet_hdr::GSO_ECN {
        vnet_hdr::GSO_TCPV4 => Gso::Tcp4,
        vnet_hdr::GSO_TCPV6 => Gso::Tcp6,
        vnet_hdr::GSO_UDP_L4 => Gso::Udp,
        _ => return,
    };
    pkt.gso_size = header.gso_size;
    if header.gso_type & vnet_hdr::GSO_ECN != 0 {
        pkt.flags.set(Flags::GSO_ECN);
    }
}

/// Returns a link header without addresses for a packet with this first byte; `None` if it is none of IP.
fn link_header(first: Option<u8>) -> Option<[u8; HEADER_LEN]> {
    let ethertype = match first? >> 4 {
        4 => EtherType::IPV4,
        6 => EtherType::IPV6,
        _ => return None,
    };
    let mut header = [0; HEADER_LEN];
    header[12..].copy_from_slice(&ethertype.0.to_be_bytes());
    Some(header)
}

/// Whether a frame carries an IP packet.
fn is_ip(pkt: &Pkt) -> bool {
    let [.., hi, lo] = *pkt.window(0).first_chunk::<HEADER_LEN>().unwrap_or(&[0; HEADER_LEN]);
    matches!(EtherType(u16::from_be_bytes([hi, lo])), EtherType::IPV4 | EtherType::IPV6)
}

/// Tells the kernel what is still to be done to a frame, of which it does not see the first `link_len` bytes.
fn header_for(pkt: &Pkt, link_len: usize) -> VnetHdr {
    let mut header = VnetHdr::default();
    let link_len = u16::try_from(link_len).unwrap_or(0);
    let csum_start = pkt.csum_start.saturating_sub(link_len);
    if pkt.flags.has(Flags::CSUM_PARTIAL) {
        header.flags = vnet_hdr::NEEDS_CSUM;
        header.csum_start = csum_start;
        header.csum_offset = pkt.csum_off.into();
    } else if pkt.flags.has(Flags::CSUM_GOOD) {
        header.flags = vnet_hdr::DATA_VALID;
    }
    header.gso_type = match pkt.gso {
        Gso::None => return header,
        Gso::Tcp4 => vnet_hdr::GSO_TCPV4,
        Gso::Tcp6 => vnet_hdr::GSO_TCPV6,
        Gso::Udp => vnet_hdr::GSO_UDP_L4,
    };
    if pkt.flags.has(Flags::GSO_ECN) {
        header.gso_type |= vnet_hdr::GSO_ECN;
    }
    header.gso_size = pkt.gso_size;
    header.hdr_len = csum_start.saturating_add(transport_header_len(pkt));
    header
}

/// Bytes of the transport header of a super-packet, whose `csum_start` is where it begins.
fn transport_header_len(pkt: &Pkt) -> u16 {
    const UDP: u16 = 8;
    match pkt.gso {
        Gso::Udp => UDP,
        _ => u16::from(pkt.window(usize::from(pkt.csum_start))[12] >> 4) * 4,
    }
}
