//! The generator's receiver inside of a running stack: on an interface in monitor mode, a netisr shows it what a ring
//! receives.

use core::any::Any;

use net::driver::Sink;
use net::netisr::Netisr;
use net::tables::IfIndex;
use net::time::Instant;
use pkt::PktVec;

use super::measure::{BANDS, Expect, Measure};
use super::worker::now_ns;
use crate::api::{Jitter, Monitored};

/// Measurements of one ring of an interface in monitor mode.
pub(crate) struct Monitor {
    measure: Measure,
    /// The beginning of the stack's time, on the clock of stamps.
    start_ns: u64,
}

impl Sink for Monitor {
    fn frames(&mut self, now: Instant, frames: &PktVec) {
        let now_ns = self.start_ns.wrapping_add(now.ns());
        for pkt in frames.iter() {
            self.measure.frame(now_ns, pkt.head(), pkt.len());
        }
    }
}

/// When the time of a stack began, in which it is `now`: on the clock of stamps.
pub(crate) fn start_of(now: Instant) -> u64 {
    now_ns().wrapping_sub(now.ns())
}

/// Lets all rings of an interface on this CPU monitor, with nothing counted yet, or not any more.
pub(crate) fn set(netisr: &mut Netisr, ifindex: IfIndex, start_ns: Option<u64>) {
    let sink = |start_ns| Box::new(Monitor { measure: Measure::new(Expect::All), start_ns }) as Box<dyn Sink>;
    netisr.set_sinks(ifindex, || start_ns.map(sink));
}

/// Returns the measurements of an interface's rings on this CPU; `None` if it is not in monitor mode.
pub(crate) fn seen(netisr: &Netisr, ifindex: IfIndex) -> Option<Measure> {
    let monitors = netisr.sinks(ifindex).filter_map(|sink| (sink as &dyn Any).downcast_ref::<Monitor>());
    sum(monitors.map(|monitor| monitor.measure.clone()))
}

/// Returns the numbers of latencies in each band, of an interface's rings on this CPU; `None` if it is not in monitor mode.
/// Flows are not copied, so that this may be asked for each second.
pub(crate) fn bands(netisr: &Netisr, ifindex: IfIndex) -> Option<[u64; BANDS]> {
    let monitors = netisr.sinks(ifindex).filter_map(|sink| (sink as &dyn Any).downcast_ref::<Monitor>());
    let mut all = None;
    for monitor in monitors {
        monitor.measure.add_bands(all.get_or_insert([0; BANDS]));
    }
    all
}

/// All views in one.
pub(crate) fn sum(measures: impl Iterator<Item = Measure>) -> Option<Measure> {
    measures.reduce(|mut all, one| {
        all.add(&one);
        all
    })
}

/// Makes the report.
pub(crate) fn report(interface: &str, all: &Measure) -> Monitored {
    let tally = &all.tally;
    Monitored {
        interface: interface.to_owned(),
        frames: tally.frames,
        bytes: tally.bytes,
        measured: tally.probes,
        flows: all.flows(),
        lost: all.gaps(),
        duplicated: tally.duplicated,
        reordered: tally.reordered,
        displacement_max: tally.displacement_max,
        untracked: tally.untracked,
        latency_ns: all.latency(),
        jitter_ns: (tally.pairs > 0).then(|| Jitter { mean: tally.jitter_mean(), max: tally.jitter_max }),
    }
}
