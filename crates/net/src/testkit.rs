//! A bench for tests: netisrs turned by hand, wires that remember, neighbours that answer.

pub(crate) mod build;
pub(crate) mod link;
pub(crate) mod rules;
pub(crate) mod fastpath;
mod wire;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::sync::Arc;

use ::wire::addr::link_local_from_mac;
use ::wire::ether::Mac;
use pkt::Arena;
use pkt::wake::Sleeper;

pub(crate) use self::wire::{Frame, load};
use self::wire::{Mem, Wire, wire};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::link::driver::Caps;
use crate::link::logical::Kind;
use crate::link::tables::{Config, IfAddr, IfIndex, Ifnet, Rxcsum, Tables};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::msg;
use crate::turn::netisr::{Netisr, Parts};

/// Buffers of each CPU.
const BUFFERS: usize = 1024;
/// Memory of packets that is kept for the next stack.
const KEPT_BYTES: usize = 64 << 20;
/// Rounds of turns after which [`Bench::run`] calls it endless.
const ROUNDS_MAX: usize = 1000;

/// A stack of one or several CPUs with its interfaces on wires that the test holds the other end of.
///
/// Interface `i` (from 1) has [`mac`]`(i)`, `10.0.i.1/24`, `2001:db8:i::1/64` and its link-local address. At the end
/// it is checked that all buffers are back in their pools and none was leaked.
pub(crate) struct Bench {
    pub(crate) netisrs: Vec<Netisr>,
    pub(crate) now: Instant,
    /// Whether every host on the wires answers ARP and neighbour solicitations, as [`peer_mac`]; what was answered
    /// is not in [`Bench::sent`].
    pub(crate) neighbours_answer: bool,
    wires: Vec<Wire>,
}

/// The address of interface `i`.
pub(crate) fn mac(i: IfIndex) -> Mac {
    Mac([2, 0, 0, 0, 0, small(i)])
}

fn small(i: IfIndex) -> u8 {
    u8::try_from(i).expect("few interfaces")
}

/// Host `host` on the link of interface `i`; host 1 is the stack.
pub(crate) fn addr4(i: IfIndex, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, small(i), host)
}

/// Host `host` on the link of interface `i`; host 1 is the stack.
pub(crate) fn addr6(i: IfIndex, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, i, 0, 0, 0, 0, host)
}

/// The link address of a host on a wire: made of its address.
pub(crate) fn peer_mac(addr: IpAddr) -> Mac {
    let [.., a, b, c, d] = match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    };
    Mac([6, 0, a, b, c, d])
}

/// Returns interface `i`, unless a test changes it.
pub(crate) fn ifnet(i: IfIndex) -> Ifnet {
    let addrs =
        [(addr4(i, 1).into(), 24), (addr6(i, 1).into(), 64), (link_local_from_mac(mac(i)).into(), 64)];
    Ifnet {
        index: i,
        name: format!("mem{i}"),
        kind: Kind::Device,
        mac: mac(i),
        mtu: 1500,
        up: true,
        addrs: addrs.map(|(addr, prefix_len)| IfAddr { addr, prefix_len }).to_vec(),
        rxcsum: Rxcsum::Verify,
        caps: Caps { buffers_max: 1, ..Caps::default() },
        monitor: false,
        queue: crate::out::ifq::QueueSpec::default(),
        autoconf: None,
        rtadv: None,
        fdb: crate::link::fdb::Settings::default(),
        port: None,
        groups: Vec::new(),
        learned: Arc::default(),
        metric: 0,
        published: Arc::default(),
        twin: crate::link::tables::Twin::None,
        fib: 0,
    }
}

impl Bench {
    /// One CPU and `ifs` interfaces, forwarding, with usable addresses.
    pub(crate) fn new(ifs: IfIndex) -> Self {
        Self::with(ifs, 1, |_| ())
    }

    /// `cpus` CPUs and `ifs` interfaces, after `change` was made to the configuration. Addresses are usable: the time
    /// that duplicate address detection takes is over.
    pub(crate) fn with(ifs: IfIndex, cpus: u16, change: impl FnOnce(&mut Config)) -> Self {
        let mut bench = Self::cold(ifs, cpus, change);
        bench.advance(Duration::from_secs(15));
        bench.forget_sent();
        bench
    }

    /// Makes it at time zero.
    pub(crate) fn cold(ifs: IfIndex, cpus: u16, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            generation: 1,
            ifs: (1..=ifs).map(ifnet).collect(),
            forwarding: true,
            ..Config::default()
        };
        change(&mut config);
        let tables = Arc::new(Tables::new(config));
        let mut netisrs = netisrs(cpus, &tables);
        let devices = tables.ifnets().filter(|ifnet| ifnet.kind.is_device());
        let wires = devices.map(|ifnet| attach(&mut netisrs, ifnet)).collect();
        Self { netisrs, now: Instant::START, neighbours_answer: true, wires }
    }

    /// Returns CPU 0.
    pub(crate) fn cpu(&mut self) -> &mut Cpu {
        &mut self.netisrs[0].cpu
    }

    /// Puts a frame on the wire of an interface; [`Bench::run`] receives it, on CPU 0.
    pub(crate) fn inject(&mut self, ifindex: IfIndex, frame: impl Into<Frame>) {
        self.wire(ifindex).deliver(frame.into());
    }

    /// Turns all CPUs until none has anything to do now, and the wires are quiet.
    pub(crate) fn run(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let now = self.now;
            let worked: usize = self.netisrs.iter_mut().map(|netisr| netisr.turn(now).worked).sum();
            let answered = self.neighbours_answer && self.answer();
            if worked == 0 && !answered && self.netisrs.iter_mut().all(Netisr::inbox_is_empty) {
                return;
            }
        }
        panic!("the stack does not come to rest");
    }

    /// Lets time pass, waking the stack whenever it asked to be.
    pub(crate) fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        self.run();
        while self.now < end {
            self.now = self.deadline().max(self.now + Duration::from_micros(1)).min(end);
            self.run();
        }
    }

    /// When the first CPU wants to be turned.
    pub(crate) fn deadline(&mut self) -> Instant {
        let now = self.now;
        self.netisrs.iter_mut().map(|netisr| netisr.turn(now).deadline).min().unwrap_or(Instant::NEVER)
    }

    /// Takes the frames that were sent by an interface.
    pub(crate) fn sent(&mut self, ifindex: IfIndex) -> Vec<Vec<u8>> {
        self.sent_frames(ifindex).into_iter().map(|frame| frame.bytes).collect()
    }

    /// Returns the frames with their offload requests.
    pub(crate) fn sent_frames(&mut self, ifindex: IfIndex) -> Vec<Frame> {
        self.wire(ifindex).take_sent()
    }

    /// Lets the rings of an interface take so many frames more, and then none.
    pub(crate) fn make_room(&mut self, ifindex: IfIndex, frames: usize) {
        self.wire(ifindex).room.store(frames, core::sync::atomic::Ordering::Relaxed);
    }

    /// Forgets all frames that were sent.
    pub(crate) fn forget_sent(&mut self) {
        self.wires.iter_mut().for_each(|wire| drop(wire.take_sent()));
    }

    /// Packets that died of `reason`, on all CPUs.
    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.netisrs.iter().map(|netisr| netisr.cpu.counters.dropped(reason)).sum()
    }

    /// Returns all drop reasons with packets, and how many.
    pub(crate) fn drops(&self) -> Vec<(DropReason, u64)> {
        let all = DropReason::ALL.iter().map(|reason| (*reason, self.dropped(*reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the count of `event` on all CPUs.
    pub(crate) fn counted(&self, event: Count) -> u64 {
        self.netisrs.iter().map(|netisr| netisr.cpu.counters.get(event)).sum()
    }

    /// Replaces the tables on all CPUs.
    pub(crate) fn set_tables(&mut self, config: Config) {
        let tables = Arc::new(Tables::new(config));
        self.netisrs.iter_mut().for_each(|netisr| netisr.set_tables(Arc::clone(&tables)));
    }

    /// Buffers that are neither free nor on their way home: in the stack.
    pub(crate) fn buffers_out(&self) -> usize {
        let pools = || self.netisrs.iter().map(|netisr| &netisr.cpu.pool);
        let total: usize = pools().map(pkt::Pool::total).sum();
        total - pools().map(|pool| pool.free() + pool.foreign()).sum::<usize>()
    }

    fn wire(&mut self, ifindex: IfIndex) -> &mut Wire {
        self.wires.iter_mut().find(|wire| wire.ifindex == ifindex).expect("an interface of the bench")
    }

    /// Lets the hosts on the wires answer requests for them.
    pub(crate) fn answer(&mut self) -> bool {
        self.wires.iter_mut().map(Wire::answer_solicitations).filter(|answered| *answered).count() > 0
    }
}

impl Drop for Bench {
    /// Ends the stack, and checks that every buffer is back.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // The second time, buffers that died on other CPUs have come home.
        for _ in 0..2 {
            self.netisrs.iter_mut().for_each(Netisr::shut_down);
        }
        let leaked: u64 = self.netisrs.iter().take(1).map(|netisr| netisr.cpu.pool.arena().leaked()).sum();
        assert_eq!(leaked, 0, "packets were lost without a drop reason");
        assert_eq!(self.buffers_out(), 0, "buffers are missing from the pools");
    }
}

fn netisrs(cpus: u16, tables: &Arc<Tables>) -> Vec<Netisr> {
    let wakers: Vec<_> = (0..cpus).map(|_| Sleeper::new(Box::new(|| ())).waker()).collect();
    Arena::keep_memory(KEPT_BYTES);
    let pools = Arena::carve(usize::from(cpus), BUFFERS, false).expect("memory");
    let ways = msg::mesh(&wakers).into_iter().zip(pools).zip(0..);
    ways.map(|(((peers, inbox, _), pool), id)| {
        let tables = Arc::clone(tables);
        Netisr::new(Parts { id: CpuId(id), cpus, pool, peers, inbox, key: 1 + u128::from(id), tables }).0
    })
    .collect()
}

/// Gives each CPU a ring of the interface; frames are received on the first.
fn attach(netisrs: &mut [Netisr], ifnet: &Ifnet) -> Wire {
    let (wire, drivers): (_, Vec<Mem>) = wire(ifnet.index, ifnet.caps, netisrs.len());
    for (netisr, driver) in netisrs.iter_mut().zip(drivers) {
        netisr.attach(ifnet.index, Box::new(driver));
    }
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_an_unknown_type_is_dropped_and_its_buffer_returned() {
        let mut bench = Bench::new(2);
        bench.inject(1, build::ether(mac(1), Mac([6, 9, 9, 9, 9, 9]), 0x88b5, &[0; 46]));
        bench.run();
        assert_eq!(bench.dropped(DropReason::EtherUnknownType), 1);
        assert_eq!(bench.buffers_out(), 0);
        assert!(bench.sent(1).is_empty() && bench.sent(2).is_empty());
    }

    #[test]
    fn a_packet_taken_out_of_its_pool_is_missed() {
        let mut bench = Bench::new(1);
        let pkt = bench.cpu().pool.take().unwrap();
        assert_eq!(bench.buffers_out(), 1);
        bench.cpu().drop_pkt(pkt, DropReason::Shutdown);
        assert_eq!(bench.buffers_out(), 0);
    }
}
