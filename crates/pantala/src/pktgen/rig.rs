//! Common parts of all tests: devices, workers on CPUs, links, the gateway's address, learning.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use dev::sys::affinity;
use net::driver::Link;
use wire::ether::Mac;

use super::payload::LEARNING;
use super::port::{self, Port, WorkerRing};
use super::station::learned;
use super::worker::{Board, Orders, Worker};
use crate::config::Device;
use crate::daemon::device::Workshop;
use crate::daemon::{entropy, log, privileges};
use crate::interrupt::Stop;

/// Time limit of links and the gateway, and the interval of requests for the gateway.
const RESOLVE: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_millis(250);
/// Rounds of learning frames, and how long the answer to each is waited for.
const ROUNDS: u8 = 4;
const ROUND: Duration = Duration::from_millis(250);
/// Interval of the conductor.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// The devices of a test, and the workers of their rings while no thread has them.
pub(super) struct Rig {
    pub(super) ports: Vec<Port>,
    pub(super) workers: Vec<Worker>,
    pub(super) stop: Stop,
    _workshop: Workshop,
}

impl Rig {
    /// Opens `devices` with so many rings each; `worker` makes the worker of a ring.
    pub(super) fn open(
        devices: &[&Device],
        rings: Option<u32>,
        stop: Stop,
        mut worker: impl FnMut(WorkerRing, Mac) -> Worker,
    ) -> Result<Self, String> {
        let (ports, rings, workshop) = port::open(devices, rings)?;
        let mac = |at: usize| ports.get(at).map_or(Mac::ZERO, |port| port.mac);
        let workers = rings.into_iter().map(|ring| {
            let mac = mac(ring.port);
            worker(ring, mac)
        });
        let workers = workers.collect();
        Ok(Self { ports, workers, stop, _workshop: workshop })
    }

    pub(super) fn mac(&self, port: usize) -> Mac {
        self.ports.get(port).map_or(Mac::ZERO, |port| port.mac)
    }

    pub(super) fn device(&self, at: usize) -> &str {
        self.ports.get(at).map_or("", |port| &port.name)
    }

    /// Waits until frames can pass: until there is a peer.
    pub(super) fn wait_for_links(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let down = self.workers.iter_mut().find_map(|worker| {
                worker.receive(|_| {});
                let is_down = !worker.is_file && worker.driver.link() != Link::Up;
                is_down.then_some(worker.port)
            });
            let Some(down) = down else { return Ok(()) };
            if begun.elapsed() >= RESOLVE || self.stop.is_set() {
                let (device, seconds) = (self.device(down), RESOLVE.as_secs());
                return Err(format!("{device} has no link: for {seconds} s nobody was at its other end"));
            }
            thread::sleep(TICK);
        }
    }

    /// Asks for the Ethernet address of `target` until it is known, on the first ring of `port`.
    pub(super) fn resolve(&mut self, port: usize, own: IpAddr, target: IpAddr) -> Result<Mac, String> {
        let (begun, mut asked, mut times) = (Instant::now(), None::<Instant>, 0);
        while begun.elapsed() < RESOLVE && !self.stop.is_set() {
            if asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY)
                && let Some(first) = self.workers.iter_mut().find(|worker| worker.port == port)
                && let Some(question) = first.station.ask(own, target)
            {
                first.say(&question);
                (asked, times) = (Some(Instant::now()), times + 1);
            }
            let mut found = None;
            for worker in &mut self.workers {
                let asks = worker.port == port;
                worker.receive(|frame| found = found.or_else(|| learned(frame, target).filter(|_| asks)));
            }
            if let Some(mac) = found {
                return Ok(mac);
            }
            thread::sleep(TICK);
        }
        let (device, protocol) =
            (self.device(port), if target.is_ipv4() { "ARP" } else { "neighbour discovery" });
        Err(format!(
            "{target} does not answer: asked {times} times by {protocol} on {device} from {own} ({}) for {} s; \
             give --dst-mac to send without asking",
            self.mac(port),
            RESOLVE.as_secs()
        ))
    }

    /// Gives each worker a thread on a CPU; `body` is what it does there.
    pub(super) fn start<T: Send + 'static>(
        &mut self,
        cpus: &[usize],
        orders: &Arc<Orders>,
        body: impl Fn(Worker, &Orders) -> T + Copy + Send + 'static,
    ) -> Result<Vec<JoinHandle<T>>, String> {
        let cpus = available(cpus)?;
        let mut threads = Vec::new();
        for (worker, cpu) in self.workers.drain(..).zip(cpus.iter().cycle().copied()) {
            let told = Arc::clone(orders);
            let work = move || {
                if let Err(why) = affinity::pin_to(cpu) {
                    log::warning(&format!("pktgen not pinned: {why}"));
                }
                privileges::drop_all();
                body(worker, &told)
            };
            match thread::Builder::new().name(format!("pktgen{cpu}")).spawn(work) {
                Ok(thread) => threads.push(thread),
                Err(why) => {
                    orders.end();
                    threads.into_iter().for_each(|thread| drop(thread.join()));
                    return Err(format!("cannot start a thread: {why}"));
                }
            }
        }
        Ok(threads)
    }

    /// Receives and answers for so long, or until the user interrupts it.
    pub(super) fn serve(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && !self.stop.is_set() {
            for worker in &mut self.workers {
                worker.receive(|_| {});
            }
            thread::sleep(TICK);
        }
    }

    /// Closes what is still open, and lets the devices go.
    pub(super) fn put_back(&mut self) {
        self.workers.drain(..).for_each(|worker| drop(worker.close()));
        self.ports.clear();
    }
}

/// The CPUs to run on: those that were asked for, or all that may be used.
fn available(asked: &[usize]) -> Result<Vec<usize>, String> {
    let allowed = affinity::allowed_cpus().map_err(|why| why.to_string())?;
    match asked.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => Err(format!("CPU {cpu} is not available; {allowed:?} are")),
        None if asked.is_empty() => Ok(allowed),
        None => Ok(asked.to_vec()),
    }
}

/// Lets what is between here and there learn where frames go; gives up after a while.
pub(super) fn learn(orders: &Orders, boards: &[Arc<Board>], stop: &Stop) {
    for round in 0..ROUNDS {
        let before = sum(boards, |board| &board.learned);
        let sent_before = sum(boards, |board| &board.learning_sent);
        orders.learn(round);
        let begun = Instant::now();
        while begun.elapsed() < ROUND && !stop.is_set() {
            thread::sleep(TICK);
            let sent = sum(boards, |board| &board.learning_sent) - sent_before;
            if sent > 0 && sum(boards, |board| &board.learned) - before >= sent {
                return;
            }
        }
    }
}

/// The sum of a counter of all workers.
pub(super) fn sum(boards: &[Arc<Board>], of: impl Fn(&Board) -> &AtomicU64) -> u64 {
    boards.iter().map(|board| of(board).load(Ordering::Relaxed)).sum()
}

/// A number for a run that no other is likely to have.
pub(super) fn session() -> Result<u16, String> {
    let key = entropy::key().map_err(|why| format!("cannot draw a number: {why}"))?;
    let [a, b, ..] = key.to_ne_bytes();
    Ok(u16::from_ne_bytes([a, b]).max(LEARNING + 1))
}
