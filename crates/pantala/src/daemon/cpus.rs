//! All netisrs, as the control thread sees them: how they are started, asked, and stopped.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use dev::Waiter;
use dev::sys::poll::EventFd;
use net::cpu::CpuId;
use net::driver::Driver;
use net::firewall::Shared as Rules;
use net::msg::{Broadcast, Msg, Remote, mesh};
use net::netisr::{Netisr, NoSuchRing, Parts, Shared};
use net::rss::Placement;
use net::sysctl::{self, Variable};
use net::tables::{IfIndex, Tables};
use net::tcp;
use pkt::Pool;
use pkt::counters::{CounterBlock, CounterReader};
use pkt::wake::{Sleep, Sleeper};
use tokio::sync::Notify;

use super::clock::Clock;
use super::cpu_share::Share;
use super::device::Hold;
use super::flow_offload::FlowOffload;
use super::idle::Idle;
use super::netisr_thread::{Busy, NetisrThread};
use super::report::{self, Published, Report, Reporter};
use super::ring_placement::RingPlacement;
use super::sleep::{SleepState, Waiters};
use super::switch::Switch;
use super::{entropy, log, system};
use crate::StackError;
use crate::api::{Error, ErrorKind};
use crate::config::{Polling, Seccomp};

/// Time limit of a netisr's reply: longer than a machine with far too much to do keeps a thread waiting.
const PATIENCE: Duration = Duration::from_secs(10);
/// Rounds in which the last buffers find their way home.
const ROUNDS_HOME: usize = 16;

/// All netisrs. Dropping it stops them.
pub(crate) struct Cpus {
    pub(crate) clock: Clock,
    /// Their polling.
    pub(crate) polling: Polling,
    /// Whether each stays on its processor.
    pinned: bool,
    /// Action on other system calls.
    seccomp: Seccomp,
    list: Vec<CpuThread>,
    /// Told when a netisr panics.
    pub(crate) crashed: Arc<Notify>,
    /// Told when a device that a netisr waits on is gone.
    lost: Arc<Notify>,
    /// Flows that drivers forward.
    pub(super) offload: FlowOffload,
}

/// One netisr, from outside.
pub(crate) struct CpuThread {
    /// The processor it is pinned to.
    pub(crate) processor: usize,
    pub(crate) counters: Shared,
    pub(crate) sleeps: CounterReader<Sleep>,
    pub(crate) busy: CounterReader<Busy>,
    published: Published,
    remote: Remote,
    bell: Arc<EventFd>,
    waiters: Waiters,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A ring of a device on its way to its CPU.
pub(crate) struct NewRing {
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) waiter: Waiter,
}

impl Cpus {
    /// Starts a netisr on each of `processors`, with the pool of the same place. They have no interfaces yet.
    /// If they are `pinned`, each stays on its processor; else the numbers are mere names.
    pub(crate) fn start(
        processors: &[usize],
        pinned: bool,
        pools: Vec<Pool>,
        polling: Polling,
        seccomp: Seccomp,
    ) -> Result<Self, StackError> {
        let bells = processors.iter().map(|_| EventFd::new().map(Arc::new)).collect::<Result<Vec<_>, _>>();
        let bells = bells.map_err(system("make an eventfd"))?;
        let sleepers: Vec<_> = bells.iter().map(sleeper).collect();
        let wakers: Vec<_> = sleepers.iter().map(Sleeper::waker).collect();
        let (clock, list) = (Clock::start(), Vec::new());
        let (crashed, lost) = (Arc::default(), Arc::default());
        let offload = FlowOffload::default();
        let mut cpus = Self { clock, polling, pinned, seccomp, list, crashed, lost, offload };
        let ends = mesh(&wakers).into_iter().zip(pools);
        let placement = processors.iter().zip(bells).zip(sleepers);
        let cookies = entropy::key().map_err(system("draw a key"))?;
        for (id, ((end, pool), cpu)) in (0..).map(CpuId).zip(ends.zip(placement)) {
            let ((processor, bell), sleeper) = cpu;
            let (peers, inbox, remote) = end;
            let key = entropy::key().map_err(system("draw a key"))?;
            let count = u16::try_from(processors.len()).unwrap_or(u16::MAX);
            let parts = Parts { id, cpus: count, pool, peers, inbox, key, tables: Arc::default() };
            let (mut netisr, counters) = Netisr::new(parts);
            netisr.set_polling(polling.of_turns());
            tcp::draw_cookie_keys(&mut netisr.cpu, cookies);
            cpus.list.push(cpus.spawn(*processor, netisr, counters, remote, bell, sleeper, polling)?);
        }
        Ok(cpus)
    }

    #[expect(clippy::too_many_arguments, reason = "the two halves of a CPU are taken apart here, once")]
    fn spawn(
        &self,
        processor: usize,
        netisr: Netisr,
        counters: Shared,
        remote: Remote,
        bell: Arc<EventFd>,
        sleeper: Sleeper,
        polling: Polling,
    ) -> Result<CpuThread, StackError> {
        let (stop, waiters, busy) = (Arc::<AtomicBool>::default(), Waiters::default(), CounterBlock::new());
        let reporter = Reporter::new(&netisr);
        let mut cpu = CpuThread {
            processor,
            counters,
            sleeps: sleeper.counters(),
            busy: busy.reader(),
            published: reporter.published(),
            remote,
            bell: Arc::clone(&bell),
            waiters: Arc::clone(&waiters),
            stop: Arc::clone(&stop),
            thread: None,
        };
        let (clock, idle, share) = (self.clock, Idle::new(polling.policy), Share::new(polling.user_frac));
        let rest = SleepState { sleeper, bell, waiters, lost: Arc::clone(&self.lost) };
        let pinned_to = self.pinned.then_some(processor);
        let seccomp = self.seccomp;
        let thread =
            NetisrThread { netisr, pinned_to, clock, rest, idle, share, busy, reporter, seccomp, stop };
        let alarm = Alarm(Arc::clone(&self.crashed));
        let spawned = std::thread::Builder::new().name(format!("netisr{processor}")).spawn(move || {
            let _alarm = alarm;
            thread.run();
        });
        cpu.thread = Some(spawned.map_err(system("start a netisr"))?);
        Ok(cpu)
    }

    /// Told when a device that a netisr waits on is gone.
    pub(crate) fn lost(&self) -> Arc<Notify> {
        Arc::clone(&self.lost)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &CpuThread> {
        self.list.iter()
    }

    /// The ways to all CPUs, in their order.
    pub(crate) fn remotes(&self) -> Vec<Remote> {
        self.list.iter().map(|cpu| cpu.remote.clone()).collect()
    }

    fn cpu(&self, cpu: usize) -> Result<&CpuThread, Error> {
        self.list.get(cpu).ok_or_else(|| failed("there is no such CPU"))
    }

    /// The CPU that answers for what concerns one address.
    pub(crate) fn owner_of(&self, address: core::net::IpAddr) -> usize {
        let cpus = u16::try_from(self.list.len()).unwrap_or(u16::MAX);
        Placement::new(cpus).owner_of(address).index()
    }

    /// Runs `ask` on one CPU and waits for its answer.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        cpu: usize,
        ask: impl FnOnce(&mut Netisr) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let cpu = self.cpu(cpu)?;
        cpu.answer(&cpu.ask(ask)?)
    }

    /// Runs `ask` on all CPUs at once, and waits for their answers, which come in the order of the CPUs.
    pub(crate) fn call_all<T: Send + 'static>(
        &self,
        ask: impl Fn(&mut Netisr) -> T + Clone + Send + 'static,
    ) -> Result<Vec<T>, Error> {
        let asked = self.list.iter().map(|cpu| cpu.ask(ask.clone())).collect::<Result<Vec<_>, _>>()?;
        self.list.iter().zip(asked).map(|(cpu, answer)| cpu.answer(&answer)).collect()
    }

    /// Gives all CPUs another configuration, one after the other and each in one step; returns when no CPU has the old one any
    /// more.
    pub(crate) fn reconfigure(&self, switch: Switch) -> Result<(), Error> {
        self.offload.name_own(&switch.tables);
        self.tour(move |netisr| switch.put_in_force(netisr))
    }

    /// Gives all CPUs new tables, and the rules for them if there are any, in one step; returns when no CPU has the old ones.
    pub(crate) fn set_tables_and_rules(
        &self,
        tables: &Arc<Tables>,
        rules: Option<Rules>,
    ) -> Result<(), Error> {
        self.offload.name_own(tables);
        let tables = Arc::clone(tables);
        // What the tables make a CPU send meets the new rules.
        self.tour(move |netisr| {
            rules.iter().for_each(|rules| netisr.set_firewall(rules));
            netisr.set_tables(Arc::clone(&tables));
        })
    }

    /// Gives all CPUs new tables, one after the other; returns when no CPU has the old ones any more.
    pub(crate) fn set_tables(&self, tables: &Arc<Tables>) -> Result<(), Error> {
        self.offload.name_own(tables);
        let tables = Arc::clone(tables);
        self.tour(move |netisr| netisr.set_tables(Arc::clone(&tables)))
    }

    /// Gives a variable another value on all CPUs, one after the other; returns when all have it.
    pub(crate) fn set_sysctl(&self, variable: &'static Variable, value: i64) -> Result<(), Error> {
        self.tour(move |netisr| sysctl::set(&mut netisr.cpu, variable, value))
    }

    /// Gives all CPUs a firewall; returns when no CPU has the old one any more.
    pub(crate) fn set_firewall(&self, firewall: Rules) -> Result<(), Error> {
        self.tour(move |netisr| netisr.set_firewall(&firewall))
    }

    /// Returns when every CPU has begun another turn: none still uses what it read before.
    pub(crate) fn visit_all(&self) -> Result<(), Error> {
        self.tour(|_| ())
    }

    /// Calls `done` on the last CPU when every CPU has begun another turn, without waiting for it.
    #[cfg(feature = "cli")]
    pub(crate) fn visit_all_then(&self, done: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let first = self.list.first().ok_or_else(|| failed("there is no CPU"))?;
        first.send(Msg::Broadcast(Broadcast { visit: Arc::new(|_| ()), done: Box::new(done) }))
    }

    fn tour(&self, visit: impl Fn(&mut Netisr) + Send + Sync + 'static) -> Result<(), Error> {
        let (tell, done) = sync_channel(1);
        // The caller may have given up.
        let tour =
            Broadcast { visit: Arc::new(visit), done: Box::new(move || tell.send(()).unwrap_or_default()) };
        let first = self.list.first().ok_or_else(|| failed("there is no CPU"))?;
        first.send(Msg::Broadcast(tour))?;
        done.recv_timeout(PATIENCE).map_err(|_| failed("the netisrs do not answer"))?;
        // Drivers have what the netisrs had.
        self.offload.retire();
        Ok(())
    }

    /// Gives rings to the CPUs that are to have them, and tells the others whose ring they send through.
    pub(crate) fn attach(
        &self,
        ifindex: IfIndex,
        rings: Vec<NewRing>,
        hold: &Hold,
        placement: &RingPlacement,
    ) -> Result<(), Error> {
        for ((queue, ring), cpu) in (0..).zip(rings).zip(placement.iter()) {
            let cpu = self.cpu(cpu.index())?;
            let (waiters, program) = (Arc::clone(&cpu.waiters), hold.program_on(queue));
            cpu.answer(&cpu.ask(move |netisr| {
                netisr.attach_queue(ifindex, queue, ring.driver);
                if program.is_some() {
                    netisr.set_program(ifindex, queue, program);
                }
                locked(&waiters).push(((ifindex, queue), ring.waiter));
            })?)?;
        }
        self.send_through(ifindex, placement)
    }

    /// Tells all CPUs whose ring they send through.
    fn send_through(&self, ifindex: IfIndex, placement: &RingPlacement) -> Result<(), Error> {
        for (at, id) in (0..self.list.len()).zip((0..).map(CpuId)) {
            if let Some(owner) = placement.tx_owner(id) {
                self.call(at, move |netisr| netisr.send_through(ifindex, owner))?;
            }
        }
        Ok(())
    }

    /// Moves a ring from CPU to CPU while packets flow, and tells the others; `placement` is how it is afterwards.
    pub(crate) fn move_ring(
        &self,
        (ifindex, queue): (IfIndex, u16),
        from: CpuId,
        to: CpuId,
        placement: &RingPlacement,
    ) -> Result<(), Error> {
        let (old, new) = (self.cpu(from.index())?, self.cpu(to.index())?);
        let (left, joined) = (Arc::clone(&old.waiters), Arc::clone(&new.waiters));
        let (tell, moved) = sync_channel(1);
        let started = self.call(from.index(), move |netisr| {
            let mine = locked(&left).extract_if(.., |(of, _)| *of == (ifindex, queue)).collect::<Vec<_>>();
            let arrived = move |_: &mut Netisr| {
                locked(&joined).extend(mine);
                // The caller may have given up.
                tell.send(()).unwrap_or_default();
            };
            netisr.move_ring(ifindex, queue, to, Box::new(arrived))
        })?;
        started.map_err(|NoSuchRing| failed("the ring is not where it should be"))?;
        new.answer(&moved)?;
        self.send_through(ifindex, placement)
    }

    /// Takes the rings of an interface away from all CPUs, closed.
    pub(crate) fn detach(&self, ifindex: IfIndex) -> Result<(), Error> {
        for cpu in &self.list {
            let waiters = Arc::clone(&cpu.waiters);
            cpu.answer(&cpu.ask(move |netisr| {
                locked(&waiters).retain(|((of, _), _)| *of != ifindex);
                drop(netisr.detach(ifindex));
            })?)?;
        }
        Ok(())
    }

    /// Returns when no driver forwards by a decision that was made before.
    pub(crate) fn retire_offloaded(&self) {
        self.offload.retire();
    }

    /// Asks all CPUs for their accounts, in their order.
    pub(crate) fn reports(&self) -> Result<Vec<Report>, Error> {
        self.call_all(|netisr| Report::of(netisr))
    }

    /// Returns the last report of each CPU, without a message to it.
    pub(crate) fn last_reports(&self) -> Vec<Report> {
        self.list.iter().map(|cpu| report::last(&cpu.published)).collect()
    }

    /// Closes all rings, drops what is in the stack, waits until all buffers are home, and stops the threads.
    ///
    /// # Errors
    /// A netisr does not answer, or buffers are missing. The threads have ended all the same.
    pub(crate) fn shut_down(&mut self) -> Result<(), Error> {
        let closed = self.call_all(|netisr| {
            netisr.shut_down();
            netisr.cpu.pool.arena().leaked()
        });
        let found = closed.and_then(|leaked| Ok((leaked, self.missing_buffers()?)));
        self.list.clear();
        let (leaked, missing) = found?;
        let leaked = leaked.first().copied().unwrap_or(0);
        let text = format!("all rings closed: {missing} buffers missing, {leaked} leaked");
        log::debug(&text);
        if (missing, leaked) == (0, 0) { Ok(()) } else { Err(failed(&text)) }
    }

    /// Buffers that do not come home.
    fn missing_buffers(&self) -> Result<usize, Error> {
        let mut missing = 0;
        for _ in 0..ROUNDS_HOME {
            missing = self.call_all(|netisr| netisr.cpu.pool.total() - netisr.cpu.pool.free())?.iter().sum();
            if missing == 0 {
                break;
            }
        }
        Ok(missing)
    }
}

impl CpuThread {
    fn send(&self, msg: Msg) -> Result<(), Error> {
        self.remote.send(msg).map_err(|_| self.complaint(ErrorKind::Busy, "has too much to do"))
    }

    fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Netisr) -> T + Send + 'static,
    ) -> Result<Receiver<T>, Error> {
        let (tell, answer) = sync_channel(1);
        self.send(Msg::Call(Box::new(move |netisr| drop(tell.send(ask(netisr))))))?;
        Ok(answer)
    }

    fn answer<T>(&self, answer: &Receiver<T>) -> Result<T, Error> {
        answer.recv_timeout(PATIENCE).map_err(|_| self.complaint(ErrorKind::Failed, "does not answer"))
    }

    fn complaint(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("the netisr on CPU {} {what}", self.processor))
    }
}

impl Drop for CpuThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let rung = self.bell.notify();
        if let (Ok(()), Some(thread)) = (rung, self.thread.take())
            && thread.join().is_err()
        {
            log::error(&format!("the netisr on CPU {} had panicked", self.processor));
        }
    }
}

/// Sounds when a netisr's thread ends by a panic.
struct Alarm(Arc<Notify>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.notify_one();
        }
    }
}

fn sleeper(bell: &Arc<EventFd>) -> Sleeper {
    let bell = Arc::clone(bell);
    // An eventfd refuses only when it is full, and then it is rung already.
    Sleeper::new(Box::new(move || drop(bell.notify())))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(what: &str) -> Error {
    Error::new(ErrorKind::Failed, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(cpus: usize) -> Cpus {
        let pools = pkt::Arena::carve(cpus, 64, false).unwrap();
        Cpus::start(&vec![0; cpus], true, pools, Polling::default(), Seccomp::Refuse).unwrap()
    }

    #[test]
    fn each_cpu_answers_for_itself_and_all_are_home_at_the_end() {
        let mut cpus = started(3);
        let ids = cpus.call_all(|netisr| netisr.cpu.id).unwrap();
        assert_eq!(ids, [CpuId(0), CpuId(1), CpuId(2)]);
        assert_eq!(cpus.call(1, |netisr| netisr.cpu.pool.free()).unwrap(), 64);
        assert_eq!(cpus.missing_buffers().unwrap(), 0);
        cpus.shut_down().unwrap();
        assert!(cpus.call(0, |_| ()).is_err());
    }

    #[test]
    fn new_tables_have_reached_every_cpu_when_they_are_set() {
        let cpus = started(2);
        let tables = Tables::new(net::tables::Config { generation: 7, ..Default::default() });
        cpus.set_tables(&Arc::new(tables)).unwrap();
        assert_eq!(cpus.call_all(|netisr| netisr.cpu.tables.generation).unwrap(), [7, 7]);
    }

    #[test]
    fn a_netisr_that_panics_sounds_the_alarm() {
        let cpus = started(1);
        let crashed = Arc::clone(&cpus.crashed);
        assert!(cpus.call(0, |_| panic!("as the test wants")).map(|(): ()| ()).is_err());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(crashed.notified());
    }
}
