//! A host that runs the stack: CPUs, cards, tables.

mod cpu;
mod spec;

use core::net::IpAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use net::app::App;
use net::count::{Count, IfCount};
use net::cpu::CpuId;
use net::drop::DropReason;
use net::firewall::Firewall;
use net::ip6::autoconf::LinkUpdate;
use net::msg::{Broadcast, Msg, Notifier, Remote, mesh};
use net::netisr::{Netisr, Parts};
use net::ping;
use net::sock::Error;
use net::tables::{IfIndex, Tables};
use pkt::{Arena, Pool};

use crate::firewall::HostFirewall;
use crate::mem::Nic;
use crate::random::Random;
pub use cpu::{Cost, SimCpu};
pub use spec::{BarePort, BridgePorts, Port, Spec, TunnelPort, VlanPort, VxlanPort};

/// Memory of ended hosts that is kept for others: that of many worlds at once.
const KEPT_BYTES: usize = 512 << 20;

/// A host.
pub struct Host {
    /// Its specification, including later changes.
    pub spec: Spec,
    /// Its CPUs.
    pub cpus: Vec<SimCpu>,
    /// Its cards, in the order of its ports.
    pub nics: Vec<Nic>,
    remotes: Vec<Remote>,
    arena: Arc<Arena>,
    generation: u64,
    /// Results of router advertisements on the CPUs.
    news: Receiver<LinkUpdate>,
}

impl Host {
    /// Switches a host on. `random` draws its keys.
    ///
    /// # Panics
    ///
    /// Without memory for its buffers.
    #[must_use]
    pub fn new(spec: Spec, random: &mut Random) -> Self {
        Arena::keep_memory(KEPT_BYTES);
        #[expect(clippy::expect_used, reason = "a world without memory cannot be")]
        let pools = Arena::carve(spec.cpus.into(), spec.buffers, false).expect("memory for packets");
        let arena = Arc::clone(pools[0].arena());
        let tables = Arc::new(spec.tables(1));
        let nics: Vec<_> = spec.ports.iter().map(|port| Nic::new(port.nic)).collect();
        let mut sleepers = cpu::sleepers(spec.cpus);
        let wakers: Vec<_> = sleepers.iter().map(|(sleeper, _)| sleeper.waker()).collect();
        let (mut cpus, mut remotes) = (Vec::new(), Vec::new());
        for (id, ((peers, inbox, remote), pool)) in (0..).zip(mesh(&wakers).into_iter().zip(pools)) {
            let tables = Arc::clone(&tables);
            let key = random.key();
            let parts = Parts { id: CpuId(id), cpus: spec.cpus, pool, peers, inbox, key, tables };
            let (mut netisr, shared) = Netisr::new(parts);
            netisr.set_flows(spec.flows);
            let (sleeper, bell) = sleepers.remove(0);
            cpus.push(SimCpu::new(netisr, shared, sleeper, bell));
            remotes.push(remote);
        }
        let (sink, news) = channel();
        for cpu in &mut cpus {
            let sink = sink.clone();
            // The receiver is gone only after the host.
            cpu.netisr.cpu.autoconf.set_sink(Box::new(move |news| drop(sink.send(news))));
        }
        let mut host = Self { spec, cpus, nics, remotes, arena, generation: 1, news };
        host.attach_rings();
        host
    }

    fn attach_rings(&mut self) {
        for port in 0..self.nics.len() {
            let (rings, ifindex) = (self.nics[port].spec().rings, ifindex(port));
            for ring in 0..rings {
                let cpu = &mut self.cpus[self.spec.owner_of_ring(ring)];
                self.nics[port].route_interrupts(ring, Arc::clone(&cpu.bell));
                let queue = u16::try_from(ring).unwrap_or(u16::MAX);
                cpu.netisr.attach_queue(ifindex, queue, Box::new(self.nics[port].driver(ring)));
            }
            for at in rings..self.cpus.len() {
                let owner = CpuId(u16::try_from(self.spec.owner_of_ring(at % rings)).unwrap_or(0));
                self.cpus[at].netisr.send_through(ifindex, owner);
            }
        }
    }

    /// Returns the count of `event` on all CPUs.
    #[must_use]
    pub fn count(&self, event: Count) -> u64 {
        self.cpus.iter().map(|cpu| cpu.shared.counters.events.get(event)).sum()
    }

    /// Returns the packets dropped for `reason` on all CPUs.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.cpus.iter().map(|cpu| cpu.shared.counters.drops.get(reason)).sum()
    }

    /// Returns the status of the spanning trees of its bridges.
    #[must_use]
    pub fn spanning_trees(&self) -> Vec<net::stp_io::Status> {
        self.cpus.iter().flat_map(|cpu| net::stp_io::status(&cpu.netisr.cpu)).collect()
    }

    /// Returns an interface counter over all CPUs.
    #[must_use]
    pub fn if_count(&self, ifindex: IfIndex, what: IfCount) -> u64 {
        let cpus = self.cpus.iter();
        cpus.map(|cpu| cpu.shared.counters.ifs.get(usize::from(ifindex), what)).sum()
    }

    /// The reasons for which packets were dropped, and how many.
    #[must_use]
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        let all = DropReason::ALL.iter().map(|reason| (*reason, self.dropped(*reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Packets dropped, for any reason.
    #[must_use]
    pub fn dropped_in_all(&self) -> u64 {
        self.drops().iter().map(|(_, count)| count).sum()
    }

    /// Sends a message to a CPU, from a control thread; `false` if its port is full.
    pub fn send(&self, cpu: usize, msg: Msg) -> bool {
        self.remotes[cpu].send(msg).is_ok()
    }

    /// Runs `call` on a CPU, in its next turn; `false` if its port is full.
    pub fn call(&self, cpu: usize, call: impl FnOnce(&mut Netisr) + Send + 'static) -> bool {
        self.send(cpu, Msg::Call(Box::new(call)))
    }

    /// Starts an application on a CPU that others can notify.
    ///
    /// # Errors
    ///
    /// As [`Netisr::open`].
    pub fn open(&mut self, cpu: usize, program: Box<dyn App>) -> Result<Notifier, Error> {
        let (_, flag) = self.cpus[cpu].netisr.open(program)?;
        Ok(self.remotes[cpu].notifier(flag))
    }

    /// Runs `visit` on each CPU, one after the other, and then `done` on the last; `false` if the port is full.
    pub fn tour(
        &self,
        visit: impl Fn(&mut Netisr) + Send + Sync + 'static,
        done: impl FnOnce() + Send + 'static,
    ) -> bool {
        self.send(0, Msg::Broadcast(Broadcast { visit: Arc::new(visit), done: Box::new(done) }))
    }

    /// Changes interfaces, addresses or routes, and tells the CPUs; `false` if the port is full.
    pub fn change(&mut self, change: impl FnOnce(&mut Spec)) -> bool {
        let tables = self.prepare(change);
        self.tour(move |netisr| netisr.set_tables(Arc::clone(&tables)), || {})
    }

    /// Changes interfaces, addresses or routes; the CPUs have yet to be given these tables.
    pub fn prepare(&mut self, change: impl FnOnce(&mut Spec)) -> Arc<Tables> {
        change(&mut self.spec);
        self.generation += 1;
        Arc::new(self.spec.tables(self.generation))
    }

    /// Makes tables of what CPUs have learned of router advertisements since, as the control thread does.
    pub(crate) fn take_news(&mut self) {
        let news: Vec<LinkUpdate> = self.news.try_iter().collect();
        if news.is_empty() {
            return;
        }
        let is_told = self.change(|spec| {
            for LinkUpdate { ifindex, learned } in news {
                if let Some(port) = spec.ports.get_mut(usize::from(ifindex) - 1) {
                    port.learned = learned;
                }
            }
        });
        debug_assert!(is_told, "the port is for more messages than routers may cause");
    }

    /// Puts a firewall in force on all CPUs, in place of the one before; `false` if the port is full.
    pub fn set_firewall(&self, firewall: &mut HostFirewall) -> bool {
        let shared = firewall.shared(&self.spec.tables(self.generation));
        self.tour(move |netisr| netisr.set_firewall(&shared), || {})
    }

    /// The firewalls of the CPUs that have one.
    pub fn firewalls(&self) -> impl Iterator<Item = &Firewall> {
        self.cpus.iter().filter_map(|cpu| cpu.netisr.cpu.firewall.as_deref())
    }

    /// Sends `count` echo requests at once from the CPU where the replies come; answers where they are counted.
    ///
    /// # Panics
    ///
    /// If there is no way to `dst`.
    #[must_use]
    pub fn ping(&self, dst: IpAddr, ident: u16, count: u16) -> Arc<AtomicUsize> {
        let replies = Arc::new(AtomicUsize::new(0));
        #[expect(clippy::expect_used, reason = "a test that pings into nowhere is wrong")]
        let source = ping::source(&self.cpus[0].netisr.cpu, dst, None, None, 0).expect("a way");
        let counted = Arc::clone(&replies);
        let sink = move |event| {
            let is_first = matches!(event, ping::Event::Reply { is_duplicate: false, .. });
            counted.fetch_add(usize::from(is_first), Ordering::Relaxed);
        };
        self.call(source.cpu.index(), move |netisr| {
            let known = ping::register(&mut netisr.cpu, ident, dst, Box::new(sink)).is_ok();
            for seq in (0..count).filter(|_| known) {
                let (src, outif, ttl) = (source.src, None, 64);
                let request = ping::Request {
                    dst,
                    src,
                    outif,
                    ident,
                    seq,
                    payload_len: 56,
                    ttl,
                    dont_fragment: true,
                    fib: 0,
                };
                // What cannot be sent is not answered either.
                _ = ping::send(&mut netisr.cpu, &request);
            }
        });
        replies
    }

    /// Moves all rings of a port from CPU `from` to CPU `to`; both go on meanwhile. Nothing happens if `from` owns
    /// none. `false` if the port is full.
    pub fn move_rings(&self, port: usize, from: usize, to: usize) -> bool {
        let (nic, bell, ifindex) = (self.nics[port].clone(), Arc::clone(&self.cpus[to].bell), ifindex(port));
        let target = CpuId(u16::try_from(to).unwrap_or(0));
        self.call(from, move |netisr| {
            let own = netisr.rings().filter(|ring| ring.ifindex() == ifindex);
            let queues: Vec<u16> = own.map(net::netisr::Ring::queue).collect();
            for queue in queues {
                let (nic, bell) = (nic.clone(), Arc::clone(&bell));
                let arrived = move |_: &mut Netisr| nic.route_interrupts(queue.into(), bell);
                let moved = netisr.move_ring(ifindex, queue, target, Box::new(arrived));
                debug_assert_eq!(moved, Ok(()), "the ring is there, and so is the CPU");
            }
        })
    }

    /// Buffers that are neither free nor in a card: in the stack, or lost.
    #[must_use]
    pub fn outstanding(&self) -> i64 {
        let free: usize = self.cpus.iter().map(|cpu| cpu.netisr.cpu.pool.free()).sum();
        let cards: usize = self.nics.iter().map(Nic::buffers).sum();
        signed(self.buffers()) - signed(free) - signed(cards)
    }

    /// Buffers in all.
    #[must_use]
    pub fn buffers(&self) -> usize {
        self.cpus.iter().map(|cpu| Pool::total(&cpu.netisr.cpu.pool)).sum()
    }

    /// Buffers whose handle was dropped.
    #[must_use]
    pub fn leaked(&self) -> u64 {
        self.arena.leaked()
    }

    /// Ends all CPUs; every buffer is free afterwards, or was lost.
    pub fn shut_down(&mut self) {
        // Twice: what one CPU sends home at its end arrives at another that may have ended before.
        for _ in 0..2 {
            self.cpus.iter_mut().for_each(|cpu| cpu.netisr.shut_down());
        }
    }
}

impl Drop for Host {
    /// Whatever was under way is over: its buffers come home, else their memory stays mapped for ever.
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// The interface index of a host's port.
#[must_use]
pub fn ifindex(port: usize) -> IfIndex {
    IfIndex::try_from(port + 1).unwrap_or(IfIndex::MAX)
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
