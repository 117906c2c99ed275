//! Several CPUs of one router, each with a source and a sink: what more of them cost.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use net::count::Count;
use net::cpu::CpuId;
use net::driver::Driver;
use net::fib::Prefix;
use net::firewall;
use net::msg::mesh;
use net::neigh;
use net::netisr::{Netisr, Parts};
use net::rss::{Placement, hash4, hash6};
use net::tables::Tables;
use net::time::Instant;
use pkt::wake::Sleeper;
use pkt::{Arena, ArenaError, Flags, WINDOW};
use wire::ether;

use crate::changed::Changed;
use crate::frames::{DESTINATIONS, FRAME_LEN, Family, GATEWAY};
use crate::router::{BUFFERS, IN, OUT, OUT_NET, tables};
use crate::wire::{Sink, Source, Supply};

/// Frames that each source has: of different flows.
const FRAMES: usize = 32;
/// Turns of all CPUs after which addresses and neighbours are settled.
const SETTLING: usize = 200;

/// To whose rings the packets of a CPU come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// To its own: nothing is handed off.
    Match,
    /// As `Match`, and the device reports its hash.
    MatchHashed,
    /// To its neighbour's: everything is.
    Cross,
}

/// One CPU.
pub struct One {
    netisr: Netisr,
    now: Instant,
    supply: Supply,
    sent: Arc<AtomicUsize>,
}

/// All CPUs of a router, settled. Each may move to a thread of its own.
///
/// # Errors
///
/// When there is no memory for the buffers.
pub fn router(family: Family, cpus: u16, rings: Rings) -> Result<Vec<One>, ArenaError> {
    let to = |net| Prefix::new(family.addr(net, 0), family.prefix_len());
    let tables = Arc::new(tables(family, (1..=DESTINATIONS).filter_map(to)));
    let mut all: Vec<One> = Vec::new();
    for (id, netisr) in (0..cpus).map(CpuId).zip(netisrs(&tables, cpus, BUFFERS)?) {
        let owner = if rings == Rings::Cross { CpuId((id.0 + 1) % cpus) } else { id };
        // A CPU owns what hashes to its number, among others.
        let hash = (rings == Rings::MatchHashed).then_some(owner.0);
        all.push(One::new(netisr, frames(family, Placement::new(cpus), owner), hash));
    }
    settle(family, &mut all);
    Ok(all)
}

/// The CPUs of a host or router, each with so many buffers, without devices.
///
/// # Errors
///
/// When there is no memory for the buffers.
pub(crate) fn netisrs(tables: &Arc<Tables>, cpus: u16, buffers: usize) -> Result<Vec<Netisr>, ArenaError> {
    let wakers: Vec<_> = (0..cpus).map(|_| Sleeper::new(Box::new(|| ())).waker()).collect();
    let pools = Arena::carve(cpus.into(), buffers, true)?;
    let all = (0..cpus).map(CpuId).zip(pools).zip(mesh(&wakers));
    let netisr = |((id, pool), (peers, inbox, _))| {
        let parts = Parts { id, cpus, pool, peers, inbox, key: 1, tables: Arc::clone(tables) };
        Netisr::new(parts).0
    };
    Ok(all.map(netisr).collect())
}

impl One {
    fn new(mut netisr: Netisr, frames: Vec<[u8; FRAME_LEN]>, hash: Option<u16>) -> Self {
        let (supply, sent) = (Supply::default(), Arc::default());
        let source = Source::new(frames, Arc::clone(&supply));
        netisr.attach(
            IN,
            match hash {
                Some(hash) => Box::new(Changed::new(source, move |pkt| {
                    pkt.hash = hash;
                    pkt.flags.set(Flags::HASH);
                })),
                None => Box::new(source),
            },
        );
        netisr.attach(OUT, Box::new(Sink::new(Arc::clone(&sent))));
        Self { netisr, now: Instant::START, supply, sent }
    }

    /// A CPU that has another source.
    pub(crate) fn with(mut netisr: Netisr, input: Box<dyn Driver>, supply: Supply) -> Self {
        let sent = Arc::default();
        netisr.attach(IN, input);
        netisr.attach(OUT, Box::new(Sink::new(Arc::clone(&sent))));
        Self { netisr, now: Instant::START, supply, sent }
    }

    /// Puts the rules of the firewall in force.
    pub fn set_firewall(&mut self, shared: &firewall::Shared) {
        self.netisr.set_firewall(shared);
    }

    /// Returns the value of a counter.
    #[must_use]
    pub fn count(&self, event: Count) -> u64 {
        self.netisr.cpu.counters.get(event)
    }

    /// Runs `turns` turns with `packets` frames more in each; answers how many frames have left since the start.
    pub fn forward(&mut self, turns: usize, packets: usize) -> usize {
        for _ in 0..turns {
            self.supply.store(packets, Ordering::Relaxed);
            self.now = self.now + Duration::from_micros(1);
            self.netisr.turn(self.now);
        }
        self.sent.load(Ordering::Relaxed)
    }
}

/// Lets pass what happens once: addresses become usable, and all learn the neighbour.
pub(crate) fn settle(family: Family, all: &mut [One]) {
    let gateway = neigh::Key { ifindex: OUT, addr: family.addr(OUT_NET, 2) };
    for one in &mut *all {
        neigh::set_static(&mut one.netisr.cpu, gateway, GATEWAY);
    }
    for _ in 0..SETTLING {
        for one in &mut *all {
            one.now = one.now + Duration::from_millis(500);
            one.forward(1, 1);
        }
    }
    drain(all);
}

/// Lets what has been handed off go on its way.
pub fn drain(all: &mut [One]) {
    for _ in 0..2 {
        all.iter_mut().for_each(|one| _ = one.forward(1, 0));
    }
}

/// Frames of flows that this CPU owns.
fn frames(family: Family, placement: Placement, owner: CpuId) -> Vec<[u8; FRAME_LEN]> {
    let hosts = (1..=DESTINATIONS).flat_map(|net| (2..=u8::MAX).map(move |host| family.addr(net, host)));
    let all = hosts.filter_map(|host| family.frame_to(host));
    all.filter(|frame| placement.owner(hash(family, frame)) == owner).take(FRAMES).collect()
}

fn hash(family: Family, frame: &[u8; FRAME_LEN]) -> u16 {
    let mut window = [0; WINDOW];
    let packet = &frame[ether::HEADER_LEN..];
    window[..packet.len()].copy_from_slice(packet);
    match family {
        Family::Ip4 => hash4(&window),
        Family::Ip6 => hash6(&window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets forwarded and handed off by each CPU, of 64 that come to each.
    fn counted(family: Family, cpus: u16, rings: Rings) -> Vec<(usize, u64)> {
        let mut all = router(family, cpus, rings).unwrap();
        let count =
            |one: &One| (one.sent.load(Ordering::Relaxed), one.netisr.cpu.counters.get(Count::HandoffOut));
        let before: Vec<_> = all.iter().map(count).collect();
        all.iter_mut().for_each(|one| _ = one.forward(1, 64));
        drain(&mut all);
        all.iter().map(count).zip(before).map(|(now, then)| (now.0 - then.0, now.1 - then.1)).collect()
    }

    #[test]
    fn rings_that_match_hand_nothing_off() {
        for family in [Family::Ip4, Family::Ip6] {
            assert_eq!(counted(family, 4, Rings::Match), [(64, 0); 4], "{family:?}");
            assert_eq!(counted(family, 4, Rings::MatchHashed), [(64, 0); 4], "{family:?}");
        }
    }

    #[test]
    fn rings_that_cross_hand_everything_off() {
        for family in [Family::Ip4, Family::Ip6] {
            assert_eq!(counted(family, 3, Rings::Cross), [(64, 64); 3], "{family:?}");
        }
    }
}
