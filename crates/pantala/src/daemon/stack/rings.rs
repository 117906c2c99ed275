//! `intrctl`.

use net::cpu::CpuId;
use net::driver::DriverStats;
use net::netisr::{self, RingCounts};
use net::tables::IfIndex;

use super::super::control::Control;
use super::super::log;
use super::super::tables::Attached;
use crate::api::{Error, ErrorKind, Ring};

/// A CPU's report on a ring.
struct RingReport {
    ifindex: IfIndex,
    queue: u16,
    burst: u16,
    counts: RingCounts,
    stats: DriverStats,
}

impl RingReport {
    fn by(ring: &netisr::Ring) -> Self {
        Self {
            ifindex: ring.ifindex(),
            queue: ring.queue(),
            burst: ring.burst(),
            counts: ring.counts(),
            stats: ring.driver().stats(),
        }
    }
}

impl Control {
    pub(super) fn list_rings(&self) -> Result<Vec<Ring>, Error> {
        let told = self.cpus.call_all(|netisr| netisr.rings().map(RingReport::by).collect::<Vec<_>>())?;
        let mut all = Vec::new();
        for interface in &self.attached {
            let first = all.len();
            for (cpu, rings) in self.cpus.iter().zip(&told) {
                let own = rings.iter().filter(|ring| ring.ifindex == interface.index);
                all.extend(own.map(|told| ring(interface, cpu.processor, told)));
            }
            all[first..].sort_by_key(|ring: &Ring| ring.ring);
        }
        Ok(all)
    }

    pub(super) fn seat_ring(&mut self, name: &str, ring: u32, processor: u32) -> Result<(), Error> {
        let interface = self.interface(name).ok_or_else(|| self.no_interface(name))?;
        let (index, mut placement) = (interface.index, interface.placement.clone());
        let queue = u16::try_from(ring).unwrap_or(u16::MAX);
        let from = placement.cpu(queue).ok_or_else(|| no_ring(interface, ring))?;
        let to = self.netisr_on(processor)?;
        if from == to {
            return Ok(());
        }
        self.has_buffers_for_another_ring(to, processor)?;
        placement.moved(queue, to);
        self.cpus.move_ring((index, queue), from, to, &placement)?;
        log::info(&format!("ring {ring} of interface {name} is on CPU {processor}"));
        if let Some(interface) = self.attached.iter_mut().find(|interface| interface.index == index) {
            interface.placement = placement;
        }
        Ok(())
    }

    fn netisr_on(&self, processor: u32) -> Result<CpuId, Error> {
        let is_it = |cpu: &super::super::cpus::CpuThread| u32::try_from(cpu.processor) == Ok(processor);
        let at = self.cpus.iter().position(is_it).and_then(|at| u16::try_from(at).ok());
        at.map(CpuId).ok_or_else(|| {
            let known: Vec<String> = self.cpus.iter().map(|cpu| cpu.processor.to_string()).collect();
            Error::new(ErrorKind::NotFound, format!("no netisr runs on CPU {processor}"))
                .hint(format!("known are {}", known.join(", ")))
        })
    }

    /// A ring brings its allowance of buffers along; if nothing was left for the stack, nothing could be sent.
    fn has_buffers_for_another_ring(&self, to: CpuId, processor: u32) -> Result<(), Error> {
        let rings = self.attached.iter().flat_map(|interface| interface.placement.iter());
        let rings = rings.filter(|cpu| *cpu == to).count();
        if self.workshop.memory.is_enough_for(rings + 1) {
            return Ok(());
        }
        let text = format!("CPU {processor} has no buffers for more than its {rings} rings");
        Err(Error::new(ErrorKind::Unsupported, text).hint("give more with `buffers` in the configuration"))
    }
}

fn no_ring(interface: &Attached, ring: u32) -> Error {
    let last = interface.facts.rings.saturating_sub(1);
    let name = &interface.config.name;
    let known =
        if last == 0 { "its only ring is 0".to_owned() } else { format!("its rings are 0 to {last}") };
    Error::new(ErrorKind::NotFound, format!("interface {name} has no ring {ring}")).hint(known)
}

fn ring(interface: &Attached, processor: usize, told: &RingReport) -> Ring {
    let number = u32::from(told.queue);
    Ring {
        interface: interface.config.name.clone(),
        ring: number,
        device: interface.config.device.to_string(),
        queue: interface.facts.first_queue + number,
        cpu: u32::try_from(processor).unwrap_or(u32::MAX),
        steering: interface.facts.steering.as_told(),
        rx_packets: told.stats.rx_frames,
        tx_packets: told.stats.tx_frames,
        doorbells: told.stats.doorbells,
        rx_drops: told.stats.rx_dropped,
        polls: told.counts.polls,
        busy_polls: told.counts.busy_polls,
        burst: told.burst.into(),
        bursts_used_up: told.counts.bursts_used_up,
    }
}
