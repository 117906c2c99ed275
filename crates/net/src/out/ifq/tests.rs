//! A bench for queues: packets of numbered flows, and a check that none is lost.

mod backlog;
mod bql;
mod codel;
mod ecn;
mod fq_codel;
mod retry;
mod stage;

use pkt::{Arena, Flags, Pkt, Pool};

use super::dropped::PendingDrops;
use super::stage::Around;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::testkit::build;
use crate::testkit::link::Family;

const BUFFERS: usize = 4096;
/// A full-sized frame.
const FULL: usize = 1514;

struct Lab {
    pool: Pool,
    secret: Secret,
    victims: PendingDrops,
    now: Instant,
    short_max: usize,
}

/// A test packet's properties.
#[derive(Clone, Copy)]
struct Of {
    family: Family,
    flow: u16,
    len: usize,
    ecn: u8,
    number: u8,
}

impl Of {
    const fn flow(flow: u16) -> Self {
        Self { family: Family::V4, flow, len: FULL, ecn: 0, number: 0 }
    }

    const fn len(self, len: usize) -> Self {
        Self { len, ..self }
    }

    const fn number(self, number: u8) -> Self {
        Self { number, ..self }
    }
}

impl Lab {
    fn new() -> Self {
        let pool = Arena::carve(1, BUFFERS, false).expect("memory").remove(0);
        Self {
            pool,
            secret: Secret::new(7),
            victims: PendingDrops::default(),
            now: Instant::from_ns(1),
            short_max: usize::MAX,
        }
    }

    /// A UDP frame whose last byte is its number.
    fn packet(&mut self, of: Of) -> Pkt {
        let (src, dst) = (of.family.addr(1, 2), of.family.addr(2, 2));
        let headers = 14 + if of.family == Family::V4 { 28 } else { 48 };
        let mut payload = vec![0; of.len - headers];
        *payload.last_mut().expect("room for a number") = of.number;
        let mut frame = build::frame(1, &build::udp(src, dst, (of.flow, 9), &payload));
        match of.family {
            Family::V4 => frame[15] |= of.ecn,
            Family::V6 => frame[15] |= of.ecn << 4,
        }
        if of.family == Family::V4 {
            frame[24..26].fill(0);
            let sum = wire::checksum::Sum::new().bytes(&frame[14..34]).checksum();
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        let mut pkt = self.pool.take().expect("a buffer");
        pkt.append(frame.len()).expect("room").copy_from_slice(&frame);
        pkt.outif = 1;
        pkt
    }

    fn urgent(&mut self, of: Of) -> Pkt {
        let mut pkt = self.packet(of);
        pkt.flags.set(Flags::PRIORITY);
        pkt
    }

    fn around(&mut self) -> Around<'_> {
        Around { now: self.now, secret: &self.secret, victims: &mut self.victims, short_max: self.short_max }
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// Ends a packet, and answers its flow and number.
    fn end(&mut self, pkt: Pkt) -> (u16, u8) {
        let l4 = if pkt.head()[12] == 8 { 34 } else { 54 };
        let told = (u16::from_be_bytes([pkt.head()[l4], pkt.head()[l4 + 1]]), pkt.head()[pkt.len() - 1]);
        self.pool.give(pkt);
        told
    }

    /// Ends what queues gave up: of what it died, flow and number.
    fn dropped_list(&mut self) -> Vec<(DropReason, u16, u8)> {
        let mut dropped_list = Vec::new();
        for (pkt, reason) in self.victims.take() {
            let (flow, number) = self.end(pkt);
            dropped_list.push((reason, flow, number));
        }
        dropped_list
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.dropped_list();
            assert_eq!((self.pool.free(), self.pool.arena().leaked()), (BUFFERS, 0), "packets were lost");
        }
    }
}
