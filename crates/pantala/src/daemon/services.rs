//! Small services: for each `[[service]]` a program on each netisr.

use net::app::services::{Relay, Service as Own};
use net::app::{App, AppId};
use net::netisr::Netisr;
use net::sock;

use super::control::Control;
use super::log;
use crate::StackError;
use crate::config::{Service, ServiceKind};

/// The program of a service.
fn program(service: Service, netisr: &Netisr) -> Box<dyn App> {
    let Service { kind, addr } = service;
    match kind {
        ServiceKind::Own(kind) => Box::new(Own::new(kind, addr, netisr.cpu.sysctls.tcp)),
        ServiceKind::Relay(to) => Box::new(Relay::new(addr, to)),
    }
}

/// A service that runs.
pub(super) struct Started {
    service: Service,
    /// One on each CPU, in their order.
    programs: Vec<AppId>,
}

impl Control {
    /// Returns the running services.
    pub(super) fn running_services(&self) -> Vec<Service> {
        self.services.iter().map(|running| running.service).collect()
    }

    /// Begins one on all CPUs, or on none.
    pub(super) fn begin_service(&mut self, service: Service) -> Result<(), StackError> {
        let Service { kind, addr } = service;
        let mut running = Started { service, programs: Vec::new() };
        for cpu in 0..self.cpus.iter().count() {
            let begun = self.cpus.call(cpu, move |netisr| netisr.begin(program(service, netisr)));
            match begun.map_err(|why| StackError::Netisr(why.error)) {
                Ok(Ok(program)) => running.programs.push(program),
                Ok(Err(why)) => {
                    self.end_service(&running);
                    return Err(StackError::Misfit(format!("no {kind} at {addr}: {why}")));
                }
                Err(why) => {
                    self.end_service(&running);
                    return Err(why);
                }
            }
        }
        log::info(&format!("{kind} at {addr}"));
        self.services.push(running);
        Ok(())
    }

    /// Whether a service could begin now: it begins on each CPU and ends again, before any packet comes to it.
    pub(super) fn try_service(&self, service: Service) -> Result<Result<(), sock::Error>, StackError> {
        let tried = self.cpus.call_all(move |netisr| {
            let begun = netisr.begin(program(service, netisr));
            begun.map(|program| netisr.end(program))
        });
        let tried = tried.map_err(|why| StackError::Netisr(why.error))?;
        Ok(tried.into_iter().collect())
    }

    /// Ends those that are not among `kept`; their connections end in order.
    pub(super) fn end_services(&mut self, kept: &[Service]) {
        let (stay, go): (Vec<_>, Vec<_>) =
            self.services.drain(..).partition(|running| kept.contains(&running.service));
        self.services = stay;
        go.iter().for_each(|running| self.end_service(running));
    }

    fn end_service(&self, running: &Started) {
        for (cpu, program) in running.programs.iter().copied().enumerate() {
            // A CPU that does not answer has no connections any more.
            let _ = self.cpus.call(cpu, move |netisr| netisr.end(program));
        }
    }
}
