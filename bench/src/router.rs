//! One CPU of a router between two wires: what is counted.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use net::app::{App, AppId};
use net::cpu::CpuId;
use net::driver::{Caps, Driver};
use net::fib::{Prefix, Route, To};
use net::firewall;
use net::logical::Kind;
use net::msg::mesh;
use net::neigh;
use net::netisr::{Netisr, Parts};
use net::sock;
use net::tables::{Config, IfAddr, IfIndex, Ifnet, Rxcsum, Tables};
use net::time::Instant;
use pkt::wake::Sleeper;
use pkt::{Arena, ArenaError};

use crate::frames::{DESTINATIONS, FRAME_LEN, Family, GATEWAY, ROUTER};
use crate::indirect::Indirect;
use crate::wire::{Sink, SinkOfEach, Source, Supply};

/// Buffers: more than are ever under way.
pub(crate) const BUFFERS: usize = 1024;
/// Where frames come from.
pub(crate) const IN: IfIndex = 1;
/// Where frames go to.
pub(crate) const OUT: IfIndex = 2;
/// The network on the way out, behind which all others are; above those of the routes.
pub(crate) const OUT_NET: u8 = 100;
/// Hosts of that network that are routers, and whose link address is known; the first is the one that routes go through.
pub const GATEWAYS: [u8; 2] = [2, 3];
/// After this the router's own addresses are in use: duplicate address detection is over.
const SETTLED: Duration = Duration::from_secs(60);

/// A router with one CPU.
pub struct Router {
    netisr: Netisr,
    now: Instant,
    /// Between two turns.
    span: Duration,
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
        let to = |net| Prefix::new(family.addr(net, 0), family.prefix_len());
        Self::with(family, (1..=DESTINATIONS).filter_map(to), family.frames())
    }

    /// A router with a route to each of these, all of them through its next hop, and the frames that come to it.
    ///
    /// # Errors
    ///
    /// When there is no memory for the buffers.
    pub fn with(
        family: Family,
        routes: impl Iterator<Item = Prefix>,
        frames: Vec<[u8; FRAME_LEN]>,
    ) -> Result<Self, ArenaError> {
        let (supply, sent) = (Supply::default(), Arc::default());
        let source = Box::new(Source::new(frames, Arc::clone(&supply)));
        let sink = Box::new(Sink::new(Arc::clone(&sent)));
        Ok(Self::between(family, routes, source, sink)?.counting(supply, sent))
    }

    /// Makes a [`Router::new`] with a queue between driver and stack.
    ///
    /// # Errors
    ///
    /// When there is no memory for the buffers.
    pub fn indirect(family: Family) -> Result<Self, ArenaError> {
        Self::around(family, |source| Box::new(Indirect::new(Box::new(source))), |sink| Box::new(sink))
    }

    /// Makes a [`Router::new`] whose device gives back one buffer after the other.
    ///
    /// # Errors
    ///
    /// When there is no memory for the buffers.
    pub fn freeing_each(family: Family) -> Result<Self, ArenaError> {
        Self::around(family, |source| Box::new(source), |sink| Box::new(SinkOfEach(sink)))
    }

    /// Makes a [`Router::new`] with the devices that are made of its source and its sink.
    fn around(
        family: Family,
        input: impl FnOnce(Source) -> Box<dyn Driver>,
        output: impl FnOnce(Sink) -> Box<dyn Driver>,
    ) -> Result<Self, ArenaError> {
        let to = |net| Prefix::new(family.addr(net, 0), family.prefix_len());
        let (supply, sent) = (Supply::default(), Arc::default());
        let source = input(Source::new(family.frames(), Arc::clone(&supply)));
        let sink = output(Sink::new(Arc::clone(&sent)));
        let routes = (1..=DESTINATIONS).filter_map(to);
        Ok(Self::between(family, routes, source, sink)?.counting(supply, sent))
    }

    /// A router between two devices of any kind.
    ///
    /// # Errors
    ///
    /// When there is no memory for the buffers.
    pub fn between(
        family: Family,
        routes: impl Iterator<Item = Prefix>,
        input: Box<dyn Driver>,
        output: Box<dyn Driver>,
    ) -> Result<Self, ArenaError> {
        Self::on(family, tables(family, routes), input, output)
    }

    /// A router with these tables, of which [`config`] is the beginning, between two devices.
    ///
    /// # Errors
    ///
    /// When there is no memory for the buffers.
    pub fn on(
        family: Family,
        tables: Tables,
        input: Box<dyn Driver>,
        output: Box<dyn Driver>,
    ) -> Result<Self, ArenaError> {
        Self::sharing(family, Arc::new(tables), BUFFERS, input, output)
    }

    /// Makes one with tables that others read too, and a number of buffers.
    ///
    /// # Errors
    ///
    /// When there is no memory for the buffers.
    pub fn sharing(
        family: Family,
        tables: Arc<Tables>,
        buffers: usize,
        input: Box<dyn Driver>,
        output: Box<dyn Driver>,
    ) -> Result<Self, ArenaError> {
        let mut netisr = netisr(tables, buffers)?;
        netisr.attach(IN, input);
        netisr.attach(OUT, output);
        let (now, span) = (Instant::START, Duration::from_micros(1));
        let mut router = Self { netisr, now, span, supply: Supply::default(), sent: Arc::default() };
        router.settle();
        for host in GATEWAYS {
            let gateway = neigh::Key { ifindex: OUT, addr: family.addr(OUT_NET, host) };
            neigh::set_static(&mut router.netisr.cpu, gateway, GATEWAY);
        }
        Ok(router)
    }

    /// Enters the link address of a neighbour.
    pub fn set_neighbour(&mut self, ifindex: IfIndex, addr: core::net::IpAddr, mac: wire::ether::Mac) {
        neigh::set_static(&mut self.netisr.cpu, neigh::Key { ifindex, addr }, mac);
    }

    /// Fast forwarding from now on, with a cache for so many flows; or normal forwarding.
    pub fn cache_flows(&mut self, flows: Option<usize>) {
        self.netisr.set_flows(flows);
    }

    /// Makes one with a given source, and a sink that counts.
    #[must_use]
    pub(crate) fn counting(self, supply: Supply, sent: Arc<AtomicUsize>) -> Self {
        sent.store(0, Ordering::Relaxed);
        Self { supply, sent, ..self }
    }

    /// Sets the time between two turns, instead of a microsecond.
    #[must_use]
    pub fn every(self, span: Duration) -> Self {
        Self { span, ..self }
    }

    /// Puts the rules of the firewall in force.
    pub fn set_firewall(&mut self, shared: &firewall::Shared) {
        self.netisr.set_firewall(shared);
    }

    /// Begins a program on the netisr.
    ///
    /// # Errors
    ///
    /// As the program says.
    pub fn begin(&mut self, program: Box<dyn App>) -> Result<AppId, sock::Error> {
        self.netisr.begin(program)
    }

    /// One turn, some time after the one before.
    pub fn turn(&mut self) {
        self.now = self.now + self.span;
        self.netisr.turn(self.now);
    }

    /// Turns for so long.
    pub fn run(&mut self, time: Duration) {
        let (began, start) = (std::time::Instant::now(), self.now);
        while began.elapsed() < time {
            self.now = start + began.elapsed();
            self.netisr.turn(self.now);
        }
    }

    /// Forwards `turns` vectors of `packets` frames; answers how many frames have left.
    pub fn forward(&mut self, turns: usize, packets: usize) -> usize {
        for _ in 0..turns {
            self.supply.store(packets, Ordering::Relaxed);
            self.turn();
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

fn netisr(tables: Arc<Tables>, buffers: usize) -> Result<Netisr, ArenaError> {
    let wakers = [Sleeper::new(Box::new(|| ())).waker()];
    let mut pools = Arena::carve(1, buffers, true)?;
    let mut ways = mesh(&wakers);
    let (Some(pool), Some((peers, inbox, _))) = (pools.pop(), ways.pop()) else {
        return Err(ArenaError::Shape { pools: 1, slots_per_pool: buffers });
    };
    let parts = Parts { id: CpuId(0), cpus: 1, pool, peers, inbox, key: 1, tables };
    Ok(Netisr::new(parts).0)
}

/// A router's tables: two interfaces with a ring for each CPU, and these routes.
pub(crate) fn tables(family: Family, routes: impl Iterator<Item = Prefix>) -> Tables {
    let routes = routes.map(|to| Route::new(to, gateway(family, GATEWAYS[0]))).collect();
    Tables::new(Config { routes, ..config(family) })
}

/// The configuration without routes: two interfaces.
#[must_use]
pub fn config(family: Family) -> Config {
    let ifs = vec![ifnet(family, IN, 0), ifnet(family, OUT, OUT_NET)];
    Config { generation: 1, ifs, forwarding: true, ..Config::default() }
}

/// The way through one of the routers behind the second interface.
#[must_use]
pub const fn gateway(family: Family, host: u8) -> To {
    To::Gateway { ifindex: OUT, via: family.addr(OUT_NET, host) }
}

fn ifnet(family: Family, index: IfIndex, net: u8) -> Ifnet {
    Ifnet {
        metric: 0,
        twin: net::tables::Twin::None,
        fib: 0,
        index,
        name: format!("mem{index}"),
        kind: Kind::Device,
        mac: ROUTER,
        mtu: 1500,
        up: true,
        addrs: vec![IfAddr { addr: family.addr(net, 1), prefix_len: family.prefix_len() }],
        rxcsum: Rxcsum::Verify,
        caps: Caps { buffers_max: 1, ..Caps::default() },
        monitor: false,
        queue: net::ifq::QueueSpec::default(),
        autoconf: None,
        rtadv: None,
        fdb: net::fdb::Settings::default(),
        port: None,
        groups: Vec::new(),
        learned: Arc::default(),
        published: Arc::default(),
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
