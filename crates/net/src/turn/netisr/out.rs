//! The way out of a CPU: from the output queues to the transmit rings, its own or another CPU's.

use super::Netisr;
use super::rings::Ring;
use crate::base::count::{Count, IfCount};
use crate::base::drop::DropReason;
use crate::host::packet;
use crate::link::driver::Link;
use crate::link::tables::IfIndex;
use crate::out::ifq::{Rest, Sent, Via, drop_pending};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::next::Resume;

impl Netisr {
    /// Moves staged packets to the transmit rings: those of queues for which it is worth it, or of all.
    pub(super) fn transmit(&mut self, all: bool) {
        if !self.cpu.ifqs.is_worth_sending(all) {
            return;
        }
        let waiting = self.cpu.ifqs.take_waiting();
        for &ifindex in &waiting {
            if all || self.cpu.ifqs.is_due(ifindex) {
                self.send(ifindex);
            }
        }
        self.cpu.ifqs.still_waits(waiting);
    }

    fn send(&mut self, ifindex: IfIndex) {
        let Self { cpu, rings, .. } = self;
        if !cpu.ifqs.is_open(ifindex) {
            return drop_queued(cpu, ifindex, why_closed(cpu, ifindex));
        }
        match cpu.ifqs.via(ifindex) {
            Via::Ring(ring) => match rings.get_mut(ring) {
                Some(ring) => ring.tx(cpu),
                None => drop_queued(cpu, ifindex, DropReason::NoDevice),
            },
            Via::Peer(owner) => hand_over(cpu, ifindex, owner),
            Via::Nothing => drop_queued(cpu, ifindex, DropReason::NoDevice),
        }
    }
}

impl Ring {
    /// One doorbell for all that the device has room for.
    ///
    /// Drops  [`DropReason::IfqFull`], [`DropReason::IfqCodel`], [`DropReason::NoDevice`], [`DropReason::LinkDown`].
    fn tx(&mut self, cpu: &mut Cpu) {
        if cpu.watched {
            return self.tx_captured(cpu);
        }
        let Cpu { ifqs, pool, now, .. } = cpu;
        let in_flight = self.driver.in_flight();
        let sent = ifqs.send(self.ifindex, *now, in_flight, |pkts| self.driver.tx(pool, pkts));
        self.sent(cpu, sent);
    }

    /// [`Self::tx`] while a capture or a packet socket is attached.
    #[cold]
    #[inline(never)]
    fn tx_captured(&mut self, cpu: &mut Cpu) {
        let Cpu { ifqs, pool, now, captures, packets, tables, .. } = cpu;
        let Self { ifindex, driver, .. } = self;
        let in_flight = driver.in_flight();
        let mut delivered = packet::Delivered::default();
        let sent = ifqs.send(*ifindex, *now, in_flight, |pkts| {
            let mut tx = |pool: &mut pkt::Pool, pkts: &mut pkt::PktVec| match captures {
                Some(captures) => {
                    captures.transmit((tables, *now, *ifindex), pkts, &mut **driver, pool);
                }
                None => driver.tx(pool, pkts),
            };
            match packets {
                Some(sockets) => {
                    let shown = packet::sent(sockets, (tables, *now, *ifindex), pkts, pool, tx);
                    delivered.queued += shown.queued;
                    delivered.full += shown.full;
                }
                None => tx(pool, pkts),
            }
        });
        cpu.counters.add(Count::PacketSocketIn, delivered.queued);
        cpu.counters.add(Count::PacketSocketFull, delivered.full);
        self.sent(cpu, sent);
    }

    /// Counts what the device has taken, rings its doorbell, and looks after the rest.
    #[inline(always)]
    fn sent(&mut self, cpu: &mut Cpu, sent: Sent) {
        let Cpu { pool, counters, .. } = cpu;
        if sent.packets > 0 {
            self.driver.doorbell(pool);
            counters.add(Count::TxPackets, sent.packets);
            counters.add(Count::Doorbells, 1);
            counters.add_if(self.ifindex, IfCount::TxPackets, sent.packets);
            counters.add_if(self.ifindex, IfCount::TxBytes, sent.bytes);
            counters.add_if(self.ifindex, IfCount::Doorbells, 1);
        }
        if sent.rest != Rest::None {
            self.pushed_back(cpu, sent);
        }
        drop_pending(cpu);
    }

    /// A ring that does not take all is full; or its device cannot send, and then waiting is in vain.
    ///
    /// Drops  [`DropReason::NoDevice`], [`DropReason::LinkDown`].
    #[cold]
    fn pushed_back(&mut self, cpu: &mut Cpu, sent: Sent) {
        count_push_back(cpu, self.ifindex);
        cpu.ifqs.shortage(cpu.pool.shortage());
        if sent.packets == 0 {
            // What it holds may wait for another doorbell.
            self.driver.doorbell(&mut cpu.pool);
        }
        if sent.rest == Rest::Stuck {
            match self.driver.link() {
                Link::Up => {}
                Link::Down => drop_queued(cpu, self.ifindex, DropReason::LinkDown),
                Link::Gone => drop_queued(cpu, self.ifindex, DropReason::NoDevice),
            }
        }
    }
}

#[cold]
fn count_push_back(cpu: &mut Cpu, ifindex: IfIndex) {
    cpu.count(Count::TxPushedBack);
    cpu.counters.add_if(ifindex, IfCount::PushedBack, 1);
}

#[cold]
fn why_closed(cpu: &Cpu, ifindex: IfIndex) -> DropReason {
    match cpu.tables.ifnet(ifindex) {
        Some(_) => DropReason::InterfaceDown,
        None => DropReason::InterfaceGone,
    }
}

#[cold]
fn drop_queued(cpu: &mut Cpu, ifindex: IfIndex, reason: DropReason) {
    for pkt in cpu.ifqs.empty(ifindex) {
        cpu.counters.add_if(ifindex, IfCount::TxDrops, 1);
        cpu.drop_pkt(pkt, reason);
    }
}

/// A CPU without a transmit ring of its own sends through the ring's owner. What the way there has no room for waits
/// here.
fn hand_over(cpu: &mut Cpu, ifindex: IfIndex, owner: CpuId) {
    let Cpu { ifqs, peers, pool, counters, now, stamp, .. } = cpu;
    let code = stamp.on(Resume::Transmit as u8);
    let handed = ifqs.send(ifindex, *now, None, |pkts| {
        for mut pkt in pkts.drain_front(peers.room(owner)) {
            pkt.resume = code;
            let _ = peers.hand_off(owner, pkt).map_err(|pkt| pool.give(pkt));
        }
    });
    counters.add(Count::HandoffOut, handed.packets);
    if handed.rest != Rest::None {
        count_push_back(cpu, ifindex);
    }
    drop_pending(cpu);
}
