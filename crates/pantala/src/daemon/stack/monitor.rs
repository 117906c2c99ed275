//! Interfaces that only monitor: `ifconfig IF monitor`, and `netstat -M`.

use net::tables::IfIndex;

use super::super::control::Control;
use super::super::tables::Attached;
use crate::api::{Error, ErrorKind, Latencies, Monitored};
use crate::pktgen::{BANDS, monitor};

impl Control {
    /// Lets all rings of an interface monitor, and begins to count; or gives them to the stack again.
    pub(in super::super) fn watch(&self, index: IfIndex, on: bool) -> Result<(), Error> {
        let start_ns = on.then(|| monitor::start_of(self.cpus.clock.now()));
        self.cpus.call_all(move |netisr| monitor::set(netisr, index, start_ns)).map(drop)
    }

    /// Returns the numbers of latencies in each band, of all interfaces that monitor.
    pub(super) fn latencies(&self) -> Result<Vec<Latencies>, Error> {
        let monitors = self.attached.iter().filter(|interface| interface.monitor);
        let latencies = |interface: &Attached| {
            let index = interface.index;
            let seen = self.cpus.call_all(move |netisr| monitor::bands(netisr, index))?;
            let mut counts = vec![0; BANDS];
            for bands in seen.iter().flatten() {
                counts.iter_mut().zip(bands).for_each(|(sum, count)| *sum += count);
            }
            Ok(Latencies { interface: interface.config.name.clone(), counts })
        };
        monitors.map(latencies).collect()
    }

    pub(super) fn what_was_monitored(&self, name: &str) -> Result<Monitored, Error> {
        let interface = self.interface(name).ok_or_else(|| self.no_interface(name))?;
        let index = interface.index;
        let seen = self.cpus.call_all(move |netisr| monitor::seen(netisr, index))?;
        let none = || {
            let error = Error::new(ErrorKind::Invalid, format!("interface {name} is not in monitor mode"));
            error.hint(format!("pantala ifconfig {name} monitor"))
        };
        let all = monitor::sum(seen.into_iter().flatten()).ok_or_else(none)?;
        Ok(monitor::report(name, &all))
    }
}
