//! Counters: read where the netisrs write them, without asking them.

use net::count::Count;
use net::drop::DropReason;
use pkt::wake::Sleep;

use super::super::control::Control;
use super::super::cpus::CpuThread;
use super::super::netisr_thread::Busy;
use super::super::report::Report;
use crate::api::{Counter, Counters, DropCount, Netisr, Pool};

impl Control {
    pub(super) fn list_netisrs(&self, reports: &[Report]) -> Vec<Netisr> {
        let user_frac = self.cpus.polling.user_frac;
        let all = self.cpus.iter().zip(reports);
        all.map(|(cpu, report)| Netisr { burst: report.burst.into(), user_frac, ..netisr(cpu) }).collect()
    }

    pub(super) fn list_counters(&self) -> Counters {
        let counters = Count::ALL.iter().map(|count| self.counter(*count)).collect();
        let drops = DropReason::ALL.iter().map(|reason| self.drops(*reason)).collect();
        Counters { counters, drops }
    }

    pub(super) fn list_pools(&self, reports: &[Report]) -> Vec<Pool> {
        let all = self.cpus.iter().zip(reports.iter().map(|report| report.buffers));
        let pools = all.map(|(cpu, buffers)| Pool {
            cpu: number(cpu.processor),
            buffers: buffers.total as u64,
            free: buffers.free as u64,
            in_rings: buffers.in_rings as u64,
            buffer_bytes: number(pkt::DATA_LEN),
            denied: buffers.denied,
        });
        pools.collect()
    }

    fn counter(&self, count: Count) -> Counter {
        let per_cpu: Vec<u64> = self.cpus.iter().map(|cpu| cpu.counters.counters.events.get(count)).collect();
        Counter {
            name: count.name().to_owned(),
            node: count.stage().name().to_owned(),
            sentence: count.sentence().to_owned(),
            count: per_cpu.iter().sum(),
            per_cpu,
        }
    }

    fn drops(&self, reason: DropReason) -> DropCount {
        let per_cpu: Vec<u64> = self.cpus.iter().map(|cpu| cpu.counters.counters.drops.get(reason)).collect();
        DropCount {
            reason: reason.name().to_owned(),
            node: reason.stage().name().to_owned(),
            sentence: reason.sentence().to_owned(),
            count: per_cpu.iter().sum(),
            per_cpu,
        }
    }
}

fn netisr(cpu: &CpuThread) -> Netisr {
    let count = |count| cpu.counters.counters.events.get(count);
    Netisr {
        cpu: number(cpu.processor),
        turns: count(Count::Turns),
        busy_turns: count(Count::BusyTurns),
        packets: count(Count::RxPackets) + count(Count::HandoffIn),
        handoffs_in: count(Count::HandoffIn),
        handoffs_out: count(Count::HandoffOut),
        messages: count(Count::Messages),
        sleeps: cpu.sleeps.get(Sleep::Slept),
        wakeups: cpu.sleeps.get(Sleep::Rung),
        busy_ns: cpu.busy.get(Busy::Ns),
        long_turns: count(Count::LongTurns),
        user_ns: cpu.busy.get(Busy::LeftNs),
        ..Netisr::default()
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
