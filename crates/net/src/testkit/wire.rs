//! A wire in memory: a driver at one end, the test at the other.

use core::net::{IpAddr, Ipv6Addr};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pkt::{DATA_LEN, Flags, Gso, Pkt, PktVec, Pool};
use wire::arp;
use wire::ether::{HEADER_LEN, Mac};
use wire::icmp6;

use super::{build, peer_mac};
use crate::link::driver::{Caps, Driver, DriverStats};
use crate::link::tables::IfIndex;

/// A frame as the test sees it: its bytes, and what sender and device say of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) gso: Gso,
    pub(crate) gso_size: u16,
    /// Offsets of a partial checksum: `csum_start` and `csum_off`.
    pub(crate) partial: Option<(u16, u8)>,
    pub(crate) flags: Flags,
    /// Buffers that it lay in when it was sent.
    pub(crate) buffers: usize,
}

impl From<Vec<u8>> for Frame {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }
}

/// The test's end.
pub(super) struct Wire {
    pub(super) ifindex: IfIndex,
    deliver: Sender<Frame>,
    from: Receiver<Frame>,
    sent: VecDeque<Frame>,
    /// Frames that the rings take until the test makes room again.
    pub(super) room: Arc<AtomicUsize>,
}

/// The stack's end: one ring.
pub(super) struct Mem {
    rx: Option<Receiver<Frame>>,
    tx: Sender<Frame>,
    room: Arc<AtomicUsize>,
    caps: Caps,
    stats: DriverStats,
}

/// A wire whose other end has `rings` rings; the first receives.
pub(super) fn wire(ifindex: IfIndex, caps: Caps, rings: usize) -> (Wire, Vec<Mem>) {
    let ((deliver, rx), (tx, from)) = (channel(), channel());
    let mut rx = Some(rx);
    let (stats, room) = (DriverStats::default, Arc::new(AtomicUsize::new(usize::MAX)));
    let own = || Arc::clone(&room);
    let ring = |rx| Mem { rx, tx: tx.clone(), room: own(), caps, stats: stats() };
    let drivers = (0..rings).map(|_| ring(rx.take())).collect();
    (Wire { ifindex, deliver, from, sent: VecDeque::new(), room }, drivers)
}

impl Wire {
    pub(super) fn deliver(&self, frame: Frame) {
        self.deliver.send(frame).expect("the ring is attached");
    }

    pub(super) fn take_sent(&mut self) -> Vec<Frame> {
        self.sent.extend(self.from.try_iter());
        self.sent.drain(..).collect()
    }

    /// Answers what was asked since the last time; other frames stay in the log.
    pub(super) fn answer_solicitations(&mut self) -> bool {
        let new: Vec<_> = self.from.try_iter().collect();
        let before = new.len();
        for frame in new {
            match answer(&frame.bytes) {
                Some(answer) => self.deliver(answer.into()),
                None => self.sent.push_back(frame),
            }
        }
        before > 0
    }
}

fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    match frame.get(12..HEADER_LEN)? {
        [0x08, 0x06] => arp_reply(&frame[HEADER_LEN..]),
        [0x86, 0xdd] => neighbour_advert(&frame[HEADER_LEN..]),
        _ => None,
    }
}

fn arp_reply(packet: &[u8]) -> Option<Vec<u8>> {
    let request = arp::Packet::parse(packet).ok()?;
    let asks = request.operation == arp::Operation::Request && !request.sender_ip.is_unspecified();
    let asks = asks && request.sender_ip != request.target_ip;
    let mac = peer_mac(request.target_ip.into());
    asks.then(|| build::ether(request.sender_mac, mac, 0x0806, &request.reply(mac).to_bytes()))
}

fn neighbour_advert(packet: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = packet.split_at_checked(40)?;
    let src = Ipv6Addr::from(*header[8..].first_chunk::<16>()?);
    if header[6] != 58 || body.first() != Some(&icmp6::kind::NEIGHBOR_SOLICIT) || src.is_unspecified() {
        return None;
    }
    let target = Ipv6Addr::from(*body.get(8..)?.first_chunk::<16>()?);
    let asker = Mac(*body.get(26..)?.first_chunk::<6>()?);
    let mac = peer_mac(IpAddr::V6(target));
    Some(build::ether(asker, mac, 0x86dd, &build::neighbour_advert(target, src, mac)))
}

impl Driver for Mem {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let Some(rx) = &self.rx else { return 0 };
        let mut got = 0;
        while got < max
            && !into.is_full()
            && let Ok(frame) = rx.try_recv()
        {
            let Some(pkt) = load(pool, &frame) else {
                self.stats.rx_dropped += 1;
                continue;
            };
            into.push(pkt).expect("room was asked for");
            got += 1;
        }
        got
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        let room = self.room.load(Ordering::Relaxed);
        let taken = room.min(from.len());
        self.room.store(room - taken, Ordering::Relaxed);
        for pkt in from.drain_front(taken) {
            self.stats.tx_frames += 1;
            // A test that has ended does not listen any more.
            let _ = self.tx.send(unload(&pkt));
            pool.give(pkt);
        }
    }

    fn doorbell(&mut self, _pool: &mut Pool) {
        self.stats.doorbells += 1;
    }

    fn caps(&self) -> Caps {
        self.caps
    }

    fn stats(&self) -> DriverStats {
        self.stats
    }

    fn close(&mut self, _pool: &mut Pool) {}
}

/// A packet with the frame's bytes, in as many buffers as it takes.
pub(crate) fn load(pool: &mut Pool, frame: &Frame) -> Option<Pkt> {
    let mut parts = frame.bytes.chunks(DATA_LEN);
    let mut pkt = load_part(pool, parts.next().unwrap_or_default())?;
    for part in parts {
        match load_part(pool, part) {
            Some(tail) => pkt.chain(tail),
            None => {
                pool.give(pkt);
                return None;
            }
        }
    }
    (pkt.gso, pkt.gso_size, pkt.flags) = (frame.gso, frame.gso_size, frame.flags);
    if let Some((start, off)) = frame.partial {
        pkt.flags.set(Flags::CSUM_PARTIAL);
        (pkt.csum_start, pkt.csum_off) = (start, off);
    }
    Some(pkt)
}

fn load_part(pool: &mut Pool, bytes: &[u8]) -> Option<Pkt> {
    let mut pkt = pool.take()?;
    // What an earlier packet left in the buffer must not matter.
    pkt.buffer_mut().fill(0xa5);
    pkt.append(bytes.len()).expect("a part fits a buffer").copy_from_slice(bytes);
    Some(pkt)
}

fn unload(pkt: &Pkt) -> Frame {
    let is_partial = pkt.flags.has(Flags::CSUM_PARTIAL);
    Frame {
        bytes: pkt.fragments().flatten().copied().collect(),
        gso: pkt.gso,
        gso_size: pkt.gso_size,
        partial: is_partial.then_some((pkt.csum_start, pkt.csum_off)),
        flags: pkt.flags,
        buffers: pkt.buffers(),
    }
}
