//! Interfaces that only monitor: `ifconfig IF monitor`, and `netstat -M`.

use net::tables::IfIndex;

use super::super::control::Control;
use crate::api::{Error, ErrorKind, Monitored};
use crate::pktgen::monitor;

impl Control {
    /// Lets all rings of an interface monitor, and begins to count; or gives them to the stack again.
    pub(in super::super) fn watch(&self, index: IfIndex, on: bool) -> Result<(), Error> {
        let start_ns = on.then(|| monitor::start_of(self.cpus.clock.now()));
        self.cpus.call_all(move |netisr| monitor::set(netisr, index, start_ns)).map(drop)
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
