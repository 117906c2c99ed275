//! Small services: for each `[[service]]` a program on each netisr.

use net::program::services::{Relay, Service as Own};
use net::program::{Program, ProgramId};

use super::control::Control;
use super::log;
use crate::api::{Error, ErrorKind};
use crate::config::{Service, ServiceKind};

/// A service that runs.
pub(super) struct Started {
    service: Service,
    /// One on each CPU, in their order.
    programs: Vec<ProgramId>,
}

impl Control {
    /// Begins those that are not there yet.
    pub(super) fn begin_services(&mut self, services: &[Service]) -> Result<(), Error> {
        for service in services {
            if self.services.iter().all(|running| running.service != *service) {
                let running = self.begin_service(*service)?;
                self.services.push(running);
            }
        }
        Ok(())
    }

    fn begin_service(&self, service: Service) -> Result<Started, Error> {
        let Service { kind, addr } = service;
        let mut running = Started { service, programs: Vec::new() };
        for cpu in 0..self.config.cpus.len() {
            let begun = self.cpus.call(cpu, move |netisr| {
                let settings = netisr.cpu.sysctls.tcp;
                let program: Box<dyn Program> = match kind {
                    ServiceKind::Own(kind) => Box::new(Own::new(kind, addr, settings)),
                    ServiceKind::Relay(to) => Box::new(Relay::new(addr, to)),
                };
                netisr.begin(program)
            })?;
            match begun {
                Ok(program) => running.programs.push(program),
                Err(why) => {
                    self.end_service(&running);
                    return Err(Error::new(ErrorKind::Invalid, format!("no {kind} at {addr}: {why}")));
                }
            }
        }
        log::info(&format!("{kind} at {addr}"));
        Ok(running)
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
