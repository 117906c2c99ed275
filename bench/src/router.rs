//! One CPU of a router between two wires: what is counted.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use net::cpu::CpuId;
use net::driver::Caps;
use net::fib::{Hop, Prefix, Route};
use net::msg::mesh;
use net::neigh;
use net::netisr::{Netisr, Parts};
use net::tables::{Config, IfAddr, IfIndex, Ifnet, Rxcsum, Tables};
use net::time::Instant;
use pkt::wake::Sleeper;
use pkt::{Arena, ArenaError};

use crate::frames::{DESTINATIONS, Family, GATEWAY, ROUTER};
use crate::wire::{Sink, Source, Supply};

/// Buffers: more than are ever under way.
const BUFFERS: usize = 1024;
/// Where frames come from.
const IN: IfIndex = 1;
/// Where frames go to.
const OUT: IfIndex = 2;
/// The network on the way out, behind which all others are; above those of the routes.
const OUT_NET: u8 = 100;
/// After this the router's own addresses are in use: duplicate address detection is over.
const SETTLED: Duration = Duration::from_secs(60);

/// A router with one CPU.
pub struct Router {
    netisr: Netisr,
    now: Instant,
    supply: Supply,
    sent: Arc<AtomicUsize>,
}

impl Router {
    /// A router for this family, whose next hop is resolved.
    ///
    /// # Errors
    ///
    /// When there is no memory for the buffers.
    pub fn new(family: Family) -> Result<Self, ArenaError> {
        let (supply, sent) = (Supply::default(), Arc::default());
        let mut netisr = netisr(tables(family))?;
        netisr.attach(IN, Box::new(Source::new(family.frames(), Arc::clone(&supply))));
        netisr.attach(OUT, Box::new(Sink::new(Arc::clone(&sent))));
        let mut router = Self { netisr, now: Instant::START, supply, sent };
        router.settle();
        let gateway = neigh::Key { ifindex: OUT, addr: family.addr(OUT_NET, 2) };
        neigh::set_static(&mut router.netisr.cpu, gateway, GATEWAY);
        router.sent.store(0, Ordering::Relaxed);
        Ok(router)
    }

    /// Forwards `turns` vectors of `packets` frames; answers how many frames have left.
    pub fn forward(&mut self, turns: usize, packets: usize) -> usize {
        for _ in 0..turns {
            self.supply.store(packets, Ordering::Relaxed);
            self.now = self.now + Duration::from_micros(1);
            self.netisr.turn(self.now);
        }
        self.sent.load(Ordering::Relaxed)
    }

    /// Buffers that are not free: 0 between turns.
    #[must_use]
    pub fn buffers_out(&self) -> usize {
        self.netisr.cpu.pool.total() - self.netisr.cpu.pool.free()
    }

    /// Lets pass what happens once at the start.
    fn settle(&mut self) {
        let end = self.now + SETTLED;
        while self.now < end {
            let turn = self.netisr.turn(self.now);
            self.now = turn.deadline.max(self.now + Duration::from_millis(1)).min(end);
        }
    }
}

fn netisr(tables: Tables) -> Result<Netisr, ArenaError> {
    let wakers = [Sleeper::new(Box::new(|| ())).waker()];
    let mut pools = Arena::carve(1, BUFFERS, false)?;
    let mut ways = mesh(&wakers);
    let (Some(pool), Some((peers, inbox, _))) = (pools.pop(), ways.pop()) else {
        return Err(ArenaError::Shape { pools: 1, slots_per_pool: BUFFERS });
    };
    let parts = Parts { id: CpuId(0), cpus: 1, pool, peers, inbox, key: 1, tables: Arc::new(tables) };
    Ok(Netisr::new(parts).0)
}

fn tables(family: Family) -> Tables {
    let hop = Hop::Gateway { ifindex: OUT, via: family.addr(OUT_NET, 2) };
    let to = |net| Prefix::new(family.addr(net, 0), family.prefix_len());
    let routes = (1..=DESTINATIONS).filter_map(to).map(|to| Route { to, hop });
    let ifs = vec![ifnet(family, IN, 0), ifnet(family, OUT, OUT_NET)];
    Tables::new(Config { generation: 1, ifs, routes: routes.collect(), forwarding: true })
}

fn ifnet(family: Family, index: IfIndex, net: u8) -> Ifnet {
    Ifnet {
        index,
        name: format!("mem{index}"),
        mac: ROUTER,
        mtu: 1500,
        up: true,
        addrs: vec![IfAddr { addr: family.addr(net, 1), prefix_len: family.prefix_len() }],
        rxcsum: Rxcsum::Verify,
        caps: Caps { buffers_max: 1, ..Caps::default() },
        tx_cpu: vec![CpuId(0)],
        monitor: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_frames_are_forwarded_and_all_buffers_come_back() {
        for family in [Family::Ip4, Family::Ip6] {
            for packets in [1, 32, 256] {
                let mut router = Router::new(family).unwrap();
                assert_eq!(router.forward(3, packets), 3 * packets, "{family:?}, {packets} a turn");
                assert_eq!(router.buffers_out(), 0);
            }
        }
    }
}
